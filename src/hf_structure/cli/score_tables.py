"""`hf-structure score --table`: tables with a word or a region of an item in each row."""

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from hf_structure.cli.common import named_errors, output_file, warn_of_replacing
from hf_structure.cli.results import BadInputError
from hf_structure.corpora.items import DELIMITERS, ItemLayout, ItemSentence, is_item_table, read_item_rows
from hf_structure.scoring.score_table import ROWS, AlikeSentences, ScoreTable
from hf_structure.text.files import error_line, partial_path, plain_path
from hf_structure.text.sentences import SourceSentence

if TYPE_CHECKING:
    from hf_structure.scoring.scoring import SentenceScore

Row = dict[str, Any]
FORMATS = ("tsv", "csv", "jsonl", "parquet")  # of tables, by suffix


@dataclass
class ItemRow(SourceSentence):
    """A sentence that comes from a table."""

    item: ItemSentence | None = None


def add_table(parser: argparse.ArgumentParser) -> None:
    """Adds the options for tables and items."""
    tables = parser.add_argument_group(
        "tables", "Files that end in .csv or .tsv are tables of items, with a sentence in each row."
    )
    tables.add_argument(
        "--table",
        choices=ROWS,
        help="a table with a word or a region in each row, and the columns of the items; .tsv, .csv, .jsonl or "
        ".parquet as the suffix of --output says",
    )
    add_layout(tables)
    tables.add_argument(
        "--model_words",
        action="store_true",
        help="words as the model reads them; default: words between white space, with their punctuation",
    )


def add_layout(parser: argparse._ActionsContainer) -> None:
    """Adds the options for the columns of sentences and regions."""
    parser.add_argument(
        "--sentence_column", default="sentence", metavar="COLUMN", help="of the sentences; default: %(default)s"
    )
    parser.add_argument(
        "--region_columns",
        type=lambda text: text.split(","),
        default=[],
        metavar="COLUMNS",
        help="with the regions that make up the sentence, in their order and with commas between them",
    )
    parser.add_argument("--region_mark", metavar="MARK", help="separator of the regions of a sentence, say /")
    parser.add_argument(
        "--critical_column",
        metavar="COLUMN",
        help="with the number of the critical word, from 1: the region of a word is its distance from there",
    )


def layout_of(options: argparse.Namespace) -> ItemLayout:
    """Returns the layout of item tables. Raises `ValueError` for options that exclude each other."""
    return ItemLayout(
        options.sentence_column, options.region_columns, options.region_mark or None, options.critical_column
    )


def reader_of(
    layout: ItemLayout, table: ScoreTable | None, read: Callable[[str], Iterator[SourceSentence]], input_format: str
) -> Callable[[str], Iterator[SourceSentence]]:
    """Returns a reader of sentences, which reads tables by their layout and other files with `read`."""

    def read_any(name: str) -> Iterator[SourceSentence]:
        if input_format != "auto" or not is_item_table(name):
            yield from read(name)
            return
        try:
            for location, row in read_item_rows(name):
                if table is not None:
                    table.check(row, location)
                item = layout.read(row, location)
                yield ItemRow(text=item.text, place=location, item=item)
        except OSError as error:
            raise BadInputError(error_line(error)) from error
        except ValueError as error:
            raise BadInputError(str(error)) from error

    return read_any


def write_table(
    pairs: Iterator[tuple[tuple["SentenceScore | None", ...], SourceSentence]],
    table: ScoreTable,
    options: argparse.Namespace,
) -> list[str]:
    """Writes the rows of sentences as they come. Returns the locations of skipped sentences."""
    skipped = []
    alike = AlikeSentences()
    with table_writer(options.output, options.format == "json") as write:
        for number, (scores, source) in enumerate(pairs, start=1):
            item = _item_of(source)
            if scores[0] is None:
                skipped.append(source.place)
            with named_errors(source.place):
                write([*item.columns, *table.columns()], list(table.rows_of(number, item, scores)))
            alike.add(number, item, scores[0])
    if message := alike.message():
        print(f"hf-structure: {message}", file=sys.stderr)
    return skipped


def _item_of(source: SourceSentence) -> ItemSentence:
    if isinstance(source, ItemRow) and source.item is not None:
        return source.item
    if source.words is None:
        return ItemSentence(source.text or "")
    return ItemSentence(" ".join(source.words), words=source.words)


Writer = Callable[[list[str], list[Row]], None]  # of columns and rows


def table_format(output: str | None, as_json: bool) -> str:
    """Chooses one of `FORMATS` by the suffix. Raises `ValueError` for an unknown suffix."""
    if output is None:
        return "jsonl" if as_json else "tsv"
    suffix = plain_path(output).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise ValueError(f"{output}: a table is a file that ends in .{', .'.join(FORMATS)}")
    return suffix


@contextmanager
def table_writer(output: str | None, as_json: bool) -> Iterator[Writer]:
    """Opens a table in one of `FORMATS`, a file or standard output, and yields the function that writes rows."""
    form = table_format(output, as_json)
    # Parquet is written at once, since columns have one type each and the first rows do not tell it.
    if output is not None and form == "parquet":
        rows = []
        yield lambda _, more: rows.extend(more)
        _write_parquet(rows, output)
        return
    with output_file(output) as file:
        yield _json_writer(file) if form == "jsonl" else _cell_writer(file, DELIMITERS[f".{form}"])


def _json_writer(file: IO[str]) -> Writer:
    def write(_: list[str], rows: list[Row]) -> None:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        # At once, for whoever waits at the other end of a pipe.
        file.flush()

    return write


def _cell_writer(file: IO[str], delimiter: str) -> Writer:
    cells = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    header: list[str] = []

    def write(columns: list[str], rows: list[Row]) -> None:
        if not header:
            header.extend(columns)
            cells.writerow(header)
        # Items of two tables may have different columns; one file of cells cannot hold both.
        if columns != header:
            raise ValueError(f"its columns are {', '.join(columns)}, not {', '.join(header)}")
        # In the order of the header, whatever the order of the row.
        cells.writerows([_cell(row[name]) for name in header] for row in rows)
        file.flush()

    return write


def _cell(value: Any) -> Any:
    if value is None:
        return "NA"
    return f"{value:.4f}" if isinstance(value, float) else value


def _write_parquet(rows: list[Row], output: str) -> None:
    import pyarrow
    from pyarrow import parquet

    warn_of_replacing(output)
    # The tables of several input files may differ in their columns: a missing value is null.
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    with partial_path(output) as partial:
        parquet.write_table(pyarrow.table(columns), partial)


def check_table(options: argparse.Namespace) -> None:
    """Raises `ValueError` for a table that cannot be written, before a model is loaded."""
    form = table_format(options.output, options.format == "json")
    if form == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ValueError("Parquet needs pyarrow: pip install 'hf_structure[tables]'") from error
