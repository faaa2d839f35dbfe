"""`examples/run_clm.py`: in process where that is enough, as a command where processes are the point."""

import json
import math
import shutil
import subprocess
import zlib
from functools import partial
from pathlib import Path

import pytest
import running
import torch
from running import ENVIRONMENT, EXAMPLES, TORCHRUN, load_script, losses, results, step_of
from safetensors.torch import load_file
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, GPT2Tokenizer

from hf_structure import GiLTForCausalLM, PushdownLMForCausalLM, TransformerGrammarForCausalLM, parse, score
from hf_structure.corpora.graph_batches import GraphCollator
from hf_structure.scoring.scoring import corpus_scores
from hf_structure.text.conllu import ConlluSentence, write_conllu
from hf_structure.text.formats import load_sentences
from hf_structure.text.tokenization import inner_pieces
from hf_structure.training import scripts

command = partial(running.command, "run_clm.py")
PARTS = {"graph_embedding_size": 4, "scorer_hidden_size": 16, "scorer_size": 8, "max_new_arcs": 4}
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, **PARTS}
TOKENIZER = ["--tokenizer_type", "bpe", "--vocab_size", "270"]
OPTIONS = ["--use_cpu", *TOKENIZER, "--max_tokens", "192", "--learning_rate", "0.01", "--max_predicted_sentences", "0"]
PREDICTED = ["--max_predicted_sentences", "4"]  # a search at every evaluation takes as long as the training
BASE = {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
NAMES = ("perplexity", "word_perplexity", "arc_precision", "arc_recall", "arc_f1", "count_accuracy")
SEMANTIC = """#SDP 2015
#1
1	The	the	DT	-	-	_	_
2	dog	dog	NN	-	-	_	ARG1
3	sees	see	VB	+	+	_	_
4	it	it	PR	-	-	_	ARG2

"""


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    return load_script("run_clm")


@pytest.fixture(scope="module")
def base_model(corpus, tmp_path_factory) -> Path:
    """A model and a tokenizer in the style of GPT-2, small."""
    folder = tmp_path_factory.mktemp("base")
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([str(corpus / "train.txt")], vocab_size=280, special_tokens=["<|endoftext|>"])
    merges = [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    GPT2Tokenizer(vocab=tokenizer.get_vocab(), merges=merges).save_pretrained(folder)
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(vocab_size=300, **BASE)).save_pretrained(folder)
    return folder


def training(
    corpus: Path, output_dir: Path, model: str = "gilt", suffix: str = "conllu", epochs: int = 3
) -> list[str]:
    new = ["--model_type", model, "--config_overrides", json.dumps(SMALL)]
    return [*new, *files(corpus, output_dir, suffix, epochs)]


def files(corpus: Path, output_dir: Path, suffix: str = "conllu", epochs: int = 3) -> list[str]:
    return [
        *("--train_file", str(corpus / f"train.{suffix}"), "--validation_file", str(corpus / f"dev.{suffix}")),
        *("--output_dir", str(output_dir), "--num_train_epochs", str(epochs), "--logging_steps", "1", *OPTIONS),
    ]


def test_trains_saves_and_evaluates(corpus, run, tmp_path, capsys):
    output_dir = tmp_path / "run"
    run(*training(corpus, output_dir, epochs=5), "--max_predicted_sentences", "5", "--max_tokens", "64")
    printed = capsys.readouterr()
    assert "it/s" in printed.err  # the progress bar
    assert "eval_perplexity_gold_graphs" in printed.out
    scores = results(output_dir)
    assert losses(output_dir, "eval_loss")[-1] < 0.7 * losses(output_dir, "eval_loss")[0]
    assert min(losses(output_dir, "eval_loss")) == pytest.approx(scores["eval_loss"])  # the best one was kept
    assert {f"eval_{name}_{graphs}_graphs" for name in NAMES for graphs in ("gold", "predicted")} < set(scores)
    assert not {"eval_perplexity", "eval_arc_f1"} & set(scores)
    assert min(scores["eval_arc_f1_gold_graphs"], scores["eval_arc_f1_predicted_graphs"]) > 0.5
    assert scores["eval_perplexity_gold_graphs"] < scores["eval_word_perplexity_gold_graphs"]
    assert scores["eval_sentences_predicted_graphs"] == 5
    tokenizer, model = (auto.from_pretrained(output_dir) for auto in (AutoTokenizer, AutoModelForCausalLM))
    assert isinstance(model, GiLTForCausalLM)
    assert len(tokenizer) == model.config.vocab_size <= 270
    assert tokenizer.init_kwargs["word_tokenizer"] == "english"
    special = [getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")]
    assert special == [model.config.pad_token_id, model.config.bos_token_id, model.config.eos_token_id]
    arguments = ["--model_name_or_path", output_dir, "--test_file", corpus / "dev.conllu"]
    run(*arguments, "--output_dir", tmp_path / "eval", *OPTIONS, "--max_predicted_sentences", "7")
    again = results(tmp_path / "eval", "test")
    for name in map("{}_gold_graphs".format, NAMES):
        assert again[f"test_{name}"] == pytest.approx(scores[f"eval_{name}"], rel=1e-4)
    assert again["test_sentences_predicted_graphs"] == 7


@pytest.mark.slow
def test_a_trained_model_with_other_settings(corpus, run, tmp_path):
    first = tmp_path / "first"
    run(*training(corpus, first, epochs=1))
    trained = ["--model_name_or_path", str(first), *files(corpus, tmp_path / "second", epochs=1)]
    run(*trained, "--config_overrides", '{"hidden_dropout": 0.3}')
    config = AutoConfig.from_pretrained(tmp_path / "second")
    assert scripts.config_changes(first, config) == ["hidden_dropout"]
    assert config.hidden_dropout == 0.3
    for overrides, message in (
        ('{"hiden_size": 3}', "gilt has no settings hiden_size"),
        ('{"hidden_size": 48}', "weights have other sizes than its configuration says"),
    ):
        with pytest.raises(ValueError, match=message):
            run(*trained, "--config_overrides", overrides)
    text = ["--model_name_or_path", str(first), *files(corpus, tmp_path / "third", "txt", epochs=1)]
    run(*text, "--graph_layers", "0")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "third").config.abilities.structures == ()


STACKS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "attachment_size": 8}


