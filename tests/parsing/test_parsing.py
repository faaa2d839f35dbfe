import itertools
import json
import math
import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from accelerate import disk_offload
from nested import assert_alike
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertConfig, ByT5Tokenizer, pipeline
from transformers.pipelines import PIPELINE_REGISTRY

import hf_structure
from hf_structure import (
    AutoModelForDependencyParsing,
    Parse,
    StructFormerConfig,
    StructFormerForMaskedLM,
    UDGNConfig,
    UDGNForMaskedLM,
    build_word_tokenizer,
    parse,
)
from hf_structure.algorithms.distance import joint_trees
from hf_structure.algorithms.trees import is_projective, remove_words
from hf_structure.hub.compact import save_compact
from hf_structure.hub.locating import CHECKPOINTS
from hf_structure.parsing import parser as parsing
from hf_structure.parsing.pipelines import ConstituencyParsingPipeline, DependencyParsingPipeline
from hf_structure.text.formats import drop_punctuation
from hf_structure.text.normalization import is_punctuation
from hf_structure.text.tokenization import encode

WORDS = ["the", "a", "old", "cat", "dog", "man", "saw", "chased", "slept", "near", "that", "and", "she"]
MARKS = [".", ",", '"', "(", "..."]
A_TOKEN = {"SpecialToken": {"id": "<no>", "type_id": 0}}


def tiny_model(seed: int = 0) -> UDGNForMaskedLM:
    """A random model that has opinions: its head distributions are far from uniform."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "parser_num_layers": 1}
    model = UDGNForMaskedLM(UDGNConfig(vocab_size=3 + len(WORDS) + len(MARKS), initializer_range=1.0, **sizes))
    with torch.no_grad():
        model.udgn.parser.arcs.weight *= 5
    return model


def tiny_tokenizer(**options):
    return build_word_tokenizer(WORDS + MARKS, **options)  # the marks too, so that the model could read them


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder) -> UDGNForMaskedLM:
    return UDGNForMaskedLM.from_pretrained(folder)


@pytest.fixture(
    params=[
        "folder",
        "structformer",
        "subword_structformer",
        "g2g_transformer",
        pytest.param("subword_g2g_transformer", marks=pytest.mark.slow),
        "rng_transformer",
    ]
)
def any_folder(request) -> Path:
    """The model above, two StructFormers and three Graph-to-Graph Transformers."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["structformer", "subword_structformer"])
def both_structures(request) -> Path:
    return request.getfixturevalue(request.param)


def random_sentences(number: int, marks: float = 0.3, longest: int = 12, seed: int = 0) -> list[list[str]]:
    """Sentences of mixed lengths, each with a word at least."""
    rng = random.Random(seed)

    def word() -> str:
        return rng.choice(MARKS if rng.random() < marks else WORDS)

    return [[*(word() for _ in range(rng.randrange(longest))), rng.choice(WORDS)] for _ in range(number)]


def heads_of(parses: list[Parse]) -> list[tuple[int, ...]]:
    return [parsed.dependency.heads for parsed in parses]


assert_close = partial(assert_alike, rel=1e-4, abs=1e-4)


# Labels and beams


@pytest.fixture(params=["g2g_transformer", pytest.param("subword_g2g_transformer", marks=pytest.mark.slow)])
def labelled(request) -> Path:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("punctuation", ["attach", "drop", "parse"])
def test_labels_are_those_that_the_model_decodes(labelled, punctuation):
    model, tokenizer = (
        auto.from_pretrained(labelled) for auto in (hf_structure.AutoModelForDependencyParsing, AutoTokenizer)
    )
    for words in random_sentences(4):
        tree = parse([words], labelled, punctuation=punctuation)[0].dependency
        seen = words if punctuation == "parse" else [word for word in words if not is_punctuation(word)]
        inputs = {name: torch.tensor([ids]) for name, ids in encode(seen, tokenizer).items()}
        decoded = model.decode(**inputs)
        labels = iter([model.config.id2label[label] for label in decoded.columns["labels"][0, 0].tolist()])
        probabilities = iter(decoded.columns["label_probabilities"][0, 0].tolist())
        for word, label, probability in zip(tree.words, tree.labels, tree.label_probabilities, strict=True):
            if punctuation == "attach" and is_punctuation(word):
                assert (label, probability) == ("punct", None)
            else:
                assert label == next(labels)
                assert probability == pytest.approx(next(probabilities), abs=1e-5)
        assert next(labels, None) is None


def test_models_without_labels_have_none(folder):
    tree = parse("the cat saw", folder).dependency
    assert tree.labels is tree.label_probabilities is None


