import gzip
import io
import itertools
import pickle

import pytest
import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hf_structure.data import text as text_module
from hf_structure.data.conllu import read_conllu
from hf_structure.data.files import DataError
from hf_structure.data.text import numbered_lines, read_text, split_sentences, tokenize_words


def test_read_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffa  b\r\n\n \nc\u00a0d\u2028e".encode())
    assert list(read_text(path)) == [["a", "b"], ["c", "d", "e"]]
    assert list(read_text(io.StringIO("a b\nc"))) == [["a", "b"], ["c"]]


def test_byte_order_marks_of_files_put_together():
    assert list(numbered_lines(["\ufeffa\n", "b\n", "\ufeffc\n", "d\ufeff\n"])) == [
        *((1, "a"), (2, "b"), (3, "c"), (4, "d\ufeff"))
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_other_encodings_are_named(tmp_path, encoding, suffix):
    path = tmp_path / f"a{suffix}"
    content = "\ufeffé b\n".encode(encoding)
    path.write_bytes(content if suffix == ".txt" else gzip.compress(content))
    message = r"a\.txt.*:1: not UTF-8 text: byte 0xf[ef] begins UTF-16 or UTF-32 \(convert it: iconv -f UTF-16"
    with pytest.raises(DataError, match=message):
        list(read_text(path))


@pytest.mark.parametrize("content", [b"a\nb \xe9\n", b"a\nb\0\n"], ids=["latin-1", "NUL"])
def test_read_text_refuses_what_is_no_text(tmp_path, content):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.txt:2: "):
        list(read_text(path))


def test_data_error_can_be_handed_on_by_a_process():
    error = pickle.loads(pickle.dumps(DataError("bad", "f", 3)))
    assert (str(error), error.file, error.line) == ("f:3: bad", "f", 3)


WORDS = {
    "punctuation": ('"Hello," (she) said.', '" Hello , " ( she ) said .'),
    "clitics": ("I don't, can't, won't: it's we'll they'd", "I do n't , ca n't , wo n't : it 's we 'll they 'd"),
    "typographic": ("I don’t think it’s so", "I do n’t think it ’s so"),
    "two clitics": ("they'd've shouldn't've", "they 'd 've should n't 've"),
    "run together": ("cannot gonna wanna gotta dont im", "can not gon na wan na got ta do nt i m"),
    "no clitics": ("cannon it O'Neil rock'n'roll", "cannon it O'Neil rock'n'roll"),
    "possessive": ("James' dog's", "James ' dog 's"),
    "capitals": ("CAN'T", "CA N'T"),
    "hyphens": ("a well-known e-mail, non-profit co-worker", "a well - known e-mail , non-profit co-worker"),
    "slash": ("and/or w/o", "and / or w/o"),
    "money": ("$5.50 and 1,200 at 50%", "$ 5.50 and 1,200 at 50 %"),
    "dates": ("9/11/2001 10:30 5pm 1980s 21st", "9/11/2001 10:30 5 pm 1980s 21st"),
    "phone": ("713-853-1411 or 345-7896", "713-853-1411 or 345-7896"),
    "address": ("See http://a.org/b?c=d, www.x.com.", "See http://a.org/b?c=d , www.x.com ."),
    "mail": ("me.you@x-y.co.uk!", "me.you@x-y.co.uk !"),
    "file": ("open a.b.pdf.", "open a.b.pdf ."),
    "abbreviations": ("Dr. J. Doe of the U.S. etc. left.", "Dr. J. Doe of the U.S. etc. left ."),
    "runs": ("Wait... -- what?!", "Wait ... -- what ?!"),
    "emoticons": ("fine :-) ;) <3", "fine :-) ;) <3"),
    "other scripts": ("Größe 東京 naïve", "Größe 東京 naïve"),
    "emoji": ("so 👩‍💻👩‍💻 nice❤️ 👍👍🏽!🏳️‍🌈 1️⃣ 🇩🇪🇫🇷", "so 👩‍💻 👩‍💻 nice ❤️ 👍👍🏽 ! 🏳️‍🌈 1️⃣ 🇩🇪 🇫🇷"),
    "marks": ("हिन्दी cafe\u0301s, x\u0301", "हिन्दी cafe\u0301s , x\u0301"),
    "nothing": (" \n ", ""),
}


@pytest.mark.parametrize(("text", "words"), WORDS.values(), ids=WORDS)
def test_tokenize_words(text, words):
    assert tokenize_words(text) == words.split()


@settings(deadline=None, max_examples=300)
@given(st.text(st.one_of(st.sampled_from(" .'’-/@:aNnt1$s"), st.characters(exclude_categories=["Cs"])), max_size=40))
def test_words_are_the_text_without_white_space(text):
    words = tokenize_words(text)
    assert "".join(words) == "".join(text.split())
    assert all(words)


_PIECES = [
    "\u200d",
    "\ufe0f",
    "\u0301",
    "\u0600",
    "👍",
    "🏽",
    "👩",
    "🇩",
    "1",
    "\u20e3",
    "ก",
    "ำ",
    "a",
    "'",
    "!",
    "<3",
    " ",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join))
