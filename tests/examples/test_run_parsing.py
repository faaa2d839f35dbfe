"""`examples/run_parsing.py`: in process where that is enough, as a command where processes are the point."""

import json
import random
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import running
import torch
from encoders import encoder_of_its_own
from running import (
    ENVIRONMENT,
    EXAMPLES,
    TORCHRUN,
    load_script,
    losses,
    made_sentence,
    results,
    run_main,
    start_and_kill,
    step_of,
)
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoConfig, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

from hf_structure import G2GTransformerForParsing, RNGTransformerForParsing, parse
from hf_structure.metrics.attachment import score_sentences
from hf_structure.text.conllu import ConlluSentence, read_conllu, write_conllu

command = partial(running.command, "run_parsing.py")
PARTS = {"classifier_hidden_size": 16, "history_size": 8, "history_num_layers": 1}
GRAPH_PARTS = {"arc_size": 16, "label_size": 8, "num_graph_layers": 1}  # of a rng_transformer
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SIZES["max_position_embeddings"] = 24
SMALL = SIZES | PARTS
FAMILIES = {
    "g2g_transformer": SMALL,
    "rng_transformer": SIZES | GRAPH_PARTS | {"num_hidden_layers": 2, "num_rounds": 2, "decoder_dropout": 0.1},
}
of_every_family = pytest.mark.parametrize("family", FAMILIES)
of_one_family = pytest.mark.parametrize(
    "family", ["rng_transformer", pytest.param("g2g_transformer", marks=pytest.mark.slow)]
)
OPTIONS = ["--use_cpu", "--max_tokens", "128", "--min_frequency", "1"]
SMALL_BATCHES = ("--max_tokens", "64")  # more is learned in an epoch
SCORES = ("uas", "las", "uas_no_punct", "las_no_punct")
DEPRELS = ["det", "nsubj", "root", "det", "obj", "case", "det", "nmod"]


def made_tree(rng: random.Random) -> ConlluSentence:
    words, tags, heads = made_sentence(rng)
    return ConlluSentence.from_words(words, heads, [*DEPRELS[: len(words) - 1], "punct"], tags)


@pytest.fixture(scope="module")
def treebank(tmp_path_factory) -> Path:
    """A folder with train.conllu and dev.conllu."""
    folder, rng = tmp_path_factory.mktemp("treebank"), random.Random(0)
    for name, count in (("train", 60), ("dev", 12)):
        write_conllu([made_tree(rng) for _ in range(count)], folder / f"{name}.conllu")
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    """A tiny BERT with word pieces that are letters."""
    folder = tmp_path_factory.mktemp("bert")
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", *letters, *(f"##{letter}" for letter in letters)]
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    backend = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(ids), max_position_embeddings=24, **sizes)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    return load_script("run_parsing")


def files(treebank: Path, output_dir: Path, epochs: int = 1) -> list[str]:
    return [
        *("--train_file", str(treebank / "train.conllu"), "--validation_file", str(treebank / "dev.conllu")),
        *("--output_dir", str(output_dir), "--num_train_epochs", str(epochs), "--logging_steps", "1", *OPTIONS),
    ]


def training(
    treebank: Path,
    output_dir: Path,
    epochs: int = 1,
    rate: float = 0.01,
    family: str = "g2g_transformer",
    **settings,
) -> list[str]:
    new = ["--model_type", family, "--config_overrides", json.dumps(FAMILIES[family] | settings)]
    return [*new, "--new_learning_rate", str(rate), *files(treebank, output_dir, epochs)]


@of_every_family
def test_trains_saves_and_evaluates(treebank, family, run, tmp_path, capsys):
    output_dir = tmp_path / "run"
    run(*training(treebank, output_dir, epochs=10, family=family), *SMALL_BATCHES)
    printed = capsys.readouterr()
    assert "it/s" in printed.err  # the progress bar
    assert "eval_las_no_punct" in printed.out
    scores = results(output_dir)
    assert scores["eval_las"] > 0.9
    assert scores["eval_las"] == max(losses(output_dir, "eval_las"))  # the best one was kept
    assert losses(output_dir)[-1] < 0.3 * losses(output_dir)[0]
    # the same as parsing and evaluating the files
    gold = list(read_conllu(treebank / "dev.conllu"))
    trees = [parsed.dependency for parsed in parse([sentence.forms for sentence in gold], output_dir)]
    system = [s.with_heads(tree.heads, tree.labels) for s, tree in zip(gold, trees, strict=True)]
    for suffix, ignored in (("", ()), ("_no_punct", {"punct"})):
        expected = score_sentences(system, gold, ignore_labels=ignored)
        assert scores[f"eval_uas{suffix}"] == pytest.approx(expected.uas)
        assert scores[f"eval_las{suffix}"] == pytest.approx(expected.las)
    arguments = ["--model_name_or_path", output_dir, "--test_file", treebank / "dev.conllu"]
    run(*arguments, "--output_dir", tmp_path / "eval", *OPTIONS)
    again = results(tmp_path / "eval", "test")
    assert [again[f"test_{name}"] for name in SCORES] == pytest.approx([scores[f"eval_{name}"] for name in SCORES])


def test_what_is_saved(treebank, run, tmp_path):
    run(*training(treebank, tmp_path))
    model, tokenizer = G2GTransformerForParsing.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    labels = sorted({*DEPRELS, "punct"})
    assert model.config.id2label == dict(enumerate(labels))
    assert len(tokenizer) == model.config.vocab_size == 3 + 10 + 1
    assert tokenizer.model_max_length == model.config.max_words
    assert (model.config.unk_token_id, model.config.pad_token_id) == (0, 1)
    assert (model.config.num_tags, model.config.use_swap) == (0, False)
    assert {parsed for tree in parse(["the dog sees a cat ."], tmp_path) for parsed in tree.dependency.labels} <= set(
        labels
    )


# Kinds of parsers


@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("unigram", "given")), "bpe"]
)
def test_subwords(treebank, encoder, run, tmp_path, kind):
    name = encoder if kind == "given" else kind
    run(*training(treebank, tmp_path), "--tokenizer_name", name, *(["--vocab_size", "300"] if kind == "bpe" else []))
    tokenizer, config = AutoTokenizer.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)
    expected = {"unigram": "Unigram", "bpe": "BPE", "given": "WordPiece"}[kind]
    assert type(tokenizer.backend_tokenizer.model).__name__ == expected
    assert config.vocab_size == len(tokenizer)
    assert config.unk_token_id == tokenizer.unk_token_id
    assert tokenizer.model_max_length == config.max_words
    parsed = parse([["the", "unheard-of", "mouse", "sees", "."]], tmp_path)[0]
    assert parsed.dependency.is_tree
    assert set(parsed.dependency.labels) <= set(config.id2label.values())