def test_beams(labelled):
    sentences = random_sentences(30)
    greedy, one, wide = (parse(sentences, labelled, **options) for options in ({}, {"beam_size": 1}, {"beam_size": 8}))
    assert greedy == one
    gains = [
        after.dependency.log_probability - before.dependency.log_probability
        for before, after in zip(greedy, wide, strict=True)
    ]
    assert min(gains) > -1e-4
    assert max(gains) > 1e-2
    best = parse(sentences, labelled, beam_size=8, k=3)
    assert heads_of(best) == heads_of(wide)
    for parsed in best:
        scores = [tree.log_probability for tree in parsed.alternatives]
        assert scores == sorted(scores, reverse=True)
        assert len({(tree.heads, tree.labels) for tree in parsed.alternatives}) == len(scores)


def test_models_without_a_beam_refuse_one(any_folder):
    if "g2g" in any_folder.name:
        with pytest.raises(ValueError, match="beam_size must be at least 1, not 0"):
            parse("the cat", any_folder, beam_size=0)
        return
    with pytest.raises(ValueError, match="searches without a beam: leave beam_size out"):
        parse("the cat", any_folder, beam_size=4)


def test_sentences_longer_than_the_model_allows(labelled):
    assert len(parse([["cat"] * 60], labelled)[0].words) == 60
    assert len(parse([["cat", "."] * 60], labelled)[0].words) == 120  # marks do not count, if they are not seen
    parses = parse(iter([["cat"], ["cat"] * 61, ["cat"]]), labelled)
    assert next(parses).dependency.heads == (0,)
    with pytest.raises(
        ValueError, match=r"^sentence 2: the sentence has 61 words, more than the 60 that this model has"
    ):
        next(parses)


def test_classifiers_that_are_missing_are_noticed(g2g_transformer, tmp_path):
    for file in g2g_transformer.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("relation_classifier")}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="4 weights are missing, such as relation_classifier"):
        parse("the cat", tmp_path)


# What goes in and what comes out


def test_form_of_the_output_is_that_of_the_input(folder):
    texts = ["the cat slept .", "a dog"]
    one = parse(texts[0], folder)
    assert isinstance(one, Parse)
    listed = parse(texts, folder)
    assert isinstance(listed, list)
    assert_close(listed[0], one)
    lazy = parse((text for text in texts), folder)
    assert isinstance(lazy, Iterator)
    assert not isinstance(lazy, list)
    assert_close(list(lazy), listed)
    words = [["the", "cat", "slept", "."], ("a", "dog")]
    for same in (words, iter([words[0], texts[1]])):
        parses = list(parse(same, folder))
        assert [parsed.words for parsed in parses] == [parsed.words for parsed in listed]
        assert_close(*([parsed.dependency.to_dict() for parsed in each] for each in (parses, listed)))
    assert parse([], folder) == list(parse(iter([]), folder)) == []


def test_given_words_come_back_untouched(any_folder):
    words = ["Don't", "New York", "<unk>", "<pad>", "3.14", "ﬁ\tne", " x", "e\u0301", "-LRB-", "🙂", "the"]
    parsed = parse([words], any_folder)[0]
    assert list(parsed.words) == words == list(parsed.dependency.words)
    assert parsed.constituency is None or list(parsed.constituency.words) == words


def test_raw_strings_go_through_the_word_tokenizer(folder):
    assert parse("She can't sleep.", folder).words == ("She", "ca", "n't", "sleep", ".")
    assert parse("She can't sleep.", folder, word_tokenizer=str.split).words == ("She", "can't", "sleep.")
    assert parse([["She can't"]], folder, word_tokenizer=str.split)[0].words == ("She can't",)


def test_random_model_gives_many_different_trees(any_folder):
    """Without this the comparisons below would prove little."""
    parses = parse([words for words in random_sentences(300) if len(words) == 5], any_folder)
    assert len(set(heads_of(parses))) >= 5
    if parses[0].constituency:
        assert len({parsed.constituency.spans for parsed in parses}) >= 5


def test_order_is_kept(folder, monkeypatch):
    sentences = random_sentences(60)
    alone = [parse([words], folder)[0] for words in sentences]
    monkeypatch.setattr(parsing, "WINDOW", 3)
    for batch_size in (1, 4, 7):
        together = parse(sentences, folder, batch_size=batch_size)
        assert [list(parsed.words) for parsed in together] == sentences
        assert heads_of(together) == heads_of(alone)


@pytest.mark.parametrize(
    "punctuation", ["attach", *(pytest.param(name, marks=pytest.mark.slow) for name in ("drop", "parse"))]
)
def test_batch_size_changes_nothing(any_folder, folder, punctuation):
    sentences = random_sentences(9)
    options = {"k": 3 if any_folder is folder else 1, "marginals": True, "punctuation": punctuation}
    options["dtype"] = "float64"  # company rounds otherwise in single precision
    expected = parse(sentences, any_folder, batch_size=1, **options)
    for batch_size in (4, 64):
        assert_close(parse(sentences, any_folder, batch_size=batch_size, **options), expected)