@pytest.mark.parametrize("suffix", [pytest.param("conllu", marks=pytest.mark.slow), "mrg"])
def test_pushdown_reads_trees(corpus, run, tmp_path, suffix):
    output_dir = tmp_path / "run"
    new = ["--model_type", "pushdown", "--config_overrides", json.dumps(STACKS)]
    run(*new, *files(corpus, output_dir, suffix, epochs=4), *PREDICTED)
    scores = results(output_dir)
    assert losses(output_dir, "eval_loss")[-1] < 0.9 * losses(output_dir, "eval_loss")[0]
    names = ("perplexity", "word_perplexity", "attachment_accuracy")
    assert {f"eval_{name}_{trees}_trees" for name in names for trees in ("gold", "predicted")} < set(scores)
    assert not any("arc" in name or "graph" in name for name in scores)
    assert scores["eval_attachment_accuracy_gold_trees"] > 0.6
    model = AutoModelForCausalLM.from_pretrained(output_dir)
    assert isinstance(model, PushdownLMForCausalLM)
    arguments = ["--model_name_or_path", output_dir, "--test_file", corpus / f"dev.{suffix}", *OPTIONS]
    run(*arguments, "--output_dir", tmp_path / "eval")
    again = results(tmp_path / "eval", "test")
    assert again["test_perplexity_gold_trees"] == pytest.approx(scores["eval_perplexity_gold_trees"], rel=1e-4)


OFTEN = ("tg", "closed")
GRAMMARS = {  # options, further settings, files, and the actions that there are
    "tg": (["--formalism", "constituency"], {}, "mrg", ["<S>", "</S>"]),
    "plm": (["--composition", "none"], {}, "conllu", ["<X>", "</>"]),
    "plm-3": (["--composition", "none"], {"closings": 3}, "mrg", ["<S>", "</>"]),
    "closed": (["--composition", "none"], {"openings": False}, "mrg", ["</S>"]),
    "compressed": (["--composition", "none"], {"compress_closings": True}, "mrg", ["<S>", "</>"]),
    "dtg": (["--formalism", "dependency"], {}, "conllu", ["<left-arc>", "<right-arc>"]),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in OFTEN)) for kind in GRAMMARS]
)
def test_transformer_grammars_read_trees(corpus, run, tmp_path, kind):
    options, settings, suffix, actions = GRAMMARS[kind]
    output_dir = tmp_path / "run"
    sizes = {name: size for name, size in STACKS.items() if name != "attachment_size"} | settings
    new = ["--model_type", "transformer_grammar", *options, "--config_overrides", json.dumps(sizes)]
    run(*new, *files(corpus, output_dir, suffix, epochs=4))
    scores = results(output_dir)
    assert losses(output_dir, "eval_loss")[-1] < 0.9 * losses(output_dir, "eval_loss")[0]
    gold = scores["eval_perplexity_gold_trees"]
    assert gold == pytest.approx(math.exp(scores["eval_loss"]), rel=1e-4)
    model = AutoModelForCausalLM.from_pretrained(output_dir)
    assert isinstance(model, TransformerGrammarForCausalLM)
    assert model.config.action_names == actions
    assert model.config.inner_pieces == inner_pieces(AutoTokenizer.from_pretrained(output_dir))
    assert model.config.inner_pieces
    arguments = ["--model_name_or_path", output_dir, "--test_file", corpus / f"dev.{suffix}", *OPTIONS]
    run(*arguments, "--max_predicted_sentences", "10", "--output_dir", tmp_path / "eval")
    again = results(tmp_path / "eval", "test")
    assert again["test_perplexity_gold_trees"] == pytest.approx(gold, rel=1e-4)
    assert again["test_perplexity_predicted_trees"] < 2 * gold
    words = [sentence["words"] for sentence in load_sentences(corpus / "dev.txt")][:2]
    scored = score(words, output_dir, beam_size=4)
    assert all(0 > one.log_prob > -math.inf for one in scored)
    for one, sentence in zip(parse(words, output_dir, beam_size=4), words, strict=True):
        tree = one.dependency or one.constituency
        assert tree.words == tuple(sentence)


