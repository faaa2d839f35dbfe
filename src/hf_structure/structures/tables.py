"""Parses as data frames."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

_COLUMNS = ("text", "sentence", "token", "word", "form", "head", "relation", "probability", "start", "end")
_WHOLE = ("head", "start", "end")  # columns of whole numbers, some of which may be missing


def words_frame(parses: Iterable[tuple[int, Any]]) -> "pandas.DataFrame":
    """
    A data frame with a row for each word of parses, each with the number of its text, see [`Parses.to_pandas`]. None
    stands for a sentence that was left out. Raises `ImportError` without pandas.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a data frame needs pandas: pip install 'hf_structure[tables]'") from error
    parses = list(parses)
    predicted = {name: None for _, parse in parses for word in parse or () for name in word.columns}
    frame = pandas.DataFrame(_rows(parses, predicted), columns=[*_COLUMNS, *predicted])
    return frame.astype(dict.fromkeys(_WHOLE, "Int64"))


def _rows(parses: Iterable[tuple[int, Any]], predicted: Iterable[str]) -> Iterator[tuple]:
    """A row for each word: `_COLUMNS`, then what else is predicted."""
    for sentence, (text, parse) in enumerate(parses, start=1):
        if parse is None:
            continue
        token = 0
        for word in parse:
            token += word.multiword_token is None or word.multiword_token[0] == word.number
            span = (None, None) if word.span is None else (parse.start + offset for offset in word.span)
            known = (token, word.number, word.form, word.head, word.relation, word.probability)
            yield (text, sentence, *known, *span, *(word.columns.get(name) for name in predicted))