def test_iterators_are_read_a_window_ahead(folder, monkeypatch):
    monkeypatch.setattr(parsing, "WINDOW", 2)
    read = []

    def endless() -> Iterator[list[str]]:
        for number in itertools.count():
            read.append(number)
            yield ["the"] * (1 + number % 5)

    parses = parse(endless(), folder, batch_size=3)
    assert read == []
    assert len(next(parses).words) == 1
    assert read == list(range(6))
    assert [len(parsed.words) for parsed in itertools.islice(parses, 16)] == [1 + n % 5 for n in range(1, 17)]
    assert read == list(range(18))


def test_progress_bar(folder, capsys):
    parse(["the cat", "a dog"], folder)
    assert capsys.readouterr().err == ""
    parse(["the cat", "a dog"], folder, progress=True)
    assert "2/2" in capsys.readouterr().err
    list(parse(iter(["the cat", "a dog"]), folder, progress=True))
    assert "2 sentences" in capsys.readouterr().err


# k-best and marginals


def test_k_best_of_three_words_are_all_trees(folder):
    parsed = parse(["old dog slept", "cat"], folder, k=20)
    trees = parsed[0].alternatives
    assert len(trees) == len({tree.heads for tree in trees}) == 9  # 3 ** 2 trees with one root
    assert trees[0] == parsed[0].dependency
    scores = [tree.log_probability for tree in trees]
    assert scores == sorted(scores, reverse=True)
    assert sum(map(math.exp, scores)) == pytest.approx(1, abs=1e-5)
    assert [tree.heads for tree in parsed[1].alternatives] == [(0,)]


def test_best_tree_and_its_probability_do_not_depend_on_k(folder):
    for one, many in zip(parse(random_sentences(20), folder), parse(random_sentences(20), folder, k=4), strict=True):
        assert one.alternatives == ()
        assert one.dependency.heads == many.dependency.heads
        assert one.dependency.log_probability == pytest.approx(many.dependency.log_probability, abs=1e-5)


def test_marginals_are_sums_over_trees(folder):
    parsed = parse("the cat saw", folder, k=9, marginals=True)
    expected = [[0.0] * 4 for _ in range(3)]
    for tree in parsed.alternatives:
        for word, head in enumerate(tree.heads):
            expected[word][head] += math.exp(tree.log_probability)
    assert torch.tensor(parsed.marginals).allclose(torch.tensor(expected), atol=1e-5)
    assert parse("the cat saw", folder).marginals is None


@pytest.mark.parametrize("punctuation", ["attach", "drop", pytest.param("parse", marks=pytest.mark.slow)])
def test_rows_of_marginals_sum_to_one(any_folder, punctuation):
    for parsed in parse(random_sentences(40), any_folder, marginals=True, punctuation=punctuation):
        marginals = torch.tensor(parsed.marginals, dtype=torch.float64)
        tree = parsed.dependency
        assert marginals.shape == (len(tree.words), len(tree.words) + 1)
        sums = marginals.sum(1)
        assert sums.allclose(torch.ones(len(tree.words), dtype=torch.float64), atol=1e-5)
        if punctuation == "attach":
            for number, word in enumerate(tree.words, start=1):
                if is_punctuation(word):
                    assert marginals[number - 1, tree.heads[number - 1]] == 1
                    assert not marginals[:, number].any()


# Punctuation


def test_attached_marks_change_no_other_arc(folder):
    sentences = random_sentences(200)
    projective = 0
    attached = parse(sentences, folder, k=2)
    for one, other in zip(attached, parse(sentences, folder, k=2, punctuation="drop"), strict=True):
        kept = [number for number, word in enumerate(one.words, start=1) if not is_punctuation(word)]
        numbers = [0, *kept]
        assert other.dependency.words == tuple(one.words[number - 1] for number in kept)
        for tree, bare in zip(one.alternatives, other.alternatives, strict=True):
            assert tree.is_tree
            assert [tree.heads[number - 1] for number in kept] == [numbers[head] for head in bare.heads]
            assert [tree.probabilities[number - 1] for number in kept] == list(bare.probabilities)
            marks = [number for number in range(1, len(one.words) + 1) if number not in kept]
            assert all(tree.probabilities[number - 1] is None for number in marks)
            assert not set(marks) & set(tree.heads)
            if is_projective(bare.heads):
                assert is_projective(tree.heads)
                projective += bool(marks)
    assert projective > 20


def seen_words(model, sentences, monkeypatch, tokenizer=None, **options) -> list[list[str]]:
    """The words that reach the model."""
    tokenizer = tokenizer or AutoTokenizer.from_pretrained(model.name_or_path)
    rows, decode = [], model.decode

    def spy(input_ids, attention_mask, **kwargs):
        rows.extend(ids[mask.bool()].tolist() for ids, mask in zip(input_ids, attention_mask, strict=True))
        return decode(input_ids, attention_mask, **kwargs)

    monkeypatch.setattr(model, "decode", spy)
    parse(sentences, model, tokenizer=tokenizer, **options)
    return [tokenizer.convert_ids_to_tokens(row) for row in rows]