def test_grammar_learns_the_trees_of_other_sentences(run, tmp_path, caplog, monkeypatch, script):
    """The words stay; the heads are those that another sentence of the same length has in the file."""
    gold = [[0, 1, 2], [2, 0, 2], [2, 3, 0], [0, 1, 1], [3, 3, 0], [2, 0]]
    trees = [ConlluSentence.from_words([f"w{tree}"] * len(heads), heads) for tree, heads in enumerate(gold)]
    for name in ("train", "dev"):
        write_conllu(trees, tmp_path / f"{name}.conllu")
    seen = []
    encode = script.encode_sentences

    def recording(sentences, *args, **kwargs):
        seen.extend(sentences)
        return encode(sentences, *args, **kwargs)

    monkeypatch.setattr(script, "encode_sentences", recording)
    sizes = {name: size for name, size in STACKS.items() if name != "attachment_size"}
    new = ["--model_type", "transformer_grammar", "--formalism", "dependency", "--config_overrides", json.dumps(sizes)]
    with caplog.at_level("INFO"):
        run(*new, *files(tmp_path, tmp_path / "run", epochs=1), "--max_steps", "1", "--trees", "shuffled")
    assert "trees shuffled: 1 of 6 sentences have their own" in caplog.text
    assert [sentence["words"][0] for sentence in seen] == [f"w{tree}" for tree in range(6)] * 2
    for heads in (seen[:6], seen[6:]):
        found = [sentence["heads"] for sentence in heads]
        assert sorted(found) == sorted(gold)
        assert [one == other for one, other in zip(found, gold, strict=True)] == [False] * 5 + [True]


@pytest.mark.slow
def test_pushdown_is_grafted(corpus, run, base_model, tmp_path):
    graft = ["--base_model", str(base_model), "--model_type", "pushdown", "--stack_layers", "2"]
    run(*graft, "--config_overrides", '{"attachment_size": 8}', *files(corpus, tmp_path, epochs=2), *PREDICTED)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert isinstance(model, PushdownLMForCausalLM)
    assert (model.config.base_config.model_type, model.config.stack_layers) == ("gpt2", 2)
    assert AutoTokenizer.from_pretrained(tmp_path).model_max_length == BASE["n_positions"]
    assert losses(tmp_path, "eval_loss")[-1] < losses(tmp_path, "eval_loss")[0]


def test_text_without_trees_is_refused(corpus, run, tmp_path):
    with pytest.raises(ValueError, match="text files hold no trees"):
        run(*training(corpus, tmp_path, "pushdown", "txt")[:2], *files(corpus, tmp_path, "txt"))


@pytest.mark.parametrize("suffix", [pytest.param("conllu", marks=pytest.mark.slow), "txt"])
def test_baseline_without_graphs(corpus, run, tmp_path, suffix):
    run(*training(corpus, tmp_path, "transformer-xl", suffix, epochs=4))
    scores = results(tmp_path)
    assert 1 < scores["eval_perplexity"] < scores["eval_word_perplexity"]
    assert not any("graph" in name or "arc" in name for name in scores)
    assert losses(tmp_path, "eval_loss")[-1] < losses(tmp_path, "eval_loss")[0]
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert model.config.graph_layers == 0
    assert not any("graph" in name or "scorer" in name for name, _ in model.named_parameters())


