"""What the source of a sentence says stays with it: text, offsets, white space, multiword tokens, comments, MISC."""

import io
import json
import re

import conllu
import pytest
import spacy
from spacy.tokens import Doc
from udtools import Validator

from hf_structure import Parse, Parses, parse
from hf_structure.cli.records import open_files
from hf_structure.text.conllu import read_conllu
from hf_structure.text.files import DataError
from hf_structure.text.reading import read_source
from hf_structure.text.sdp import SdpSentence

CONLLU = """# newdoc id = d
# sent_id = d-1
# text = Au du ciel, vámonos don't.
# remark
1-2	Au	_	_	_	_	_	_	_	Gloss=to
1	à	à	ADP	_	_	0	root	_	_
2	le	le	DET	_	Definite=Def	1	dep	_	_
3-4	du	_	_	_	_	_	_	_	_
3	de	de	ADP	_	_	1	dep	_	_
4	le	le	DET	_	Definite=Def	1	dep	_	_
5	ciel	ciel	NOUN	_	_	1	dep	1:dep	SpaceAfter=No
5.1	vide	_	NOUN	_	_	_	_	1:dep	_
6	,	,	PUNCT	_	_	1	punct	_	_
7-8	vámonos	_	_	_	_	_	_	_	_
7	vamos	ir	VERB	_	_	1	dep	_	_
8	nos	yo	PRON	_	_	1	dep	_	_
9-10	don't	_	_	_	_	_	_	_	SpaceAfter=No
9	do	do	AUX	_	_	1	dep	_	_
10	n't	not	PART	_	_	1	dep	_	_
11	.	.	PUNCT	_	_	1	punct	_	HeadProb=0.5|Note=x

"""
[SENTENCE] = read_conllu(CONLLU.splitlines())
STRINGS = CONLLU.replace("# text = Au du ciel, vámonos don't.\n", "")


@pytest.fixture(scope="module")
def parsed(g2g_transformer) -> Parse:
    return parse(SENTENCE, g2g_transformer)


def test_spans_of_words_in_the_text(parsed):
    assert parsed.text == "Au du ciel, vámonos don't."
    found = [parsed.text[slice(*word.span)] for word in parsed]
    assert found == ["Au", "Au", "du", "du", "ciel", ",", "vámonos", "vámonos", "do", "n't", "."]
    assert [word.multiword_token for word in parsed if word.multiword_token] == [
        *[(1, 2)] * 2,
        *[(3, 4)] * 2,
        *[(7, 8)] * 2,
        *[(9, 10)] * 2,
    ]
    assert parsed.metadata["sent_id"] == "d-1"


def test_text_without_a_comment(g2g_transformer):
    """`SpaceAfter=No` tells it; without that it is not known."""
    [sentence] = read_conllu(STRINGS.splitlines())
    assert parse(sentence, g2g_transformer).text == "Au du ciel, vámonos don't."
    [sentence] = read_conllu(STRINGS.replace("SpaceAfter=No", "_").splitlines())
    unknown = parse(sentence, g2g_transformer)
    assert unknown.text is unknown.word_spans is None
    [sentence] = read_conllu(CONLLU.replace("# text = Au du", "# text = Du").splitlines())  # of other words
    assert parse(sentence, g2g_transformer).word_spans is None


def test_all_but_the_tree_stays_in_conllu(parsed):
    written = parsed.to_conllu()
    [sentence] = read_conllu(written.splitlines())
    assert sentence.comments == SENTENCE.comments
    assert sentence.heads == list(parsed.dependency.heads)
    assert sentence.words[-1].misc == "Note=x"  # the probability was that of another tree
    expected = [(token.id, token.form, token.lemma, token.feats, token.deps) for token in SENTENCE.tokens]
    assert [(token.id, token.form, token.lemma, token.feats, token.deps) for token in sentence.tokens] == expected
    assert Parse.from_dict(json.loads(json.dumps(parsed.to_dict()))).to_conllu() == written


def test_validation_of_what_was_parsed(tagger):
    for inputs in ([SENTENCE], ["The cat can't  sleep. Dogs bark"]):
        parses = parse(inputs, tagger, sentences="split")
        state = Validator(lang="ud", level=2, output=None).validate_file_handle(io.StringIO(parses.to_conllu()))
        kinds = {incident.testid for incident in state.error_tracker}
        assert not kinds & {"missing-text", "missing-sent-id", "text-form-mismatch", "nospaceafter-mwt"}


