import gzip
import io
import itertools
import pickle

import pytest
import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hf_structure.text import words as text_module
from hf_structure.text.conllu import read_conllu
from hf_structure.text.files import DataError
from hf_structure.text.scripts import script_sentence_spans
from hf_structure.text.words import (
    numbered_lines,
    paragraph_spans,
    read_text,
    sentence_spans,
    split_sentences,
    tokenize,
    tokenize_words,
)


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
    "emoticons as people type them": ("no </3 -_- >.< ok ¯\\_(ツ)_/¯ x-_y", "no </3 -_- >.< ok ¯\\_(ツ)_/¯ x - _ y"),
    "code": (
        "run main.py, config.yaml or node.js v1.2.3 in C++.",
        "run main.py , config.yaml or node.js v1.2.3 in C++ .",
    ),
    "no code": ("see page.so c+ v1 a+b C#m", "see page . so c + v1 a + b C # m"),
    "paths": ("in /usr/local/a.b. C:\\x_y\\z.c and/or /b", "in /usr/local/a.b . C:\\x_y\\z.c and / or / b"),
    "characters of HTML": ("R&amp;D A&nbsp;B x&y", "R &amp; D A &nbsp; B x&y"),
    "questions run together": ("hows whos wheres weve theyll hers", "how s who s where s we ve they ll hers"),
    "other scripts": ("Größe 東京 naïve", "Größe 東京 naïve"),
    "emoji": ("so 👩‍💻👩‍💻 nice❤️ 👍👍🏽!🏳️‍🌈 1️⃣ 🇩🇪🇫🇷", "so 👩‍💻 👩‍💻 nice ❤️ 👍👍🏽 ! 🏳️‍🌈 1️⃣ 🇩🇪 🇫🇷"),
    "marks": ("हिन्दी cafe\u0301s, x\u0301", "हिन्दी cafe\u0301s , x\u0301"),
    "nothing": (" \n ", ""),
    "names with @": ("Ken Rice@ENRON_X, @Ryan at 3 @ $5", "Ken Rice@ENRON_X , @Ryan at 3 @ $ 5"),
    "names with &": ("PG&E's P&L, R&D & Smith&Sons", "PG&E 's P&L , R&D & Smith & Sons"),
    "topics": ("#writing at #1 (# of)", "#writing at # 1 ( # of )"),
    "days": ("Mon. Thurs. 5 Wed. at noon, on mon", "Mon. Thurs. 5 Wed. at noon , on mon"),
    "numbers of things": ("No. 5, vol.14, no. He", "No. 5 , vol. 14 , no . He"),
    "references to parts": (
        "Figs. 2a, Fig.2b, pp. 3, Eq. (1), Sec. S3.",
        "Figs. 2a , Fig. 2b , pp. 3 , Eq. ( 1 ) , Sec. S3 .",
    ),
    "references before numbers only": ("a fig. He ate ca. (no. It is", "a fig . He ate ca . ( no . It is"),
    "telephones": ("Tel. +1 555, tel. (030) 5, ca. 1900", "Tel. +1 555 , tel. ( 030 ) 5 , ca. 1900"),
    "comparisons": ("x>=3 a != b == c <= d => e", "x >= 3 a != b == c <= d => e"),
    "arrows": ("a->b <-- c <-> d <b> >> <!-- -->", "a -> b <-- c <-> d < b > >> < ! -- -->"),
    "signed numbers": ("-1 of 20 °C", "- 1 of 20 ° C"),  # as the treebanks
    "dunder": ("in __init__ of __a_b__, __x", "in __init__ of __a_b__ , __ x"),
    "last full stop": ("Mr. X. of Acme Inc. and so on, etc.", "Mr. X. of Acme Inc. and so on , etc ."),
    "last full stop in quotes": ('"pens, etc."', '" pens , etc . "'),
    "last full stop of letters": ("in the U.S.", "in the U.S."),
    "initials": ("D., J.; (K.) x.", "D. , J. ; ( K . ) x ."),
    "degrees": ("a Ph.D. in Ph. 5", "a Ph.D. in Ph. 5"),
    "codes": ("x3-9890, 77030-2707, 10-15", "x3-9890 , 77030-2707 , 10 - 15"),
    "country codes": ("+44 20, 2+2, +1602275-4958", "+44 20 , 2 + 2 , +1602275-4958"),
    "references": ("[13,14] of 1,200 and [5,000]", "[ 13 , 14 ] of 1,200 and [ 5 , 000 ]"),
    "decades": ("the 60's and 1960's, '70's; 2003's", "the 60's and 1960's , '70's ; 2003 's"),
    "millions": ("$25bn $4b 4G b2b", "$ 25 bn $ 4 b 4 G b2b"),
    "fractions": ("1/2 and 20/20", "1/2 and 20/20"),
    "underscores": ("GCP_London a_ _b __", "GCP_London a _ _ b __"),
    "file names": ("<<ld2d-#69366-1.DOC>> 4-12 .doc a .d", "<< ld2d-#69366-1.DOC >> 4 - 12 .doc a . d"),
    "groups": ("comp.mail.maps, U.S.-led", "comp.mail.maps , U.S. - led"),
    "mailto": ("<mailto:me@x.org> mailto: me", "< mailto:me@x.org > mailto : me"),
    "backtick": ("mama`s `so` ``s", "mama `s ` so ` `` s"),
    "cut off": ("th- that well- known pre-war s-", "th- that well - known pre-war s-"),
    "prefixes": ("cross-functional x-rays", "cross-functional x - rays"),
    "marks together": ("Right.? No.! Well...? ok .", "Right .? No .! Well ... ? ok ."),
    "chapter 8": ("(chapter 8) [8] 8-)", "( chapter 8 ) [ 8 ] 8 - )"),
    "run together without apostrophe": ("thats youre outta aint hats youth", "that s you re out ta ai nt hats youth"),
}


