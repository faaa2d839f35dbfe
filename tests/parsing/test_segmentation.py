"""From running text to sentences that a model finds, tokens, and CoNLL-U that the validator of UD accepts."""

import io
import json
from dataclasses import replace
from hashlib import sha256
from itertools import chain, combinations, pairwise, starmap
from math import prod
from random import Random

import pytest
import torch
from transformers import AutoTokenizer
from udtools.validator import Validator

from hf_structure import Parse, parse
from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.segmentation import (
    _pieces_of_words,
    _probabilities,
    _trusted_spans,
    _windows,
    find_starts,
    fitting_starts,
    sentence_splitter,
)
from hf_structure.registration.auto import AutoModelForDependencyParsing
from hf_structure.structures import Parses
from hf_structure.text.conllu import read_conllu
from hf_structure.text.tokenization import encode
from hf_structure.text.words import tokenize, tokenize_words

MAIL = """From: "J. Doe" <j.doe@x-corp.com>
Subject: RE:  can't  login!!!

hi all,I don't know what's up w/ http://x.org/a?b=1&c=2... pls   check (asap) \U0001f44d\U0001f3fd
\tThe states\u2019 rights, e.g.\tthe U.S. dollar, aren't gonna cost $5k :-) <3

>> cannot do; it's 50% off -- y'all've SEEN it
#wow @user_1 \u00ab caf\u00e9 \u00bb \u200b na\u00efve \u3000 1,000.50
\U0001f469\u200d\U0001f469\u200d\U0001f467 _ | a|b # = \u2028 end
"""


@pytest.fixture(scope="module")
def model(tagger):
    return AutoModelForDependencyParsing.from_pretrained(tagger).eval()


@pytest.fixture(scope="module")
def tokenizer(tagger):
    return AutoTokenizer.from_pretrained(tagger)


@pytest.fixture(scope="module")
def parses(tagger):
    return parse(MAIL, tagger, sentences="model")


def test_the_model_finds_sentences(parses):
    assert isinstance(parses, Parses)
    assert 2 < len(parses) < sum(len(parsed.words) for parsed in parses)
    for parsed in parses:
        assert MAIL[parsed.start :].startswith(parsed.text)
        assert tokenize_words(parsed.text) == list(parsed.words)
        assert [parsed.text[slice(*word.span)] for word in parsed] == [word.form for word in parsed]
    places = [(parsed.start, parsed.start + len(parsed.text)) for parsed in parses]
    assert all(not MAIL[end:start].strip(" \n\t\u200b\u3000\u2028") for (_, end), (start, _) in pairwise(places))
    assert any(MAIL[: parsed.start].endswith("login!!!\n\n") for parsed in parses)  # an empty line ends a sentence


def test_a_string_is_one_sentence_unless_asked(tagger):
    with pytest.warns(UserWarning, match="2 sentences is parsed as one: sentences='model' parses each"):
        assert isinstance(parse("Yes. No.", tagger), Parse)
    words = ["Yes.", "No.", "don't"]
    for one in (words, {"words": words}):
        [(parsed,)] = parse([one], tagger, sentences="model")
        assert isinstance(parsed, Parse)
        assert not parsed.multiword_tokens


def rounded(parses) -> list | dict:
    """As dictionaries; the last digits of numbers depend on the batch."""
    values = [each.to_dict() if isinstance(each, Parse | Parses) else each for each in parses]
    return json.loads(json.dumps(values), parse_float=lambda number: round(float(number), 4))


@pytest.fixture
def begin_with_z(model, tokenizer, monkeypatch):
    """The model, with 62 positions, says that a sentence begins with each word `Z`."""
    monkeypatch.setattr(model.config, "max_position_embeddings", 62)
    *_, piece = encode(["Z"], tokenizer)["input_ids"]  # after one of the space before it

    def starts(input_ids, word_ids, **_):
        size = int(word_ids.max()) + 1
        found = torch.zeros(len(input_ids), size)
        return found.scatter_reduce(1, word_ids.clamp(min=0), (input_ids == piece).float(), "amax")  # (B, n)

    monkeypatch.setattr(model, "sentence_starts", starts)