SENTENCE = ["(", "the", "cat", ",", "...", "slept", ")", "."]


@pytest.mark.parametrize("punctuation", ["attach", "drop"])
def test_model_does_not_see_punctuation(model, monkeypatch, punctuation):
    assert seen_words(model, [SENTENCE], monkeypatch, punctuation=punctuation) == [["the", "cat", "slept"]]


def test_model_sees_punctuation_on_request(model, monkeypatch):
    expected = ["(", "the", "cat", ",", "...", "slept", "<unk>", "."]
    assert seen_words(model, [SENTENCE], monkeypatch, punctuation="parse") == [expected]


def test_model_trained_with_punctuation_sees_it(model, monkeypatch):
    tokenizer = tiny_tokenizer(skip_punctuation=False)
    assert "..." in seen_words(model, [SENTENCE], monkeypatch, tokenizer=tokenizer)[0]


@pytest.mark.parametrize("punctuation", ["attach", "drop", "parse"])
def test_sentence_of_punctuation_alone(any_folder, punctuation):
    parsed = parse([[".", "...", "("], ["the"], ["!"]], any_folder, punctuation=punctuation, marginals=True)
    assert parsed[0].dependency.is_tree
    assert parsed[0].dependency.words == (".", "...", "(")
    assert None not in parsed[0].dependency.probabilities
    assert parsed[2].dependency.heads == (0,)
    assert len(parsed[0].marginals) == 3


# The model


def test_ways_to_name_a_model(folder, model, monkeypatch):
    expected = parse("the cat slept", str(folder))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    unnamed = tiny_model()
    assert parse("the cat slept", folder) == expected
    assert parse("the cat slept", model) == expected
    assert parse("the cat slept", model, tokenizer=tokenizer) == expected
    assert parse("the cat slept", unnamed, tokenizer=tokenizer) == expected
    monkeypatch.setattr("hf_structure.hub.locating.CHECKPOINTS", folder.parent)
    assert parse("the cat slept", folder.name) == expected
    with pytest.raises(ValueError, match="pass the tokenizer too"):
        parse("the cat slept", unnamed)
    with pytest.raises(ValueError, match="no model 'nonsense'.*" + folder.name):
        parse("the cat slept", "nonsense")


def test_model_in_training_is_put_into_evaluation_mode(folder):
    model = UDGNForMaskedLM.from_pretrained(folder).train()
    assert parse("the old cat slept near a dog", model) == parse("the old cat slept near a dog", folder)
    assert not model.training


def test_model_with_weights_on_disk(any_folder, tmp_path):
    model = AutoModelForDependencyParsing.from_pretrained(any_folder)
    disk_offload(model, tmp_path, torch.device("cpu"))
    assert model.device.type == "meta"
    sentences = random_sentences(5)
    assert_close(parse(sentences, model), parse(sentences, any_folder))


@pytest.mark.parametrize(
    ("dtype", "given", "kept"),
    [
        ("bfloat16", "", "8192"),
        ("float16", "", "8192"),
        ("bfloat16", "5", "5"),
        (None, "", None),
        ("float64", "", None),
        ("int8", "", None),
    ],
)
def test_kernels_of_half_precision_are_kept(folder, dtype, given, kept, monkeypatch):
    """Those of other precisions would fill the memory, and save no time."""
    name = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.setenv(name, given)  # so that it is restored
    if not given:
        monkeypatch.delenv(name)
    hf_structure.release_models()  # so that the folder is loaded
    parse("the dog", folder, device="cpu", dtype=dtype)
    assert os.environ.get(name) == kept


def test_dtype(folder):
    sentences = ["the old cat slept near a dog", "the dog"]
    exact = UDGNForMaskedLM.from_pretrained(folder)
    rounded = UDGNForMaskedLM.from_pretrained(folder, dtype=torch.bfloat16)
    results = parse(sentences, folder, dtype="bfloat16")
    assert results == parse(sentences, rounded) == parse(sentences, rounded, dtype=torch.bfloat16)
    assert results != parse(sentences, exact) == parse(sentences, folder)  # probabilities differ
    for result, wanted in zip(results, parse(sentences, exact), strict=True):
        assert result.dependency.log_probability == pytest.approx(wanted.dependency.log_probability, abs=0.05)
    with pytest.raises(ValueError, match=r"computes in torch.float32: convert it with model.to\(torch.bfloat16\)"):
        parse(sentences, exact, dtype="bfloat16")
    for wrong in ("nonsense", "int16", torch.int16, "nn", "float8_e4m3fn", 5):
        with pytest.raises(ValueError, match="dtype must be a floating-point type"):
            parse(sentences, folder, dtype=wrong)
    with pytest.raises(ValueError, match="this Linear does not parse"):
        parse(sentences, torch.nn.Linear(2, 2), tokenizer=tiny_tokenizer(), dtype="bfloat16")