def test_comments_are_replaced_and_added(parsed):
    lines = parsed.to_conllu({"sent_id": "new", "more": "1", "newpar": ""}).splitlines()
    assert lines[:6] == [
        "# newpar",
        "# newdoc id = d",
        "# sent_id = new",
        "# text = Au du ciel, vámonos don't.",
        "# remark",
        "# more = 1",
    ]
    assert Parses([parsed, parsed]).to_conllu() == parsed.to_conllu() * 2  # named by their source, not numbered


def test_spacy_has_the_white_space(parsed):
    assert parsed.to_spacy().text == "àle dele ciel, vamosnos don't."
    assert parse("I can't  sleep.", "rngt-en").to_spacy().text == "I can't sleep."


def test_data_frames_have_tokens_and_offsets(parsed):
    frame = parsed.to_pandas()
    assert list(frame.columns[:7]) == ["token", "word", "form", "head", "relation", "probability", "start"]
    assert list(frame["token"]) == [1, 1, 2, 2, 3, 4, 5, 5, 6, 6, 7]
    assert list(frame["start"]) == [0, 0, 3, 3, 6, 10, 12, 12, 20, 22, 25]
    assert Parses([parsed]).to_pandas().drop(columns="sentence").equals(frame)


def test_sentences_of_the_package_conllu(parsed, g2g_transformer):
    found = parse(conllu.parse(CONLLU), g2g_transformer)
    assert found == [parsed]
    assert found[0].text == parsed.text
    [sentence] = read_conllu(found.to_conllu().splitlines())
    [expected] = read_conllu(parsed.to_conllu().splitlines())
    assert sentence.tokens == expected.tokens
    assert sentence.comments == [comment for comment in expected.comments if comment != "# remark"]  # it keeps pairs
    assert parse(conllu.parse(CONLLU)[0], g2g_transformer) == parsed


def test_documents_and_spans_of_spacy(g2g_transformer):
    doc = Doc(spacy.blank("en").vocab, ["The", "cat", "  ", "slept", "."], [True, False, False, False, False])
    found = parse(doc, g2g_transformer)
    assert (found.text, found.words) == ("The cat  slept.", ("The", "cat", "slept", "."))
    assert [found.text[slice(*word.span)] for word in found] == ["The", "cat", "slept", "."]
    [span, *_] = parse([doc[1:4], doc], g2g_transformer)
    assert (span.text, span.start, span.words) == ("cat  slept", 4, ("cat", "slept"))
    assert found == parse([["The", "cat", "slept", "."]], g2g_transformer)[0]


def test_tags_of_spacy_are_read(tagged_g2g_transformer):
    words = ["the", "cat", "slept"]
    doc = Doc(spacy.blank("en").vocab, words, tags=["DT", "NN", "VB"])
    assert parse(doc, tagged_g2g_transformer) == parse([words], tagged_g2g_transformer, tags=[["DT", "NN", "VB"]])[0]


def test_sentences_of_sdp(g2g_transformer):
    sentence = SdpSentence("22", ["The", "cats"], ["the", "cat"], ["DT", "NNS"], [2], ["_", "_"], [])
    source = read_source(sentence)
    assert (source.words, source.tags) == (["The", "cats"], ["DT", "NNS"])
    [written] = read_conllu(parse(sentence, g2g_transformer).to_conllu().splitlines())
    assert written.metadata["sent_id"] == "22"
    assert [(word.lemma, word.xpos) for word in written.words] == [("the", "DT"), ("cat", "NNS")]


TEXT = "The cat\tslept.  Dogs  bark\n\n\tA | dog \n"


def test_white_space_can_be_restored(g2g_transformer):
    parses = parse(TEXT, g2g_transformer, sentences="split", line_breaks="space")
    written = "".join(each.to_conllu(spaces_after=True) for each in parses)
    assert restored(written) == TEXT
    plain = [token.misc for sentence in read_conllu(parses.to_conllu().splitlines()) for token in sentence.tokens]
    assert not any("SpacesAfter" in misc for misc in plain)