def test_starts_from_an_encoder(treebank, encoder, run, tmp_path):
    arguments = ["--encoder", encoder, "--num_layers", "1", "--config_overrides", json.dumps(PARTS)]
    rates = ["--learning_rate", "0", "--new_learning_rate", "0.01"]
    run(*arguments, *rates, *files(treebank, tmp_path))
    model = G2GTransformerForParsing.from_pretrained(tmp_path)
    source = BertModel.from_pretrained(encoder)
    assert (model.config.num_hidden_layers, model.config.history_size) == (1, 8)
    assert AutoTokenizer.from_pretrained(tmp_path).model_max_length == model.config.max_words
    weights = model.base_model
    assert torch.equal(weights.embeddings.word_embeddings.weight, source.embeddings.word_embeddings.weight)
    assert torch.equal(weights.layers[0].intermediate.weight, source.encoder.layer[0].intermediate.dense.weight)
    torch.manual_seed(42)
    start = G2GTransformerForParsing.from_pretrained_encoder(str(encoder), num_layers=1, labels=["x"], **PARTS)
    old = dict(start.named_parameters())
    moved = {name for name, weight in model.named_parameters() if weight.shape != old[name].shape} | {
        name for name, weight in model.named_parameters() if not torch.equal(weight, old[name])
    }
    kept = set(old) - moved
    assert kept >= {name for name, _ in start.named_parameters() if "attention.query" in name}
    assert moved >= {name for name in old if "_relations" in name or name.startswith(("exist", "history"))}


@pytest.mark.slow
def test_learning_rates(treebank, encoder, script, run, tmp_path, monkeypatch, caplog):
    groups = []
    make = script.ParsingTrainer.create_optimizer

    def recording(self, *arguments):
        optimizer = make(self, *arguments)
        named = {id(parameter): name for name, parameter in self.model.named_parameters()}
        groups.append([(group["lr"], {named[id(p)] for p in group["params"]}) for group in optimizer.param_groups])
        return optimizer

    monkeypatch.setattr(script.ParsingTrainer, "create_optimizer", recording)
    rates = ["--learning_rate", "0.001", "--new_learning_rate", "0.002", "--max_steps", "1"]
    settings = ["--config_overrides", json.dumps(PARTS)]
    run(*files(treebank, tmp_path / "a"), "--encoder", encoder, "--num_layers", "1", *settings, *rates)
    run(*training(treebank, tmp_path / "b"), *rates)
    run("--model_name_or_path", tmp_path / "b", *files(treebank, tmp_path / "c"), *rates)
    by_rate = [{rate: set() for rate in (0.001, 0.002)} for _ in groups]
    for collected, run_groups in zip(by_rate, groups, strict=True):
        for rate, names in run_groups:
            collected[rate] |= names
    with_encoder, from_scratch, trained = by_rate
    assert not from_scratch[0.001]
    assert caplog.text.count("--learning_rate has no effect: a parser from scratch learns at --new_learning_rate") == 1
    assert from_scratch[0.002] == set(with_encoder[0.001]) | set(with_encoder[0.002])
    assert trained == with_encoder
    assert all(name.startswith("g2g_transformer.") for name in with_encoder[0.001])
    new = {name for name in with_encoder[0.002] if name.startswith("g2g_transformer.")}
    assert new == {f"g2g_transformer.layers.0.attention.{kind}_relations.weight" for kind in ("key", "value")}


@of_every_family
def test_without_labels(treebank, family, run, tmp_path):
    run(*training(treebank, tmp_path, family=family), "--no_labels")
    scores = results(tmp_path)
    assert {"eval_uas", "eval_uas_no_punct"} <= set(scores)
    assert not any("las" in name for name in scores)
    tree = parse("the dog sees a cat .", tmp_path).dependency
    assert tree.labels is None
    assert tree.is_tree


@pytest.mark.slow
def test_trees_without_labels(corpus, run, tmp_path):
    with pytest.raises(ValueError, match="no relation labels: give --no_labels"):
        run(*training(corpus, tmp_path))
    run(*training(corpus, tmp_path), "--no_labels")


@of_one_family
def test_tags(treebank, family, run, tmp_path):
    run(*training(treebank, tmp_path / "run", epochs=2, family=family), "--use_tags", *SMALL_BATCHES)
    config = AutoConfig.from_pretrained(tmp_path / "run")
    assert config.tags == [".", "DT", "IN", "NN", "VB"]
    assert config.num_tags == 5
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert weights["tag_embeddings.weight"].shape == (5, 16)
    # evaluation reads them: with wrong ones it finds other trees
    wrong = [s.with_column("xpos", ["DT"] * len(s.words)) for s in read_conllu(treebank / "dev.conllu")]
    write_conllu(wrong, tmp_path / "wrong.conllu")
    for name, file in (("right", treebank / "dev.conllu"), ("wrong", tmp_path / "wrong.conllu")):
        arguments = ["--model_name_or_path", tmp_path / "run", "--test_file", file]
        run(*arguments, "--output_dir", tmp_path / name, *OPTIONS)
    right, wrong = (results(tmp_path / name, "test")["test_las"] for name in ("right", "wrong"))
    assert right == pytest.approx(results(tmp_path / "run")["eval_las"])
    assert right > wrong


# Refinement


@pytest.mark.slow
def test_goes_on_with_more_rounds(treebank, run, tmp_path):
    run(*training(treebank, tmp_path / "one", epochs=2, family="rng_transformer", num_rounds=1))
    more = ["--model_name_or_path", tmp_path / "one", "--config_overrides", '{"num_rounds": 3}']
    run(*more, *files(treebank, tmp_path / "three"), "--new_learning_rate", "0.01")
    assert AutoConfig.from_pretrained(tmp_path / "three").num_rounds == 3
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "three"))
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert any("key_relations" in name for name in moved)  # not read in the first run


