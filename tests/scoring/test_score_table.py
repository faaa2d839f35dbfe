"""Scores as a table: against sums over the tokens of a sentence, and against its log-probability."""

import itertools
import math
import warnings

import pandas
import pytest
import torch
from tiny_models import new_structformer, randomise, unigram_tokenizer
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer

from hf_structure import GiLTConfig, GiLTForCausalLM, build_word_tokenizer, score, score_table

PIECES = ["<|endoftext|>", "Ġ", "a", "b", "c", "Ġa", "ab", "Ġab", ".", "'", ","]
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "graph_embedding_size": 4}
SMALL |= {"scorer_hidden_size": 16, "scorer_size": 8, "max_new_arcs": 2}
CORPUS = [["The", "dogs", "ca", "n't", "sleep", "."], ["cats", ",", "too"]]


@pytest.fixture(scope="module")
def gpt2():
    merges = [("Ġ", "a"), ("a", "b"), ("Ġa", "b")]
    tokenizer = GPT2Tokenizer(vocab={piece: i for i, piece in enumerate(PIECES)}, merges=merges)
    config = GPT2Config(vocab_size=11, n_embd=16, n_layer=2, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0)
    return randomise(GPT2LMHeadModel(config), std=0.3), tokenizer


@pytest.fixture(scope="module")
def gilt():
    tokenizer = unigram_tokenizer(CORPUS)
    return randomise(GiLTForCausalLM(GiLTConfig(vocab_size=len(tokenizer), **SMALL)), std=0.3), tokenizer


@torch.no_grad()
def surprisals(model, ids: list[int]) -> list[float]:
    """Of all tokens but the first, by transformers alone."""
    log_probs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return [-log_probs[place - 1, ids[place]].item() for place in range(1, len(ids))]


def test_words_of_a_plain_model(gpt2):
    """A word is what stands between spaces; its surprisal the sum over the tokens that GPT-2 makes of it."""
    model, tokenizer = gpt2
    frame = score_table(["ab ab, cab."], model, tokenizer=tokenizer)
    ids = tokenizer("ab ab, cab.")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["ab", "Ġab", ",", "Ġ", "c", "ab", "."]
    values = surprisals(model, [0, *ids])
    expected = [values[0], sum(values[1:3]), sum(values[3:])]
    assert frame.surprisal.tolist() == pytest.approx(expected, abs=1e-4)
    assert frame.surprisal_bits.tolist() == pytest.approx([value / math.log(2) for value in expected], abs=1e-4)
    assert frame.drop(columns=["surprisal", "surprisal_bits"]).to_dict("list") == {
        "sentence_id": [1, 1, 1],
        "word_id": [1, 2, 3],
        "word": ["ab", "ab,", "cab."],
        "start": [0, 3, 7],
        "end": [2, 6, 11],
        "pieces": ["ab", "Ġab ,", "Ġ c ab ."],
        "tokens": [1, 2, 4],
        "unknown": [0, 0, 0],
    }


def test_words_that_the_model_splits(gilt):
    """`can't` and `sleep.` are words of the input, and two words each to the model."""
    model, tokenizer = gilt
    text = "The dogs  can't sleep."
    options = {"tokenizer": tokenizer, "beam_size": 3}
    frame = score_table([text], model, **options)
    scored = score(text, model, **options)
    the, dogs, ca, nt, sleep, stop = scored.word_surprisals
    assert frame.word.tolist() == ["The", "dogs", "can't", "sleep."]
    assert frame.surprisal.tolist() == pytest.approx([the, dogs, ca + nt, sleep + stop], abs=1e-4)
    assert frame.start.tolist() == [0, 4, 10, 16]
    frame = score_table([text], model, model_words=True, **options)
    assert frame.word.tolist() == scored.words == ["The", "dogs", "ca", "n't", "sleep", "."]
    assert frame.surprisal.tolist() == pytest.approx(scored.word_surprisals, abs=1e-4)
    given = score_table([["The", "dogs", "ca", "n't"]], model, **options)
    assert given.word.tolist() == ["The", "dogs", "ca", "n't"]
    assert given.end.tolist() == [3, 8, 11, 15]


