"""Parsing with a model that predicts constituents beside dependencies."""

import json
import math
from itertools import combinations, product

import pytest
import torch
from nested import assert_alike
from tiny_models import new_rng_transformer
from transformers import AutoTokenizer, pipeline

from hf_structure import Annotator, Parse, Parser, RNGTransformerForParsing, build_word_tokenizer, parse
from hf_structure.algorithms.chart import span_index
from hf_structure.cli.main import main
from hf_structure.models.rng_transformer.constituents_rng_transformer import RNGTransformerConstituents
from hf_structure.parsing.sentence_pipeline import ConstituencySentencePipeline, DependencySentencePipeline

WORDS = ["the", "old", "cat", "slept", "."]
CHAINS = ["NP", "S+VP", "VP"]
SENTENCES = [["the", "old", "cat", "slept"], ["cat"], ["the", "cat", "slept"]]


def new_model(folder, **options):
    settings = {"constituents": CHAINS, "constituent_size": 8, "columns": {"xpos": ["DT", "JJ", "NN"]}}
    return new_rng_transformer(folder, build_word_tokenizer(WORDS, **options), **settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return new_model(tmp_path_factory.mktemp("constituents"))


@pytest.fixture(scope="module")
def without_marks(tmp_path_factory):
    """A model that does not see punctuation."""
    return new_model(tmp_path_factory.mktemp("without_marks"), skip_punctuation=True)


@pytest.fixture
def no_chart(monkeypatch):
    """Constituents cannot be decoded: they cost time where nobody asks for them."""

    def refuse(*_):
        raise AssertionError("constituents are decoded")

    monkeypatch.setattr(RNGTransformerConstituents, "decode", refuse)


def chain_trees(parsed: Parse) -> set[tuple[int, int, str]]:
    """The constituents of a tree, each chain once."""
    chains: dict[tuple[int, int], list[str]] = {}
    for span, label in zip(parsed.spans, parsed.labels, strict=True):
        chains.setdefault(span, []).append(label)
    return {(*span, "+".join(labels)) for span, labels in chains.items()}


@torch.no_grad()
def all_trees(folder, words: list[str]) -> list[tuple[float, set[tuple[int, int, str]]]]:
    """All trees of a sentence with their log-probabilities, best first, by choosing a label or none for each span."""
    model = RNGTransformerForParsing.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer.convert_tokens_to_ids(words)])
    sentences, _ = model.read_words(ids, torch.ones_like(ids))
    scores, _, _ = model.refine(sentences, None, "tree", None)
    values = model.constituents(scores.vectors, sentences.lengths)[0].double()
    n = len(words)
    spans = [(start, end) for start in range(n) for end in range(start + 1, n + 1)]
    trees = []
    for labels in product([None, *CHAINS], repeat=len(spans)):
        tree = {(*span, label) for span, label in zip(spans, labels, strict=True) if label}
        crosses = any(a < c < b < d or c < a < d < b for (a, b, _), (c, d, _) in combinations(tree, 2))
        if not crosses and (n == 1 or any((a, b) == (0, n) for a, b, _ in tree)):
            score = sum(values[span_index(a, b, n), CHAINS.index(label)].item() for a, b, label in tree)
            trees.append((score, tree))
    total = math.log(sum(math.exp(score) for score, _ in trees))
    return sorted(((score - total, tree) for score, tree in trees), key=lambda pair: -pair[0])


@pytest.mark.parametrize("words", [["cat"], ["old", "cat"], ["the", "cat", "slept"]])
def test_best_trees_against_enumeration(folder, words):
    expected = all_trees(folder, words)[:5]
    parsed = parse([words], folder, structure="constituency", k=5)[0]
    assert len(parsed.alternatives) == len(expected)
    for tree, (log_prob, constituents) in zip(parsed.alternatives, expected, strict=True):
        assert chain_trees(tree) == constituents
        assert tree.log_probability == pytest.approx(log_prob, abs=1e-5)
    assert parsed.constituency == parsed.alternatives[0]
    assert parsed.dependency is None