@pytest.mark.parametrize(
    "kind",
    ["transformer-xl", pytest.param("gpt2", marks=pytest.mark.slow), pytest.param("stream", marks=pytest.mark.slow)],
)
def test_baseline_with_pauses(corpus, base_model, run, tmp_path, kind):
    """Pauses are in the vocabulary of model and tokenizer; what is trained and evaluated is what `score` finds."""
    output_dir = tmp_path / "run"
    arguments = training(corpus, output_dir, "transformer-xl", "txt", epochs=2)
    if kind == "gpt2":
        arguments = grafting(corpus, base_model, output_dir, 0)
    if kind == "stream":
        arguments += ["--streaming", "--max_steps", "8", "--vocabulary_file", corpus / "train.txt"]
    number = 1 if kind == "gpt2" else 2  # it has positions for few
    run(*arguments, "--pause_tokens", str(number))
    found = results(output_dir)
    model, tokenizer = (auto.from_pretrained(output_dir) for auto in (AutoModelForCausalLM, AutoTokenizer))
    pauses = tokenizer.convert_tokens_to_ids(["<pause1>", "<pause2>"][:number])
    assert model.config.pause_token_ids == pauses
    assert max(pauses) < model.config.vocab_size
    words = [sentence["words"] for sentence in load_sentences(corpus / "dev.txt")]
    scores = corpus_scores(score(words, output_dir, eos=True))
    assert scores["perplexity"] == pytest.approx(found["eval_perplexity"], rel=1e-4)
    assert scores["word_perplexity"] == pytest.approx(found["eval_word_perplexity"], rel=1e-4)
    trained = [
        "--model_name_or_path",
        output_dir,
        "--test_file",
        corpus / "dev.txt",
        "--output_dir",
        tmp_path / "eval",
    ]
    run(*trained, *OPTIONS)
    again = results(tmp_path / "eval", "test")
    assert again["test_perplexity"] == pytest.approx(found["eval_perplexity"], rel=1e-4)
    with pytest.raises(ValueError, match="--pause_tokens is for a new model"):
        run(*trained, "--pause_tokens", "2")
    if kind == "gpt2":
        model.to_base_lm().save_pretrained(tmp_path / "base")
        tokenizer.save_pretrained(tmp_path / "base")
        plain = corpus_scores(score(words, tmp_path / "base", eos=True))
        assert plain["perplexity"] == pytest.approx(scores["perplexity"], rel=1e-4)


@pytest.mark.slow
def test_large_baseline_has_as_many_parameters(corpus, run, tmp_path):
    for name in ("gilt", "transformer-xl-large"):
        run(*training(corpus, tmp_path / name, name, epochs=1))
    with_graphs, large = (AutoConfig.from_pretrained(tmp_path / name) for name in ("gilt", "transformer-xl-large"))
    assert large.graph_layers == 0
    sizes = [GiLTForCausalLM(with_graphs).num_parameters(), GiLTForCausalLM(large).num_parameters()]
    large.num_hidden_layers -= 1
    assert GiLTForCausalLM(large).num_parameters() < sizes[0] <= sizes[1]
    assert not any("predicted" in name for name in results(tmp_path / "gilt"))