def test_several_beams(gilt):
    model, tokenizer = gilt
    texts = ["The dogs sleep.", "cats, too"]
    frame = score_table(texts, model, tokenizer=tokenizer, beam_size=[1, 4])
    for size in (1, 4):
        one = score_table(texts, model, tokenizer=tokenizer, beam_size=size)
        for name in ("surprisal", "surprisal_bits"):
            assert frame[f"{name}_beam_{size}"].tolist() == pytest.approx(one[name].tolist(), abs=1e-4)
    assert "surprisal" not in frame
    assert frame.surprisal_beam_1.tolist() != pytest.approx(frame.surprisal_beam_4.tolist(), abs=1e-3)


ITEMS = [
    {"item": 1, "condition": "long", "noun": "The dogs,", "adverb": "", "verb": "can't sleep."},
    {"item": 1, "condition": "short", "noun": "cats", "adverb": "too", "verb": "sleep"},
]


def test_regions(gilt):
    model, tokenizer = gilt
    options = {"tokenizer": tokenizer, "regions": ["noun", "adverb", "verb"], "beam_size": 2}
    words = score_table(pandas.DataFrame(ITEMS), model, **options)
    frame = score_table(ITEMS, model, rows="regions", **options)
    assert words.word.tolist() == ["The", "dogs,", "can't", "sleep.", "cats", "too", "sleep"]
    assert words.region.tolist() == ["noun", "noun", "verb", "verb", "noun", "adverb", "verb"]
    assert frame.region_id.tolist() == [1, 2, 3] * 2
    assert frame.text.tolist() == ["The dogs,", "", "can't sleep.", "cats", "too", "sleep"]
    assert frame.condition.tolist() == ["long"] * 3 + ["short"] * 3
    sums = words.groupby(["sentence_id", "region"]).surprisal.sum()
    for row in frame.itertuples():
        if row.text:
            assert row.surprisal == pytest.approx(sums[row.sentence_id, row.region], abs=1e-4)
    assert math.isnan(frame.surprisal[1])
    assert frame.tokens[1] == 0
    total = score("The dogs, can't sleep.", model, tokenizer=tokenizer, beam_size=2, eos=False).log_prob
    assert frame.surprisal[:3].sum() == pytest.approx(-total, abs=1e-4)


def test_critical_word(gilt):
    model, tokenizer = gilt
    items = [{"sentence": "The dogs can't sleep.", "position": 3}]
    frame = score_table(items, model, tokenizer=tokenizer, critical="position", beam_size=1)
    assert frame.region.tolist() == ["-2", "-1", "0", "1"]
    assert frame.word[frame.region == "0"].tolist() == ["can't"]


def test_a_word_that_reaches_over_a_region(gilt, gpt2):
    """To a model that reads the comma as a word of its own, the region may end before it."""
    items = [{"sentence": "The dogs |, too"}, {"sentence": "ab|, ab"}]
    options = {"region_mark": "|", "beam_size": 1, "tokenizer": gilt[1]}
    with pytest.raises(ValueError, match="the word 'ab,' reaches over the end of region '1'"):
        score_table(items[1:], gilt[0], **options)
    frame = score_table(items[1:], gilt[0], model_words=True, **options)
    assert frame.region.tolist() == ["1", "2", "2"]
    assert score_table(items[1:], gilt[0], rows="regions", **options).text.tolist() == ["ab", ", ab"]
    with pytest.raises(ValueError, match="the word 'ab,' reaches over"):
        score_table(items[1:], gpt2[0], rows="regions", region_mark="|", tokenizer=gpt2[1])


def test_what_is_not_scored_is_missing(gpt2, tmp_path):
    """Of a sentence that is too long, and of punctuation that a masked model does not read."""
    model, tokenizer = gpt2
    frame = score_table(["ab", "b " * 20], model, tokenizer=tokenizer, skip_long=True)
    assert frame.word.tolist() == ["ab", *["b"] * 20]
    assert frame.surprisal.isna().tolist() == [False] + [True] * 20
    assert frame.unknown.isna().sum() == 20
    assert frame.tokens.tolist() == [1] + [0] * 20
    folder = new_structformer(tmp_path, build_word_tokenizer(["the", "cat", "slept"]))
    frame = score_table(["The cat - that slept."], folder)
    assert frame.word.tolist() == ["The", "cat", "-", "that", "slept."]
    assert frame.surprisal.isna().tolist() == [False, False, True, False, False]
    assert frame.unknown.tolist() == [0, 0, pandas.NA, 1, 0]
    scored = score("The cat - that slept.", folder)
    assert scored.unknown == [False, False, True, False]
    assert frame.surprisal[4] == pytest.approx(scored.word_surprisals[3], abs=1e-4)