def test_model_stays_loaded_while_its_folder_does_not_change(folder, tmp_path, monkeypatch):
    loads = []
    load = AutoModelForDependencyParsing.from_pretrained

    def counting_load(name, **kwargs):
        loads.append(name)
        return load(name, **kwargs)

    monkeypatch.setattr(AutoModelForDependencyParsing, "from_pretrained", counting_load)
    for seed in (0, 1):
        tiny_model(seed).save_pretrained(tmp_path / str(seed))
        tiny_tokenizer().save_pretrained(tmp_path / str(seed))
    sentences = random_sentences(20)
    first, second = (parse(sentences, tmp_path / name) for name in "01")
    assert heads_of(first) != heads_of(second)
    monkeypatch.chdir(tmp_path)
    assert parse(sentences, "0") == first
    assert len(loads) == 2
    # other weights under the same configuration
    weights = tmp_path / "0" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    weights.write_bytes((tmp_path / "1" / "model.safetensors").read_bytes())
    os.utime(weights, ns=(before + 10**9, before + 10**9))
    assert parse(sentences, "0") == second
    assert len(loads) == 3


def test_folders_that_hold_no_parser(folder, tmp_path):
    def copy(name: str, *left_out: str) -> Path:
        target = tmp_path / name
        target.mkdir()
        for file in folder.iterdir():
            if file.name not in left_out:
                (target / file.name).write_bytes(file.read_bytes())
        return target

    BertConfig().save_pretrained(tmp_path / "bert")
    truncated = copy("truncated")
    (truncated / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:5000])
    deeper = copy("deeper")
    config = json.loads((folder / "config.json").read_text())
    (deeper / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    (tmp_path / "empty").mkdir()
    for name, message in [
        (tmp_path / "bert", "bert holds no model that parses"),
        (truncated, "truncated holds no model that parses"),
        (deeper, r"weights are missing, such as udgn\.layers\.1"),
        (copy("unweighted", "model.safetensors"), "unweighted holds no model that parses"),
        (copy("wordless", "tokenizer.json", "tokenizer_config.json"), "wordless holds no model that parses"),
        (tmp_path / "empty", "there is no config.json in it"),
    ]:
        with pytest.raises(ValueError, match=message) as error:
            parse("the cat", name)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("config.json", {"hidden_size": 18}, r"\d+ weights have other sizes than its configuration says, such as "),
        ("config.json", {"hidden_size": "16"}, "Validation error for field 'hidden_size'.*expected int"),
        ("config.json", {"model_type": ["udgn"]}, ""),
        ("config.json", {"model_type": None}, ""),
        ("tokenizer.json", {"model": None}, ""),
        ("tokenizer.json", {"model": {"type": "WordLevel", "vocab": {"a": "b"}, "unk_token": "a"}}, ""),
        ("tokenizer_config.json", {"pad_token": True}, "TypeError: "),
        (
            "tokenizer.json",
            {
                "post_processor": {
                    "type": "TemplateProcessing",
                    **{key: [A_TOKEN] for key in ("single", "pair")},
                    "special_tokens": {},
                }
            },
            "PanicException: ",
        ),
        ("tokenizer_config.json", {"model_max_length": []}, "TypeError: "),
    ],
)
def test_wrong_values_in_a_folder(folder, tmp_path, file, changes, message):
    for source in folder.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    (tmp_path / file).write_text(json.dumps(json.loads((folder / file).read_text()) | changes))
    with pytest.raises(ValueError, match=f"^{tmp_path} holds no model that parses: {message}") as error:
        parse("the cat", tmp_path)
    assert "\n" not in str(error.value)


def test_wrong_word_tokenizer_and_vocabulary_of_a_folder(folder, tmp_path):
    for source in folder.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    build_word_tokenizer([f"word{number}" for number in range(99)]).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="the tokenizer has 102 tokens, but the model knows 21"):
        parse("the cat", tmp_path)
    tokenizer = tiny_tokenizer()
    tokenizer.init_kwargs["word_tokenizer"] = {}
    with pytest.raises(ValueError, match=r"one of english, spaces, unicode, or a function, not \{\}"):
        parse("the cat", folder, tokenizer=tokenizer)


def test_argmax_takes_the_best_head_of_each_word(folder):
    sentences = [*random_sentences(50, marks=0.0), ["the"]]
    argmax, trees = (parse(sentences, folder, decoder=decoder) for decoder in ("argmax", "tree"))
    for one, other in zip(argmax[:-1], trees, strict=False):
        assert one.dependency.log_probability is None
        for best, head, probability in zip(
            one.dependency.probabilities, other.dependency.heads, other.dependency.probabilities, strict=True
        ):
            assert head == 0 or best >= probability - 1e-6
    assert any(not parsed.dependency.is_tree for parsed in argmax)
    assert argmax[-1].dependency.heads == (0,)