@pytest.mark.parametrize(("text", "words"), WORDS.values(), ids=WORDS)
def test_tokenize_words(text, words):
    assert tokenize_words(text) == words.split()


TOKENS = {
    "clitics": ("I shouldn't've, it’s", "I should|n't|'ve , it|’s"),
    "run together": ("cannot gonna thats", "can|not gon|na that|s"),
    "signs": ("$5 well-known", "$ 5 well - known"),
    "genitive": ("the states' votes, the James’ house", "the states|' votes , the James|’ house"),
    "quotation": ("the 'states', all 'cats'", "the ' states ' , all ' cats '"),
    "after other tokens": ("the U.S.'s, PG&E's", "the U.S.|'s , PG&E|'s"),
    "elisions": ("get 'em in the '90s, 5'10", "get 'em in the '90s , 5 '10"),
    "backtick": ("mama`s", "mama|`s"),
    "clusters": ("cafe\u0301's x\u0301", "cafe\u0301|'s x\u0301"),
}


@pytest.mark.parametrize(("text", "tokens"), TOKENS.values(), ids=TOKENS)
def test_tokenize(text, tokens):
    assert tokenize(text) == [tuple(token.split("|")) for token in tokens.split()]


@given(st.text(st.sampled_from(" .'’`sdtn&@#x1-\u0301"), max_size=30))
def test_tokens_are_their_words(text):
    tokens = tokenize(text)
    assert list(itertools.chain.from_iterable(tokens)) == tokenize_words(text)
    assert all("".join(token) in text for token in tokens)


@settings(deadline=None, max_examples=100)
@given(st.text(st.one_of(st.sampled_from(" .'’-/@:aNnt1$s"), st.characters(exclude_categories=["Cs"])), max_size=40))
def test_words_are_the_text_without_white_space(text):
    words = tokenize_words(text)
    assert "".join(words) == "".join(text.split())
    assert all(words)


_PIECES = [*"\u200d\ufe0f\u0301\u0600👍🏽👩🇩1\u20e3กำa'!", "<3", " "]


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join))
def test_words_end_where_characters_as_read_do(text):
    clusters = regex.findall(r"\X", text)
    assume(not any(len(cluster) > 1 and " " in cluster for cluster in clusters))  # white space always separates
    starts = {0, *itertools.accumulate(len(cluster) for cluster in clusters if cluster != " ")}
    assert set(itertools.accumulate(map(len, tokenize_words(text)))) <= starts