def test_conditions_that_the_model_reads_alike(structformer):
    items = [
        {"item": 1, "condition": "comma", "sentence": "While she slept, the cat chased dogs."},
        {"item": 1, "condition": "none", "sentence": "While she slept the cat chased dogs."},
        {"item": 2, "condition": "xyz", "sentence": "The xyz slept"},
        {"item": 2, "condition": "abc", "sentence": "The abc slept"},
        {"item": 2, "condition": "cat", "sentence": "The cat slept"},
    ]
    with pytest.warns(UserWarning, match="conditions of 2 items are the same .* of item 1 comma and none"):
        score_table(items, structformer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score_table([items[0], items[2], items[4], items[4]], structformer)


def test_correction_and_entropies(gilt):
    model, tokenizer = gilt
    text = "The dogs can't sleep."
    options = {"tokenizer": tokenizer, "beam_size": 4, "entropy": True, "correction": "pimentel-meister"}
    frame = score_table([text], model, **options)
    scored = score(text, model, **options)
    assert set(frame.correction) == {"pimentel-meister"}
    sums = scored.word_surprisals
    assert frame.surprisal.tolist() == pytest.approx([*sums[:2], sum(sums[2:4]), sum(sums[4:])], abs=1e-4)
    for name, values in (("entropy", scored.entropies), ("structure_entropy", scored.structure_entropies)):
        places = [0, 1, 2, 4, 6]
        assert frame[name].tolist() == pytest.approx([values[place] for place in places[1:]], abs=1e-4)
        reductions = [values[before] - values[after] for before, after in itertools.pairwise(places)]
        assert frame[f"{name}_reduction"].tolist() == pytest.approx(reductions, abs=1e-4)


def test_no_structures_of_a_plain_model(gpt2):
    frame = score_table(["ab ab"], gpt2[0], tokenizer=gpt2[1], entropy=True)
    assert [name for name in frame if "entropy" in name] == ["entropy", "entropy_reduction"]


def test_files(gpt2, tmp_path):
    path = tmp_path / "items.csv"
    pandas.DataFrame({"item": ["1", "2"], "Sentence": ["ab c", "b, b"]}).to_csv(path, index=False)
    frame = score_table(path, gpt2[0], sentence="Sentence", tokenizer=gpt2[1])
    assert frame.columns[:4].tolist() == ["item", "Sentence", "sentence_id", "word_id"]
    assert frame.word.tolist() == ["ab", "c", "b,", "b"]
    assert frame.item.tolist() == ["1", "1", "2", "2"]


@pytest.mark.parametrize(
    ("items", "options", "message"),
    [
        ([{"sentence": "ab", "word": 1}], {}, "row 1: the table has a column 'word' of its own"),
        ([{"text": "ab"}], {}, "row 1: there is no column 'sentence'"),
        (["ab"], {"rows": "regions"}, "there are no regions"),
        (["ab"], {"rows": "tokens"}, "rows must be one of words, regions, not 'tokens'"),
        (["ab"], {"beam_size": [1, 2]}, "builds no structures"),
        (["ab"], {"beam_size": []}, "beam_size is an empty list"),
        ([""], {}, "sentence 1: a sentence without words"),
        ({"sentence": ["ab"]}, {}, "not dict"),
        ("notes.txt", {}, "a table of items is a .csv or .tsv file"),
    ],
    ids=["name", "column", "regions", "rows", "beam", "no beam", "empty", "mapping", "file"],
)
def test_errors(gpt2, items, options, message):
    with pytest.raises(ValueError, match=message):
        score_table(items, gpt2[0], tokenizer=gpt2[1], **options)


def test_a_model_word_that_is_no_part_of_the_text(gpt2):
    with pytest.raises(ValueError, match="are no parts of the text"):
        score_table(["ab c"], gpt2[0], tokenizer=gpt2[1], word_tokenizer=lambda text: ["b", "a"])