def test_projective_trees(folder):
    sentences = random_sentences(100)
    projective, trees = (parse(sentences, folder, decoder=decoder) for decoder in ("projective", "tree"))
    for one, best in zip(projective, trees, strict=True):
        assert one.dependency.is_tree
        assert is_projective(one.dependency.heads)  # with its punctuation attached, too
        if is_projective(best.dependency.heads):
            assert one.dependency.heads == best.dependency.heads
    assert heads_of(projective) != heads_of(trees)


# Constituents


@pytest.mark.parametrize("structure", [None, "dependency", "constituency", "both"])
def test_structures(both_structures, structure):
    for parsed in parse(random_sentences(5), both_structures, structure=structure):
        given = {name for name in ("dependency", "constituency") if getattr(parsed, name) is not None}
        assert given == (
            {structure} if structure in ("dependency", "constituency") else {"dependency", "constituency"}
        )
        assert parsed.distances is not None
        assert parsed.alternatives == ()
        assert parsed.marginals is None
        assert parsed.dependency is None or parsed.dependency.log_probability is None
        assert Parse.from_dict(json.loads(json.dumps(parsed.to_dict()))) == parsed


def test_trees_are_those_of_the_distances(both_structures):
    for parsed in parse(random_sentences(60), both_structures, punctuation="drop"):
        assert parsed.distances.words == parsed.dependency.words
        spans, heads = joint_trees(parsed.distances.distances, parsed.distances.heights)
        assert list(parsed.constituency.spans) == spans
        assert list(parsed.dependency.heads) == heads
        assert parsed.constituency.is_binary
        assert parsed.dependency.is_tree
        assert is_projective(heads)


@torch.no_grad()
def test_probabilities_are_the_parent_distribution(structformer):
    parsed = parse("the old cat chased a dog", structformer, marginals=True)
    model = StructFormerForMaskedLM.from_pretrained(structformer)
    tokenizer = AutoTokenizer.from_pretrained(structformer)
    outputs = model(torch.tensor([tokenizer.convert_tokens_to_ids(list(parsed.words))]))
    marginals = torch.tensor(parsed.marginals)
    assert marginals[:, 1:].allclose(outputs.parent_probs[0], atol=1e-5)
    assert marginals[:, 0].allclose(outputs.root_probs[0], atol=1e-5)
    for row, head, probability in zip(
        parsed.marginals, parsed.dependency.heads, parsed.dependency.probabilities, strict=True
    ):
        assert probability == pytest.approx(row[head], abs=1e-6)


@pytest.mark.parametrize("punctuation", ["attach", "drop", "parse"])
def test_both_trees_are_over_the_same_words(both_structures, punctuation):
    for parsed in parse([*random_sentences(40), [".", "..."]], both_structures, punctuation=punctuation):
        seen = tuple(word for word in parsed.words if not is_punctuation(word)) or parsed.words
        expected = seen if punctuation == "drop" else parsed.words
        assert parsed.dependency.words == parsed.constituency.words == expected
        assert parsed.distances.words == (parsed.words if punctuation == "parse" else seen)


def test_trees_without_attached_marks_are_those_of_the_model(both_structures):
    sentences, marks_inside = random_sentences(100), 0
    trees = (parse(sentences, both_structures, punctuation=punctuation) for punctuation in ("attach", "drop"))
    for attached, bare in zip(*trees, strict=True):
        spans = [(start, end, None) for start, end in attached.constituency.spans]
        kept = drop_punctuation({"words": attached.words, "spans": spans}, by="form")["spans"]
        assert [(start, end) for start, end, _ in kept if end - start > 1] == list(bare.constituency.spans)
        keep = [not is_punctuation(word) for word in attached.words]
        assert remove_words(attached.dependency.heads, keep) == list(bare.dependency.heads)
        for start, end in attached.constituency.spans[1:]:  # no constituent begins or ends with a mark
            assert keep[start]
            assert keep[end - 1]
            marks_inside += not all(keep[start:end])
    assert marks_inside > 20


def test_sentences_of_one_word(both_structures):
    for parsed in parse([["cat"], ["!"]], both_structures, marginals=True):
        assert parsed.dependency.heads == (0,)
        assert parsed.constituency.spans == ()
        assert parsed.distances.distances == ()
        assert len(parsed.marginals) == 1
    attached, dropped = (parse(["cat !"], both_structures, punctuation=rule)[0] for rule in ("attach", "drop"))
    assert attached.constituency.spans == ((0, 2),)
    assert attached.dependency.heads == (0, 1)
    assert dropped.constituency.spans == ()