@pytest.mark.parametrize("seed", range(5))
def test_starts_among_words_of_many_pieces(model, tokenizer, begin_with_z, seed):
    """Windows of 60 pieces hold few words of up to 70 pieces."""
    random = Random(seed)
    words = random.choices(["Z", "q", "qwq", "q" * 20, "q" * 70], weights=[9, 9, 9, 3, 1], k=300)
    pieces = _pieces_of_words(encode(words, tokenizer), len(words))
    assert _probabilities([words], [pieces], model, None, 64) == [[float(word == "Z") for word in words]]


def test_sentences_after_words_that_are_too_long(model, tokenizer, begin_with_z):
    hashes = [sha256(bytes([number])).hexdigest() for number in range(40)]
    text = f"{' '.join(hashes)} . Z slept . Z ran ."
    options = {"word_tokenizer": "spaces", "skip_long": True}
    parses = parse(text, model, tokenizer=tokenizer, sentences="model", **options)
    assert [parsed.text for parsed in parses if parsed] == [".", "Z slept .", "Z ran ."]
    assert len(parses) == 43


@pytest.mark.parametrize("longest", [1, 3, 40])
@pytest.mark.parametrize("max_pieces", [None, 20, 62])
def test_each_word_is_told_by_the_window_where_it_lies_furthest_inside(longest, max_pieces):
    random = Random(longest)
    for length in [*range(6), 127, 128, 129, 160, 500]:
        sizes = [random.randint(1, longest) for _ in range(length)]
        windows = list(_windows(sizes, max_pieces))
        trusted = _trusted_spans(windows)
        tellers = [[k for k, (first, last) in enumerate(trusted) if first <= word < last] for word in range(length)]
        assert all(len(each) == 1 for each in tellers)

        def depth(window: int, word: int, windows=windows, length=length) -> int:
            start, end = windows[window]
            left = word - start if start else length
            right = end - 1 - word if end < length else length
            return min(left, right) if start <= word < end else -1

        for word, [teller] in enumerate(tellers):
            assert depth(teller, word) == max(depth(window, word) for window in range(len(windows)))
        assert all(end - start <= 128 for start, end in windows)
        if max_pieces is not None:
            assert all(end - start == 1 or sum(sizes[start:end]) <= max_pieces for start, end in windows)
        assert [end for _, end in windows] == sorted({end for _, end in windows})


def test_windows_of_short_words_share_32():
    assert list(_windows([1] * 300, None)) == [(0, 128), (96, 224), (192, 300)]
    assert _trusted_spans([(0, 128), (96, 224), (192, 300)]) == [(0, 112), (112, 208), (208, 300)]
    assert list(_windows([1] * 30, 20)) == [(0, 20), (10, 30)]


def test_no_sentence_begins_within_a_token(model, tokenizer, monkeypatch):
    """Not even where the model says so of each word."""
    monkeypatch.setattr(model, "sentence_starts", lambda input_ids, **_: input_ids.new_ones(input_ids.shape).float())
    text = "I don't,they can't've: dunno"
    parses = parse(text, model, tokenizer=tokenizer, sentences="model")
    assert [parsed.text for parsed in parses] == ["I", "don't", ",", "they", "can't've", ":", "dunno"]
    assert [list(parsed.words) for parsed in parses] == [list(token) for token in tokenize(text)]
    assert parses[4].multiword_tokens == ((1, 3),)


@pytest.fixture
def set_starts(model, monkeypatch):
    """Sets the probability that a sentence begins with each word of one window."""

    def set_to(*probabilities: float):
        monkeypatch.setattr(model, "sentence_starts", lambda **_: torch.tensor([probabilities]))

    return set_to


def starts_of(words, model, tokenizer, **options) -> list[int]:
    [found] = find_starts([words], model, tokenizer, **options)
    return [word for word, begins in enumerate(found) if begins]


