import io
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.text.conllu import COLUMNS, ConlluError, ConlluSentence, ConlluToken, read_conllu, write_conllu

FIELDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"), min_size=1, max_size=4)
SENTENCE = """\
# sent_id = example
# note without value
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tthere\t_\t_\t_\t_\t_\t_\t3:advmod\t_
4\t_\t_\tPUNCT\tNFP\t_\t3\tpunct\t_\t_

"""


def word_line(id="1", form="a", head="0", **columns):
    return str(ConlluToken(id, form, head=head, **columns))


def parse(text):
    return list(read_conllu(io.StringIO(text)))


@st.composite
def sentences(draw):
    length = draw(st.integers(1, 6))
    tokens, range_end = [], 0
    for word in range(1, length + 1):
        if word > range_end and draw(st.booleans()):
            range_end = draw(st.integers(word, length))
            tokens.append(ConlluToken(f"{word}-{range_end}", draw(FIELDS), misc=draw(FIELDS)))
        head = draw(st.sampled_from(["_", *(str(head) for head in range(length + 1) if head != word)]))
        rest = draw(st.tuples(*[FIELDS] * 3))
        tokens.append(ConlluToken(str(word), draw(FIELDS), draw(FIELDS), *rest, head, draw(FIELDS)))
        empty_forms = draw(st.lists(FIELDS, max_size=2))
        tokens += [ConlluToken(f"{word}.{empty}", form) for empty, form in enumerate(empty_forms, start=1)]
    comments = draw(st.lists(FIELDS.map(lambda text: f"#{text}"), max_size=3))
    return ConlluSentence(comments, tokens, draw(st.sampled_from(["\n", "\r\n"])))


@settings(deadline=None, max_examples=60)
@given(st.lists(sentences(), max_size=4))
def test_write_and_read_any_sentences(written):
    file = io.BytesIO()
    assert write_conllu(written, file) == len(written)
    file.seek(0)
    assert list(read_conllu(file)) == written


def test_write_to_a_temporary_file():
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8", newline="") as file:
        assert write_conllu(parse(SENTENCE), file) == 1
        file.seek(0)
        assert file.read() == SENTENCE


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_bytes_of_a_file_come_back(tmp_path, newline):
    source, target = tmp_path / "in.conllu", tmp_path / "out.conllu"
    source.write_bytes((SENTENCE * 3).replace("\n", newline).encode())
    assert write_conllu(read_conllu(source), target) == 3
    assert target.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("pattern", ["*/*test.conllu", pytest.param("**/*.conllu", marks=pytest.mark.slow)])
def test_every_treebank_comes_back_byte_for_byte(data_dir, pattern):
    files = sorted(data_dir.glob(pattern))
    assert files
    for path in files:
        text = io.BytesIO()
        write_conllu(read_conllu(path), text)
        assert text.getvalue() == path.read_bytes(), path


def test_fields():
    (sentence,) = parse(SENTENCE)
    assert sentence.forms == ["do", "n't", "go", "_"]
    assert sentence.heads == [3, 3, 0, 3]
    assert sentence.deprels == ["aux", "advmod", "root", "punct"]
    assert sentence.metadata == {"sent_id": "example", "note without value": ""}
    assert [token.id for token in sentence.tokens] == ["1-2", "1", "2", "3", "3.1", "4"]


def test_a_missing_head_makes_heads_none():
    assert parse("1\ta" + "\t_" * 8 + "\n")[0].heads is None


def test_with_heads_keeps_all_other_columns():
    (sentence,) = parse(SENTENCE)
    other = sentence.with_heads([2, 0, 2, 3], ["a", "b", "c", "d"])
    assert (other.heads, other.deprels) == ([2, 0, 2, 3], ["a", "b", "c", "d"])
    assert str(other.with_heads(sentence.heads, sentence.deprels)) == SENTENCE
    assert str(sentence) == SENTENCE  # unchanged
    with pytest.raises(ValueError, match="3 values of head for 4 words"):
        sentence.with_heads([0, 1, 1])


def test_keep_words_reattaches_and_renumbers():
    (sentence,) = parse(SENTENCE)
    kept = sentence.keep_words([True, True, False, True])
    assert (kept.forms, kept.heads) == (["do", "n't", "_"], [0, 0, 0])
    assert [token.id for token in kept.tokens] == ["1", "2", "3"]
    assert [token.xpos for token in kept.tokens] == ["VBP", "RB", "NFP"]
    assert parse(str(kept)) == [kept]


