"""What stands beside the words of a sentence: part-of-speech tags, and trees to start from."""

import random
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

import hf_structure
from hf_structure import (
    AutoModelForDependencyParsing,
    DependencyTree,
    G2GTransformerConfig,
    G2GTransformerForParsing,
    Parse,
    parse,
)
from hf_structure.algorithms.trees import remove_words
from hf_structure.models.abilities import PROBABILITIES, Abilities, label_columns
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.text.conllu import ConlluSentence, read_conllu, write_conllu
from hf_structure.text.formats import load_sentences
from hf_structure.text.normalization import is_punctuation
from hf_structure.text.tokenization import encode

LEXICON = {"DT": ["the", "a"], "NN": ["cat", "dog", "man"], "VB": ["saw", "slept"], "IN": ["near"], ".": [".", ","]}
IDS = {tag: number for number, tag in enumerate(LEXICON)}


def random_sentences(number: int, longest: int = 8, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    """Words and tags, in each sentence a word that is no mark."""
    rng = random.Random(seed)
    rows = [[*rng.choices(list(LEXICON), k=rng.randrange(longest)), "NN"] for _ in range(number)]
    return [([rng.choice(LEXICON[tag]) for tag in tags], tags) for tags in rows]


WORDS, TAGS = zip(*random_sentences(12), strict=True)
NO_TAGS = "this model reads part-of-speech tags .* comes without any that it knows"


SUBWORDS = pytest.param("tagged_subword_g2g_transformer", marks=pytest.mark.slow)


@pytest.fixture(params=["tagged_g2g_transformer", SUBWORDS, "subword_rng_transformer"])
def tagged(request) -> Path:
    return request.getfixturevalue(request.param)


@pytest.fixture
def conllu(tmp_path) -> Path:
    """The sentences in a file: tags in XPOS, others in UPOS, all words hanging on the last."""
    sentences = []
    for words, tags in zip(WORDS, TAGS, strict=True):
        heads = [len(words)] * (len(words) - 1) + [0]
        sentence = ConlluSentence.from_words(words, heads, ["det"] * len(words), tags)
        sentences.append(sentence.with_column("upos", ["X"] * len(words)))
    write_conllu(sentences, tmp_path / "gold.conllu")
    return tmp_path / "gold.conllu"


@pytest.fixture
def quiet() -> Iterator[None]:
    """Fails if there is a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def probabilities(parses: list[Parse]) -> list[float | None]:
    return [value for parsed in parses for value in parsed.dependency.probabilities]


# Tags


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("punctuation", ["attach", "drop", "parse"])
def test_tags_are_those_that_the_model_decodes_with(tagged, punctuation):
    tokenizer = AutoTokenizer.from_pretrained(tagged)
    model = AutoModelForDependencyParsing.from_pretrained(tagged, dtype=torch.float64)
    parses = parse(WORDS, model, tokenizer=tokenizer, tags=TAGS, punctuation=punctuation, batch_size=5)
    for words, tags, parsed in zip(WORDS, TAGS, parses, strict=True):
        keep = [punctuation == "parse" or not is_punctuation(word) for word in words]
        seen = [word for word, kept in zip(words, keep, strict=True) if kept]
        inputs = {name: torch.tensor([ids]) for name, ids in encode(seen, tokenizer).items()}
        ids = torch.tensor([[IDS[tag] for tag, kept in zip(tags, keep, strict=True) if kept]])
        decoded = model.decode(**inputs, tag_ids=ids)
        found = [value for value in parsed.dependency.probabilities if value is not None]
        assert found == pytest.approx(decoded.columns["probabilities"][0, 0].tolist(), abs=1e-5)
        if punctuation != "attach":
            assert list(parsed.dependency.heads) == decoded.heads[0, 0].tolist()


@pytest.mark.filterwarnings("ignore:this model reads part-of-speech tags")
def test_tags_matter_and_those_not_known_are_none(tagged):
    strange = [["XYZ"] * len(tags) for tags in TAGS]
    known, unknown, none = (probabilities(parse(WORDS, tagged, tags=tags)) for tags in (TAGS, strange, [None] * 12))
    assert known != unknown == none == probabilities(parse(WORDS, tagged))
    half = [*TAGS[:6], *[None] * 6]
    assert probabilities(parse(WORDS, tagged, tags=half, batch_size=1)) == pytest.approx(
        [
            value
            for start, tags in ((0, TAGS[:6]), (6, None))
            for value in probabilities(parse(WORDS[start : start + 6], tagged, tags=tags, batch_size=1))
        ]
    )
    together = parse(WORDS, tagged, tags=half)
    alone = [parse([words], tagged, tags=[tags])[0] for words, tags in zip(WORDS, half, strict=True)]
    assert [p.dependency.heads for p in together] == [p.dependency.heads for p in alone]


@pytest.mark.usefixtures("quiet")
def test_forms_of_tags(tagged, conllu):
    expected = parse(WORDS, tagged, tags=TAGS)
    assert parse(WORDS, tagged, tags=iter(TAGS)) == expected
    assert list(parse(iter(WORDS), tagged, tags=TAGS)) == expected
    assert parse([" ".join(words) for words in WORDS], tagged, tags=TAGS, word_tokenizer="spaces") == expected
    rows = [{"words": words, "tags": tags} for words, tags in zip(WORDS, TAGS, strict=True)]
    assert parse(rows, tagged) == expected
    assert list(parse(read_conllu(conllu), tagged)) == expected
    assert list(parse(load_sentences(conllu), tagged)) == expected
    alone = parse(rows[:1], tagged)[0]
    assert parse(rows[0], tagged) == alone == parse(next(read_conllu(conllu)), tagged)
    text = " ".join(WORDS[0])
    assert parse(text, tagged, tags=TAGS[0], word_tokenizer="spaces") == alone
    assert parse({"text": text, "tags": TAGS[0]}, tagged, word_tokenizer="spaces") == alone


@pytest.mark.usefixtures("quiet")
def test_the_argument_comes_before_the_tags_of_the_sentence(tagged):
    other = [["VB"] * len(tags) for tags in TAGS]
    rows = [{"words": words, "tags": tags} for words, tags in zip(WORDS, TAGS, strict=True)]
    assert parse(rows, tagged, tags=other) == parse(WORDS, tagged, tags=other) != parse(rows, tagged)


@pytest.mark.usefixtures("quiet")
def test_upos_where_there_is_no_xpos(tagged, conllu):
    text = conllu.read_text()
    for tag in LEXICON:
        text = text.replace(f"\tX\t{tag}\t", f"\t{tag}\t_\t")
    conllu.write_text(text)
    assert list(parse(read_conllu(conllu), tagged)) == parse(WORDS, tagged, tags=TAGS)


def test_what_has_no_tags_is_named(tagged, conllu):
    conllu.write_text("1\tcat" + "\t_" * 8 + "\n\n")
    for sentences in ("the cat saw", [["the", "cat"]], [{"words": ["cat"]}], list(read_conllu(conllu))):
        with pytest.warns(UserWarning, match=r"\(DT, NN, VB, ...\).* tags=..., or in CoNLL-U \(XPOS, or else UPOS"):
            parse(sentences, tagged)
    with pytest.warns(UserWarning, match=NO_TAGS):
        parse([["the", "cat"]], tagged, tags=[["DET", "NOUN"]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        parse([["the", "cat"], ["a", "dog"], ["near"]], tagged)
    assert len(caught) == 1


def test_a_model_that_does_not_name_its_tags(g2g_transformer):
    config = hf_structure.G2GTransformerConfig.from_pretrained(g2g_transformer, num_tags=3)
    model, tokenizer = G2GTransformerForParsing(config), AutoTokenizer.from_pretrained(g2g_transformer)
    with pytest.warns(UserWarning, match="its config.tags does not name them"):
        assert parse("the cat saw", model, tokenizer=tokenizer).dependency.is_tree


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", ["g2g_transformer", "structformer", "graph_parser"])
def test_models_that_read_no_tags(request, name, conllu):
    model = request.getfixturevalue(name)
    sentences = list(read_conllu(conllu))[:2]
    assert parse(sentences, model) == parse([sentence.forms for sentence in sentences], model)
    for tags in (TAGS[:2], iter(TAGS[:2])):
        with pytest.raises(ValueError, match=r"^this \w+ reads no part-of-speech tags: leave tags out$"):
            parse(iter(WORDS[:2]), model, tags=tags)


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ([["NN"], ["DT"]], "sentence 2: the sentence has 2 words but 1 tags"),
        ([["NN"], ["DT", "NN", "VB"]], "sentence 2: the sentence has 2 words but 3 tags"),
        ([["NN"], []], "sentence 2: the sentence has 2 words but 0 tags"),
        ([["NN"], "DT"], "sentence 2: the tags of a sentence are a list of names, one a word, not 'DT'"),
        ([["NN"], 7], "sentence 2: the tags of a sentence are a list of names, one a word, not 7"),
        ([["NN"]], "sentence 2: tags ends after 1 sentences"),
        ([], "sentence 1: tags ends after 0 sentences"),
        ([["NN"], ["DT", "NN"], ["NN"]], "tags goes on after the last sentence, which is number 2"),
    ],
)
def test_tags_that_do_not_fit(tagged_g2g_transformer, tags, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        parse([["cat"], ["the", "cat"]], tagged_g2g_transformer, tags=tags)
    if "sentence 1" not in message:
        parses = parse(iter([["cat"], ["the", "cat"]]), tagged_g2g_transformer, tags=iter(tags))
        assert next(parses).words == ("cat",)


# Trees to start from


class EchoConfig(G2GTransformerConfig):
    @property
    def abilities(self) -> Abilities:
        names = tuple(self.id2label.values()) if self.labelled else ()
        return replace(
            super().abilities,
            columns=(PROBABILITIES, *label_columns(self.id2label)),
            initial_labels=names if self.use_graph_input else None,
            rounds=True,
        )


class Echo(G2GTransformerForParsing):
    """A model whose trees are the initial ones; without one, each word hangs on the one before it."""

    config_class = EchoConfig

    def decode(
        self,
        input_ids,
        attention_mask=None,
        *,
        word_ids=None,
        tag_ids=None,
        num_words=None,
        initial_heads=None,
        initial_deprels=None,
        decoder="tree",
        k=1,
        marginals=False,
        num_rounds=None,
    ) -> DecoderOutput:
        lengths = attention_mask.sum(1) if word_ids is None else word_ids.amax(1) + 1
        chain = torch.arange(int(lengths.max())).expand(len(input_ids), -1)
        heads = chain if initial_heads is None else torch.where(initial_heads < 0, chain, initial_heads)
        labels = torch.zeros_like(heads) if initial_deprels is None else initial_deprels.clamp(min=0)
        assert heads.shape == labels.shape == chain.shape
        heads = heads.masked_fill(chain >= lengths.unsqueeze(1), -1).unsqueeze(1)
        probabilities = torch.full(heads.shape, 1 / (num_rounds or 1))
        return DecoderOutput(
            heads=heads,
            columns={
                "probabilities": probabilities,
                "labels": labels.unsqueeze(1),
                "label_probabilities": probabilities,
            },
        )


@pytest.fixture(params=["g2g_transformer", "subword_g2g_transformer"])
def echo(request) -> tuple[Echo, dict]:
    """A model and its tokenizer: labels are 0 nsubj, 1 obj, 2 det."""
    folder = request.getfixturevalue(request.param)
    return Echo.from_pretrained(folder), {"tokenizer": AutoTokenizer.from_pretrained(folder)}


def random_graphs(seed: int = 1) -> list[tuple[list[int], list[str]]]:
    """Heads and labels for the sentences: trees or not."""
    rng = random.Random(seed)
    heads = [[rng.choice([h for h in range(len(w) + 1) if h != i]) for i in range(1, len(w) + 1)] for w in WORDS]
    return [(row, rng.choices(["nsubj", "obj", "det"], k=len(row))) for row in heads]


GRAPHS = random_graphs()


def test_random_graphs_are_no_trees():
    trees = [DependencyTree(words, heads) for words, (heads, _) in zip(WORDS, GRAPHS, strict=True)]
    assert any(len(tree.roots) > 1 for tree in trees)
    assert any(not tree.roots for tree in trees)


def test_initial_trees_reach_the_model(echo):
    model, options = echo
    for parsed, (heads, labels) in zip(
        parse(WORDS, model, initial=GRAPHS, punctuation="parse", batch_size=5, **options), GRAPHS, strict=True
    ):
        assert (list(parsed.dependency.heads), list(parsed.dependency.labels)) == (heads, labels)
    dropped = parse(WORDS, model, initial=GRAPHS, punctuation="drop", batch_size=5, **options)
    for words, parsed, (heads, labels) in zip(WORDS, dropped, GRAPHS, strict=True):
        keep = [not is_punctuation(word) for word in words]
        assert list(parsed.dependency.heads) == remove_words(heads, keep)
        kept = [label for label, kept in zip(labels, keep, strict=True) if kept]
        assert list(parsed.dependency.labels) == kept


def test_forms_of_initial_trees(echo, tmp_path):
    model, options = echo
    expected = parse(WORDS, model, initial=GRAPHS, punctuation="parse", **options)
    trees = [DependencyTree(words, *graph) for words, graph in zip(WORDS, GRAPHS, strict=True)]
    write_conllu([ConlluSentence.from_words(t.words, t.heads, t.labels) for t in trees], tmp_path / "system.conllu")
    sentences = list(read_conllu(tmp_path / "system.conllu"))
    rows = [{"words": words, "initial": graph} for words, graph in zip(WORDS, GRAPHS, strict=True)]
    for initial in (trees, expected, sentences, iter(trees), [list(graph) for graph in GRAPHS]):
        assert parse(WORDS, model, initial=initial, punctuation="parse", **options) == expected
    assert parse(rows, model, punctuation="parse", **options) == expected
    assert list(parse(iter(sentences), model, initial=iter(trees), punctuation="parse", **options)) == expected
    assert parse(rows[0], model, punctuation="parse", **options) == expected[0]
    options |= {"punctuation": "parse", "word_tokenizer": "spaces"}
    for initial in (trees[0], expected[0], sentences[0], GRAPHS[0]):
        assert parse(" ".join(WORDS[0]), model, initial=initial, **options) == expected[0]


def test_labels(echo):
    model, options = echo
    for labels in (["obj", "xcomp"], ("obj", "_")):  # Echo makes nsubj of -1
        tree = parse([["the", "cat"]], model, initial=[([2, 0], labels)], **options)[0].dependency
        assert (tree.heads, tree.labels) == ((2, 0), ("obj", "nsubj"))
    with pytest.warns(UserWarning, match=r"labels \(nsubj, obj, det, ...\), and an initial tree has none of these"):
        parse([["the", "cat"]], model, initial=[([2, 0], ["dep", "root"])], **options)
    model.config.labelled = False
    for graph in ([2, 0], (2, 0), torch.tensor([2, 0]), ([2, 0], None), ([2, 0], ["det", "obj"])):
        tree = parse([["the", "cat"]], model, initial=[graph], **options)[0].dependency
        assert (tree.heads, tree.labels) == ((2, 0), ("nsubj", "nsubj"))


@pytest.mark.parametrize("initial", [[2, 0], ([2, 0], None), ([2, 0], ["_", "_"]), DependencyTree(["a", "b"], [2, 0])])
def test_labels_are_needed_where_arcs_have_them(echo, initial):
    model, options = echo
    with pytest.raises(ValueError, match="sentence 1: the initial tree has no labels, and this model reads labelled"):
        parse([["the", "cat"]], model, initial=[initial], **options)


def test_only_some_sentences_have_an_initial_tree(echo):
    model, options = echo
    initial = [graph if i % 2 else None for i, graph in enumerate(GRAPHS)]
    parses = parse(WORDS, model, initial=initial, punctuation="parse", **options)
    for parsed, graph in zip(parses, initial, strict=True):
        expected = range(len(parsed.words)) if graph is None else graph[0]
        assert list(parsed.dependency.heads) == list(expected)


def test_gold_trees_of_a_file_are_no_initial_ones(echo, conllu):
    model, options = echo
    for sentences in (read_conllu(conllu), load_sentences(conllu)):
        for parsed in parse(sentences, model, punctuation="parse", **options):
            assert list(parsed.dependency.heads) == list(range(len(parsed.words)))


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ([0], "the sentence has 2 words, but its initial tree 1 heads"),
        ([0, 1, 1], "the sentence has 2 words, but its initial tree 3 heads"),
        (([0, 1], ["det"]), "the sentence has 2 words, but its initial tree 1 labels"),
        (DependencyTree(["cat"], [0]), "the sentence has 2 words, but its initial tree 1 heads"),
        (([0, 3], ["det", "det"]), "the head of word 2 is 3, but the sentence has 2 words"),
        (([-1, 1], ["det", "det"]), "the head of word 1 is -1, but the sentence has 2 words"),
        (([0, 2], ["det", "det"]), "word 2 is its own head"),
        (([0, 1.0], ["det", "det"]), "the head of word 2 is not an integer: 1.0"),
        (Parse(["the", "cat"]), "the initial parse has no dependency tree"),
        (ConlluSentence.from_words(["the", "cat"]), "the initial tree has words without a head"),
        (1, "an initial tree is a DependencyTree, heads, or heads and labels, not 1"),
        ("01", "an initial tree is a DependencyTree, heads, or heads and labels, not '01'"),
    ],
)
def test_initial_trees_that_do_not_fit(echo, initial, message):
    model, options = echo
    with pytest.raises(ValueError, match=f"^sentence 2: {message}"):
        parse([["cat"], ["the", "cat"]], model, initial=[None, initial], **options)


def test_number_of_initial_trees(echo):
    model, options = echo
    with pytest.raises(ValueError, match="sentence 2: initial ends after 1 sentences"):
        parse(WORDS, model, initial=GRAPHS[:1], **options)
    with pytest.raises(ValueError, match="initial goes on after the last sentence, which is number 1"):
        parse(WORDS[:1], model, initial=GRAPHS, **options)


def test_models_that_cannot_start_from_a_tree(request, echo):
    for name in ("g2g_transformer", "structformer", "graph_parser"):
        with pytest.raises(ValueError, match=r"this \w+ cannot start from a tree: an RNGTransformerForParsing with"):
            parse(iter(WORDS), request.getfixturevalue(name), initial=iter(GRAPHS))
    model, options = echo
    model.config.use_graph_input = False
    with pytest.raises(ValueError, match="this Echo cannot start from a tree"):
        parse(iter(WORDS), model, initial=GRAPHS, **options)
    with pytest.raises(ValueError, match="sentence 1: this model cannot start from a tree"):
        parse([{"words": ["cat"], "initial": ([0], ["det"])}], model, **options)


def test_rounds(echo, structformer):
    model, options = echo
    assert parse([["cat"]], model, rounds=4, **options)[0].dependency.probabilities == (0.25,)
    with pytest.raises(ValueError, match="rounds must be at least 1, not 0"):
        parse([["cat"]], model, rounds=0, **options)
    with pytest.raises(ValueError, match="StructFormerForMaskedLM does not refine its trees: leave rounds out"):
        parse([["cat"]], structformer, rounds=2)


@pytest.fixture(params=["rng_transformer", "subword_rng_transformer"])
def refiner(request) -> Path:
    """Its labels are 0 nsubj, 1 obj, 2 det."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.filterwarnings("ignore:this model reads part-of-speech tags")
def test_initial_trees_are_those_that_the_model_decodes_with(refiner, rounds):
    model, tokenizer = (auto.from_pretrained(refiner) for auto in (AutoModelForDependencyParsing, AutoTokenizer))
    initial = [graph if i % 3 else None for i, graph in enumerate(GRAPHS)]
    options = {"punctuation": "parse", "rounds": rounds, "batch_size": 5}
    tags = None if refiner.name.startswith("rng") else TAGS
    parses = parse(WORDS, refiner, initial=initial, tags=tags, **options)
    for words, row, graph, parsed in zip(WORDS, TAGS, initial, parses, strict=True):
        inputs = {name: torch.tensor([ids]) for name, ids in encode(words, tokenizer).items()}
        if tags is not None:
            inputs["tag_ids"] = torch.tensor([[IDS[tag] for tag in row]])
        if graph is not None:
            inputs["initial_heads"] = torch.tensor([graph[0]])
            inputs["initial_deprels"] = torch.tensor([[["nsubj", "obj", "det"].index(label) for label in graph[1]]])
        decoded = model.decode(**inputs, num_rounds=rounds)
        assert list(parsed.dependency.probabilities) == pytest.approx(
            decoded.columns["probabilities"][0, 0].tolist(), abs=1e-4
        )
        assert list(parsed.dependency.heads) == decoded.heads[0, 0].tolist()
    if rounds == 1:  # later ones may forget where they started
        without = probabilities(parse(WORDS, refiner, tags=tags, **options))
        assert probabilities(parses) != pytest.approx(without, abs=1e-2)


def test_a_parse_can_be_refined(rng_transformer):
    """Three rounds are one round, three times."""
    parses = parse(WORDS, rng_transformer, rounds=1)
    for _ in range(2):
        parses = parse(WORDS, rng_transformer, rounds=1, initial=parses)
    expected = parse(WORDS, rng_transformer, rounds=3)
    assert [parsed.dependency.heads for parsed in parses] == [parsed.dependency.heads for parsed in expected]
    assert [parsed.dependency.labels for parsed in parses] == [parsed.dependency.labels for parsed in expected]


@pytest.mark.filterwarnings("ignore:this model reads part-of-speech tags")
def test_sentences_of_too_many_pieces(subword_rng_transformer):
    tokenizer = AutoTokenizer.from_pretrained(subword_rng_transformer)
    number = len(tokenizer.tokenize(" antidisestablishment"))
    with pytest.raises(
        ValueError, match=f"^sentence 2: the sentence has {40 * number} tokens, more than the 510 that"
    ):
        parse([["cat"], ["antidisestablishment"] * 40], subword_rng_transformer)