@settings(deadline=None, max_examples=150)
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
    assert split_sentences(text, line_breaks="space") == [
        "Dr. Roe of the U.S. Army left.",
        '"Why?" she\nasked.',
        "(J. Doe paid 3.5.)",
        "It is!",
        "5 more…",
        "So?",
        "No end",
    ]
    assert split_sentences("  \n\n ") == []


BREAKS = ["\n", "\r\n", "\r", "\v", "\f", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("end", BREAKS, ids=ascii)
@pytest.mark.parametrize("spans", [paragraph_spans, sentence_spans, script_sentence_spans])
def test_line_breaks(spans, end):
    def parts(text: str, **options: str) -> list[str]:
        return [text[first:last] for first, last in spans(text, **options)]

    lines = ["Milk", "two eggs", "[2] Bread"]
    text = f" {end}".join([*lines, ""])
    assert parts(text) == parts(text, line_breaks="end") == lines
    assert parts(text, line_breaks="space") == [text.strip()]
    assert parts((end + " ").join(["Milk", "", "eggs", "", "", "bread"])) == ["Milk", "eggs", "bread"]
    empty = f"Milk{end}and {end} \t{end}eggs{end}{end}bread{end}"
    assert parts(empty, line_breaks="space") == [f"Milk{end}and", "eggs", "bread"]
    assert parts(empty) == ["Milk", "and", "eggs", "bread"]


@pytest.mark.parametrize("spans", [paragraph_spans, sentence_spans, script_sentence_spans])
def test_a_page_does_not_end_a_sentence_whose_lines_break_anywhere(spans):
    assert len(spans("The cat\r\nand\n\fthe dog\f\nslept", line_breaks="space")) == 1
    assert len(spans("The cat\r\nand\n\fthe dog\f\nslept")) == 4
    with pytest.raises(ValueError, match='line_breaks must be "end" or "space", not \'stop\''):
        spans("A cat", line_breaks="stop")


SENTENCES = {  # `|` where a sentence ends
    "lower case": "That was most convincing.| radiation is not. no?| why not!| ok",
    "lower case after a few letters": "See approx. five, Univ. of X, p. 5, etc. and so on... but no more",
    "lower case after a short word": "i got it.| he said no.| yes.| no.| ok thx.| so i.e. that, dr. x vs. us, no. 5",
    "lower case after closing marks": '"Go!" she said and (Stop!) went on',
    "citations": "It is so. [17]| He left.[3]| Others [4] do. [5] [6]| See [7], [8] and [9].",
    "citations on lines": "Roe 2001.|\n[2] Doe 2002.",
    "numbers": "It was Deal No. 7, not No. 8.| I said no.| He did not.",
    "references": "See Fig. 2b and pp. 3 of vol. 2, ca. 1900.| By Eq. (1), Sec. 3 holds.| Tel. +1 5 is no.| He left.",
    "abbreviations at the end": "Pens, etc.| We left at 5 p.m.| Acme Inc. President J. Doe of the U.S. Army",
    "items": "2. Methods of 2001.| 2.1. Data were few.| 3. Ends.",
    "signs": "It ended.| $4 was left.| - Simone Weil said so.| #1 is clean.| (no joke) @x.",
    "emoticons": "I am fine :)| How are you ;) and you",
    "rulers": "the end| -----| next| ======| last -- one",
    "no white space": "it was late...| I left…| So did he... you know what.If",
}


@pytest.mark.parametrize("marked", SENTENCES.values(), ids=SENTENCES)
def test_sentences_end(marked):
    text = marked.replace("|", "")
    assert split_sentences(text) == [part.strip() for part in marked.split("|")]


@settings(deadline=None)
@given(st.text(st.sampled_from("aB .!?\n\"')"), max_size=40))
def test_sentences_are_the_text(text):
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


UNITS = [
    "a.",
    "a-",
    "a'",
    "'s",
    "1.",
    "a@",
    "-",
    "x",
    "http://.",
    "👍🏽",
    "\u0301",
    "@",
    "_",
    "1-",
    ",1",
    "+1",
    "a&",
    "#a",
]


@pytest.mark.parametrize("unit", UNITS)
def test_long_runs_take_linear_time(unit):
    text = f"x{unit * (20_000 // len(unit))}"
    assert "".join(tokenize_words(text)) == text  # quadratic rules would take minutes here
    assert split_sentences(text) == [text]
