"""
Minimal pairs of sentences: a good one, and one or several bad ones, which should be less likely for a language model.

They are read from tables with a pair in each row, or a sentence in each row and a label that marks good ones; see
[`PairLayout`]. A folder of tables is a set of pairs, and so is a data set for the `datasets` library.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from hf_structure.corpora.items import read_item_rows
from hf_structure.corpora.tasks import read_table
from hf_structure.text.files import DataError, plain_path
from hf_structure.text.words import numbered_lines

SUFFIXES = (".jsonl", ".csv", ".tsv", ".gold")
_ENDINGS = ", ".join(SUFFIXES)
Rows = Iterable[tuple[str, Mapping[str, Any]]]  # each with its location, for messages


class Variant(NamedTuple):
    """One side of a pair."""

    text: str  # the scored text: a sentence, or its continuation after the prefix
    prefix: str | None = None  # the given context


@dataclass(frozen=True)
class MinimalPair:
    """A good sentence, and bad ones, mostly one."""

    good: Variant
    bad: Sequence[Variant]
    groups: tuple[str, ...]  # from fine to coarse
    place: str  # its location, for messages


@dataclass(frozen=True)
class PairLayout:
    """
    The columns of a table of pairs; their names are case-insensitive. Raises `ValueError` if only one of the prefixes
    is given.
    """

    good: str = "sentence_good"
    bad: Sequence[str] = ("sentence_bad",)
    prefix_good: str | None = None  # the unscored context of the good sentence
    prefix_bad: str | None = None  # the unscored context of the bad ones; may be the same column
    groups: Sequence[str] = ()  # columns with a pair's groups, from fine to coarse; by default, the file is the group
    # If each row has a single sentence: the column that marks good ones, and its value for these.
    label: tuple[str, str] | None = None
    sentence: str = "sentence"  # column of the sentence
    item: str = "item"  # column of the item, which groups the sentences to compare

    def __post_init__(self):
        if (self.prefix_good is None) != (self.prefix_bad is None):
            raise ValueError("a prefix of good sentences needs one of bad sentences, and the reverse")

    def read(self, rows: Rows, name: str) -> Iterator[MinimalPair]:
        """
        Reads the pairs of a table called `name`. Raises `ValueError`, with the location, for a row without a pair.
        """
        if self.label is not None:
            yield from self._read_sentences(rows, name, *self.label)
            return
        for location, row in rows:
            good = self._variant(row, self.good, self.prefix_good, location)
            bad = [self._variant(row, column, self.prefix_bad, location) for column in self.bad]
            yield MinimalPair(good, bad, self._groups(row, name, location), location)

    def _read_sentences(self, rows: Rows, name: str, column: str, good_label: str) -> Iterator[MinimalPair]:
        items: dict[tuple[str, ...], tuple[list, list]] = {}
        locations = {}
        for location, row in rows:
            key = (*self._groups(row, name, location), _value(row, self.item, location))
            is_good = _value(row, column, location) == good_label
            prefix = self.prefix_good if is_good else self.prefix_bad
            # Index 0 collects the good sentences, index 1 the bad ones.
            items.setdefault(key, ([], []))[not is_good].append(self._variant(row, self.sentence, prefix, location))
            locations.setdefault(key, location)
        for (*groups, item), (good, bad) in items.items():
            location = locations[(*groups, item)]
            if len(good) != 1 or not bad:
                problem = f"{len(good)} sentences with {column} {good_label!r} and {len(bad)} others"
                raise ValueError(f"{location}: {self.item} {item!r} has {problem}, not one and at least one")
            yield MinimalPair(good[0], bad, tuple(groups), location)

    def _variant(self, row: Mapping[str, Any], column: str, prefix: str | None, location: str) -> Variant:
        return Variant(_text(row, column, location), None if prefix is None else _text(row, prefix, location))

    def _groups(self, row: Mapping[str, Any], name: str, location: str) -> tuple[str, ...]:
        # BLiMP has syntax/semantics and syntax_semantics
        return tuple(_value(row, column, location).replace("/", "_") for column in self.groups) or (name,)


PRESETS = {
    "blimp": PairLayout(groups=("UID", "linguistics_term", "field")),
    "blimp-supplement": PairLayout(),
    "multiblimp": PairLayout("sen", ("wrong_sen",), groups=("phenomenon", "lang")),
    "sling": PairLayout(groups=("paradigm", "phenomenon", "field")),
    "rublimp": PairLayout("source_sentence", ("target_sentence",), groups=("PID", "phenomenon", "level")),
    "gulordava": PairLayout("right", ("wrong",), "prefix", "prefix", groups=("type",)),
    "gulordava-sentences": PairLayout("sentence_right", ("sentence_wrong",), groups=("type",)),
}


def measure_of(pairs: Iterable[MinimalPair]) -> str:
    """Returns the measure of pairs: the score of the whole string, or of a part given a prefix."""
    pairs = list(pairs)
    if all(variant.prefix is None for pair in pairs for variant in (pair.good, *pair.bad)):
        return "the whole string"
    if all(pair.good.prefix == bad.prefix for pair in pairs for bad in pair.bad):
        return "the target given the prefix"
    if all(pair.good.text == bad.text for pair in pairs for bad in pair.bad):
        return "the shared end given each prefix"
    return "the end given its prefix"


def read_pairs(data: str, layout: PairLayout) -> dict[str, list[MinimalPair]]:
    """
    Reads the pairs of a set of tables (see [`find_tables`]) by group. Keys are the names of the finest groups, or if
    two have the same name, of all groups. Raises `OSError` for a file that cannot be opened, and `ValueError` if there
    are no pairs, or a row is invalid; the message names its location.
    """
    found: dict[tuple[str, ...], list[MinimalPair]] = {}
    for name, read in find_tables(data).items():
        pairs = list(layout.read(read(), name))
        if not pairs:
            raise ValueError(f"{data}: there are no pairs in {name}")
        for pair in pairs:
            found.setdefault(pair.groups, []).append(pair)
    # The finest group identifies a pair's set, unless coarser groups reuse its name.
    if len({finest for finest, *_ in found}) == len(found):
        return {finest: pairs for (finest, *_), pairs in found.items()}
    return {" / ".join(groups): pairs for groups, pairs in found.items()}


def table_files(data: str) -> list[Path]:
    """Lists the files of a set: all files in a folder and its subfolders, or a single file."""
    path = Path(data)
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if _suffix(file) in SUFFIXES and file.is_file())


def _suffix(file: Path) -> str:
    return plain_path(file).suffix.lower()


def find_tables(data: str) -> dict[str, Callable[[], Rows]]:
    """
    Maps the name of each table to a function that reads its rows. `data` is a file (`.jsonl`, `.csv`, `.tsv`, or
    `.gold` with a `.text` next to it), a folder of files, or a data set with a configuration for each table. Raises
    `ValueError` if there is no table.
    """
    if files := table_files(data):
        folder = files[0].parent if Path(data).is_file() else Path(data)
        paths = [file.relative_to(folder) for file in files]
        names = [plain_path(path).with_suffix("").as_posix() for path in paths]
        # Two files may differ only in their suffix, `a.csv` and `a.tsv`: keep it then.
        if len(set(names)) < len(names):
            names = [path.as_posix() for path in paths]
        return {name: partial(read_rows, file) for name, file in zip(names, files, strict=True)}
    # An optional dependency, and slow to import: only data sets need it.
    import datasets
    from datasets.exceptions import DatasetsError

    try:
        names = datasets.get_dataset_config_names(data)
    except (OSError, ValueError, DatasetsError) as error:
        raise ValueError(f"{data} is no folder or file of pairs ({_ENDINGS}) and no data set: {error}") from error
    return {name: partial(_read_configuration, data, name) for name in names}


def _read_configuration(data: str, name: str) -> Rows:
    import datasets

    rows = cast(Iterable[Mapping[str, Any]], datasets.load_dataset(data, name, split="train"))
    return ((f"{data}, {name}, row {number}", row) for number, row in enumerate(rows, start=1))


def read_rows(path: Path) -> Rows:
    """Reads the rows of a table. Raises `ValueError` for a suffix that [`find_tables`] does not list."""
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: pairs are in files that end in {_ENDINGS}")
    if suffix == ".gold":
        return _read_gold(path)
    if suffix == ".jsonl":
        return ((f"{path}:{number}", row) for number, row in read_table(path))
    return read_item_rows(path)


def _read_gold(path: Path) -> Rows:
    """
    Reads sentences of Gulordava et al. (2018) from the two files of a set, line by line: a sentence, and the index of
    a word in it, with the right and a wrong form of this word.
    """
    lines = list(numbered_lines(path))
    # Sentences end in `<eos>`, which is no word.
    texts = [text.removesuffix("<eos>").split() for _, text in numbered_lines(path.with_suffix(".text"))]
    if len(lines) != len(texts):
        raise DataError(f"{len(lines)} lines, and {len(texts)} in {path.with_suffix('.text').name}", str(path))
    for (number, line), words in zip(lines, texts, strict=True):
        cells = line.split("\t")
        if len(cells) < 10 or cells[3] not in map(str, range(len(words))):
            problem = "pattern, three numbers, two tags, right and wrong form, lemma and attractors, separated by tabs"
            raise DataError(f"not {problem}, the third number that of a word", str(path), number)
        pattern, _, sentence, index, _, _, right, wrong, lemma, attractors = cells[:10]
        before = words[: int(index)]
        after = words[int(index) + 1 :]
        row = {"pattern": pattern, "lemma": lemma, "attractors": attractors, "right": right, "wrong": wrong}
        # Sentence 0 of a pattern is from the corpus, the others are generated from it.
        row |= {"type": "original" if sentence == "0" else "generated", "prefix": " ".join(before)}
        row |= {f"sentence_{name}": " ".join([*before, row[name], *after]) for name in ("right", "wrong")}
        yield f"{path}:{number}", row


def _cell(row: Mapping[str, Any], column: str, location: str) -> Any:
    if column in row:
        return row[column]
    # Column names differ in case between releases of the same data.
    for name, value in row.items():
        if name.lower() == column.lower():
            return value
    raise ValueError(f"{location}: there is no column {column!r}: the columns are {', '.join(map(repr, row))}")


def _text(row: Mapping[str, Any], column: str, location: str) -> str:
    value = _cell(row, column, location)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{location}: {column} is {value!r}, not text")
    return value


def _value(row: Mapping[str, Any], column: str, location: str) -> str:
    """Reads a name, a number, or a truth value as in JSON, `true`."""
    value = _cell(row, column, location)
    return json.dumps(value) if isinstance(value, int | float) else _text(row, column, location)
