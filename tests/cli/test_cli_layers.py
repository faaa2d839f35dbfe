"""`hf-structure analyze --layers`."""

import json
from pathlib import Path

import pytest
from matplotlib.image import imread
from tiny_models import new_gpt2
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

from hf_structure import parse
from hf_structure.corpora.binary_trees import load_constituents
from hf_structure.parsing.splits import CausalLMForConstituencyParsing
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.text.formats import load_sentences

FILES = {
    "gold.mrg": """\
(S (NP (DT The) (JJ big) (NN cat)) (VP (VBD saw) (NP (NP (DT the) (NN dog)) (PP (IN at) (NP (DT a) (NN sea))))) (. .))
(S (`` ``) (NP (PRP She)) (VP (VBD slept) (RB here) (, ,) (SBAR (IN as) (S (NP (PRP they)) (VP (VBD barked))))) (. .))
(S (VP (VB Sleep)))
(S (NP (NNS Dogs)) (VP (VBP chase) (NP (JJ old) (NNS cats)) (PP (IN in) (NP (NNS houses)))))
(FRAG (. !))
""",
    "gold.conllu": """\
1\tThe\t_\tDET\tDT\t_\t2\tdet\t_\t_
2\tcat\t_\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\tslept\t_\tVERB\tVBD\t_\t0\troot\t_\t_
4\t,\t_\tPUNCT\t,\t_\t7\tpunct\t_\t_
5\tas\t_\tSCONJ\tIN\t_\t7\tmark\t_\t_
6\tdogs\t_\tNOUN\tNNS\t_\t7\tnsubj\t_\t_
7\tbark\t_\tVERB\tVBP\t_\t3\tadvcl\t_\t_
8\t.\t_\tPUNCT\t.\t_\t3\tpunct\t_\t_

""",
}
TEXTS = [" ".join(row) for row in (["The", "cat", "saw", "the", "dog"], ["She", "slept", "as", "they", "barked", "."])]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A random GPT-2 with two layers of two heads."""
    return new_gpt2(tmp_path_factory.mktemp("layers") / "small", TEXTS)


def write_parses(model: Path, gold: str, layer: int, decoder: str) -> None:
    """Parses the gold words with one layer, and writes the trees to system.mrg."""
    parser = CausalLMForConstituencyParsing(AutoModelForCausalLM.from_pretrained(model), layer=layer, fraction=0.5)
    words = [sentence["words"] for sentence in load_sentences(gold)]
    parses = parse(words, parser, tokenizer=AutoTokenizer.from_pretrained(model), decoder=decoder)
    Path("system.mrg").write_text("".join(f"{found.constituency.to_brackets(ptb_words=True)}\n" for found in parses))


@pytest.mark.parametrize(
    "conventions", [[], ["--punctuation", "keep", "--count_whole_sentences", "--max_length", "8"]]
)
@pytest.mark.parametrize(("chart", "decoder"), [([], "argmax"), (["--chart"], "tree")])
def test_each_layer_has_the_scores_of_parsing_with_it(run, call, model, chart, decoder, conventions):
    arguments = ["analyze", "gold.mrg", "--layers", "--model", model, "--fraction", "0.5", "--json"]
    found = json.loads(call(*arguments, *chart, *conventions)[0])
    layers = found["layers"]["small"]
    assert len(layers) == 2
    assert layers[0] != layers[1]
    for number, scores in enumerate(layers, start=1):
        write_parses(model, "gold.mrg", number, decoder)
        wanted = json.loads(run("evaluate", "gold.mrg", "system.mrg", "--baselines", "--json", *conventions))
        assert found["baselines"] == wanted["baselines"]
        assert scores == {name: wanted[name] for name in scores}


def test_constituents_of_conllu_are_those_of_binary_trees(call, model):
    (sentence,) = load_sentences("gold.conllu")
    (row,) = load_constituents("gold.conllu")
    tree = ConstituencyTree(sentence["words"], row["spans"], tags=sentence["tags"])
    Path("same.mrg").write_text(tree.to_brackets())
    arguments = ["--layers", "--model", model, "--fraction", "0.5", "--json"]
    found, wanted = (json.loads(call("analyze", name, *arguments)[0]) for name in ("gold.conllu", "same.mrg"))
    assert found == wanted
    # The cat slept (as (dogs bark)), without punctuation
    assert found["baselines"]["right"]["gold"] == 4


def test_table_and_picture(call, model, tmp_path):
    """Models side by side, and a dash where one has no such layer."""
    config = GPT2Config(vocab_size=300, n_embd=16, n_layer=1, n_head=2)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "one")
    AutoTokenizer.from_pretrained(model).save_pretrained(tmp_path / "one")
    arguments = ["analyze", "gold.mrg", "--layers", "--model", model, f"single={tmp_path}/one", "--fraction", "0.5"]
    table = call(*arguments, "--output", "layers.png")[0].splitlines()
    found = json.loads(call(*arguments, "--json")[0])
    rows = [line.split() for line in table[:7]]
    shares = {name: [f"{100 * each['uf1']:.2f}" for each in scores] for name, scores in found["layers"].items()}
    assert rows[0] == ["UF1", "by", "layer", "small", "single"]
    assert rows[1:3] == [["1", shares["small"][0], *shares["single"]], ["2", shares["small"][1], "-"]]
    assert [row[0] for row in rows[3:6]] == ["left", "right", "random"]
    assert rows[4][1:] == [f"{100 * found['baselines']['right']['uf1']:.2f}"] * 2
    best = 1 + (found["layers"]["small"][1]["uf1"] > found["layers"]["small"][0]["uf1"])
    assert rows[6] == ["best", "layer", str(best), "1"]
    assert table[-1] == "4 sentences, 12 gold constituents"
    assert imread("layers.png").std() > 0.01


def test_a_batch_is_read_once(call, model, monkeypatch):
    counts = []
    forward = GPT2LMHeadModel.forward
    monkeypatch.setattr(GPT2LMHeadModel, "forward", lambda *args, **named: counts.append(1) or forward(*args, **named))
    call("analyze", "gold.mrg", "--layers", "--model", model, "--fraction", "0.5")
    assert len(counts) <= 2  # batches of similar lengths


def test_a_baseline_of_this_package_has_layers_too(call, baseline):
    assert "best layer" in call("analyze", "gold.mrg", "--layers", "--model", baseline, "--fraction", "0.5")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers"], "--layers is about models: it takes --model"),
        (["system.mrg", "--layers", "--model", "x"], "no file but the gold one"),
        (["--layers", "--heads", "--model", "x"], "--heads cannot be used with --layers"),
        (["--layers", "--model", "x", "--output_dir", "y"], "--output_dir cannot be used with --layers"),
        (
            ["--layers", "--model", "x", "--output", "y.txt"],
            "--layers needs an --output that ends in .pdf, .png, .svg",
        ),
        (["--layers", "--model", "a/x", "b/x"], "two models are called 'x': name them, NAME=MODEL"),
        (["system.mrg", "--chart"], "--chart goes with --layers"),
        (["--heads", "--model", "x", "--punctuation", "keep"], "--punctuation goes with --layers"),
    ],
)
def test_options_that_mean_nothing(fail, arguments, message):
    assert message in fail("analyze", "gold.mrg", *arguments)[0]


def test_models_without_such_layers(fail, model, gilt, tmp_path):
    arguments = ["analyze", "gold.mrg", "--layers", "--model"]
    message = "GiLTForCausalLM reads structures: layers are those of models that read text alone"
    assert message in fail(*arguments, gilt)[0]
    assert "a fraction of 0.25 is 0 of 2 heads: give 0.5 to 1" in fail(*arguments, model)[0]
    assert "a fraction of 0.0 is 0 of 2 heads" in fail(*arguments, model, "--fraction", "0")[0]
    paused = AutoModelForCausalLM.from_pretrained(model)
    paused.config.pause_token_ids = [7]
    paused.save_pretrained(tmp_path / "paused")
    AutoTokenizer.from_pretrained(model).save_pretrained(tmp_path / "paused")
    assert "a model with pauses" in fail(*arguments, tmp_path / "paused", "--fraction", "0.5")[0]