@pytest.mark.slow
def test_learns_to_refine_given_trees(treebank, run, tmp_path):
    """The words say nothing, but the trees to refine say all: only who reads them can be right."""
    rng, given = random.Random(0), {}
    for purpose, number in (("train", 200), ("validation", 30)):
        trees = [[0, 1, 1], [3, 3, 0], [2, 0, 2]]
        labels = {0: "root", 1: "obj", 2: "obj", 3: "obj"}
        chosen = [rng.choice(trees) for _ in range(number)]
        gold = [ConlluSentence.from_words(["a", "a", "a"], heads, [labels[h] for h in heads]) for heads in chosen]
        write_conllu(gold, tmp_path / f"{purpose}.conllu")
        given[purpose] = [f"--initial_{purpose}_file", tmp_path / f"{purpose}.conllu"]
    arguments = training(treebank, tmp_path / "run", epochs=6, family="rng_transformer", num_rounds=1)
    arguments += ["--train_file", tmp_path / "train.conllu", "--validation_file", tmp_path / "validation.conllu"]
    run(*arguments, *given["train"], *given["validation"])
    assert results(tmp_path / "run")["eval_las"] > 0.95
    run(*arguments, "--output_dir", tmp_path / "without")
    assert results(tmp_path / "without")["eval_las"] < 0.7


@pytest.mark.slow
def test_batches_hold_as_many_pieces_as_are_allowed(treebank, encoder, script, run, tmp_path, monkeypatch):
    """One long word among short sentences makes a batch of its own, not a wide one."""
    sizes, collate = [], script.ParsingCollator.__call__

    def recording(self, examples):
        batch = collate(self, examples)
        sizes.append(batch["input_ids"].numel())
        return batch

    monkeypatch.setattr(script.ParsingCollator, "__call__", recording)
    long = ConlluSentence.from_words(["abcdefghijklmnopqrst"], [0], ["root"])
    write_conllu([*read_conllu(treebank / "train.conllu"), long], tmp_path / "train.conllu")
    settings = ["--model_type", "rng_transformer", "--config_overrides", json.dumps(GRAPH_PARTS)]
    arguments = [*settings, "--encoder", encoder, *files(treebank, tmp_path / "run"), "--max_length", "22"]
    run(*arguments, "--train_file", tmp_path / "train.conllu", *SMALL_BATCHES)
    assert max(sizes) <= 64


def test_sentences_of_too_many_pieces_are_left_out(treebank, encoder, run, tmp_path, caplog):
    letters = [len("".join(sentence.forms)) for sentence in read_conllu(treebank / "train.conllu")]
    long = sum(number > 22 for number in letters)  # every letter is a piece, and the encoder has 24 positions
    settings = ["--model_type", "rng_transformer", "--config_overrides", json.dumps(GRAPH_PARTS)]
    run(*settings, "--encoder", encoder, *files(treebank, tmp_path), "--max_steps", "1")
    assert 0 < long < len(letters)
    assert f"train: {long} of 60 sentences left out; {long}: more than 22 word pieces" in caplog.text


def test_trees_to_refine_are_of_the_same_sentences(treebank, run, tmp_path):
    arguments = training(treebank, tmp_path, family="rng_transformer")
    with pytest.raises(ValueError, match="12 sentences, but 60 to refine"):
        run(*arguments, "--initial_train_file", treebank / "dev.conllu")
    gold = list(read_conllu(treebank / "train.conllu"))
    write_conllu([*gold[:9], gold[0], *gold[10:]], tmp_path / "other.conllu")
    with pytest.raises(ValueError, match="sentence 10 has other words, or no heads"):
        run(*arguments, "--initial_train_file", tmp_path / "other.conllu")
    with pytest.raises(ValueError, match="--initial_train_file is for a rng_transformer"):
        run(*training(treebank, tmp_path), "--initial_train_file", treebank / "train.conllu")


# Sentences that cannot be learned from


@pytest.fixture(scope="module")
def mixed(treebank, tmp_path_factory) -> Path:
    """Trees and what is none, and words of their own in what is left out."""
    folder = tmp_path_factory.mktemp("mixed")
    crossing = ConlluSentence.from_words(["a", "b", "c", "d"], [3, 4, 0, 3], ["nsubj", "obj", "root", "det"])
    two_roots = ConlluSentence.from_words(["a", "b"], [0, 0], ["root", "root"])
    headless = ConlluSentence.from_words(["a", "b"], None, ["root", "det"])
    long = ConlluSentence.from_words(["a"] * 19, range(19), ["root", *["det"] * 18])
    longer = ConlluSentence.from_words(["a"] * 21, range(21), ["root", *["det"] * 20])
    odd = [crossing, crossing, two_roots, headless, headless, headless, long, longer]
    for name in ("train", "dev"):
        write_conllu([*read_conllu(treebank / f"{name}.conllu"), *odd], folder / f"{name}.conllu")
    return folder