@pytest.mark.parametrize("option", ["--tokenizer_type", pytest.param("--tokenizer_name", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "name"), [("unigram", "Unigram"), ("bpe", "BPE")], ids=["unigram", "bpe"])
def test_new_tokenizers(corpus, run, tmp_path, kind, name, option):
    run(*training(corpus, tmp_path, epochs=1), option, kind)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert type(tokenizer.backend_tokenizer.model).__name__ == name
    assert len(tokenizer) == AutoConfig.from_pretrained(tmp_path).vocab_size


# Graphs


@pytest.fixture
def enhanced(tmp_path) -> Path:
    """Sentences whose trees and enhanced graphs differ."""
    lines = ["1\tDogs\t_\t_\t_\t_\t2\tnsubj\t2:nsubj|3:nsubj\t_", "2\tbark\t_\t_\t_\t_\t0\troot\t0:root\t_"]
    lines += ["3\tloudly\t_\t_\t_\t_\t2\tadvmod\t2:advmod\t_", "", ""]
    for name, count in (("train", 8), ("dev", 2)):
        (tmp_path / f"{name}.conllu").write_text("\n".join(lines) * count)
        (tmp_path / f"{name}.sdp").write_text(SEMANTIC * count)
        rows = (json.dumps({"words": ["Dogs", "bark"], "arcs": [[2, 1, "ARG1"], [0, 2]]}) for _ in range(count))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    return tmp_path


TREE = [[0, 2], [2, 1], [2, 3]]


@pytest.mark.parametrize(
    ("suffix", "options", "arcs"),
    [
        ("conllu", [], TREE),
        ("conllu", ["--annotation", "enhanced"], [*TREE[:2], [2, 3], [3, 1]]),
        ("sdp", [], [[0, 3], [3, 2], [3, 4]]),
        ("conllu", ["--trees", "left"], [[0, 1], [1, 2], [2, 3]]),
        pytest.param("jsonl", [], [[0, 2], [2, 1]], marks=pytest.mark.slow),
    ],
    ids=["trees", "enhanced", "semantic", "chain", "json"],
)
def test_graphs_of_all_kinds(enhanced, run, monkeypatch, suffix, options, arcs):
    seen = []
    collate = GraphCollator.__call__

    def recording(self, examples):
        seen.extend(example["arcs"] for example in examples)
        return collate(self, examples)

    monkeypatch.setattr(GraphCollator, "__call__", recording)
    run(*training(enhanced, enhanced / "run", suffix=suffix, epochs=1), *options)
    assert seen
    assert all(graph == arcs for graph in seen)
    assert "eval_arc_f1_gold_graphs" in results(enhanced / "run")


@pytest.mark.slow
def test_features_computed_once_change_nothing(corpus, base_model, run, tmp_path):
    options = ["--tokenizer_name", base_model]
    for name in ("True", "False"):
        run(*training(corpus, tmp_path / name, epochs=1), "--cache_tapes", name, *options)
    assert losses(tmp_path / "True") == losses(tmp_path / "False")


# Grafts


def grafting(corpus: Path, base_model: Path, output_dir: Path, layers: int, epochs: int = 2) -> list[str]:
    arguments = ["--base_model", str(base_model), "--graph_layers", str(layers)]
    return [*arguments, "--config_overrides", json.dumps(PARTS), *files(corpus, output_dir, epochs=epochs)]


def parts_that_changed(base_model: Path, output_dir: Path) -> tuple[bool, bool]:
    """Whether the weights of the base model did, and those of the scorer (which begin as the seed has them)."""
    trained = AutoModelForCausalLM.from_pretrained(output_dir)
    torch.manual_seed(42)
    start = GiLTForCausalLM.from_pretrained_lm(str(base_model), graph_layers=2, **PARTS)
    return tuple(
        not all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
        for one, other in ((trained.model.backbone, start.model.backbone), (trained.scorer, start.scorer))
    )


@pytest.mark.slow
def test_graft_is_trained_at_two_rates(corpus, base_model, run, tmp_path, monkeypatch, script):
    run(*grafting(corpus, base_model, tmp_path / "run", 2), "--base_learning_rate", "0.0")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "run")
    assert [keys.layer_idx for keys in model.model.graph_keys] == [1, 2]
    assert parts_that_changed(base_model, tmp_path / "run") == (False, True)
    assert losses(tmp_path / "run", "learning_rate")[0] == 0.01
    run(*grafting(corpus, base_model, tmp_path / "other", 2), "--base_learning_rate", "0.01")
    assert parts_that_changed(base_model, tmp_path / "other") == (True, True)


@pytest.mark.slow
def test_scorer_is_left_alone_at_first(corpus, base_model, run, tmp_path, caplog):
    run(*grafting(corpus, base_model, tmp_path, 2), "--lm_only_steps", "1000", "--base_learning_rate", "0.01")
    assert parts_that_changed(base_model, tmp_path) == (True, False)
    assert "the scorer of structures is left out for 1000 steps" in caplog.text
    fusion = AutoModelForCausalLM.from_pretrained(tmp_path).model.graph_keys[0].fusion
    assert fusion.abs().max() > 0  # the language model was given graphs


def cosine(step: int, warmup: int, steps: int) -> float:
    """The share of the highest learning rate that a step of a phase has."""
    if step < warmup:
        return step / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


@pytest.mark.parametrize(("layers", "phases"), [(2, ((2, 6), (3, 10))), (0, ((3, 16),))], ids=["graphs", "plain"])
def test_two_phases_have_a_schedule_and_an_optimizer_each(
    corpus, base_model, run, tmp_path, monkeypatch, script, layers, phases
):
    trainers = []
    evaluate = script.train_and_evaluate
    monkeypatch.setattr(script, "train_and_evaluate", lambda *args: (trainers.append(args[0]), evaluate(*args)))
    options = ["--lm_only_steps", "6", "--lm_only_warmup_steps", "2", "--warmup_steps", "3", "--max_steps", "16"]
    run(*grafting(corpus, base_model, tmp_path, layers), *options, "--base_learning_rate", "0.01")
    rates = [0.01 * cosine(step, warmup, steps) for warmup, steps in phases for step in range(steps)]
    assert losses(tmp_path, "learning_rate") == pytest.approx(rates, abs=1e-6)
    optimizer = trainers[0].optimizer
    counts = {int(state["step"]) for state in optimizer.state.values()}
    assert counts == {phases[-1][1]}  # the moments are those of the last phase alone
    assert len(optimizer.state) == len(list(trainers[0].model.parameters()))


