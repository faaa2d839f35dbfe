from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_structure import Parse, parse
from hf_structure.parsing.options import OPTIONS, ParseOptions
from hf_structure.parsing.splitting import choose_splitter, regroup, split_texts, warn_of_several
from hf_structure.text.conllu import ConlluSentence, ConlluToken
from hf_structure.text.reading import read_all
from hf_structure.text.words import PARAGRAPH_ENDS, sentence_spans, split_sentences, tokenize, unicode_words

TEXT = "The cat slept.  Dr. No barked!\n\nWho"
SENTENCES = ["The cat slept.", "Dr. No barked!", "Who"]


@given(st.text(alphabet="aB.!? \n\x1c", max_size=30))
def test_spans_are_those_of_the_sentences(text):
    assert [text[start:end] for start, end in sentence_spans(text)] == split_sentences(text)
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


@given(st.lists(st.text(alphabet="Ab. \n", max_size=12) | st.lists(st.just("word"), min_size=1)))
def test_regroup_undoes_the_split(texts):
    counts = deque()
    groups = list(regroup(split_texts(read_all(texts), counts), counts))
    assert len(groups) == len(texts)
    for text, group in zip(texts, groups, strict=True):
        if isinstance(text, str):
            assert [source.text for source in group] == split_sentences(text)
            assert all(text[source.start :].startswith(source.text + source.spaces_after) for source in group)
        else:
            assert [source.words for source in group] == [text]


def test_one_text(g2g_transformer):
    parses = parse(TEXT, g2g_transformer, sentences="split")
    assert [parsed.text for parsed in parses] == SENTENCES
    assert [parsed.start for parsed in parses] == [0, 16, 32]
    assert [parsed.dependency for parsed in parses] == [
        parsed.dependency for parsed in parse(SENTENCES, g2g_transformer, sentences="line")
    ]
    for parsed in parses:
        forms = [TEXT[parsed.start + word.span[0] : parsed.start + word.span[1]] for word in parsed]
        assert forms == [word.form for word in parsed]
    assert parse("One cat.", g2g_transformer, sentences="split") == [parse("One cat.", g2g_transformer)]
    assert parse(" ", g2g_transformer, sentences="split") == []


def test_several_texts(g2g_transformer):
    texts = ["", TEXT, ["A", "cat"], " ", "Yes. No."]
    parses = parse(texts, g2g_transformer, sentences="split")
    assert [[parsed.text for parsed in group] for group in parses] == [[], SENTENCES, [None], [], ["Yes.", "No."]]
    assert list(parse(iter(texts), g2g_transformer, sentences="split")) == parses


def test_sentences_of_conllu_stay_whole(g2g_transformer):
    sentence = ConlluSentence(tokens=[ConlluToken("1", "A"), ConlluToken("2", "cat")])
    (parsed,), texts = parse([sentence, TEXT], g2g_transformer, sentences="split")
    assert list(parsed.words) == ["A", "cat"]
    assert [each.text for each in texts] == SENTENCES


def test_a_string_is_one_sentence_by_default(g2g_transformer):
    with pytest.warns(UserWarning, match="3 sentences is parsed as one: sentences='split' parses each"):
        parsed = parse(TEXT, g2g_transformer)
    assert isinstance(parsed, Parse)
    assert parsed == parse(TEXT, g2g_transformer, sentences="line")  # an error if it warned


LIST = "Milk\r\nBrown eggs\n\nBread"


@pytest.mark.parametrize(
    ("line_breaks", "expected"),
    [("end", ["Milk", "Brown eggs", "Bread"]), ("space", ["Milk\r\nBrown eggs", "Bread"])],
)
@pytest.mark.parametrize("words", [tokenize, unicode_words])
def test_rules_read_line_breaks(words, line_breaks, expected):
    split = choose_splitter("split", None, words, line_breaks=line_breaks)
    [spans] = split([LIST])
    assert [LIST[start:end] for start, end in spans] == expected


def test_lines_are_sentences_by_default():
    [spans] = choose_splitter("split", None, tokenize)([LIST])
    assert len(spans) == 3


def test_models_read_line_breaks_and_functions_get_the_whole_text():
    by_model = choose_splitter("model", lambda line_breaks: line_breaks, tokenize, line_breaks="space")
    assert by_model == "space"
    [spans] = choose_splitter(lambda text: [text], None, tokenize)([LIST])
    assert spans == [(0, len(LIST))]


@pytest.mark.parametrize("sentences", [None, "line", "split", "model", str.splitlines])
def test_unknown_line_breaks(sentences):
    with pytest.raises(ValueError, match="line_breaks must be one of end, space, not 'both'"):
        ParseOptions(sentences=sentences, line_breaks="both")
    assert tuple(PARAGRAPH_ENDS) == OPTIONS["line_breaks"].choices


def test_lines_of_one_string_are_several_sentences():
    with pytest.warns(UserWarning, match="a string with 3 sentences is parsed as one"):
        assert [source.text for source in warn_of_several(read_all([LIST]), "split", "end")] == [LIST]
    with pytest.warns(UserWarning, match="a string with 2 sentences is parsed as one"):
        list(warn_of_several(read_all([LIST]), "split", "space"))
    assert list(warn_of_several(read_all(["Milk\r\n"]), "split", "end"))  # an error if it warned


def test_wrong_options(g2g_transformer):
    with pytest.raises(
        ValueError, match="sentences must be one of line, split, model, auto, or a function, not 'all'"
    ):
        parse("A", g2g_transformer, sentences="all")
    with pytest.raises(ValueError, match="tags and initial trees are those of sentences"):
        parse("A", g2g_transformer, sentences="split", tags=["X"])


def test_words_that_are_no_parts_of_the_text(g2g_transformer):
    parsed = parse("A  cat", g2g_transformer, word_tokenizer=lambda text: text.lower().split())
    assert (parsed.text, parsed.word_spans) == ("A  cat", None)
    assert parse("A  cat", g2g_transformer).word_spans == ((0, 1), (3, 6))