def test_probabilities_of_all_trees(folder):
    """Each constituent's probability is the sum of those of the trees that have it."""
    words = ["the", "cat"]
    parsed = parse([words], folder, structure="constituency", k=1000)[0]
    assert len(parsed.alternatives) == 3 * 4 * 4  # all there are
    trees = [(math.exp(tree.log_probability), chain_trees(tree)) for tree in parsed.alternatives]
    assert sum(probability for probability, _ in trees) == pytest.approx(1, abs=1e-5)
    for tree in parsed.alternatives[:3]:
        for (start, end), probability in zip(tree.spans, tree.probabilities, strict=True):
            [chain] = [label for a, b, label in chain_trees(tree) if (a, b) == (start, end)]
            expected = sum(share for share, constituents in trees if (start, end, chain) in constituents)
            assert probability == pytest.approx(expected, abs=1e-5)


def test_batches_change_no_tree(folder):
    together = parse(SENTENCES, folder, structure="constituency", k=4)
    for words, parsed in zip(SENTENCES, together, strict=True):
        [alone] = parse([words], folder, structure="constituency", k=4)
        for one, other in zip(parsed.alternatives, alone.alternatives, strict=True):
            assert (one.spans, one.labels, one.tags) == (other.spans, other.labels, other.tags)
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)


def test_alternatives_are_kept_in_json_and_printed(folder):
    parsed = parse([SENTENCES[0]], folder, structure="constituency", k=3)[0]
    assert Parse.from_dict(json.loads(json.dumps(parsed.to_dict()))) == parsed
    printed = str(parsed)
    for rank, tree in enumerate(parsed.alternatives, start=1):
        assert f"{rank}. probability {math.exp(tree.log_probability):.3g}\n{tree}" in printed


def test_alternatives_of_both_trees_are_dependencies(folder):
    parsed = parse([SENTENCES[0]], folder, structure="both", k=3)[0]
    assert parsed.alternatives == parse([SENTENCES[0]], folder, k=3)[0].alternatives
    assert parsed.constituency == parse([SENTENCES[0]], folder, structure="constituency")[0].constituency
    assert Parse.from_dict(parsed.to_dict()) == parsed


@pytest.mark.parametrize(("structure", "k"), [(None, 1), ("dependency", 2), ("constituency", 3), ("both", 2)])
def test_pipelines_give_the_same(folder, structure, k):
    model = RNGTransformerForParsing.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    expected = parse(SENTENCES, folder, structure=structure, k=k).to_dict()
    kind = "constituency" if structure == "constituency" else "dependency"
    options = {"structure": structure, "k": k}
    assert_alike(pipeline(f"{kind}-parsing", model=str(folder))(SENTENCES, **options), expected, abs=1e-5)
    classes = {"constituency": ConstituencySentencePipeline, "dependency": DependencySentencePipeline}
    exported = classes[kind](model=model, tokenizer=tokenizer)
    for parsed in expected:
        if parsed["constituency"] is not None:
            # Exported code gives the best tree alone; the tags are columns of the dependency tree.
            parsed["constituency"]["tags"] = None
            parsed["alternatives"] *= parsed["dependency"] is not None
    assert_alike(exported(SENTENCES, batch_size=3, **options), expected, abs=1e-5)


# Constituents cost time: nobody gets them without asking


def test_dependencies_are_the_default(folder, no_chart):
    parser = Parser(folder)
    assert parser.structures == ("dependency",)
    assert parser([SENTENCES[0]])[0].constituency is None
    assert pipeline("dependency-parsing", model=str(folder))(SENTENCES)[0]["constituency"] is None
    exported = DependencySentencePipeline(
        model=RNGTransformerForParsing.from_pretrained(folder), tokenizer=AutoTokenizer.from_pretrained(folder)
    )
    assert exported("the cat slept")["constituency"] is None
    rows = Annotator(folder, format="conllu")({"text": ["the cat slept"]})
    assert rows["error"] == [None]
    with pytest.raises(AssertionError, match="constituents are decoded"):
        parse(SENTENCES, folder, structure="both")


