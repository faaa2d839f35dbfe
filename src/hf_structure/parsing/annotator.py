"""The annotator: a parser as a function of columns, for engines that process tables in batches."""

import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from hf_structure.hub.locating import short_names
from hf_structure.parsing.options import DEFAULT_PARSER, ParseOptions, check_names
from hf_structure.structures.parse import Parse
from hf_structure.structures.parse_columns import PARSE_COLUMNS, parse_columns, parse_schema
from hf_structure.structures.parses import Parses
from hf_structure.text.sentences import SentenceError

if TYPE_CHECKING:
    import pyarrow

    from hf_structure.parsing.parser import Parser

Format = Literal["columns", "conllu"]
COLUMNS = [name for name in PARSE_COLUMNS if name != "id"]  # rows have their own
NOT_PARSED = {name: None if name == "start" else [] for name in COLUMNS}

logger = logging.getLogger(__name__)


class Annotator:
    """
    A [`Parser`] for engines that process tables in batches: maps a dictionary of columns to the same columns and the
    parses of one of them. The model is loaded with the first batch. Pickled, an annotator is its arguments alone, so
    that every process loads its own model.

        annotator = Annotator("rngt-en-fast", dtype="int8")
        annotator({"id": [1, 2], "text": ["It rained. Nobody left.", "Hi!"]})
        dataset.map(annotator, batched=True, num_proc=8)  # of the library datasets

    A row is a text, which is split into sentences, or a list of words, which is one sentence. In every new column it
    has a list with a value for each of its sentences:

    - `start` (`int`): offset of the sentence in the text;
    - `forms`, `lemmas`, `upos`, `xpos`, `feats`, `relations` (`list[str]`), `heads` (`list[int]`), `probabilities`
      (`list[float]`): a value for each word. Heads count the words of the sentence from 1; 0 is the root. None instead
      of a list if the model does not predict this.

    With `format="conllu"`, a row has one string in the column `conllu` instead.

    The column `error` is None, or the reason why a row, or the first of its sentences that failed, could not be
    parsed: empty, too long, no text. Such a sentence has empty lists; a row without any parsed sentence has an empty
    list or string. Errors that are not about a row, such as too little memory, are raised.

    Args:
        model (`str` or `Path`, defaults to `"rngt-en"`): Short name, folder or Hub name of a model.
        text_column (`str`, defaults to `"text"`): The column to parse.
        format (`"columns"` or `"conllu"`, defaults to `"columns"`): The new columns.
        options: See [`ParseOptions`]. `sentences` is `"auto"` by default. Functions must be importable, because they
            are pickled.

    Attributes:
        parser (`Parser`): Loaded when it is first used.
        errors (`int`): Number of rows with an error, in this process. The log has the first error and the count each
            time that it has doubled.

    Raises:
        TypeError: an unknown option, a loaded model.
        ValueError: an invalid value of an option.
    """

    def __init__(
        self,
        model: str | Path = DEFAULT_PARSER,
        *,
        text_column: str = "text",
        format: Format = "columns",
        **options: Any,
    ):
        if not isinstance(model, str | Path):
            raise TypeError(f"model must be a name or a folder, which every process loads, not {type(model).__name__}")
        if format not in get_args(Format):
            raise ValueError(f"format must be one of {', '.join(get_args(Format))}, not {format!r}")
        check_names(options)
        self.options = ParseOptions(**{"sentences": "auto", **options})
        # Workers may run in other folders.
        self.model = str(Path(model).absolute()) if _is_path(model) else str(model)
        self.text_column = text_column
        self.format = format
        self.columns = (*(COLUMNS if format == "columns" else ["conllu"]), "error")
        self.errors = 0

    @cached_property
    def parser(self) -> "Parser":
        # Late: a process that only distributes the work does not need torch.
        from hf_structure.parsing.parser import Parser

        parser = Parser(self.model, **vars(self.options))
        if self.format == "conllu" and not {"dependency", "graph"} & {*parser.structures}:
            raise ValueError(f"CoNLL-U needs dependencies, but {self.model} gives {' and '.join(parser.structures)}")
        return parser

    def __call__(self, batch: Any) -> Any:
        """
        Adds the parses to a batch, a mapping of columns (lists, arrays or series) or a data frame of pandas.

        Returns:
            A dictionary, or a data frame, of the columns of the batch and the new ones, which replace columns of the
                same name.

        Raises:
            ValueError: there is no column `text_column`.
        """
        if self.text_column not in batch:
            there = ", ".join(map(str, batch))
            raise ValueError(f"there is no column {self.text_column!r} (text_column) to parse in {there}")
        rows = [self._row(found) for found in self.parser.pipe(batch[self.text_column], errors="return")]
        self._count(rows)
        columns = {name: [row[name] for row in rows] for name in self.columns}
        return batch.assign(**columns) if hasattr(batch, "assign") else {**batch, **columns}

    def schema(self) -> "pyarrow.Schema":
        """Returns the Arrow schema of the new columns, for engines that are told types. Raises `ImportError`."""
        import pyarrow

        text = pyarrow.string()
        if self.format == "conllu":
            return pyarrow.schema({"conllu": text, "error": text})
        types = parse_schema()
        return pyarrow.schema({**{name: pyarrow.list_(types.field(name).type) for name in COLUMNS}, "error": text})

    def _row(self, found: Any) -> dict[str, Any]:
        """Makes the new columns of a row of the result for its text, or for its words."""
        sentences = found if isinstance(found, Parses) else [found]
        parses = Parses(each if isinstance(each, Parse) else None for each in sentences)
        error = _error(sentences)
        if parses.count(None) == len(parses):
            parses = Parses()
        if self.format == "columns":
            rows = [NOT_PARSED if parsed is None else parse_columns(parsed) for parsed in parses]
            return {name: [row[name] for row in rows] for name in COLUMNS} | {"error": error}
        try:
            return {"conllu": parses.to_conllu(), "error": error}
        except ValueError as failure:  # a word with a line break
            return {"conllu": "", "error": str(failure)}

    def _count(self, rows: list[dict[str, Any]]) -> None:
        """Counts the rows with an error. Reports the number whenever it has doubled."""
        reasons = [row["error"] for row in rows if row["error"] is not None]
        before = self.errors
        self.errors += len(reasons)
        if self.errors.bit_length() > before.bit_length():
            logger.warning("%d rows could not be parsed, or not completely; one of them: %s", self.errors, reasons[-1])

    def __getstate__(self) -> dict[str, Any]:
        # Without what it has done: the library datasets finds cached results by a hash of the state.
        state = {name: value for name, value in vars(self).items() if name != "parser"}
        return state | {"errors": 0}


def _is_path(model: str | Path) -> bool:
    """True for a folder, as opposed to the name of a model."""
    return str(model) not in short_names() and Path(model).is_dir()


def _error(sentences: Sequence[Parse | SentenceError]) -> str | None:
    """The reason of the first sentence that was not parsed, with its number if there are several."""
    if not sentences:
        return "the text is empty"
    for number, sentence in enumerate(sentences, start=1):
        if isinstance(sentence, SentenceError):
            return sentence.reason if len(sentences) == 1 else f"sentence {number}: {sentence.reason}"
    return None
