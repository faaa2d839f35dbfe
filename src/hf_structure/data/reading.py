"""Files of text, CoNLL-U, SDP and brackets as sentences with their text layer."""

import codecs
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby

from hf_structure.data.bracket_tree import BracketTree
from hf_structure.data.brackets import read_brackets
from hf_structure.data.conllu import parse_sentence, sentence_lines
from hf_structure.data.corpus import SUFFIXES, bracket_sentence
from hf_structure.data.files import plain_path
from hf_structure.data.sdp import SdpSentence, read_sdp
from hf_structure.data.sentences import SourceSentence, clean_text, from_conllu
from hf_structure.data.text import numbered_lines, source_name

FORMATS = ("auto", "raw", "paragraphs", "words", "conllu", "sdp", "brackets")
_CONLLU = re.compile(rb"(#[^\n]*\n|\r?\n)*[0-9.-]+\t([^\t\n]*\t){8}")  # how such a file begins
Unread = Callable[..., SourceSentence]  # takes nothing, or other `metadata`


def unread_sentences(
    file: io.BufferedReader, form: str, skip_empty: bool = True, line_breaks: str = "end"
) -> Iterator[Unread]:
    """
    The sentences of an open file in one of `FORMATS` but `auto`, each as a function that reads it: who passes over
    some saves the time. Raw text comes line by line, or where a line break is a space (which is what `paragraphs`
    means), by what stands between empty lines; empty lines come too if they are not skipped.

    The first sentence of a file begins a document (`# newdoc`), and one of text after an empty line a paragraph.
    CoNLL-U says so itself.
    """
    name = source_name(file)
    if form == "conllu":
        for lines in sentence_lines(file):
            yield partial(_conllu_sentence, lines, name)
        return
    metadata = new_document(name)
    by_paragraph = form == "paragraphs" or (form == "raw" and line_breaks == "space")
    of_text = partial(_text_sentences, form=form, skip_empty=skip_empty, by_paragraph=by_paragraph)
    for read in _OTHERS.get(form, of_text)(file, name):
        yield partial(read, metadata=metadata) if metadata else read
        metadata = {}


def new_document(name: str) -> dict[str, str]:
    """The comments at the beginning of a document, which has the name of its file; standard input has none."""
    mark = {"newdoc": ""} if name.startswith("<") else {"newdoc id": os.path.basename(name)}
    return mark | {"newpar": ""}


def format_of(name: str, file: io.BufferedReader, given: str = "auto") -> str:
    """The format of an open file: the one that is given, or, of `"auto"`, what suffix and first lines say."""
    if given != "auto":
        return given
    suffix = plain_path(name).suffix.lower()
    if suffix in SUFFIXES["brackets"]:
        return "brackets"
    beginning = file.peek().removeprefix(codecs.BOM_UTF8)
    if suffix in SUFFIXES["sdp"] or beginning.startswith(b"#SDP"):
        return "sdp"
    return "conllu" if suffix in SUFFIXES["conllu"] or _CONLLU.match(beginning) else "raw"


def _conllu_sentence(lines: list[tuple[int, str]], name: str) -> SourceSentence:
    sentence = parse_sentence(lines, name)
    return from_conllu(sentence, f"{name}:{sentence.line}")


def _sdp_sentences(file: io.BufferedReader, name: str) -> Iterator[Unread]:
    for sentence in read_sdp(file):
        yield partial(_sdp_sentence, sentence, name)


def _sdp_sentence(sentence: SdpSentence, name: str, metadata: dict[str, str] | None = None) -> SourceSentence:
    source = from_conllu(sentence.to_conllu_sentence(), f"{name}:{sentence.line}")
    source.metadata = {**(metadata or {}), **source.metadata}
    return source


def _bracket_sentences(file: io.BufferedReader, name: str) -> Iterator[Unread]:
    for whole in read_brackets(file, unescape=True):
        if tree := whole.remove_traces():
            yield partial(_bracket_sentence, tree, f"{name}:{whole.line}")


def _bracket_sentence(tree: BracketTree, place: str, metadata: dict[str, str] | None = None) -> SourceSentence:
    row = bracket_sentence(tree)
    return SourceSentence(words=row["words"], tags=row["tags"], metadata=metadata or {}, place=place)


def _text_sentences(
    file: io.BufferedReader, name: str, form: str, skip_empty: bool, by_paragraph: bool
) -> Iterator[Unread]:
    begins_paragraph = False
    for number, start, text, spaces in (_paragraphs if by_paragraph else _lines)(file):
        metadata = {"newpar": ""} if begins_paragraph else {}
        is_blank = not clean_text(text).strip()
        if not (is_blank and skip_empty):
            yield partial(text_sentence, text, form, f"{name}:{number}", start, spaces_after=spaces, metadata=metadata)
        begins_paragraph = is_blank or by_paragraph


def text_sentence(
    text: str,
    form: str,
    place: str,
    start: int = 0,
    *,
    spaces_after: str = "",
    metadata: dict[str, str] | None = None,
) -> SourceSentence:
    """A line of `"words"`, or raw text."""
    known = {"metadata": metadata or {}, "place": place}
    if form == "words":
        return SourceSentence(words=text.split(), **known)
    return SourceSentence(text=text, start=start, spaces_after=spaces_after, **known)


def _lines(file: Iterable) -> Iterator[tuple[int, int, str, str]]:
    """Number, offset and text of each line, and its end. Byte order marks do not count."""
    start = 0
    for number, line in numbered_lines(file, allow_nul=True):
        yield number, start, line, "\n"
        start += len(line) + 1


def _paragraphs(file: Iterable) -> Iterator[tuple[int, int, str, str]]:
    """Text between empty lines, and the number and the offset of its first line."""
    for is_text, lines in groupby(_lines(file), lambda line: bool(line[2].strip())):
        if is_text:
            (number, start, first, _), *others = lines
            yield number, start, "\n".join([first, *(text for _, _, text, _ in others)]), "\n\n"


_OTHERS: dict[str, Callable[..., Iterator[Unread]]] = {"sdp": _sdp_sentences, "brackets": _bracket_sentences}