@pytest.mark.parametrize(
    ("max_words", "inside", "starts"),
    [
        (None, [], [0, 5]),
        (3, [], [0, 2, 5]),
        (2, [], [0, 2, 3, 5, 7]),
        (1, [], [*range(8)]),
        (2, [2, 3], [0, 1, 4, 5, 7]),
        (2, [*range(1, 8)], [0]),  # nowhere to split it
    ],
)
def test_a_sentence_of_too_many_words_is_split_at_its_likeliest_starts(
    max_words, inside, starts, model, tokenizer, set_starts, monkeypatch
):
    set_starts(0.9, 0.1, 0.3, 0.2, 0.1, 0.6, 0.1, 0.2)
    abilities = replace(abilities_of(model.config), max_words=max_words, max_tokens=None)
    monkeypatch.setattr("hf_structure.parsing.segmentation.abilities_of", lambda _: abilities)
    assert starts_of(list("abcdefgh"), model, tokenizer, inside=[inside]) == starts


@pytest.mark.parametrize("seed", range(30))
def test_parts_are_the_likeliest_that_fit(seed):
    random = Random(seed)
    sizes = [random.choice([1, 1, 2, 9]) for _ in range(12)]
    possible = {word: random.random() ** 3 / 2 for word in range(1, 12) if random.random() < 0.8}
    possible |= dict.fromkeys(random.sample(sorted(possible), 1), 0.0)

    def is_allowed(start: int, end: int) -> bool:
        return (end - start <= 4 and sum(sizes[start:end]) <= 8) or not possible.keys() & set(range(start + 1, end))

    def likelihood(chosen: tuple[int, ...]) -> float:
        return prod(possible[word] or 1e-30 for word in chosen)

    every = chain.from_iterable(combinations(sorted(possible), number) for number in range(12))
    allowed = [chosen for chosen in every if all(starmap(is_allowed, pairwise([0, *chosen, 12])))]
    assert fitting_starts([0], possible, sizes, 4, 8) == {0, *max(allowed, key=likelihood)}
    assert fitting_starts([0], possible, sizes, None, None) == {0}


def test_a_word_that_is_too_long_is_left_alone():
    possible = dict.fromkeys(range(1, 9), 0.1)
    assert fitting_starts([0], possible, [1, 1, 1, 99, 1, 1, 1, 1, 1], None, 9) == {0, 3, 4}


def test_text_without_starts_fits_the_model(model, tokenizer, monkeypatch):
    """300 words, of which each has several pieces."""
    torch.manual_seed(1)
    monkeypatch.setattr(model.config, "max_position_embeddings", 62)
    monkeypatch.setattr(model, "sentence_starts", lambda input_ids, **_: torch.rand(input_ids.shape) * 1e-4)
    text = " ".join(["cats,", "don't", "qwxyz"] * 100)
    parses = parse(text, model, tokenizer=tokenizer, sentences="model")
    assert [word for parsed in parses for word in parsed.words] == tokenize_words(text)
    assert {parsed.words[0] for parsed in parses} <= {"cats", ",", "do", "qwxyz"}
    assert 10 < len(parses) < 200


MIDDLE = [0.01 if word == 20 else 0.0001 for word in range(40)]


@pytest.mark.parametrize(
    ("length", "marked", "expected"),
    [
        (31, "b", [0, 20]),
        (30, "b", [0]),
        (40, "b,", [0]),
        (40, ",", [0]),
        (40, "?'", [0]),
        (40, "'s", [0, 20]),
        (40, "Al", [0]),
        (40, "I", [0, 20]),
    ],
)
def test_less_likely_starts_suffice_where_nothing_marks_sentences(
    model, tokenizer, set_starts, length, marked, expected
):
    set_starts(*MIDDLE[:length])
    words = ["a"] * length
    words[10] = marked
    assert starts_of(words, model, tokenizer) == expected


def test_a_stretch_without_marks_is_split_at_its_likeliest_starts(model, tokenizer, set_starts):
    values = {5: 0.002, 10: 0.3, 35: 0.02, 40: 0.03, 70: 0.4, 90: 0.2}
    set_starts(*(values.get(word, 0.0001) for word in range(100)))
    # From 70 to the end there are 30 words, from 40 to 70, too, and to 40, from 10.
    assert starts_of(["a"] * 100, model, tokenizer) == [0, 10, 40, 70]


