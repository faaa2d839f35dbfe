"""Running text of treebanks, in which a parser learns where sentences begin."""

from collections.abc import Iterator, Sequence
from itertools import compress

from datasets import Dataset

from hf_structure.corpora.collators import IGNORE_INDEX
from hf_structure.text.conllu import PARAGRAPHS, read_conllu
from hf_structure.text.words import numbered_lines
from hf_structure.training.corpora import NUMBERS, Corpora, Reading
from hf_structure.training.parsing.sentences import FEATURES, read_treebanks

WINDOW = 128  # words of running text that are read at once


def read_running_text(files: Sequence[str], treebanks: Sequence[str], corpora: Corpora) -> Dataset | None:
    """Reads the running text of the files that mark paragraphs; None if no file does."""
    marked = [any(line.startswith(PARAGRAPHS) for _, line in numbered_lines(file)) for file in files]
    if not any(marked):
        return None
    reading = Reading(read_paragraphs, FEATURES | {"sentence_starts": NUMBERS})
    return read_treebanks(list(compress(files, marked)), list(compress(treebanks, marked)), corpora, reading)


def read_paragraphs(path: str, treebank: str | None = None) -> Iterator[dict]:
    """
    Streams stretches of up to `WINDOW` words of a paragraph, with their `sentence_starts`. Text before the first
    paragraph mark is skipped.
    """
    stretch: list[tuple] = []  # word, relation, whether a sentence begins
    is_marked = False
    for sentence in read_conllu(path):
        if sentence.begins_paragraph and stretch:
            yield _as_row(stretch, treebank)
            stretch = []
        # Sentences before the first mark belong to no known paragraph.
        is_marked = is_marked or sentence.begins_paragraph
        if not is_marked:
            continue
        # A paragraph always begins with a sentence: nothing is to be learned from its first word.
        begins = IGNORE_INDEX if sentence.begins_paragraph else 1
        starts = [begins, *[0] * (len(sentence.forms) - 1)]
        stretch += zip(sentence.forms, sentence.deprels, starts, strict=True)
        while len(stretch) >= WINDOW:
            yield _as_row(stretch[:WINDOW], treebank)
            stretch = stretch[WINDOW:]
    if stretch:
        yield _as_row(stretch, treebank)


def _as_row(stretch: list[tuple], treebank: str | None) -> dict:
    words, deprels, starts = map(list, zip(*stretch, strict=True))
    row = dict.fromkeys(FEATURES) | {"words": words, "deprels": deprels}
    return row | {"sentence_starts": starts, "treebank": treebank}