def test_batches_of_a_number_of_sentences(corpus, run, tmp_path, monkeypatch, script):
    sizes = []
    collate = script.CausalCollator.__call__

    def recording(self, examples):
        sizes.append(len(examples))
        return collate(self, examples)

    monkeypatch.setattr(script.CausalCollator, "__call__", recording)
    options = ["--max_sentences", "8", "--max_tokens", "9000", "--eval_strategy", "no"]
    options += ["--train_file", *[corpus / "train.conllu"] * 2]
    arguments = training(corpus, tmp_path, model="pushdown", epochs=1)
    run(*arguments, *options, "--config_overrides", json.dumps({"hidden_size": 16, "num_hidden_layers": 1}))
    assert sizes[:17].count(8) >= 13  # of 120 sentences; a few batches are halved
    assert sum(sizes[:17]) == 120
    assert max(sizes[:17]) == 8


@pytest.mark.slow
def test_base_model_trained_without_graphs(corpus, base_model, run, tmp_path, caplog):
    arguments = grafting(corpus, base_model, tmp_path / "run", 0)
    run(*arguments, "--base_learning_rate", "0.01", "--word_tokenizer", "spaces")
    assert "--learning_rate has no effect: all parameters come from a base model" in caplog.text
    assert AutoTokenizer.from_pretrained(tmp_path / "run").init_kwargs["word_tokenizer"] == "spaces"
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "run")
    assert model.num_parameters() == GPT2LMHeadModel.from_pretrained(base_model).num_parameters()
    assert results(tmp_path / "run")["eval_loss"] < 0.9 * losses(tmp_path / "run")[0]
    model.to_base_lm().save_pretrained(tmp_path / "plain")
    AutoTokenizer.from_pretrained(base_model).save_pretrained(tmp_path / "plain")
    for name, folder in (("graft", tmp_path / "run"), ("plain", tmp_path / "plain")):
        arguments = ["--model_name_or_path", folder, "--test_file", corpus / "dev.txt", *OPTIONS]
        run(*arguments, "--output_dir", tmp_path / name)
    scores = [results(tmp_path / name, "test")["test_perplexity"] for name in ("graft", "plain")]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    assert scores[0] == pytest.approx(results(tmp_path / "run")["eval_perplexity"], rel=1e-4)


def test_sentences_too_long_for_the_base_model(corpus, base_model, run, tmp_path):
    text = (corpus / "dev.conllu").read_text()
    (tmp_path / "dev.conllu").write_text(text.replace("dog", "unheard-of-" * 8))
    arguments = grafting(corpus, base_model, tmp_path / "run", 2)
    with pytest.raises(ValueError, match="too long for the model: it reads at most 32"):
        run(*arguments, "--validation_file", tmp_path / "dev.conllu")


@pytest.mark.parametrize("lm_only_steps", [0, pytest.param(5, marks=pytest.mark.slow)], ids=["joint", "lm_only"])
def test_accumulated_batches_weigh_as_one(corpus, base_model, run, tmp_path, lm_only_steps):
    """One step an epoch over the whole text, in few batches or many."""
    options = ["--gradient_accumulation_steps", "500", "--num_train_epochs", "2"]
    options += ["--tokenizer_name", base_model, "--lm_only_steps", lm_only_steps]
    for name, budget in (("few", 9000), ("many", 100)):
        run(*training(corpus, tmp_path / name), *options, "--max_tokens", budget)
    for key in ("loss", "grad_norm", "eval_loss"):
        assert len(losses(tmp_path / "few", key)) == 2
        assert losses(tmp_path / "many", key) == pytest.approx(losses(tmp_path / "few", key), rel=1e-3)


# Stopping and going on


def assert_same_run(first: Path, second: Path) -> None:
    for key in ("loss", "eval_loss", "eval_perplexity_predicted_graphs"):
        assert losses(second, key) == pytest.approx(losses(first, key), rel=1e-5)
    assert results(second)["eval_loss"] == pytest.approx(results(first)["eval_loss"], rel=1e-5)