def test_argmax_leaves_the_constituents_alone(both_structures):
    sentences = random_sentences(40)
    argmax, trees = (parse(sentences, both_structures, decoder=decoder) for decoder in ("argmax", "tree"))
    assert [one.constituency for one in argmax] == [one.constituency for one in trees]
    assert heads_of(argmax) != heads_of(trees)
    assert any(not parsed.dependency.is_tree for parsed in argmax)


@torch.no_grad()
def test_distances_of_words_are_those_between_their_pieces(subword_structformer):
    model = StructFormerForMaskedLM.from_pretrained(subword_structformer)
    tokenizer = AutoTokenizer.from_pretrained(subword_structformer)
    words = ["Antidisestablishment", "the", "naïve", "cats", "chased"]
    pieces = [tokenizer(" " + word)["input_ids"] for word in words]
    assert max(map(len, pieces)) > 10
    decoded = model.decode(torch.tensor([list(itertools.chain(*pieces))]))
    ends = list(itertools.accumulate(map(len, pieces)))
    parsed = parse([words], subword_structformer)[0]
    assert parsed.distances.distances == pytest.approx([decoded.distances[0, end - 1].item() for end in ends[:-1]])
    heights = [decoded.heights[0, end - len(ids) : end].max().item() for ids, end in zip(pieces, ends, strict=True)]
    assert parsed.distances.heights == pytest.approx(heights)


# Errors


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("", "the sentence is empty"),
        ([], "the sentence is empty"),
        ("  \n", "the sentence is empty"),
        (["the", ""], "word 2 is ''"),
        (["the", " "], "word 2 is ' '"),
        (["the", 3], "word 2 is 3"),
        (["the", None], "word 2 is None"),
        ([["the"]], r"word 1 is \['the'\]"),
        (3.5, "a sentence is a string, a list of words or a dictionary that has words, not 3.5"),
        ("the \ud800 cat", r"character 5 of 'the .ud800 cat' is a lone surrogate"),
        (["the", "\udfffcat"], "character 1 of .* is a lone surrogate"),
        ("the " * 21, "21 words, more than the 20 of max_words"),
    ],
)
def test_bad_sentence_is_named_and_those_before_it_come_out(folder, sentence, message):
    sentences = ["the cat", "a dog", sentence, "she slept"]
    with pytest.raises(ValueError, match=f"^sentence 3: .*{message}"):
        parse(sentences, folder, max_words=20)
    parses = parse(iter(sentences), folder, max_words=20)
    assert [next(parses).words, next(parses).words] == [("the", "cat"), ("a", "dog")]
    with pytest.raises(ValueError, match=f"^sentence 3: .*{message}"):
        next(parses)


def test_none_stands_for_sentences_that_are_skipped(folder, monkeypatch):
    monkeypatch.setattr(parsing, "WINDOW", 2)
    sentences = random_sentences(30)
    expected = [None if len(words) > 6 else parse([words], folder)[0] for words in sentences]
    assert 0 < expected.count(None) < 30
    found = parse(sentences, folder, max_words=6, skip_long=True, batch_size=3)
    assert [parsed and parsed.words for parsed in found] == [parsed and parsed.words for parsed in expected]
    assert heads_of(filter(None, found)) == heads_of(filter(None, expected))
    assert parse("the " * 9, folder, max_words=6, skip_long=True) is None
    with pytest.raises(ValueError, match="sentence 2: the sentence is empty"):
        parse(["the " * 9, ""], folder, max_words=6, skip_long=True)


def test_sentence_as_long_as_allowed(folder):
    assert len(parse("the " * 20, folder, max_words=20).words) == 20
    with pytest.raises(ValueError, match="sentence 1: the sentence has 10000 words"):
        parse("the " * 10_000, folder)


def test_error_of_the_source_comes_after_the_sentences_before_it(folder):
    def broken() -> Iterator[str]:
        yield from ["the cat", "a dog"]
        raise KeyError("source")

    parses = parse(broken(), folder)
    assert [next(parses).words, next(parses).words] == [("the", "cat"), ("a", "dog")]
    with pytest.raises(KeyError, match="source"):
        next(parses)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"punctuation": "keep"}, "punctuation must be one of attach, drop, parse, not 'keep'"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"structure": "constituency"}, "UDGNForMaskedLM gives dependency trees, but no constituency trees"),
        ({"structure": "phrases"}, "structure must be one of dependency, constituency, both, graph, not 'phrases'"),
        ({"decoder": "viterbi"}, "not 'viterbi'"),
        ({"k": 0}, "k must be at least 1, not 0"),
        ({"k": 2, "decoder": "argmax"}, "k=2 is not possible"),
    ],
)
def test_bad_options(folder, options, message):
    with pytest.raises(ValueError, match=message):
        parse(["the cat"], folder, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": "constituency", "marginals": True}, "marginals are about dependencies"),
        ({"k": 2}, "k=2 is not possible"),
    ],
    ids=["marginals", "k"],
)
def test_options_that_structformer_does_not_have(structformer, options, message):
    with pytest.raises(ValueError, match=message):
        parse(["the cat"], structformer, **options)