@pytest.mark.parametrize(
    ("options", "train"),
    [
        (
            [],
            "7 of 68 sentences left out; 3: words without a head; "
            "2: its tree is not projective, which needs use_swap; 1: its heads are no tree with one root; "
            "1: more than 20 words",
        ),
        pytest.param(
            ["--use_swap", "--max_length", "18"],
            "6 of 68 sentences left out; 3: words without a head; 2: more than 18 words; "
            "1: its heads are no tree with one root",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["projective", "swap"],
)
def test_sentences_left_out_are_counted(mixed, run, tmp_path, caplog, options, train):
    with caplog.at_level("WARNING", logger="run_parsing"):
        run(*training(mixed, tmp_path), *options)
    assert caplog.messages == [
        f"train: {train}",
        "validation: 4 of 20 sentences left out; 3: words without a head; 1: more than 20 words",
    ]


def test_labels_that_were_not_seen_in_training_are_never_right(treebank, run, tmp_path):
    run(*training(treebank, tmp_path / "run"))
    for label in ("unseen", "_"):
        renamed = [s.with_column("deprel", [label] * len(s.words)) for s in read_conllu(treebank / "dev.conllu")]
        write_conllu(renamed, tmp_path / "dev.conllu")
        arguments = ["--model_name_or_path", tmp_path / "run", "--test_file", tmp_path / "dev.conllu"]
        run(*arguments, "--output_dir", tmp_path / "eval", *OPTIONS)
        scores = results(tmp_path / "eval", "test")
        assert scores["test_las"] == 0
        assert scores["test_uas"] == results(tmp_path / "run")["eval_uas"]


# Stopping and going on


def assert_same_run(first: Path, second: Path) -> None:
    assert losses(second) == pytest.approx(losses(first), rel=1e-5)
    for name in SCORES:
        assert losses(second, f"eval_{name}") == pytest.approx(losses(first, f"eval_{name}"), rel=1e-5)
        assert results(second)[f"eval_{name}"] == pytest.approx(results(first)[f"eval_{name}"], rel=1e-5)


def test_goes_on_from_the_last_complete_checkpoint(treebank, encoder, run, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    def arguments(folder: Path) -> list[str]:
        new = ["--encoder", str(encoder), "--num_layers", "1", "--learning_rate", "0.001"]
        return [*new, "--new_learning_rate", "0.01", *files(treebank, folder, epochs=3)]

    run(*arguments(whole))
    shutil.copytree(whole, killed)
    newest = max(killed.glob("checkpoint-*"), key=step_of)
    (newest / "trainer_state.json").unlink()
    (killed / "eval_results.json").unlink()
    run(*arguments(killed))
    assert_same_run(whole, killed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--use_swap"], "use_swap", marks=pytest.mark.slow),
        pytest.param(["--use_tags"], "num_tags, tags", marks=pytest.mark.slow),
        (["--vocab_size", "8"], "vocab_size"),
    ],
    ids=["swap", "tags", "words"],
)
def test_folder_of_another_run_is_refused(treebank, run, tmp_path, options, message):
    run(*training(treebank, tmp_path), "--max_steps", "1")
    with pytest.raises(ValueError, match=rf"is of another run .*{message}.*choose another --output_dir"):
        run(*training(treebank, tmp_path), *options)


@pytest.mark.slow
def test_folder_of_other_labels_is_refused(treebank, run, tmp_path):
    run(*training(treebank, tmp_path), "--max_steps", "1")
    renamed = (s.with_column("deprel", [f"x{d}" for d in s.deprels]) for s in read_conllu(treebank / "train.conllu"))
    write_conllu(renamed, tmp_path / "other.conllu")
    with pytest.raises(ValueError, match=r"is of another run \(id2label differ\)"):
        run(*training(treebank, tmp_path), "--train_file", tmp_path / "other.conllu")


# Several processes


@pytest.mark.slow
@of_every_family
def test_two_processes_learn_what_one_does(treebank, family, run, tmp_path):
    arguments = training(treebank, tmp_path / "two", epochs=4, family=family)
    arguments.remove("--use_cpu")
    done = subprocess.run(command(*arguments, launcher=TORCHRUN), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("'eval_las'") == 4  # one of them talks
    run(*training(treebank, tmp_path / "one", epochs=4, family=family), "--max_tokens", "128")
    one, two = tmp_path / "one", tmp_path / "two"
    assert losses(two)[0] == pytest.approx(losses(one)[0], rel=0.1)
    arguments = ["--model_name_or_path", two, "--validation_file", treebank / "dev.conllu"]
    run(*arguments, "--output_dir", tmp_path / "again", *OPTIONS)
    for name in SCORES:  # each has evaluated its share
        assert results(two)[f"eval_{name}"] == pytest.approx(results(tmp_path / "again")[f"eval_{name}"])


# Options


CONFIGS = sorted([*EXAMPLES.glob("configs/g2g*.json"), *EXAMPLES.glob("configs/rng*.json")])


def test_columns_of_a_configuration_can_be_left_out(script, monkeypatch):
    arguments = ["--train_file", "x.conllu", "--validation_file", "y.conllu", "--output_dir", "z", "--use_cpu"]
    arguments += ["--config", "rngt-en", "--columns", "--use_lexicon", "False"]
    monkeypatch.setattr("sys.argv", ["run_parsing.py", *arguments])
    model_args, *_ = script.parse_arguments()
    assert model_args.columns == []
    monkeypatch.setattr("sys.argv", ["run_parsing.py", *arguments[:-2]])
    with pytest.raises(ValueError, match="it needs --columns lemma upos"):
        script.parse_arguments()


@pytest.mark.parametrize("config", running.config_params(CONFIGS))
def test_published_configurations_train_when_made_small(treebank, treebanks, encoder, run, tmp_path, config):
    content = json.loads(config.read_text())
    small = GRAPH_PARTS if content["model"]["model_type"] == "rng_transformer" else PARTS
    if "columns" in content["options"]:
        small = small | {"num_segmentation_layers": 1}
        treebank = treebanks
    small = small if "encoder" in content["options"] else SIZES | small
    arguments = ["--encoder", encoder, "--num_layers", "1"] if "encoder" in content["options"] else []
    run("--config", config, "--config_overrides", json.dumps(small), *arguments, *files(treebank, tmp_path))
    saved = AutoConfig.from_pretrained(tmp_path)
    assert (saved.hidden_size, saved.num_hidden_layers) == (16, 1)
    assert all(getattr(saved, name) == value for name, value in content["model"].items() if name not in small)


TREES = ["--train_file", "train.conllu", "--validation_file", "dev.conllu"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*TREES, "--model_type", "rng_transformer", "--use_swap"], "--use_swap is for a g2g_transformer"),
        (
            [*TREES, "--config", "udgn.json"],
            "trains models of the types g2g_transformer and rng_transformer",
        ),
        ([*TREES, "--encoder", "x", "--tokenizer_name", "bpe"], "--tokenizer_name is for a parser from scratch"),
        ([*TREES, "--model_name_or_path", "x", "--use_swap"], "--use_swap is for a new parser"),
        ([*TREES, "--model_name_or_path", "x", "--encoder", "y"], "--encoder is for a new parser"),
        ([*TREES, "--use_tags"], "no part-of-speech tags: leave --use_tags out"),
        ([*TREES, "--punctuation_by", "tags"], "the sentence has no tags"),
        ([*TREES, "--max_length", "1"], "train: 3 of 3 sentences left out; 3: more than 1 words"),
        (["--train_file", "text.txt", "--validation_file", "dev.conllu", "--no_labels"], "words without a head"),
        (
            ["--train_file", "text.txt", "--validation_file", "dev.conllu"],
            r"text.txt: text, words without a head: dep",
        ),
        (["--train_file", "train.conllu", "--validation_file", "text.txt"], r"text.txt: text, words without a head"),
        (["--train_file", "trees.mrg", "--validation_file", "dev.conllu"], r"trees.mrg: constituency trees, words wi"),
        ([*TREES, "--initial_train_file", "text.txt", "--model_type", "rng_transformer"], "text.txt: text, words w"),
        (
            ["--train_file", "bare.conllu", "--validation_file", "dev.conllu"],
            "bare.conllu: words without a head, in e",
        ),
        ([*TREES, "--label_smoothing_factor", "0.1"], "--label_smoothing_factor is for language models"),
        ([*TREES, "--num_layers", "3"], "--num_layers has no effect without --encoder"),
    ],
)
def test_wrong_commands(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    sentence = str(ConlluSentence.from_words(["a", "dog"], [2, 0], ["det", "root"]))
    Path("udgn.json").write_text('{"model": {"model_type": "udgn"}}')
    Path("text.txt").write_text("a dog\n" * 3)
    Path("bare.conllu").write_text("1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
    Path("trees.mrg").write_text("(S (DT a) (NN dog))\n")
    for name in ("train", "dev"):
        Path(f"{name}.conllu").write_text(3 * sentence)
    with pytest.raises(ValueError, match=message) as error:
        run(*arguments, "--output_dir", "out", "--use_cpu")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("out/checkpoint-*"))


# Columns, treebanks, sentence starts

LEMMAS = {"sees": "see", "hears": "hear"}
COLUMN_SIZES = {"column_size": 16, "num_form_buckets": 64, "form_size": 8, "num_segmentation_layers": 2}
COLUMNS = ("upos", "xpos", "feats", "lemma")
SEES = ["The", "dog", "sees", "a", "cat", "."]


def annotated(rng: random.Random, number: int, upos: dict[str, str]) -> ConlluSentence:
    """A sentence with all columns, capitalised; seven sentences make a paragraph."""
    tree = made_tree(rng)
    tree.comments = [f"# newpar id = {number}"] if number % 7 == 0 else []
    for word in tree.tokens:
        word.upos = upos[word.xpos]
        word.feats = "Number=Sing" if word.xpos == "NN" else "_"
        word.lemma = LEMMAS.get(word.form, word.form)
    tree.tokens[0].form = tree.tokens[0].form.capitalize()
    return tree


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory) -> Path:
    """A folder with a treebank (train and dev), and another whose verbs are auxiliaries."""
    folder, rng = tmp_path_factory.mktemp("treebanks"), random.Random(0)
    one = {"DT": "DET", "NN": "NOUN", "VB": "VERB", "IN": "ADP", ".": "PUNCT"}
    for name, upos, count in (("train", one, 60), ("other", one | {"VB": "AUX"}, 40), ("dev", one, 12)):
        sentences = [annotated(rng, number, upos) for number in range(count)]
        write_conllu(sentences, folder / f"{name}.conllu")
    return folder


