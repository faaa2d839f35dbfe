"""Reads sentences in any form, and files of text, CoNLL-U, SDP and brackets, with their text layer."""

import codecs
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any

from hf_structure.text.bracket_tree import BracketTree
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import ConlluSentence, parse_sentence, sentence_lines
from hf_structure.text.files import plain_path
from hf_structure.text.formats import SUFFIXES, bracket_sentence
from hf_structure.text.sdp import SdpSentence, read_sdp
from hf_structure.text.sentences import SentenceError, SourceSentence, clean_text, cleaned, read_plain
from hf_structure.text.words import numbered_lines, source_name

FORMATS = ("auto", "raw", "paragraphs", "words", "conllu", "sdp", "brackets")
_CONLLU = re.compile(rb"(#[^\n]*\n|\r?\n)*[0-9.-]+\t([^\t\n]*\t){8}")  # the beginning of a CoNLL-U file
Unread = Callable[..., SourceSentence]  # takes no argument, or other `metadata`


def is_one_sentence(sentences: Any) -> bool:
    """Returns True for one sentence in any form; a list of strings is several raw sentences."""
    is_annotated = isinstance(sentences, SourceSentence | ConlluSentence | SdpSentence)
    is_foreign = _is_token_list(sentences) or _is_spacy(sentences)
    return isinstance(sentences, str | Mapping) or is_annotated or is_foreign


def read_all(sentences: Iterable[Any], skipped: tuple[type[ValueError], ...] = ()) -> Iterator[SourceSentence]:
    """
    Reads sentences one by one, see [`read_source`]. Raises `SentenceError` for one that cannot be read; if its error
    is in `skipped`, the sentence has no words, but the `error`.
    """
    for number, sentence in enumerate(sentences, start=1):
        place = getattr(sentence, "place", "")
        try:
            source = read_source(sentence)
        except skipped as error:
            source = SourceSentence(words=[], place=place, error=str(error))
        except ValueError as error:
            raise SentenceError(number, str(error), place) from error
        yield source


def read_source(value: Any) -> SourceSentence:
    """
    Reads a sentence in any form: a string, a list or tuple of words, a dictionary, a sentence of
    [`~hf_structure.text.conllu.read_conllu`], of [`~hf_structure.text.sdp.read_sdp`] or of the package `conllu`, or a
    spaCy `Doc` or `Span`. A missing value is an empty string. Characters that are no text (NUL and other control
    characters, byte order marks, zero-width spaces) become spaces, which keeps offsets valid.

    Raises:
        ValueError: bytes or another type, a word that is no string or is blank, or an unpaired surrogate.
    """
    if isinstance(value, SourceSentence):
        source = value
    elif isinstance(value, ConlluSentence):
        source = from_conllu(value)
    elif isinstance(value, SdpSentence):
        source = from_conllu(value.to_conllu_sentence())
    elif _is_token_list(value):
        lines = list(enumerate(value.serialize().rstrip("\n").split("\n"), start=1))
        source = from_conllu(parse_sentence(lines, "<conllu>"))
    elif _is_spacy(value):
        source = _from_spacy(value)
    else:
        source = read_plain(value)
    return cleaned(source)


def from_conllu(sentence: ConlluSentence, place: str = "") -> SourceSentence:
    """Converts a sentence of CoNLL-U, with its text layer."""
    text, word_spans, multiword_tokens = sentence.text_layer()
    return SourceSentence(
        words=sentence.forms,
        text=text,
        word_spans=word_spans,
        multiword_tokens=multiword_tokens,
        tags=sentence.to_sentence()["tags"],
        metadata=sentence.metadata,
        source=sentence,
        place=place,
    )


def _is_token_list(value: Any) -> bool:
    """Recognises a sentence of the package `conllu`, a list of dictionaries with comments."""
    return hasattr(value, "serialize") and hasattr(value, "metadata")


def _is_spacy(value: Any) -> bool:
    return type(value).__module__.startswith("spacy.tokens.") and hasattr(value, "text_with_ws")


def _from_spacy(tokens: Any) -> SourceSentence:
    """Converts spaCy's tokens to words, dropping tokens of white space."""
    words = [token for token in tokens if not token.is_space]
    start = words[0].idx if words else 0
    tags = [token.tag_ for token in words]
    spans = [(token.idx - start, token.idx - start + len(token.text)) for token in words]
    text = tokens.text.strip()
    return SourceSentence([token.text for token in words], text, spans, start=start, tags=tags if any(tags) else None)