def resumable(corpus: Path, base_model: Path, output_dir: Path, epochs: int = 3) -> list[str]:
    """Two learning rates, accumulated gradients, and a scorer that joins in the midst of the first epoch."""
    arguments = grafting(corpus, base_model, output_dir, 2, epochs)
    return [
        *arguments,
        "--lm_only_steps",
        "2",
        "--gradient_accumulation_steps",
        "2",
        "--warmup_steps",
        "3",
        *PREDICTED,
    ]


def test_stopped_run_goes_on_with_the_same_losses(corpus, base_model, run, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run(*resumable(corpus, base_model, whole))
    shutil.copytree(whole, stopped)
    (max(stopped.glob("checkpoint-*"), key=step_of) / "trainer_state.json").unlink()
    for file in filter(Path.is_file, stopped.iterdir()):
        file.unlink()
    run(*resumable(corpus, base_model, stopped))
    assert_same_run(whole, stopped)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config_overrides": json.dumps(PARTS | {"scorer_size": 4})}, "scorer_size"),
        ({"graph_layers": "1"}, "graph_layers"),
    ],
    ids=["other_scorer", "other_layers"],
)
def test_folder_of_another_run_is_refused(corpus, base_model, run, tmp_path, change, message):
    arguments = grafting(corpus, base_model, tmp_path, 2, epochs=1)
    run(*arguments)
    changed = [item for name, value in change.items() for item in (f"--{name}", value)]
    with pytest.raises(ValueError, match=f"is of another run .*{message} differ.*choose another --output_dir"):
        run(*arguments, *changed)


