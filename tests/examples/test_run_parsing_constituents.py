"""`examples/run_parsing.py` with constituency trees."""

import json
import random
from pathlib import Path

import pytest
from running import load_script, made_sentence, results, run_main

from hf_structure import RNGTransformerForParsing, parse
from hf_structure.algorithms.trees import heads_to_spans
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.text.conllu import ConlluSentence, write_conllu

DEPRELS = ["det", "nsubj", "root", "det", "obj", "case", "det", "nmod"]
PHRASES = {"NN": ["NP"], "VB": ["S", "VP"]}  # by the tag of the head; a unary chain for the whole sentence
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 24,
    "arc_size": 16,
    "label_size": 8,
    "constituent_size": 16,
    "num_rounds": 1,
    "decoder_dropout": 0.0,
}
OPTIONS = ["--use_cpu", "--max_tokens", "64", "--min_frequency", "1", "--new_learning_rate", "0.01"]


def brackets(words, tags, heads) -> str:
    """Each yield of a noun or verb is a constituent."""
    spans = []
    labels = []
    for tag, span in zip(tags, heads_to_spans(heads), strict=True):
        for label in PHRASES.get(tag, []):
            spans.append(span)
            labels.append(label)
    return ConstituencyTree(words, spans, labels, tags).to_brackets()


@pytest.fixture(scope="module")
def treebank(tmp_path_factory) -> Path:
    """Both trees of each sentence, and constituency trees alone of others."""
    folder = tmp_path_factory.mktemp("treebank")
    rng = random.Random(0)
    for name, count in (("train", 60), ("dev", 12), ("more", 10)):
        made = [made_sentence(rng) for _ in range(count)]
        sentences = [
            ConlluSentence.from_words(words, heads, [*DEPRELS[: len(words) - 1], "punct"], tags)
            for words, tags, heads in made
        ]
        write_conllu(sentences, folder / f"{name}.conllu")
        (folder / f"{name}.mrg").write_text("\n".join(brackets(*sentence) for sentence in made) + "\n")
    return folder


def training(treebank: Path, output_dir: Path, *arguments: object) -> None:
    files = {
        "--train_file": treebank / "train.conllu",
        "--validation_file": treebank / "dev.conllu",
        "--validation_constituents": treebank / "dev.mrg",
        "--output_dir": output_dir,
    }
    options = [str(value) for pair in files.items() for value in pair]
    run_main(load_script("run_parsing"), *options, *OPTIONS, *arguments)


def test_learns_both_trees(treebank, tmp_path, caplog):
    trees = [str(treebank / "train.mrg"), str(treebank / "more.mrg")]
    new = ["--model_type", "rng_transformer", "--config_overrides", json.dumps(SIZES)]
    with caplog.at_level("INFO", logger="hf_structure"):
        training(treebank, tmp_path, *new, "--num_train_epochs", "12", "--constituents", *trees)
    assert "60 sentences have constituents too, 10 these alone" in caplog.text
    scores = results(tmp_path)
    assert scores["eval_las"] > 0.9
    assert scores["eval_constituents_f1"] > 0.9
    model = RNGTransformerForParsing.from_pretrained(tmp_path)
    assert model.config.constituents == ["NP", "S+VP"]
    parsed = parse("the dog sees a cat .", tmp_path, structure="both")
    assert parsed.constituency.spans == ((0, 6), (0, 6), (0, 2), (3, 5))
    assert parsed.constituency.labels == ("S", "VP", "NP", "NP")
    assert parsed.constituency.probabilities[0] == parsed.constituency.probabilities[1] > 0.5
    assert parsed.dependency == parse("the dog sees a cat .", tmp_path, structure="dependency").dependency