def test_tokenizers_that_do_not_fit(model, subword_structformer):
    subwords = AutoTokenizer.from_pretrained(subword_structformer)
    with pytest.raises(ValueError, match="UDGNForMaskedLM reads whole words: a word-level tokenizer is needed"):
        parse("the cat", model, tokenizer=subwords)
    with pytest.raises(ValueError, match="a fast one is needed"):
        parse("the cat", subword_structformer, tokenizer=ByT5Tokenizer())


@pytest.mark.parametrize(
    "name", ["structformer", "subword_g2g_transformer", "subword_rng_transformer", "graph_parser"]
)
@pytest.mark.filterwarnings("ignore:this model reads part-of-speech tags")
def test_no_padding_token_is_needed(request, name):
    folder = request.getfixturevalue(name)
    without = AutoTokenizer.from_pretrained(folder)
    without.pad_token = None
    sentences = [["the", "old", "cat", "saw", "dogs"], ["cats", "sleep"]]
    assert parse(sentences, folder, tokenizer=without) == parse(sentences, folder)


def test_model_without_structures(structformer):
    settings = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "attention": "softmax"}
    transformer = StructFormerForMaskedLM(StructFormerConfig(vocab_size=40, **settings))
    with pytest.raises(ValueError, match="this StructFormerForMaskedLM does not parse: it gives no structure"):
        parse("the cat", transformer, tokenizer=AutoTokenizer.from_pretrained(structformer))


# The same as a pipeline


def test_pipeline_of_a_compact_checkpoint(folder, tmp_path):
    save_compact(tiny_model(), tiny_tokenizer(), tmp_path)
    sentences = random_sentences(20)
    parser = pipeline("dependency-parsing", model=str(tmp_path))
    assert parser.model.dtype == torch.float32
    assert_close(parser(sentences), [parsed.to_dict() for parsed in parse(sentences, tmp_path)])


@pytest.mark.parametrize(
    "options",
    [{}, {"structure": "both", "marginals": True, "punctuation": "drop"}],
    ids=["default", "both"],
)
def test_constituency_pipeline_gives_what_parse_gives(both_structures, options):
    sentences = random_sentences(20)
    parses = parse(sentences, both_structures, **{"structure": "constituency", **options})
    expected = [parsed.to_dict() for parsed in parses]
    found = pipeline("constituency-parsing", model=str(both_structures))(sentences, batch_size=8, **options)
    assert_close(found, expected)
    assert json.loads(json.dumps(found)) == found
    lazy = pipeline("constituency-parsing", model=str(both_structures), **options)(words for words in sentences)
    assert isinstance(lazy, Iterator)
    assert_close(list(lazy), expected)


def test_dependency_pipeline_of_a_model_of_both(structformer):
    found = pipeline("dependency-parsing", model=str(structformer))("the cat slept")
    assert found["constituency"] is None
    assert_close(found, parse("the cat slept", structformer, structure="dependency").to_dict())


def test_call_overrides_the_structure_of_the_pipeline(structformer):
    parser = pipeline("constituency-parsing", model=str(structformer), structure="both")
    assert parser("the cat")["dependency"] is not None
    assert parser("the cat", structure="constituency")["dependency"] is None


def test_pipeline_refuses_structures_that_the_model_does_not_give(folder):
    for structure in ("constituency", "both"):
        with pytest.raises(ValueError, match="gives dependency trees, but no constituency trees"):
            pipeline("dependency-parsing", model=str(folder), structure=structure)


@pytest.mark.parametrize(
    ("name", "implementation", "checkpoint"),
    [
        ("dependency-parsing", DependencyParsingPipeline, "rngt-en"),
        ("constituency-parsing", ConstituencyParsingPipeline, "structformer-en"),
    ],
    ids=["dependency", "constituency"],
)
def test_pipeline_is_registered_with_a_bundled_model(name, implementation, checkpoint):
    _, task, _ = PIPELINE_REGISTRY.check_task(name)
    assert task["impl"] is implementation
    assert task["default"]["model"][0] == str(CHECKPOINTS / checkpoint)


def test_a_pipeline_saves_no_code(folder, tmp_path):
    """As a model: code goes with `hf_structure.export` alone."""
    parser = pipeline("dependency-parsing", model=str(folder), device="cpu")
    parser.save_pretrained(tmp_path / "saved")
    assert not list((tmp_path / "saved").glob("*.py"))
    assert "custom_pipelines" not in (tmp_path / "saved" / "config.json").read_text()
    saved = pipeline("dependency-parsing", model=str(tmp_path / "saved"), device="cpu")
    assert saved("the cat slept") == parser("the cat slept")