def test_words_end_where_characters_as_read_do(text):
    clusters = regex.findall(r"\X", text)
    assume(not any(len(cluster) > 1 and " " in cluster for cluster in clusters))  # white space always separates
    starts = {0, *itertools.accumulate(len(cluster) for cluster in clusters if cluster != " ")}
    assert set(itertools.accumulate(map(len, tokenize_words(text)))) <= starts


@settings(deadline=None, max_examples=500)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(["don", "cannot", "U", "etc", "www", "http", "co", "x", "kg", "é", "ſ", "3", "a\u0301"]),
            st.sampled_from(" .,;!?'’-/@:_$()\n"),
            st.characters(exclude_categories=["Cs"]),
        ),
        max_size=20,
    ).map("".join)
)
def test_the_rule_for_plain_words_changes_nothing(text):
    slow = text_module.TOKEN.pattern
    slow = slow[slow.index("(?P<url>") :]
    tokens = (match[0] for match in regex.finditer(slow, text, regex.VERBOSE | regex.IGNORECASE))
    assert [match[0] for match in text_module.TOKEN.finditer(text)] == list(tokens)


def boundaries(words):
    ends, end = set(), 0
    for word in words:
        ends.add((end, end := end + len(word)))
    return ends


def test_tokenize_words_agrees_with_ewt(data_dir):
    correct = predicted = gold = 0
    for sentence in read_conllu(data_dir / "ewt/en_ewt-test.conllu"):
        ours = boundaries(tokenize_words(sentence.metadata["text"]))
        theirs = boundaries([form.replace(" ", "") for form in sentence.forms])
        correct, predicted, gold = correct + len(ours & theirs), predicted + len(ours), gold + len(theirs)
    assert 2 * correct / (predicted + gold) > 0.985


def test_split_sentences():
    text = 'Dr. Roe of the U.S. Army left. "Why?" she\nasked. (J. Doe paid 3.5.) It is! 5 more… So?\n\nNo end'
    assert split_sentences(text) == [
        "Dr. Roe of the U.S. Army left.",
        '"Why?" she\nasked.',
        "(J. Doe paid 3.5.)",
        "It is!",
        "5 more…",
        "So?",
        "No end",
    ]
    assert split_sentences("  \n\n ") == []


@settings(deadline=None)
@given(st.text(st.sampled_from("aB .!?\n\"')"), max_size=40))
def test_sentences_are_the_text(text):
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("unit", ["a.", "a-", "a'", "'s", "1.", "a@", "-", "x", "http://.", "👍🏽", "\u0301"])
def test_long_runs_take_linear_time(unit):
    text = f"x{unit * (20_000 // len(unit))}"
    assert "".join(tokenize_words(text)) == text  # quadratic rules would take minutes here
    assert split_sentences(text) == [text]