@pytest.fixture(scope="module")
def tagger(script, treebanks, tmp_path_factory) -> Path:
    output_dir = tmp_path_factory.mktemp("tagger") / "run"
    sizes = FAMILIES["rng_transformer"] | COLUMN_SIZES | {"max_position_embeddings": 80}
    run_main(
        script,
        *("--model_type", "rng_transformer", "--config_overrides", json.dumps(sizes), "--new_learning_rate", "0.01"),
        *("--train_file", treebanks / "train.conllu", treebanks / "other.conllu", "--treebanks", "one", "other"),
        *("--validation_file", treebanks / "dev.conllu", "--output_dir", output_dir, "--num_train_epochs", "12"),
        *("--columns", *COLUMNS, "--use_lexicon", *OPTIONS, *SMALL_BATCHES, "--load_best_model_at_end", "False"),
    )
    return output_dir


def test_columns_are_learned(tagger, treebanks):
    scores = results(tagger)
    assert all(scores[f"eval_{name}"] > 0.95 for name in COLUMNS)
    assert scores["eval_sentence_starts_f1"] > 0.9
    gold = list(read_conllu(treebanks / "dev.conllu"))
    trees = [parsed.dependency for parsed in parse([sentence.forms for sentence in gold], tagger)]
    for name in COLUMNS:
        pairs = [
            (getattr(word, name), value)
            for sentence, tree in zip(gold, trees, strict=True)
            for word, value in zip(sentence.words, tree.columns[name], strict=True)
        ]
        right = sum(expected == value for expected, value in pairs) / len(pairs)
        if name in ("feats", "lemma"):  # in training counted with their part of speech, and not corrected
            assert right >= scores[f"eval_{name}"] - 1e-9
        else:
            assert right == pytest.approx(scores[f"eval_{name}"])


def test_the_lexicon_is_that_of_the_training_files(tagger):
    config = AutoConfig.from_pretrained(tagger)
    assert config.known_words["VB lower-1+"] == "hears sees"
    assert "cat" in config.known_lemmas.split()
    assert config.lexicons[0].lemma(["lower-0+"], "sees", "VERB", "VB") == "see"


def test_a_trained_parser_learns_further_columns(treebanks, run, tmp_path):
    """What it predicted before keeps its values; lemmas are looked up by UPOS where it predicts no XPOS."""
    files = ["--train_file", treebanks / "train.conllu", "--validation_file", treebanks / "dev.conllu"]
    options = [*files, *OPTIONS, *SMALL_BATCHES, "--load_best_model_at_end", "False", "--new_learning_rate", "0.01"]
    sizes = json.dumps(FAMILIES["rng_transformer"] | COLUMN_SIZES | {"num_segmentation_layers": 0})
    new = ["--model_type", "rng_transformer", "--config_overrides", sizes, "--columns", "upos"]
    run(*new, *options, "--output_dir", tmp_path / "one", "--num_train_epochs", "2")
    trained = ["--model_name_or_path", tmp_path / "one", "--num_train_epochs", "12"]
    run(*trained, "--columns", "lemma", "--use_lexicon", *options, "--output_dir", tmp_path / "two")
    config = AutoConfig.from_pretrained(tmp_path / "two")
    assert {*config.columns} == {"upos", "lemma"}
    assert config.columns["upos"] == AutoConfig.from_pretrained(tmp_path / "one").columns["upos"]
    assert config.known_words["VERB lower-1+"] == "hears sees"
    assert results(tmp_path / "two")["eval_lemma"] > 0.95
    assert parse([SEES], tmp_path / "two")[0].dependency.columns["lemma"][2] == "see"