def test_keep_words_drops_what_speaks_of_the_words_before():
    """Arcs of DEPS would point to other words, and notes of MISC, `SpaceAfter=No` say, be about other neighbours."""
    (sentence,) = parse(SENTENCE)
    sentence = sentence.with_deps(["3:aux", "3:advmod", "0:root", "3:punct"]).with_column("misc", ["Note=Yes"] * 4)
    kept = sentence.keep_words([False, True, True, True])
    assert kept.heads == [2, 0, 2]
    assert [(token.deps, token.misc) for token in kept.tokens] == [("_", "_")] * 3
    whole = sentence.keep_words([True] * 4)
    assert [(token.deps, token.misc) for token in whole.tokens] == [("_", "_")] * 4


def test_from_words():
    sentence = ConlluSentence.from_words(["a", "b"], [2, 0], ["x", "root"], ["T", "U"], ["# c"])
    assert str(sentence) == "# c\n1\ta\t_\t_\tT\t_\t2\tx\t_\t_\n2\tb\t_\t_\tU\t_\t0\troot\t_\t_\n\n"
    assert ConlluSentence.from_words(["a"]).heads is None


def test_from_words_with_multiword_tokens_and_spaces():
    words = ["I", "do", "n't", "know", "."]
    misc = ["_", "A=1", "B=2", "C=3", "_"]
    spaces = [True, False, False, False, True]
    sentence = ConlluSentence.from_words(words, misc=misc, spaces=spaces, multiword_tokens=[(2, 3)])
    assert [(token.id, token.form, token.misc) for token in sentence.tokens] == [
        ("1", "I", "_"),
        ("2-3", "don't", "SpaceAfter=No"),
        ("2", "do", "A=1"),
        ("3", "n't", "B=2"),
        ("4", "know", "C=3|SpaceAfter=No"),
        ("5", ".", "_"),
    ]
    assert parse(str(sentence)) == [sentence]
    assert ConlluSentence.from_words(words, multiword_tokens=[(2, 3)]).tokens[1].misc == "_"
    with pytest.raises(ValueError, match="4 values of spaces for 5 words"):
        ConlluSentence.from_words(words, spaces=spaces[1:])


@pytest.mark.parametrize("tokens", [[(1, 1)], [(0, 2)], [(2, 4)], [(1, 2), (2, 3)], [(2, 3), (1, 2)]], ids=str)
def test_from_words_refuses_tokens_of_other_words(tokens):
    with pytest.raises(ValueError, match=r"the words \d to \d cannot be a multiword token after word \d of 3"):
        ConlluSentence.from_words(["a", "b", "c"], multiword_tokens=tokens)


@pytest.mark.parametrize("word", ["", "a\tb", "a\nb", "a\r", "\0", 3], ids=["empty", "tab", "LF", "CR", "NUL", "int"])
def test_from_words_refuses_what_no_line_can_hold(word):
    with pytest.raises(ValueError, match="word 2"):
        ConlluSentence.from_words(["a", word])


@pytest.mark.parametrize("value", ["a\tb", "a\nb", "a\r", "\0", None], ids=["tab", "LF", "CR", "NUL", "None"])
def test_columns_refuse_what_no_line_can_hold(value):
    (sentence,) = parse(SENTENCE)
    for column in COLUMNS[1:]:
        with pytest.raises(ValueError, match="word 3 cannot stand in CoNLL-U: "):
            sentence.with_column(column, ["a", "b", value, "c"])
    for options in ({"deprels": [value]}, {"tags": [value]}):
        with pytest.raises(ValueError, match="of word 1 cannot stand in CoNLL-U: "):
            ConlluSentence.from_words(["a"], **options)
    with pytest.raises(ValueError, match="deps of word 1 cannot stand in CoNLL-U"):
        sentence.with_deps([value, "_", "_", "_"])


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([7], "the head of word 1 is 7, but the sentence has 1 words"),
        ([-1], "the head of word 1 is -1"),
        ([1], "word 1 is its own head"),
        ([0.5], "the head of word 1 is not an integer: 0.5"),
        (["0"], "the head of word 1 is not an integer: '0'"),
        ([None], "the head of word 1 is not an integer: None"),
        ([0, 1], "2 values of head for 1 words"),
    ],
)
def test_heads_that_are_none_of_the_sentence(heads, message):
    with pytest.raises(ValueError, match=message):
        ConlluSentence.from_words(["a"], heads)