def restored(written: str) -> str:
    """The text by the rules of UDPipe."""
    escapes = {r"\s": " ", r"\t": "\t", r"\n": "\n", r"\p": "|", r"\\": "\\"}
    text = ""
    for sentence in read_conllu(written.splitlines()):
        for _, _, token in sentence.surface_tokens():
            spaces = re.search(r"SpacesAfter=([^|]*)", token.misc)
            before = re.search(r"SpacesBefore=([^|]*)", token.misc)
            text += re.sub(r"\\.", lambda match: escapes[match[0]], before[1]) if before else ""
            text += token.form
            if spaces:
                text += re.sub(r"\\.", lambda match: escapes[match[0]], spaces[1])
            elif "SpaceAfter=No" not in token.misc:
                text += " "
    return text


def test_files_and_paragraphs_begin_with_marks(g2g_transformer, tmp_path):
    (tmp_path / "a.txt").write_text("The cat.\nDogs bark.\n\nA dog.\n")
    (tmp_path / "b.txt").write_text("Sleep.\n")
    names = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    sources = [source for record in open_files(names, "auto", "text") for source in record()]
    assert [source.metadata for source in sources] == [
        {"newdoc id": "a.txt", "newpar": ""},
        {},
        {"newpar": ""},
        {"newdoc id": "b.txt", "newpar": ""},
    ]
    lines = Parses(parse(sources, g2g_transformer, sentences="line")).to_conllu().splitlines()
    assert lines[:4] == ["# newdoc id = a.txt", "# newpar", "# sent_id = 1", "# text = The cat."]


def test_paragraphs_of_one_text(g2g_transformer):
    parses = parse("The cat. Dogs bark.\n\nA dog.", g2g_transformer, sentences="split")
    assert [dict(each.metadata) for each in parses] == [{}, {}, {"newpar": ""}]


@pytest.mark.parametrize("character", ["\0", "\ufeff", "\u200b", "\x1b", "\x7f", "\uffff"], ids=ascii)
def test_characters_that_are_no_text_are_spaces(g2g_transformer, character):
    parsed = parse(f"{character}the{character}cat", g2g_transformer)
    assert parsed.words == ("the", "cat")
    assert parsed.text == " the cat"
    assert [word.span for word in parsed] == [(1, 4), (5, 8)]
    assert "# text = the cat" in parsed.to_conllu()
    assert parse([[f"the{character}", "cat"]], g2g_transformer)[0].words == ("the", "cat")


@pytest.mark.parametrize("text", ["नमस्ते", "می‌خواهم", "👩‍👧", "\u200eabc", "a\u00adb", "a\tb\u3000c"], ids=ascii)
def test_other_invisible_characters_stay(text):
    assert read_source(text).text == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 text", "this is no text, but a zip archive"),
        (b"%PDF-1.7\n", "this is no text, but a PDF"),
        (rb"{\rtf1 text}", "this is no text, but a rich text file"),
        ("text".encode("utf-16-le"), "a NUL character: this is a binary file, or UTF-16"),
    ],
    ids=["zip", "pdf", "rtf", "utf-16"],
)
def test_files_that_are_no_text(tmp_path, content, message):
    (tmp_path / "notes.txt").write_bytes(content)
    with pytest.raises(DataError, match=f"notes.txt:1: {message}"):
        list(open_files([str(tmp_path / "notes.txt")], "auto", "text"))


def test_words_of_a_sentence_by_index(parsed):
    assert (parsed[0].form, parsed[-1].form) == ("à", ".")
    assert [word.form for word in parsed[2:4]] == ["de", "le"]
    assert parsed.dependency[0] == parsed.dependency._words()[0]
    with pytest.raises(IndexError):
        parsed[11]


def test_lists_of_parses_stay_what_they_are(parsed, g2g_transformer):
    one = Parses([parsed])
    both = one + one
    assert isinstance(both, Parses)
    both += [None]
    assert isinstance(both, Parses)
    assert isinstance(both.copy(), Parses)
    assert both.filter(lambda each: len(each) > 3) == [parsed, parsed]
    assert isinstance(both.filter(len), Parses)
    nested = parse(["The cat. A dog slept."], g2g_transformer, sentences="split")
    assert [[each.text for each in texts] for texts in nested.filter(lambda each: len(each) > 3)] == [["A dog slept."]]