@pytest.mark.parametrize("form", ["text", "json", "conllu", "svg"])
def test_commands_leave_constituents_out(folder, no_chart, tmp_path, capsys, form):
    text = tmp_path / "a.txt"
    text.write_text("the old cat slept\n")
    main(["parse", str(text), "--model", str(folder), "--format", form])
    assert capsys.readouterr().out
    with pytest.raises(AssertionError, match="constituents are decoded"):
        main(["parse", str(text), "--model", str(folder), "--format", "brackets"])


@pytest.mark.parametrize("form", ["text", "json", "html", "svg", "tikz"])
def test_commands_give_the_best_trees(folder, tmp_path, capsys, form):
    text = tmp_path / "a.txt"
    text.write_text("the old cat slept\n")
    main(["parse", str(text), "--model", str(folder), "--structure", "constituency", "-k", "3", "--format", form])
    written = capsys.readouterr().out
    parsed = parse("the old cat slept", folder, structure="constituency", k=3)
    if form == "json":
        assert_alike(json.loads(written)["alternatives"], parsed.to_dict()["alternatives"], abs=1e-5)
    elif form == "text":
        assert str(parsed) in written
    else:
        for tree in parsed.alternatives[1:]:
            drawn = tree.to_tikz() if form == "tikz" else tree.to_svg(width=800 if form == "html" else None)
            assert drawn in written


def test_words_of_the_penn_treebank_on_request(folder, tmp_path, capsys):
    text = tmp_path / "a.txt"
    text.write_text('the [ cat ] slept "\n')
    command = ["parse", str(text), "--model", str(folder), "--input_format", "words", "--format"]
    main([*command, "brackets"])
    plain = capsys.readouterr().out
    assert " [)" in plain
    main([*command, "brackets", "--ptb_words"])
    expected = plain.replace(" [)", " -LSB-)").replace(" ])", " -RSB-)").replace(' ")', " ``)")
    assert capsys.readouterr().out == expected != plain
    with pytest.raises(SystemExit, match="--ptb_words needs --format brackets"):
        main([*command, "conllu", "--ptb_words"])


def test_vectors_leave_constituents_out(folder, no_chart):
    from hf_structure.probing.word_arrays import word_arrays

    assert word_arrays([SENTENCES[0]], folder)


# Tags and punctuation


def test_tags_are_those_of_the_parser(folder):
    both = parse([SENTENCES[0]], folder, structure="both")[0]
    assert both.constituency.tags == tuple(both.dependency.columns["xpos"])
    alone = parse([SENTENCES[0]], folder, structure="constituency")[0]
    assert alone.constituency == both.constituency
    assert alone.to_brackets() == both.to_brackets()


@pytest.mark.parametrize("punctuation", ["attach", "drop"])
def test_a_mark_beside_a_word_without_constituents(without_marks, punctuation):
    """The whole sentence is a constituent by rule: it has no label that the model would have given."""
    trees = parse([["cat", "."]], without_marks, structure="constituency", k=10, punctuation=punctuation)[0]
    restored = punctuation == "attach"
    assert len(trees.alternatives) == 4
    [bare] = [tree for tree in trees.alternatives if not tree.spans or tree.labels == ("",)]
    assert bare.spans == ((((0, 2),)) if restored else ())
    assert bare.probabilities == ((1.0,) if restored else ())
    assert len(bare.words) == 1 + restored
    for tree in trees.alternatives:
        assert set(tree.spans) <= {(0, 1), (0, 2)}
        assert tree.tags[1:] == ("",) * restored
    labelled = {tree.labels for tree in trees.alternatives} - {("",), ()}
    assert labelled == {("NP",), ("S", "VP"), ("VP",)}
