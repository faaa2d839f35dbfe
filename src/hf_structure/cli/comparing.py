"""Gold and system trees side by side, for `hf-structure render`."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import cast

from hf_structure.cli.common import input_file, shown_name
from hf_structure.structures.comparison import TreeComparison
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.text.conllu import ConlluSentence, read_conllu
from hf_structure.text.reading import format_of

NOTE = (
    "Above the words: the gold tree. Below: the system's. Blue arcs are in both, violet ones in the other tree "
    "in the other direction, orange ones in one tree alone."
)


def read_comparisons(gold: str, system: str, input_format: str) -> Iterator[TreeComparison]:
    """
    Streams the trees of two CoNLL-U files, sentence by sentence. Raises `ValueError` for another format; with file and
    line for differing words, a missing sentence or a word without a head.
    """
    names = shown_name(gold), shown_name(system)
    with input_file(gold) as first, input_file(system) as second:
        for name, shown, file in zip((gold, system), names, (first, second), strict=True):
            if format_of(name, file, input_format) != "conllu":
                raise ValueError(f"{shown} is not CoNLL-U: trees of two files are drawn together from CoNLL-U only")
        # Not `strict`: the message about a missing sentence names file and line.
        for pair in zip_longest(read_conllu(first), read_conllu(second)):
            _check_pair(pair, names)
            yield TreeComparison(*(read_tree(each, name) for each, name in zip(pair, names, strict=True)))


def read_tree(sentence: ConlluSentence, name: str) -> DependencyTree:
    """Returns the tree of a sentence of the file `name`, with tags and lemmas. Raises `ValueError` if it has none."""
    if sentence.heads is None:
        raise ValueError(f"{name}:{sentence.line}: words without a head: there is no tree to draw")
    # A column of `_` alone is missing, not a label of that name.
    labels = None if set(sentence.deprels) == {"_"} else sentence.deprels
    columns = {}
    for column in ("lemma", "upos"):
        values = [getattr(word, column) for word in sentence.words]
        if set(values) != {"_"}:
            columns[column] = [None if value == "_" else value for value in values]
    return DependencyTree(sentence.forms, sentence.heads, labels, columns=columns)


def _check_pair(pair: Sequence[ConlluSentence | None], names: Sequence[str]) -> None:
    """Raises `ValueError` unless both sentences exist and have the same words."""
    gold, system = pair
    if gold is None or system is None:
        longer = int(gold is None)  # index of the file that goes on
        line = cast(ConlluSentence, pair[longer]).line
        raise ValueError(f"{names[longer]}:{line}: {names[1 - longer]} ends before this sentence")
    for expected, found in zip_longest(gold.words, system.words):
        if expected is None:
            raise ValueError(f"{names[1]}:{system.line_of(found.id)}: {found.form!r} is no word of {names[0]}")
        if found is None:
            raise ValueError(f"{names[1]}:{system.line}: without the word {expected.form!r} of {names[0]}")
        if found.form != expected.form:
            found_line = f"{names[1]}:{system.line_of(found.id)}"
            expected_line = f"{names[0]}:{gold.line_of(expected.id)}"
            raise ValueError(f"{found_line}: the word is {found.form!r}, but {expected.form!r} in {expected_line}")