def test_learns_functions(treebank, tmp_path):
    for name in ("train", "dev"):
        # The first noun phrase is the subject, with an index, as if a trace were elsewhere.
        trees = (treebank / f"{name}.mrg").read_text().splitlines()
        lines = [f"{line.replace('(NP ', '(NP-SBJ-1 ', 1)}\n" for line in trees]
        (tmp_path / f"{name}.mrg").write_text("".join(lines))
    new = ["--model_type", "rng_transformer", "--config_overrides", json.dumps(SIZES), "--num_train_epochs", "12"]
    brackets = ["--constituents", tmp_path / "train.mrg", "--validation_constituents", tmp_path / "dev.mrg"]
    training(treebank, tmp_path / "model", *new, *brackets, "--functions")
    assert results(tmp_path / "model")["eval_constituents_f1"] > 0.9
    tree = parse("the dog sees a cat .", tmp_path / "model", structure="constituency").constituency
    assert tree.labels == ("S", "VP", "NP-SBJ", "NP")
    tagged = ConstituencyTree(tree.words, tree.spans, tree.labels, ["DT", "NN", "VBZ", "DT", "NN", "."])
    assert tagged.to_heads() == [2, 3, 0, 5, 3, 3]


def test_functions_without_constituents(treebank, tmp_path):
    options = ["--train_file", treebank / "train.conllu", "--validation_file", treebank / "dev.conllu", "--functions"]
    with pytest.raises(ValueError, match="--functions has no effect without --constituents"):
        run_main(load_script("run_parsing"), *options, "--output_dir", tmp_path)


def test_copies_as_people_type_them(treebank, tmp_path):
    new = ["--model_type", "rng_transformer", "--config_overrides", json.dumps(SIZES), "--num_train_epochs", "1"]
    trees = ["--constituents", treebank / "more.mrg"]
    steps = []
    # No sentence has capitals: copies in lower case would be the same, and are left out.
    for number, copies in enumerate(([], ["lower=1"], ["bare=1", "upper=1"])):
        training(treebank, tmp_path / str(number), *new, *trees, "--typed_copies", *copies)
        steps.append(json.loads((tmp_path / str(number) / "trainer_state.json").read_text())["global_step"])
    assert steps[0] == steps[1]
    # Without their full stops, sentences are shorter.
    assert 2 * steps[0] < steps[2] <= 3 * steps[0]


def test_a_trained_parser_learns_constituents(treebank, tmp_path):
    new = ["--model_type", "rng_transformer", "--config_overrides", json.dumps(SIZES)]
    training(treebank, tmp_path / "first", *new, "--num_train_epochs", "1")
    assert "eval_constituents_f1" not in results(tmp_path / "first")
    old = ["--model_name_or_path", tmp_path / "first", "--num_train_epochs", "1"]
    trees = ["--constituents", treebank / "train.mrg"]
    # The width of the new weights can be chosen, their labels are those of the trees.
    sizes = ["--config_overrides", '{"constituent_size": 8}']
    training(treebank, tmp_path / "second", *old, *trees, *sizes)
    model = RNGTransformerForParsing.from_pretrained(tmp_path / "second")
    assert model.config.constituents == ["NP", "S+VP"]
    assert model.constituents.start.out_features == 8
    again = ["--model_name_or_path", tmp_path / "second", "--num_train_epochs", "1"]
    training(treebank, tmp_path / "third", *again, "--constituents", treebank / "more.mrg")
    assert RNGTransformerForParsing.from_pretrained(tmp_path / "third").config.constituents == ["NP", "S+VP"]


def test_a_family_without_constituents(treebank, tmp_path):
    with pytest.raises(ValueError, match="--constituents is for a rng_transformer"):
        training(treebank, tmp_path, "--model_type", "g2g_transformer", "--constituents", treebank / "train.mrg")


def test_brackets_without_labels(treebank, tmp_path):
    (tmp_path / "bare.mrg").write_text("((the dog) (sees it))\n")
    with pytest.raises(ValueError, match="no labels of constituents"):
        training(treebank, tmp_path, "--model_type", "rng_transformer", "--constituents", tmp_path / "bare.mrg")


def test_a_trained_parser_of_a_family_without_constituents(treebank, tmp_path, g2g_transformer):
    with pytest.raises(ValueError, match="--constituents is for a rng_transformer"):
        training(treebank, tmp_path, "--model_name_or_path", g2g_transformer, "--constituents", treebank / "train.mrg")