def unread_sentences(
    file: Iterable[bytes], form: str, skip_empty: bool = True, line_breaks: str = "end", before: str | None = None
) -> Iterator[Unread]:
    """
    Yields the sentences of an open file in one of `FORMATS` but `auto`, each as a function that reads it, so that
    skipped sentences cost no time. Raw text is read line by line; if a line break is a space, as in the format
    `paragraphs`, by the paragraphs between empty lines. Empty lines are included unless `skip_empty`.

    The first sentence of a file begins a document (`# newdoc`), and the first of text after an empty line a paragraph.
    CoNLL-U has its own comments. If the file is read from its middle, `before` is the line before.
    """
    name = source_name(file)
    if form == "conllu":
        for lines in sentence_lines(file):
            yield partial(_conllu_sentence, lines, name)
        return
    metadata = new_document(name) if before is None else {}
    by_paragraph = is_by_paragraph(form, line_breaks)
    of_text = partial(_text_sentences, form=form, skip_empty=skip_empty, by_paragraph=by_paragraph, before=before)
    for read in _OTHERS.get(form, of_text)(file, name):
        yield partial(read, metadata=metadata) if metadata else read
        metadata = {}


def is_by_paragraph(form: str, line_breaks: str) -> bool:
    """True if text of this format is read by paragraph, and not by line."""
    return form == "paragraphs" or (form == "raw" and line_breaks == "space")


def new_document(name: str) -> dict[str, str]:
    """Comments that begin a document; it is named after its file, standard input has no name."""
    mark = {"newdoc": ""} if name.startswith("<") else {"newdoc id": os.path.basename(name)}
    return mark | {"newpar": ""}


def format_of(name: str, file: io.BufferedReader, given: str = "auto") -> str:
    """The format of an open file: the given one, or, for `"auto"`, a guess from suffix and first lines."""
    if given != "auto":
        return given
    suffix = plain_path(name).suffix.lower()
    if suffix in SUFFIXES["brackets"]:
        return "brackets"
    # Peeked at, since a pipe cannot be read again.
    beginning = file.peek().removeprefix(codecs.BOM_UTF8)
    if suffix in SUFFIXES["sdp"] or beginning.startswith(b"#SDP"):
        return "sdp"
    return "conllu" if suffix in SUFFIXES["conllu"] or _CONLLU.match(beginning) else "raw"


def _conllu_sentence(lines: list[tuple[int, str]], name: str) -> SourceSentence:
    sentence = parse_sentence(lines, name)
    return from_conllu(sentence, f"{name}:{sentence.line}")


def _sdp_sentences(file: Iterable[bytes], name: str) -> Iterator[Unread]:
    for sentence in read_sdp(file):
        yield partial(_sdp_sentence, sentence, name)


def _sdp_sentence(sentence: SdpSentence, name: str, metadata: dict[str, str] | None = None) -> SourceSentence:
    source = from_conllu(sentence.to_conllu_sentence(), f"{name}:{sentence.line}")
    source.metadata = {**(metadata or {}), **source.metadata}
    return source


def _bracket_sentences(file: Iterable[bytes], name: str) -> Iterator[Unread]:
    for whole in read_brackets(file, unescape=True):
        if tree := whole.remove_traces():
            yield partial(_bracket_sentence, tree, f"{name}:{whole.line}")


def _bracket_sentence(tree: BracketTree, place: str, metadata: dict[str, str] | None = None) -> SourceSentence:
    row = bracket_sentence(tree)
    return SourceSentence(words=row["words"], tags=row["tags"], metadata=metadata or {}, place=place)


def _text_sentences(
    file: Iterable[bytes], name: str, form: str, skip_empty: bool, by_paragraph: bool, before: str | None
) -> Iterator[Unread]:
    begins_paragraph = before is not None and (by_paragraph or _is_blank(before))
    for number, start, text, spaces in (_paragraphs if by_paragraph else _lines)(file):
        metadata = {"newpar": ""} if begins_paragraph else {}
        is_blank = _is_blank(text)
        if not (is_blank and skip_empty):
            yield partial(text_sentence, text, form, f"{name}:{number}", start, spaces_after=spaces, metadata=metadata)
        begins_paragraph = is_blank or by_paragraph


def _is_blank(line: str) -> bool:
    return not clean_text(line).strip()


def text_sentence(
    text: str,
    form: str,
    place: str,
    start: int = 0,
    *,
    spaces_after: str = "",
    metadata: dict[str, str] | None = None,
) -> SourceSentence:
    """Makes a sentence of a line of `"words"`, or of raw text."""
    fields = {"metadata": metadata or {}, "place": place}
    if form == "words":
        return SourceSentence(words=text.split(), **fields)
    return SourceSentence(text=text, start=start, spaces_after=spaces_after, **fields)


def _lines(file: Iterable) -> Iterator[tuple[int, int, str, str]]:
    """Yields number, offset, text and line end of each line. Byte order marks do not count."""
    start = 0
    for number, line in numbered_lines(file, allow_nul=True):
        yield number, start, line, "\n"
        start += len(line) + 1


def _paragraphs(file: Iterable) -> Iterator[tuple[int, int, str, str]]:
    """Yields the paragraphs between empty lines, with number and offset of their first line."""
    for is_text, lines in groupby(_lines(file), lambda line: bool(line[2].strip())):
        if is_text:
            (number, start, first, _), *others = lines
            yield number, start, "\n".join([first, *(text for _, _, text, _ in others)]), "\n\n"


_OTHERS: dict[str, Callable[..., Iterator[Unread]]] = {"sdp": _sdp_sentences, "brackets": _bracket_sentences}