def test_some_modules_learn_and_the_others_keep_their_weights(tagger, treebanks, run, tmp_path):
    """Running text is left out: alone in a batch, it has nothing to teach a tagger."""
    files = ["--train_file", treebanks / "other.conllu", "--validation_file", treebanks / "dev.conllu"]
    options = [*files, "--output_dir", tmp_path / "run", "--num_train_epochs", "1", *OPTIONS, *SMALL_BATCHES]
    trained = ["--model_name_or_path", tagger, "--new_learning_rate", "0.01", *options]
    run(*trained, "--train_only", "tagger.columns.upos", "tagger.hidden")
    before, after = (load_file(folder / "model.safetensors") for folder in (tagger, tmp_path / "run"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {f"tagger.{part}.{kind}" for part in ("columns.upos", "hidden") for kind in ("weight", "bias")}
    learned = sum(after[name].numel() for name in changed)
    card = (tmp_path / "run" / "README.md").read_text()
    assert f"| parameters that learn | {learned:,} |" in card
    assert "| learning rate | 0.01 |" in card
    message = r"tagger.dropout, taggr cannot be trained\. .* are rng_transformer, .*, tagger, segmenter, and their"
    with pytest.raises(ValueError, match=message):
        run(*trained, "--train_only", "taggr", "tagger.dropout", "--output_dir", tmp_path / "other")


def test_sentences_that_teach_the_modules_nothing_are_left_out(tagger, treebank, treebanks, run, tmp_path):
    files = ["--train_file", treebanks / "train.conllu", "--validation_file", treebanks / "dev.conllu"]
    options = ["--num_train_epochs", "1", *OPTIONS, *SMALL_BATCHES, "--train_only", "segmenter"]
    trained = ["--model_name_or_path", tagger, "--new_learning_rate", "0.01", *options]
    run(*trained, *files, "--output_dir", tmp_path / "run")
    before, after = (load_file(folder / "model.safetensors") for folder in (tagger, tmp_path / "run"))
    changed = {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"segmenter"}
    files[1] = treebank / "train.conllu"
    with pytest.raises(ValueError, match="train: 60 of 60 sentences left out; 60: nothing to learn for segmenter"):
        run(*trained, *files, "--output_dir", tmp_path / "other")


@pytest.mark.slow
def test_two_processes_train_some_modules(tagger, treebanks, tmp_path):
    files = ["--train_file", treebanks / "train.conllu", "--validation_file", treebanks / "dev.conllu"]
    options = [*files, "--output_dir", tmp_path / "run", "--num_train_epochs", "1", *SMALL_BATCHES]
    arguments = ["--model_name_or_path", tagger, *options, "--train_only", "segmenter"]
    done = subprocess.run(command(*arguments, launcher=TORCHRUN), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_columns_reach_words_and_conllu(tagger):
    tree = parse([SEES], tagger)[0].dependency
    verb = list(tree)[2]
    assert (verb.upos, verb.xpos, verb.lemma, verb.feats) == ("VERB", "VB", "see", {})
    assert list(tree)[1].feats == {"Number": "Sing"}
    line = next(line for line in tree.to_conllu().splitlines() if line.startswith("3\t"))
    assert line.split("\t")[2:6] == ["see", "VERB", "VB", "_"]


def test_habits_of_a_treebank_are_followed(tagger):
    assert parse([SEES], tagger, treebank="one")[0].dependency.columns["upos"][2] == "VERB"
    assert parse([SEES], tagger, treebank="other")[0].dependency.columns["upos"][2] == "AUX"
    with pytest.raises(ValueError, match="treebank must be one of one, other, not 'third'"):
        parse([SEES], tagger, treebank="third")
    with pytest.raises(ValueError, match="leave treebank out"):
        parse([SEES], "udgn-en", treebank="one")


def test_sentences_that_the_model_finds(tagger):
    text = "The dog sees a cat . A bird hears the mouse .\n\n  the bird sees a dog  "
    parses = parse(text, tagger, sentences="model")
    assert [text[p.start : p.start + len(p.text)] for p in parses] == [p.text for p in parses]
    assert [p.text for p in parses] == ["The dog sees a cat .", "A bird hears the mouse .", "the bird sees a dog"]
    long = "The dog sees a cat . A bird hears the mouse . " * 60
    assert len(parse(long, tagger, sentences="model")) == 120
    assert len(parse("", tagger, sentences="model")) == 0
    with pytest.raises(ValueError, match="finds no sentences: sentences='split'"):
        parse(text, "udgn-en", sentences="model")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--treebanks", "one"], "--treebanks names 1 treebanks, one for each training file: there are 2"),
        (["--model_type", "g2g_transformer", "--columns", "upos"], "--columns is for a rng_transformer"),
        (["--columns", "lemma", "--use_lexicon"], "it needs --columns lemma upos"),
    ],
)
def test_wrong_commands_of_columns(treebanks, run, tmp_path, options, message):
    training = [
        "--train_file",
        treebanks / "train.conllu",
        treebanks / "other.conllu",
        "--output_dir",
        tmp_path / "run",
    ]
    training += ["--validation_file", treebanks / "dev.conllu"]
    with pytest.raises(ValueError, match=message):
        run("--model_type", "rng_transformer", *training, *OPTIONS, *options)


# A teacher


def with_bare_treebank(folder: Path, treebanks: Path) -> list[Path]:
    """Files of two treebanks, the second without tags."""
    one, other = (list(read_conllu(treebanks / f"{name}.conllu")) for name in ("train", "other"))
    one[0] = one[0].with_column("upos", ["AUX"] * len(one[0].words))  # a tag that there is
    other = [sentence.with_column("upos", ["_"] * len(sentence.words)) for sentence in other]
    files = [folder / "one.conllu", folder / "other.conllu"]
    for sentences, file in zip((one, other), files, strict=True):
        write_conllu(sentences, file)
    return files


def of_student(files: list[Path], treebanks: Path, output_dir: Path, epochs: int = 12) -> list:
    sizes = FAMILIES["rng_transformer"] | COLUMN_SIZES | {"max_position_embeddings": 120}
    return [
        *("--model_type", "rng_transformer", "--config_overrides", json.dumps(sizes), "--new_learning_rate", "0.01"),
        *("--train_file", *files, "--treebanks", "one", "other", "--columns", "upos", "xpos", *OPTIONS),
        *("--validation_file", treebanks / "dev.conllu", "--output_dir", output_dir, *SMALL_BATCHES),
        *("--num_train_epochs", str(epochs), "--load_best_model_at_end", "False"),
    ]


@pytest.mark.slow  # test_distillation.py shows the same without the script
def test_tags_are_learned_from_a_teacher(tagger, treebanks, run, tmp_path):
    """Only the teacher knows that the verbs of a treebank without tags are auxiliaries."""
    files = with_bare_treebank(tmp_path, treebanks)
    run(*of_student(files, treebanks, tmp_path / "run"), "--teacher", tagger, "--teacher_columns", "upos")
    trees = [parse([SEES], tmp_path / "run", treebank=name)[0].dependency for name in ("one", "other")]
    assert [tree.columns["upos"][2] for tree in trees] == ["VERB", "AUX"]
    assert results(tmp_path / "run")["eval_sentence_starts_f1"] > 0.9


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("g2g_transformer", ["--teacher", "rngt-en-fast"], "--teacher is for a rng_transformer"),
        ("rng_transformer", ["--teacher", "g2gt-en-ewt"], "g2gt-en-ewt: not a rng_transformer that reads words alone"),
        ("rng_transformer", ["--teacher", "rngt-en-fast", "--teacher_columns", "xpos"], "do not both predict xpos"),
        ("rng_transformer", ["--teacher_columns", "upos"], "--teacher_columns has no effect without --teacher"),
    ],
)
def test_wrong_teachers(treebank, run, tmp_path, family, options, message):
    arguments = training(treebank, tmp_path / "run", family=family)
    with pytest.raises(ValueError, match=message):
        run(*arguments, *options)