def test_models_of_text_without_punctuation_know_what_is_likely(model, tokenizer, set_starts, monkeypatch):
    set_starts(*MIDDLE)
    assert starts_of(["a"] * 40, model, tokenizer) == [0, 20]
    monkeypatch.setattr(model.config, "id2label", {0: "root", 1: "nsubj"})
    assert starts_of(["a"] * 40, model, tokenizer) == [0]


@pytest.mark.parametrize(("line_breaks", "number"), [("end", 4), ("space", 2)])
def test_line_breaks_end_sentences(model, tokenizer, begin_with_z, line_breaks, number):
    text = "milk eggs\r\nbread\u2028tea \n\n milk"
    [spans] = sentence_splitter(model, tokenizer, tokenize, line_breaks=line_breaks)([text])
    assert len(spans) == number
    assert len(next(iter(sentence_splitter(model, tokenizer, tokenize)([text])))) == 4


def test_short_paragraphs_are_read_together(model, tokenizer, monkeypatch):
    read = []
    starts = model.sentence_starts
    monkeypatch.setattr(model, "sentence_starts", lambda **batch: read.append(batch["input_ids"]) or starts(**batch))
    texts = ["Yes. No.", "it isn't so", "It isn't. no"] * 100 + [" ".join(["cats"] * 500)]
    parse(texts, model, tokenizer=tokenizer, sentences="model")
    assert len(read) < 10
    assert max(ids.numel() for ids in read) <= 1024


def test_texts_are_split_as_each_alone(model, tokenizer):
    """They are read together; the long one in several windows."""
    texts = [MAIL, "", "Yes. No.", ["given", "words"], "it isn't so\n\nno " * 60, "It isn't."]
    together = parse(texts, model, tokenizer=tokenizer, sentences="model")
    alone = [parse([text], model, tokenizer=tokenizer, sentences="model")[0] for text in texts]
    assert [[parsed.text for parsed in each] for each in together] == [
        [parsed.text for parsed in each] for each in alone
    ]
    assert rounded(together) == rounded(alone)


def test_a_stream_is_read_as_it_is_needed(tagger):
    read = []

    def texts():
        for number in range(10_000):
            read.append(number)
            yield "it isn't so. no"

    stream = parse(texts(), tagger, batch_size=1, sentences="model")
    assert "".join(word for parsed in next(stream) for word in parsed.words) == "itisn'tso.no"
    assert len(read) <= 64


def test_what_comes_before_a_bad_text_comes_out(tagger):
    stream = parse(iter(["Yes. No.", "Fine.", "bad \udc00", "never read"]), tagger, sentences="model")
    assert "".join("".join(parsed.text for parsed in next(stream)).split()) == "Yes.No."
    assert [parsed.text for parsed in next(stream)]
    with pytest.raises(ValueError, match=r"character 5 of 'bad .*' is a lone surrogate"):
        next(stream)


@pytest.mark.slow
def test_a_paragraph_of_100_000_words(tagger):
    text = " ".join(["Cats don't bark,", "do they ?", "(ok :-) )"] * 12_500)
    parses = parse(text, tagger, skip_long=True, sentences="model")
    read = [(parsed.start, parsed.start + len(parsed.text)) for parsed in parses if parsed is not None]
    assert sum(len(parsed.words) for parsed in parses if parsed is not None) > 90_000
    assert all(end <= start for (_, end), (start, _) in pairwise(read))
    assert all(text[start:end] == parsed.text for (start, end), parsed in zip(read, filter(None, parses), strict=True))


def problems(conllu: str, level: int) -> list[str]:
    """What udtools says against it."""
    state = Validator(lang="ud", level=level, output=None, max_store=9).validate_file_handle(io.StringIO(conllu))
    return [str(incident) for incident in state.error_tracker]


def test_the_validator_accepts_hostile_text(parses):
    text = parses.to_conllu()
    assert not problems(text, level=2)
    sentences = list(read_conllu(text.splitlines()))
    assert any("-" in token.id for sentence in sentences for token in sentence.tokens)
    assert {token.upos for sentence in sentences for token in sentence.words} == {"NOUN", "VERB", "PUNCT"}
    broken = text.replace("SpaceAfter=No", "A=1", 1)
    assert problems(broken, level=2)
