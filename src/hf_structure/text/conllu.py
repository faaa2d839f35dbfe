"""Reads and writes CoNLL-U (universaldependencies.org/format.html) and other 10-column CoNLL files such as `.dep`."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import IO, Any

from hf_structure.algorithms.trees import check_heads, remove_words
from hf_structure.text.files import DataError
from hf_structure.text.words import PathOrFile, find_words, numbered_blocks, source_name, write_blocks

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
NO_SPACE = "SpaceAfter=No"  # in MISC
PARAGRAPHS = ("# newpar", "# newdoc")  # prefixes of comments that begin a paragraph
# MISC entries about the predicted tree
_NOTES = ("HeadProb=", "LabelProb=", "UposProb=", "XposProb=", "FeatsProb=", "LemmaProb=", "Flag=", "Votes=")
_fields = attrgetter(*COLUMNS)
_ID = re.compile(r"(0|[1-9][0-9]{0,8})(?:([-.])([1-9][0-9]{0,8}))?")
_SEPARATOR = re.compile(r"[\t\n\r\0]")  # ends a column or a line, or makes a file binary
_NUMBER = re.compile(r"0|[1-9][0-9]*")


class ConlluError(DataError):
    """Malformed CoNLL-U; the message names file, line and what is wrong."""


@dataclass(slots=True)
class ConlluToken:
    """One line: a word (`id` "3"), a multi-word token ("3-4") or an empty node ("3.1"); every field as in the file."""

    id: str
    form: str
    lemma: str = "_"
    upos: str = "_"
    xpos: str = "_"
    feats: str = "_"
    head: str = "_"
    deprel: str = "_"
    deps: str = "_"
    misc: str = "_"

    @property
    def is_word(self) -> bool:
        return self.id.isdigit()

    def __str__(self) -> str:
        return "\t".join(_fields(self))


@dataclass
class ConlluSentence:
    r"""
    A sentence exactly as in its file: `str(sentence)` reproduces it, with the empty line that ends it.

    Args:
        comments (`list[str]`): The comment lines, each with its `#`.
        tokens (`list[ConlluToken]`): Words, multi-word tokens and empty nodes, in order.
        newline (`str`): Line end of the file, `"\n"` or `"\r\n"`.
        line (`int`, *optional*): Number of its first line in the file it was read from.
    """

    comments: list[str] = field(default_factory=list)
    tokens: list[ConlluToken] = field(default_factory=list)
    newline: str = "\n"
    line: int | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_words(
        cls,
        words: Sequence[str],
        heads: Sequence[int] | None = None,
        deprels: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        comments: Sequence[str] = (),
        misc: Sequence[str] | None = None,
        spaces: Sequence[bool] | None = None,
        multiword_tokens: Sequence[tuple[int, int]] = (),
    ) -> "ConlluSentence":
        """
        Makes a sentence from words (FORM) and optional HEAD, DEPREL, XPOS and MISC; the other columns are `_`.

        A word whose `spaces` is False gets `SpaceAfter=No` in MISC. `multiword_tokens` are the first and last word,
        from 1, of each token of several words: `(1, 2)` gives a line `1-2`. The words inside a token get no
        `SpaceAfter=No`.

        Raises:
            ValueError: values that no CoNLL-U line can hold (an empty word; a tab, line break or NUL character), heads
                outside the sentence, lists of unequal length, or multiword tokens that overlap, are out of order or
                have fewer than two words of the sentence.
        """
        for comment in comments:
            if not comment.startswith("#") or re.search(r"[\n\r\0]", comment):
                raise ValueError(f"a CoNLL-U comment must be one line: {comment!r}")
        tokens = [ConlluToken(str(number), "") for number in range(1, len(words) + 1)]
        sentence = cls(list(comments), tokens)
        columns = {"form": words, "xpos": tags, "head": _digits(heads, len(words)), "deprel": deprels, "misc": misc}
        sentence._set_columns(columns)
        if spaces is not None or multiword_tokens:
            sentence._add_tokens(multiword_tokens, spaces)
        return sentence

    @property
    def words(self) -> list[ConlluToken]:
        """The tokens with plain integer ids."""
        return [token for token in self.tokens if token.is_word]

    @property
    def forms(self) -> list[str]:
        return [token.form for token in self.words]

    @property
    def heads(self) -> list[int] | None:
        """Head of each word, 0 = root; None if any word has none (`_`)."""
        heads = [token.head for token in self.words]
        return None if "_" in heads else [int(head) for head in heads]

    @property
    def deprels(self) -> list[str]:
        return [token.deprel for token in self.words]

    def initial_tree(self) -> tuple[list[int], list[str]]:
        """Heads and labels as a starting tree for a parser. Raises `ValueError` if a word has no head."""
        heads = self.heads
        if heads is None:
            raise ValueError("the initial tree has words without a head")
        return heads, self.deprels

    def to_sentence(self) -> dict[str, Any]:
        """
        The sentence as a dictionary of `words`, `heads`, `deprels` and `tags` (XPOS, or else UPOS), None if unknown,
        and `spans`, always None.
        """
        columns = {name: [getattr(word, name) for word in self.words] for name in ("upos", "xpos", "deprel")}
        given = {name: values if set(values) != {"_"} else None for name, values in columns.items()}
        # XPOS is preferred because it is finer.
        tags = given["xpos"] or given["upos"]
        return {"words": self.forms, "heads": self.heads, "deprels": given["deprel"], "tags": tags, "spans": None}

    @property
    def metadata(self) -> dict[str, str]:
        """The comments `# key = value` (for a comment without `=`, the value is empty)."""
        pairs = (comment.lstrip("#").partition("=") for comment in self.comments)
        return {key.strip(): value.strip() for key, _, value in pairs}

    def surface_tokens(self) -> list[tuple[int, int, ConlluToken]]:
        """Tokens of the text, each with its first and last word; a multiword token replaces its words."""
        tokens = []
        last = 0
        for token in self.tokens:
            first, _, end = token.id.partition("-")
            if "." not in first and int(first) > last:
                last = int(end or first)
                tokens.append((int(first), last, token))
        return tokens

    def text_layer(self) -> tuple[str | None, list[tuple[int, int]] | None, list[tuple[int, int]]]:
        """
        Returns the text, start and end of each word in it, and the first and last word of each multiword token.

        The text comes from `# text`, or is assembled from the tokens if any has `SpaceAfter=No`; otherwise it is None.
        The spans are None if the tokens do not match the text. Words that are no substrings of their multiword token
        (`de` and `le` of `du`) get its whole span.
        """
        tokens = self.surface_tokens()
        multiword_tokens = [(first, last) for first, last, _ in tokens if first < last]
        text = self.metadata.get("text")
        if text is None:
            if not any(NO_SPACE in token.misc for _, _, token in tokens):
                return None, None, multiword_tokens
            text = "".join(token.form + " " * (NO_SPACE not in token.misc) for _, _, token in tokens).rstrip()
        token_spans = find_words(text, [token.form for _, _, token in tokens])
        if token_spans is None:
            return text, None, multiword_tokens
        forms = self.forms
        word_spans = []
        for (first, last, token), span in zip(tokens, token_spans, strict=True):
            word_spans += spans_in_token(forms[first - 1 : last], token.form, span)
        return text, word_spans, multiword_tokens

    @property
    def begins_paragraph(self) -> bool:
        """True if the sentence is marked as the first of a paragraph or a document."""
        return any(comment.startswith(PARAGRAPHS) for comment in self.comments)

    def line_of(self, id: str) -> int | None:
        """Line number of the token with this id in the source file."""
        ids = [token.id for token in self.tokens]
        return None if self.line is None else self.line + len(self.comments) + ids.index(id)

    def with_heads(self, heads: Sequence[int] | None, deprels: Sequence[str] | None = None) -> "ConlluSentence":
        """
        A new sentence with other heads (0 = root) and labels, one for each word; None keeps a column. All other
        columns, multi-word tokens and empty nodes stay.

        Raises:
            ValueError: the number of values is not the number of words, a head is outside the sentence (see
                `check_heads`), or a label does not fit a column.
        """
        return self.with_columns({"head": _digits(heads, len(self.words)), "deprel": deprels})

    def with_comments(self, metadata: Mapping[str, str]) -> "ConlluSentence":
        """
        A new sentence with these comments `# key = value`. They replace comments with the same key; new `newdoc` and
        `newpar` comments come first, other new ones last. Comments with equal values keep their spelling.
        """
        current = self.metadata
        new = {key: value for key, value in metadata.items() if current.get(key) != value}
        comments = []
        for comment in self.comments:
            key = comment.lstrip("#").partition("=")[0].strip()
            comments.append(comment_line(key, new.pop(key)) if key in new else comment)
        marks = [comment_line(key, value) for key, value in new.items() if key.startswith(("newdoc", "newpar"))]
        others = [comment_line(key, value) for key, value in new.items() if not key.startswith(("newdoc", "newpar"))]
        return replace(self, comments=[*marks, *comments, *others])

    def with_deps(self, deps: Sequence[str]) -> "ConlluSentence":
        """
        A new sentence with another enhanced graph, one value of DEPS a word. Empty nodes belong to the old graph and
        are dropped; all other columns and multi-word tokens stay.
        """
        return replace(self, tokens=[token for token in self.tokens if "." not in token.id]).with_column("deps", deps)

    def keep_words(self, keep: Sequence[bool]) -> "ConlluSentence":
        """
        A new sentence of the words whose mask is True, renumbered. The dependents of a dropped word go to its nearest
        kept ancestor (see `remove_words`). Multi-word tokens, empty nodes, DEPS and MISC refer to the old words and
        are dropped.
        """
        kept = [word for word, kept in zip(self.words, keep, strict=True) if kept]
        tokens = [replace(word, id=str(number), deps="_", misc="_") for number, word in enumerate(kept, start=1)]
        heads = None if self.heads is None else remove_words(self.heads, keep)
        return replace(self, tokens=tokens).with_heads(heads)

    def with_column(self, column: str, values: Sequence[str] | None) -> "ConlluSentence":
        """A new sentence with other values in one column, see [`with_columns`]; None keeps the column."""
        return self.with_columns({column: values})

    def with_columns(self, columns: Mapping[str, Sequence[str] | None]) -> "ConlluSentence":
        """
        A new sentence with other values in some columns (names of `COLUMNS`) of its words; None keeps a column.

        Raises:
            ValueError: the number of values is not the number of words, or one does not fit a column: a tab, line
                break or NUL character, an empty form, no string.
        """
        # Call the constructor: `dataclasses.replace` takes ten times as long.
        tokens = [ConlluToken(*_fields(token)) if token.is_word else token for token in self.tokens]
        sentence = replace(self, tokens=tokens)
        sentence._set_columns(columns)
        return sentence

    def _set_columns(self, columns: Mapping[str, Sequence[str] | None]) -> None:
        words = self.words
        for column, values in columns.items():
            if values is None:
                continue
            _check_length(column, values, len(words))
            _check_column(column, values)
            for word, value in zip(words, values, strict=True):
                setattr(word, column, value)

    def _add_tokens(self, multiword_tokens: Sequence[tuple[int, int]], spaces: Sequence[bool] | None) -> None:
        """Adds the lines of multiword tokens and the `SpaceAfter=No` of all tokens."""
        words = self.tokens
        if spaces is not None:
            _check_length("spaces", spaces, len(words))
        check_multiword_tokens(multiword_tokens, len(words))
        last_words = dict(multiword_tokens)
        self.tokens = []
        first = 1
        while first <= len(words):
            last = last_words.get(first, first)
            members = words[first - 1 : last]
            token = members[0]
            if last > first:
                token = ConlluToken(f"{first}-{last}", "".join(word.form for word in members))
                self.tokens.append(token)
            self.tokens += members
            # Only the last word decides: the words inside a token have no spaces between them.
            if spaces is not None and not spaces[last - 1]:
                token.misc = NO_SPACE if token.misc == "_" else f"{token.misc}|{NO_SPACE}"
            first = last + 1

    def to_string(self) -> str:
        """The lines of the sentence and the empty line after it."""
        return self.newline.join([*self.comments, *map(str, self.tokens), "", ""])

    __str__ = to_string


def comment_line(key: str, value: str) -> str:
    """Formats a comment; without a value, it is the key alone."""
    return f"# {key} = {value}" if value else f"# {key}"


def without_probabilities(sentence: ConlluSentence) -> ConlluSentence:
    """Drops probability annotations, which describe the previous tree."""
    comments = [comment for comment in sentence.comments if not comment.startswith("# log_probability = ")]
    notes = ([note for note in word.misc.split("|") if not note.startswith(_NOTES)] for word in sentence.words)
    return replace(sentence, comments=comments).with_column("misc", ["|".join(kept) or "_" for kept in notes])


def spans_in_token(words: Sequence[str], form: str, span: tuple[int, int]) -> list[tuple[int, int]]:
    """Spans of the words inside a token with this span; the whole span for words that do not make up its form."""
    if len(words) == 1 or "".join(words) != form:
        return [span] * len(words)
    ends = accumulate(map(len, words), initial=span[0])
    return list(pairwise(ends))


def read_conllu(path_or_file: PathOrFile) -> Iterator[ConlluSentence]:
    """
    Streams the sentences of a CoNLL-U (or other 10-column CoNLL) file, one in memory at a time.

    Writing them again reproduces a well-formed file byte for byte: one empty line after every sentence (a missing one
    at the end, or more than one, are read and written as one), no byte order marks, and one kind of line end in a
    sentence (LF or CRLF). A FORM `_` is a word like any other. Cycles and several roots are accepted, because the
    output of a parser may have them.

    Raises:
        OSError: the file does not exist or cannot be opened.
        ConlluError: number of columns, an empty form, order of ids, ranges, a HEAD that is no number, out of range or
            the word itself, a comment inside a sentence or without one, not UTF-8, a binary file.
    """
    name = source_name(path_or_file)
    for lines in sentence_lines(path_or_file):
        yield parse_sentence(lines, name)


def sentence_lines(path_or_file: PathOrFile) -> Iterator[list[tuple[int, str]]]:
    """Streams the numbered lines of each sentence, so that callers run the slow [`parse_sentence`] only if needed."""
    return numbered_blocks(path_or_file, ConlluError)


def by_paragraph(sentences: Iterable[ConlluSentence]) -> Iterator[list[ConlluSentence]]:
    """Groups sentences by paragraph. Sentences before the first paragraph mark form one, too."""
    paragraph = []
    for sentence in sentences:
        if sentence.begins_paragraph and paragraph:
            yield paragraph
            paragraph = []
        paragraph.append(sentence)
    if paragraph:
        yield paragraph


def raw_text(sentences: Iterable[ConlluSentence]) -> str:
    """
    Joins the texts of sentences, with a space between two of them unless the last token of the first has
    `SpaceAfter=No`.

    Raises:
        ValueError: a sentence without `# text`.
    """
    text = ""
    for sentence in sentences:
        if "text" not in sentence.metadata:
            raise ValueError(f"sentence {sentence.metadata.get('sent_id', '')!r} has no '# text'")
        last = [token for token in sentence.tokens if "." not in token.id][-1]
        token = next((token for token in sentence.tokens if token.id.endswith(f"-{last.id}")), last)
        text += sentence.metadata["text"] + " " * (NO_SPACE not in token.misc)
    return text.strip()


def write_conllu(sentences: Iterable[ConlluSentence], path_or_file: str | os.PathLike | IO) -> int:
    """
    Writes sentences one by one, in UTF-8 and with their own line ends, to a path (an existing file is replaced) or an
    open file. Returns their number.
    """
    return write_blocks(map(str, sentences), path_or_file)


def _digits(heads: Sequence[int] | None, length: int) -> list[str] | None:
    """Formats the HEAD column. Raises `ValueError` for heads outside a sentence of this length."""
    if heads is None:
        return None
    _check_length("head", heads, length)
    check_heads(heads)
    return [str(int(head)) for head in heads]


def _check_length(column: str, values: Sequence, length: int) -> None:
    if len(values) != length:
        raise ValueError(f"{len(values)} values of {column} for {length} words")


def check_multiword_tokens(tokens: Sequence[tuple[int, int]], length: int) -> None:
    """Raises `ValueError` unless these are ordered, disjoint ranges of two or more words."""
    end = 0
    for first, last in tokens:
        if not end < first < last <= length:
            raise ValueError(f"the words {first} to {last} cannot be a multiword token after word {end} of {length}")
        end = last


def _check_column(column: str, values: Sequence[str]) -> None:
    """Raises `ValueError` for a value that does not fit a column of CoNLL-U."""
    texts = all(isinstance(value, str) for value in values)
    # Search all values at once: most sentences are fine, and a search for each value is slow.
    if texts and not _SEPARATOR.search("".join(values)) and (column != "form" or all(values)):
        return
    for number, value in enumerate(values, start=1):
        if not isinstance(value, str) or _SEPARATOR.search(value) or (column == "form" and not value):
            name = f"word {number}" if column == "form" else f"{column} of word {number}"
            raise ValueError(f"{name} cannot stand in CoNLL-U: {value!r}")


def parse_sentence(lines: list[tuple[int, str]], name: str) -> ConlluSentence:
    """
    Parses the lines of one sentence, as `sentence_lines` yields them. Raises `ConlluError`, which names the file.
    """
    newline = "\r\n" if lines[0][1].endswith("\r") else "\n"
    comments = []
    tokens = []
    numbers = []
    for number, line in lines:
        line = line.removesuffix("\r")
        if not line.startswith("#"):
            tokens.append(_parse_token(line, name, number))
            numbers.append(number)
        elif tokens:
            raise ConlluError("a comment inside a sentence (is an empty line missing before it?)", name, number)
        else:
            comments.append(line)
    if not tokens:
        raise ConlluError("comments without a sentence", name, lines[0][0])
    length = _check_ids(tokens, numbers, name)
    _check_heads(tokens, numbers, length, name)
    return ConlluSentence(comments, tokens, newline, lines[0][0])


def _parse_token(line: str, name: str, number: int) -> ConlluToken:
    columns = line.split("\t")
    if len(columns) != len(COLUMNS):
        raise ConlluError(f"{len(columns)} tab-separated columns instead of {len(COLUMNS)}", name, number)
    if not columns[1]:
        raise ConlluError("the FORM (column 2) is empty", name, number)
    return ConlluToken(*columns)


def _check_ids(tokens: list[ConlluToken], numbers: list[int], name: str) -> int:
    """
    Checks that words are numbered 1..n, ranges come before their first word, and empty nodes i.1, i.2 ... after word
    i. Returns n.
    """
    word = empty = range_end = 0
    range_line = None
    for token, number in zip(tokens, numbers, strict=True):
        match = _ID.fullmatch(token.id)
        if not match:
            raise ConlluError(f"the ID (column 1) is no number, range or empty node: {token.id!r}", name, number)
        first = int(match[1])
        mark = match[2]
        second = int(match[3] or 0)
        if mark == "-":
            if first != word + 1 or second < first or first <= range_end:
                raise ConlluError(f"misplaced range {token.id} after word {word}", name, number)
            range_end = second
            range_line = number
        elif mark == ".":
            if (first, second) != (word, empty + 1):
                raise ConlluError(f"empty node {token.id} where {word}.{empty + 1} should come", name, number)
            empty = second
        else:
            if first != word + 1:
                raise ConlluError(f"word {first} where {word + 1} should come", name, number)
            word = first
            empty = 0
    if not word:
        raise ConlluError("a sentence without words", name, numbers[0])
    if range_end > word:
        raise ConlluError(f"a range ends at {range_end}, but the sentence has {word} words", name, range_line)
    return word


def _check_heads(tokens: list[ConlluToken], numbers: list[int], length: int, name: str) -> None:
    for token, number in zip(tokens, numbers, strict=True):
        if token.head == "_" or not token.is_word:
            continue
        if not _NUMBER.fullmatch(token.head):
            raise ConlluError(f"the HEAD (column 7) is no number: {token.head!r}", name, number)
        # Compare lengths first: `int` refuses strings of thousands of digits.
        if len(token.head) > len(str(length)) or int(token.head) > length:
            raise ConlluError(f"head {token.head} in a sentence of {length} words", name, number)
        if token.head == token.id:
            raise ConlluError(f"word {token.id} is its own head", name, number)