def test_a_teacher_needs_something_to_teach(tagger, treebanks, run, tmp_path):
    evaluation = ["--model_name_or_path", tagger, "--test_file", treebanks / "dev.conllu", "--output_dir", tmp_path]
    with pytest.raises(ValueError, match="--teacher has no effect without --train_file"):
        run(*evaluation, "--teacher", tagger, *OPTIONS)


def test_sentences_that_are_too_long_for_a_teacher(tagger, treebanks, run, tmp_path):
    files = with_bare_treebank(tmp_path, treebanks)
    long = ConlluSentence.from_words(["a"] * 90, range(90), ["root", *["det"] * 89])
    write_conllu([*read_conllu(files[0]), long], files[0])
    arguments = [*of_student(files, treebanks, tmp_path / "run", epochs=1), "--teacher", tagger]
    with pytest.raises(
        ValueError, match="reads at most 78 words or pieces; a training sentence has 90: give a smaller"
    ):
        run(*arguments)
    run(*arguments, "--max_length", "78")


# Folders of treebanks


@pytest.fixture(scope="module")
def ud(treebanks, tmp_path_factory) -> Path:
    """A folder with two invented treebanks, compressed and in a folder below; the verbs of one are auxiliaries."""
    folder, rng = tmp_path_factory.mktemp("ud"), random.Random(0)
    (folder / "below").mkdir()
    one = {"DT": "DET", "NN": "NOUN", "VB": "VERB", "IN": "ADP", ".": "PUNCT"}
    for name, upos, count in (("aa_one", one, 32), ("below/bb_two", one | {"VB": "AUX"}, 24)):
        for part, number in (("train", count), ("dev", 6), ("test", 4)):
            sentences = [annotated(rng, number, upos) for number in range(number)]
            for sentence in sentences:
                sentence.comments.append(f"# text = {' '.join(sentence.forms)}")
            write_conllu(sentences, folder / f"{name}-ud-{part}.conllu.xz")
    write_conllu([made_tree(rng)], folder / "notes.conllu")
    return folder


def on_folder(folder: Path, output_dir: Path, *options: object, epochs: int = 8) -> list[str]:
    sizes = FAMILIES["rng_transformer"] | {"column_size": 16, "num_rounds": 1, "treebank_dropout": 0.25}
    new = ("--model_type", "rng_transformer", "--config_overrides", json.dumps(sizes), "--columns", "upos")
    parts = ("--train_file", folder, "--validation_file", folder, "--new_learning_rate", "0.02")
    rest = ("--output_dir", output_dir, "--num_train_epochs", epochs, "--sampling_power", "0.5", "--max_tokens", "48")
    return list(map(str, (*new, *parts, *rest, "--use_cpu", "--min_frequency", "1", *options)))


@pytest.fixture(scope="module")
def of_folder(ud, script, tmp_path_factory) -> Path:
    output_dir = tmp_path_factory.mktemp("of folder") / "run"
    arguments = on_folder(ud, output_dir, "--test_file", ud, "--tell_treebank")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["run_parsing.py", *arguments])
        script.main()
    return output_dir


def table(path: Path) -> dict[str, dict[str, float]]:
    """A table of Markdown, by its first column."""
    names, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in path.read_text().splitlines())
    return {name: {key: float(cell or 0) for key, cell in zip(names[1:], row, strict=True)} for name, *row in rows}


@pytest.mark.slow
def test_folder_of_treebanks(of_folder):
    config = AutoConfig.from_pretrained(of_folder)
    assert (config.treebanks, config.treebank_dropout) == (["any", "aa_one", "bb_two"], 0.25)
    for part in ("eval", "test"):
        rows = table(of_folder / f"{part}_treebanks.md")
        assert list(rows) == ["aa_one", "bb_two", "mean"]
        assert list(rows["mean"]) == ["uas", "las", "upos"]
        scores = results(of_folder, part)
        for name, value in rows["mean"].items():
            assert value == pytest.approx((rows["aa_one"][name] + rows["bb_two"][name]) / 2, abs=0.01)
            assert scores[f"{part}_mean_{name}"] == pytest.approx(value / 100, abs=1e-4)
        assert min(row["upos"] for row in rows.values()) > 95, "each was told its treebank"
    assert results(of_folder)["eval_mean_las"] == max(losses(of_folder, "eval_mean_las"))


def test_treebank_need_not_be_told(of_folder, ud, run, tmp_path):
    assert parse([SEES], of_folder, treebank="aa_one")[0].dependency.columns["upos"][2] == "VERB"
    assert parse([SEES], of_folder, treebank="bb_two")[0].dependency.columns["upos"][2] == "AUX"
    assert parse([SEES], of_folder)[0].dependency.columns["upos"][2] in ("VERB", "AUX")
    run("--model_name_or_path", of_folder, "--test_file", ud, "--output_dir", tmp_path, "--use_cpu")
    rows = table(tmp_path / "test_treebanks.md")
    assert min(row["upos"] for row in rows.values()) < 95, "untold, both are parsed alike"
    assert min(row["uas"] for row in rows.values()) > 80


def test_scores_of_a_table_are_those_of_each_file(of_folder, ud, run, tmp_path):
    files = [ud / "aa_one-ud-dev.conllu.xz", ud / "below" / "bb_two-ud-dev.conllu.xz"]
    rows = table(of_folder / "eval_treebanks.md")
    for file in files:
        name = file.name.partition("-ud-")[0]
        model = ("--model_name_or_path", of_folder, "--output_dir", tmp_path / name, "--use_cpu", "--tell_treebank")
        run(*model, "--test_file", file)
        for score, value in rows[name].items():
            assert results(tmp_path / name, "test")[f"test_{score}"] == pytest.approx(value / 100, abs=1e-4)


@pytest.mark.parametrize("told", [True, False])
def test_table_of_test_parts(of_folder, ud, run, tmp_path, told, capsys):
    """`examples/evaluate_treebanks.py`, beside the scores of training. These labels have no subtypes."""
    tell = ["--tell_treebank"] if told else []
    folder = of_folder
    if not told:
        folder = tmp_path
        run("--model_name_or_path", of_folder, "--test_file", ud, "--output_dir", tmp_path, "--use_cpu")
    output = tmp_path / "table.md"
    load_script("evaluate_treebanks").main([str(ud), "--model", str(of_folder), "--output", str(output), *tell])
    rows = table(output)
    expected = table(folder / "test_treebanks.md")
    assert rows.keys() == expected.keys()
    assert (rows["aa_one"]["train"], rows["bb_two"]["train"]) == (32, 24)
    for treebank, values in expected.items():
        for name, value in values.items():
            assert rows[treebank][name.upper()] == pytest.approx(value, abs=0.06)
    assert "words of 2 treebanks" in capsys.readouterr().out


