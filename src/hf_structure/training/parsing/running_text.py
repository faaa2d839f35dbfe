"""Running text of treebanks, in which a parser learns where sentences begin."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, compress

from datasets import Dataset

from hf_structure.corpora.collators import IGNORE_INDEX
from hf_structure.text.conllu import PARAGRAPHS, by_paragraph, read_conllu
from hf_structure.text.words import numbered_lines
from hf_structure.training.corpora import NUMBERS, Corpora, Reading
from hf_structure.training.parsing.sentences import FEATURES, read_treebanks
from hf_structure.training.parsing.typed_text import draw_styles, retype

WINDOW = 128  # words of running text that are read at once


def read_running_text(
    files: Sequence[str],
    treebanks: Sequence[str],
    corpora: Corpora,
    shares: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Dataset | None:
    """
    Reads the running text of the files that mark paragraphs; None if no file does. With `shares`, copies of paragraphs
    as people type them are read, too.
    """
    marked = [any(line.startswith(PARAGRAPHS) for _, line in numbered_lines(file)) for file in files]
    if not any(marked):
        return None
    read = partial(read_paragraphs, shares=dict(shares or {}), seed=seed)
    reading = Reading(read, FEATURES | {"sentence_starts": NUMBERS})
    return read_treebanks(list(compress(files, marked)), list(compress(treebanks, marked)), corpora, reading)


def read_paragraphs(
    path: str, treebank: str | None = None, shares: Mapping[str, float] | None = None, seed: int = 0
) -> Iterator[dict]:
    """
    Streams stretches of up to `WINDOW` words of a paragraph, with their `sentence_starts`, and after each paragraph
    its copies. Text before the first paragraph mark is skipped.
    """
    for paragraph in by_paragraph(read_conllu(path)):
        # Sentences before the first mark belong to no known paragraph.
        if not paragraph[0].begins_paragraph:
            continue
        sentences = [{"words": sentence.forms, "deprels": sentence.deprels} for sentence in paragraph]
        yield from _stretches(sentences, treebank)
        for style, rng in draw_styles(sentences, shares or {}, seed):
            yield from _stretches([retype(sentence, style, rng) for sentence in sentences], treebank)


def _stretches(sentences: Sequence[Mapping], treebank: str | None) -> Iterator[dict]:
    """Rows of up to `WINDOW` words of a paragraph."""
    words = list(chain.from_iterable(sentence["words"] for sentence in sentences))
    deprels = list(chain.from_iterable(sentence["deprels"] for sentence in sentences))
    starts = [0] * len(words)
    for start in accumulate(len(sentence["words"]) for sentence in sentences[:-1]):
        starts[start] = 1
    # A paragraph always begins with a sentence: nothing is to be learned from its first word.
    starts[0] = IGNORE_INDEX
    for start in range(0, len(words), WINDOW):
        stretch = slice(start, start + WINDOW)
        row = dict.fromkeys(FEATURES) | {"words": words[stretch], "deprels": deprels[stretch]}
        yield row | {"sentence_starts": starts[stretch], "treebank": treebank}
