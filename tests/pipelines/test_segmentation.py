"""From running text to sentences that a model finds, tokens, and CoNLL-U that the validator of UD accepts."""

import io
import json
from itertools import pairwise

import pytest
from transformers import AutoTokenizer, pipeline
from udtools.validator import Validator

from hf_structure import Parse, parse
from hf_structure.auto import AutoModelForDependencyParsing
from hf_structure.data.conllu import read_conllu
from hf_structure.data.text import tokenize, tokenize_words
from hf_structure.structures import Parses

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
    assert all(not MAIL[end:start].strip() for (_, end), (start, _) in pairwise(places))
    assert any(MAIL[: parsed.start].endswith("login!!!\n\n") for parsed in parses)  # an empty line ends a sentence


def test_a_string_is_one_sentence_unless_asked(tagger):
    with pytest.warns(UserWarning, match="2 sentences is parsed as one: sentences='model' parses each"):
        assert isinstance(parse("Yes. No.", tagger), Parse)
    words, text = ["Yes.", "No.", "don't"], "Yes. No."
    for one in (words, {"words": words}, {"text": text}):
        [(parsed,)] = parse([one], tagger, sentences="model")
        assert isinstance(parsed, Parse)
        assert not parsed.multiword_tokens


def rounded(parses) -> list | dict:
    """As dictionaries; the last digits of numbers depend on the batch."""
    values = [each.to_dict() if isinstance(each, Parse | Parses) else each for each in parses]
    return json.loads(json.dumps(values), parse_float=lambda number: round(float(number), 4))


def test_pipelines_give_what_parse_gives(model, tokenizer):
    parser = pipeline("dependency-parsing", model=model, tokenizer=tokenizer)
    several = ["Yes, it isn't.", ["a", "cat"], {"text": "One."}, "a b"]
    expected = rounded(parse(several, model, tokenizer=tokenizer))
    assert rounded(parser(several)) == expected
    assert rounded(parser(iter(several), batch_size=3)) == expected


def test_no_sentence_begins_within_a_token(model, tokenizer, monkeypatch):
    """Not even where the model says so of each word."""
    monkeypatch.setattr(model, "sentence_starts", lambda input_ids, **_: input_ids.new_ones(input_ids.shape).float())
    text = "I don't,they can't've: dunno"
    parses = parse(text, model, tokenizer=tokenizer, sentences="model")
    assert [parsed.text for parsed in parses] == ["I", "don't", ",", "they", "can't've", ":", "dunno"]
    assert [list(parsed.words) for parsed in parses] == [list(token) for token in tokenize(text)]
    assert parses[4].multiword_tokens == ((1, 3),)


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


def test_half_characters_are_refused(tagger):
    with pytest.raises(ValueError, match="character 5 of 'cat \\\\udc00' is a lone surrogate"):
        parse("cat \udc00", tagger, sentences="model")


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