@pytest.mark.slow
def test_two_processes_learn_what_one_does(corpus, base_model, run, tmp_path):
    """Every step is of the whole text, however it is divided; the scorer joins after three."""
    one, two = tmp_path / "one", tmp_path / "two"
    settings = ["--lm_only_steps", "3", "--num_train_epochs", "6", "--gradient_accumulation_steps", "500", *PREDICTED]
    run(*training(corpus, one), *settings, "--tokenizer_name", base_model)
    arguments = [*training(corpus, two), *settings, "--tokenizer_name", str(base_model)]
    arguments.remove("--use_cpu")
    done = subprocess.run(command(*arguments, launcher=TORCHRUN), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("'eval_loss'") == 6  # one of them talks
    for key in ("loss", "grad_norm", "eval_loss", "eval_perplexity_gold_graphs"):
        assert len(losses(two, key)) == 6
        assert losses(two, key) == pytest.approx(losses(one, key), rel=1e-3)
    again = ["--model_name_or_path", two, "--validation_file", corpus / "dev.conllu", "--output_dir", two / "x"]
    run(*again, *OPTIONS, *PREDICTED)
    for name in (f"{name}_{graphs}_graphs" for name in NAMES for graphs in ("gold", "predicted")):
        assert results(two)[f"eval_{name}"] == pytest.approx(results(two / "x")[f"eval_{name}"], rel=1e-4)


# Options

CONFIGS = sorted(path for name in ("gilt", "pushdown") for path in EXAMPLES.glob(f"configs/{name}*.json"))


@pytest.mark.parametrize("config", running.config_params(CONFIGS))
def test_published_configurations(corpus, base_model, run, tmp_path, config):
    content = json.loads(config.read_text())
    small = {"gilt": {**SMALL, "intermediate_size": 16}, "pushdown": STACKS}.get(
        content["model"].get("model_type"), PARTS
    )
    arguments = ["--config", config, "--config_overrides", json.dumps(small), *files(corpus, tmp_path, epochs=1)]
    if "base_model" in content["options"]:
        arguments += ["--base_model", base_model, "--graph_layers", "2"]
    run(*arguments, "--eval_strategy", "epoch", "--save_strategy", "epoch")
    saved = AutoConfig.from_pretrained(tmp_path)
    assert all(getattr(saved, name) == value for name, value in content["model"].items() if name not in small)


def test_baselines_share_the_configuration(corpus, run, tmp_path):
    config = EXAMPLES / "configs" / "gilt-treebank.json"
    small = json.dumps({**SMALL, "intermediate_size": 16})
    arguments = ["--model_type", "transformer-xl", "--config", config, "--config_overrides", small]
    run(*arguments, *files(corpus, tmp_path, epochs=1))
    assert AutoConfig.from_pretrained(tmp_path).graph_layers == 0


TREES = ["--train_file", "train.conllu", "--validation_file", "train.conllu"]
GILT = ["--model_type", "gilt", *TREES]
STREAM = ["--streaming", "--max_steps", "1", "--vocabulary_file", "a.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["gilt", "pushdown", "transformer-xl"])
def test_trains_with_noise_on_embeddings(corpus, run, tmp_path, model_type):
    small = json.dumps(STACKS if model_type == "pushdown" else {**SMALL, "intermediate_size": 16})
    for folder, noise in (("plain", "0"), ("noise", "50")):
        given = files(corpus, tmp_path / folder, epochs=1)
        run("--model_type", model_type, "--config_overrides", small, *given, "--neftune_noise_alpha", noise)
    first, second = (load_file(tmp_path / folder / "model.safetensors") for folder in ("plain", "noise"))
    assert any((first[name] != second[name]).any() for name in first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (TREES, "--model_type, --base_model, --model_name_or_path or a --config"),
        (["--model_type", "udgn", *TREES], "there is no model family 'udgn': choose one of gilt"),
        (["--model_type", "transformer-xl", "--base_model", "gpt2", *TREES], "give --model_type gilt, pushdown or"),
        (["--model_type", "gilt", "--train_file", "a.txt", "--validation_file", "a.txt"], "hold no dependency graphs"),
        ([*GILT, "--annotation", "enhanced"], "no enhanced heads"),
        (
            ["--model_type", "transformer-xl", *TREES, "--trees", "random"],
            "this model reads no structures",
        ),
        (
            [*GILT, *STREAM, "--trees", "shuffled"],
            "shuffled needs all sentences at once: leave out",
        ),
        ([*GILT, "--graph_layers", "3;7"], "--graph_layers 3;7: give a number of layers, or the numbers of some"),
        ([*GILT, "--tokenizer_name", "words"], "a causal model reads subwords, unigram or bpe"),
        ([*TREES, "--base_model", "x", "--tokenizer_name", "bpe"], "--tokenizer_name bpe is for a new model"),
    ],
)
def test_wrong_commands(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    lines = ["1\ta\t_\t_\t_\t_\t2\tdet\t_\t_", "2\tdog\t_\t_\t_\t_\t0\troot\t_\t_", "", ""]
    Path("train.conllu").write_text("\n".join(lines))
    Path("a.txt").write_text("a dog\n")
    with pytest.raises(ValueError, match=message) as error:
        run(*arguments, "--output_dir", "out", "--use_cpu")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("out/checkpoint-*"))


def test_base_model_with_a_smaller_vocabulary_than_the_tokenizer(corpus, base_model, run, tmp_path):
    shutil.copytree(base_model, tmp_path / "base")
    GPT2LMHeadModel(GPT2Config(vocab_size=100, **BASE)).save_pretrained(tmp_path / "base")
    with pytest.raises(ValueError, match=r"the tokenizer has .* tokens, but the model 100"):
        run(*grafting(corpus, tmp_path / "base", tmp_path / "run", 2))


# Text that is streamed


@pytest.mark.parametrize(
    ("model", "suffix"), [("gilt", "conllu"), pytest.param("transformer-xl", "txt", marks=pytest.mark.slow)]
)
def test_trains_on_a_stream(corpus, run, tmp_path, model, suffix):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    options = ["--streaming", "--max_steps", "8", "--save_steps", "5", "--eval_steps", "5", "--buffer_size", "40"]
    options += ["--vocabulary_file", corpus / "train.txt"]
    run(*training(corpus, whole, model, suffix), *options)
    assert losses(whole)[-1] < losses(whole)[0]
    shutil.copytree(whole, stopped, ignore=shutil.ignore_patterns("checkpoint-8"))
    (stopped / "eval_results.json").unlink()
    run(*training(corpus, stopped, model, suffix), *options)
    assert losses(stopped) == pytest.approx(losses(whole), rel=1e-5)


def test_wrong_commands_of_streams(corpus, run, tmp_path):
    options = ["--streaming", "--max_steps", "8", "--vocabulary_file", corpus / "train.txt"]
    arguments = [*training(corpus, tmp_path), *options]
    place = arguments.index("--train_file")
    arguments[place : place + 2] = ["--dataset_name", str(corpus)]
    with pytest.raises(ValueError, match="--dataset_name has no graphs"):
        run(*arguments)
    with pytest.raises(ValueError, match="give --vocabulary_file, --tokenizer_name or"):
        run(*training(corpus, tmp_path), *options[:3])
    assert not list(tmp_path.glob("checkpoint-*"))


def test_checksum_is_that_of_the_list(script):
    """Runs that were stopped find their tokenizer by it."""
    sentences = [["a", "dog"], ['"', "é"], []]
    for some in (sentences, sentences[:1], []):
        assert script.checksum(iter(some)) == zlib.crc32(json.dumps(some).encode())