def test_table_of_raw_text(of_folder, ud, tmp_path):
    options = ["--raw", "--word_tokenizer", "spaces", "--max_sentences", "3", "--output", str(tmp_path / "table.md")]
    load_script("evaluate_treebanks").main([str(ud), "--model", str(of_folder), *options])
    rows = table(tmp_path / "table.md")
    assert list(rows["mean"]) == ["train", "Sentences", "Words", "UAS", "LAS", "UPOS"]
    assert rows["aa_one"]["Words"] == 100


def test_raw_text_is_needed(of_folder, tmp_path, capsys):
    (tmp_path / "aa_one-ud-test.conllu").write_text("1\tw\t_\tX\t_\t_\t0\troot\t_\t_\n\n", "utf-8")
    options = ["--raw", "--model", str(of_folder), "--output", str(tmp_path / "table.md")]
    with pytest.raises(SystemExit):
        load_script("evaluate_treebanks").main([str(tmp_path), *options])
    assert "aa_one-ud-test.conllu:1: a sentence without '# text', which --raw reads" in capsys.readouterr().err


def test_sentence_that_is_too_long_is_a_chain(of_folder, tmp_path, capsys):
    number = AutoConfig.from_pretrained(of_folder).max_position_embeddings
    rows = [f"{i}\tw\t_\tX\t_\t_\t{i - 1}\t{'dep' if i > 1 else 'root'}\t_\t_\n" for i in range(1, number + 1)]
    (tmp_path / "aa_one-ud-test.conllu").write_text("".join([*rows, "\n"]), "utf-8")
    options = ["--model", str(of_folder), "--output", str(tmp_path / "table.md")]
    load_script("evaluate_treebanks").main([str(tmp_path), *options])
    scores = table(tmp_path / "table.md")["aa_one"]
    assert (scores["UAS"], scores["LAS"], scores["UPOS"]) == (100, 100, 0)
    assert "scored as chains: 1" in capsys.readouterr().out


def test_parser_goes_on_with_a_treebank_that_it_does_not_know(of_folder, treebank, run, tmp_path):
    run("--model_name_or_path", of_folder, *files(treebank, tmp_path))
    assert AutoConfig.from_pretrained(tmp_path).treebanks == ["any", "aa_one", "bb_two"]


def test_the_lexicon_of_a_folder_has_all_of_its_treebanks(of_folder, ud, run, tmp_path):
    trained = ["--model_name_or_path", of_folder, "--train_file", ud, "--validation_file", ud, "--max_steps", "1"]
    run(*trained, "--columns", "lemma", "--use_lexicon", *OPTIONS, "--output_dir", tmp_path / "lemmas")
    config = AutoConfig.from_pretrained(tmp_path / "lemmas")
    assert {*config.known_words} == {*config.known_lemmas} == {"aa", "bb"}
    for words, lexicon in zip(config.known_words.values(), config.lexicons, strict=True):
        assert "cat" in words["NOUN lower-0+"].split()
        tag = "VERB" if "VERB lower-1+" in words else "AUX"
        assert words[f"{tag} lower-1+"] == "hears sees"
        assert lexicon.lemma(["lower-0+"], "sees", tag, tag) == "see"


def test_transition_parser_of_a_folder(ud, run, tmp_path):
    sizes = ("--config_overrides", json.dumps(SMALL), "--output_dir", tmp_path, "--num_train_epochs", "1")
    run("--train_file", ud, "--validation_file", ud, *sizes, *OPTIONS, "--sampling_power", "0.5", "--use_swap")
    assert list(table(tmp_path / "eval_treebanks.md")) == ["aa_one", "bb_two", "mean"]


@pytest.mark.slow
def test_killed_run_on_a_folder_goes_on_with_the_same_losses(ud, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = ("--logging_steps", "1", "--load_best_model_at_end", "False")
    subprocess.run(command(*on_folder(ud, whole, *options, epochs=3)), check=True, env=ENVIRONMENT)
    start_and_kill(command(*on_folder(ud, killed, *options, epochs=3)), killed)
    subprocess.run(command(*on_folder(ud, killed, *options, epochs=3)), check=True, env=ENVIRONMENT)
    assert_same_run(whole, killed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--treebanks", "one"], "--treebanks is for training files: the treebanks of .* have names"),
        (["--sampling_power", "2"], "--sampling_power must be between 0 and 1, not 2.0"),
        (["--train_file", "FOLDER/notes.conllu"], "--sampling_power needs several training treebanks"),
        (["--test_file", "EMPTY"], "no treebanks in this folder, files like de_gsd-ud-test.conllu"),
        (["--validation_file", "FOLDER/notes.conllu", "--tell_treebank"], "--tell_treebank needs files to evaluate"),
        (["--model_type", "g2g_transformer", "--tell_treebank"], "this parser does not tell treebanks apart"),
        (
            ["--model_type", "rng_transformer", "--config_overrides", '{"treebank_dropout": 2}'],
            "treebank_dropout must",
        ),
    ],
)
def test_wrong_commands_of_folders(ud, run, tmp_path, options, message):
    (tmp_path / "empty").mkdir()
    options = [option.replace("FOLDER", str(ud)).replace("EMPTY", str(tmp_path / "empty")) for option in options]
    parts = ["--train_file", ud, "--validation_file", ud, "--output_dir", tmp_path / "run", "--sampling_power", "0.5"]
    with pytest.raises(ValueError, match=message):
        run(*parts, "--use_cpu", *options)


def test_treebanks_that_a_parser_does_not_know(of_folder, treebank, run, tmp_path):
    with pytest.raises(ValueError, match="--treebanks: this parser does not know cc_three"):
        run("--model_name_or_path", of_folder, *files(treebank, tmp_path), "--treebanks", "cc_three")


def test_layers_on_top_of_an_encoder_learn_as_what_is_new(script):
    tokens = SimpleNamespace(cls_token_id=2, sep_token_id=3, unk_token_id=1)
    model = RNGTransformerForParsing.from_pretrained_encoder(encoder_of_its_own("electra"), tokens)
    new = script.new_parameters(model, SimpleNamespace(encoder="electra", model_name_or_path=None))
    names = [name for name, _ in model.named_parameters()]
    assert new == [name for name in names if not name.startswith("rng_transformer.encoder.")]
    assert "rng_transformer.layers.0.output.weight" in new
    assert len(new) < len(names)