@pytest.mark.parametrize("comment", ["# a\nb", "# a\r", "#\0", "text"])
def test_comments_that_are_none(comment):
    with pytest.raises(ValueError, match="a CoNLL-U comment must be one line"):
        ConlluSentence.from_words(["a"], comments=[comment])


def test_reading_streams():
    def endless():
        while True:
            yield from SENTENCE.splitlines(keepends=True)

    assert str(next(read_conllu(endless()))) == SENTENCE


def test_tolerated_departures_from_the_format():
    text = SENTENCE.rstrip("\n")  # no line end, no empty line at the end
    assert parse(text) == parse(SENTENCE)
    assert parse("\n\n" + SENTENCE + "\n\n" + SENTENCE) == parse(SENTENCE * 2)
    assert list(read_conllu(io.BytesIO(b"\xef\xbb\xbf" + SENTENCE.encode()))) == parse(SENTENCE)
    assert parse("") == []


MALFORMED = {
    "9 columns": ("1" + "\t_" * 8, "9 tab-separated columns instead of 10"),
    "spaces for tabs": ("1 a _ _ _ _ 0 _ _ _", "1 tab-separated columns instead of 10"),
    "empty form": (word_line(form=""), "FORM"),
    "starts at 0": (word_line(id="0"), "word 0 where 1 should come"),
    "gap in ids": (word_line() + "\n" + word_line(id="3", head="1"), "word 3 where 2 should come"),
    "same id twice": (word_line() + "\n" + word_line(), "word 1 where 2 should come"),
    "id no number": (word_line(id="x"), "'x'"),
    "id superscript": (word_line(id="²"), "'²'"),
    "range too late": (word_line() + "\n" + word_line(id="1-2"), "misplaced range 1-2"),
    "range backwards": (word_line(id="1-0"), "'1-0'"),
    "range in range": (word_line(id="1-2") + "\n" + word_line(id="1-2"), "misplaced range"),
    "range past the end": (word_line(id="1-3") + "\n" + word_line(), "a range ends at 3"),
    "empty node out of order": (word_line() + "\n" + word_line(id="1.2"), "empty node 1.2 where 1.1 should come"),
    "empty node of later word": (word_line(id="1.1"), "empty node 1.1 where 0.1 should come"),
    "head out of range": (word_line(head="2"), "head 2 in a sentence of 1 words"),
    "head negative": (word_line(head="-1"), "'-1'"),
    "head no number": (word_line(head="root"), "'root'"),
    "head of many digits": (word_line(head="9" * 5000), "head 999"),
    "id of many digits": (word_line(id="9" * 5000), "'999"),
    "range of many digits": (word_line(id="1-" + "9" * 5000), "'1-999"),
    "own head": (word_line(head="1"), "its own head"),
    "comment inside": (word_line() + "\n# x", "comment inside a sentence"),
    "comments alone": ("# x", "comments without a sentence"),
    "no words": (word_line(id="0.1", head="_"), "without words"),
}


@pytest.mark.parametrize(("lines", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_input_is_named_with_file_and_line(tmp_path, lines, message):
    path = tmp_path / "bad.conllu"
    path.write_text(f"{word_line()}\n\n{lines}\n", encoding="utf-8")
    with pytest.raises(ConlluError) as caught:
        list(read_conllu(path))
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{caught.value.line}: ")
    assert 3 <= caught.value.line <= 4


def test_line_number_of_an_error():
    with pytest.raises(ConlluError, match=r"^<input>:4: .*head 7"):
        parse(f"{word_line()}\n\n# c\n{word_line(head='7')}\n{word_line(id='2', head='1')}\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe1\x00", "not UTF-8 text: byte 0xff"), (b"1\t\x00", "binary"), (b"\x1f\x8b\x08", "not UTF-8")],
    ids=["UTF-16", "NUL", "gzip"],
)
def test_files_that_are_no_text(tmp_path, content, message):
    path = tmp_path / "bad.conllu"
    path.write_bytes(content)
    with pytest.raises(ConlluError, match=message):
        list(read_conllu(path))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        list(read_conllu(tmp_path / "absent.conllu"))


def test_paragraphs_are_marked_by_comments():
    text = "# newdoc id = a\n# text = Go!\n1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\n2\t!\t_\t_\t_\t_\t1\tpunct\t_\t_\n\n"
    sentences = [text, text.replace("newdoc id = a", "newpar"), text.replace("newdoc", "sent_id")]
    found = [sentence.begins_paragraph for sentence in read_conllu("".join(sentences).splitlines(keepends=True))]
    assert found == [True, True, False]
