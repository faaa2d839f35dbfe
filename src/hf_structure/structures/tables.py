"""Parses as data frames."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

_COLUMNS = ("text", "sentence", "token", "word", "form", "head", "relation", "probability", "start", "end")
# Integer columns with missing values: pandas would turn them into floats.
_WHOLE = ("head", "start", "end")


def words_frame(parses: Iterable[tuple[int, Any]]) -> "pandas.DataFrame":
    """
    Makes a data frame with a row for each word, from pairs of a text's number and a parse, see [`Parses.to_pandas`].
    None stands for a skipped sentence. Raises `ImportError` without pandas.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a data frame needs pandas: pip install 'hf_structure[tables]'") from error
    # Read twice: the columns of all parses are needed before the first row.
    parses = list(parses)
    # A dictionary keeps the order of columns, unlike a set.
    predicted = {name: None for _, parse in parses for word in parse or () for name in word.columns}
    frame = pandas.DataFrame(_rows(parses, predicted), columns=[*_COLUMNS, *predicted])
    return frame.astype(dict.fromkeys(_WHOLE, "Int64"))


def _rows(parses: Iterable[tuple[int, Any]], predicted: Iterable[str]) -> Iterator[tuple]:
    """Yields a row for each word: `_COLUMNS`, then further predictions."""
    for sentence, (text, parse) in enumerate(parses, start=1):
        if parse is None:
            continue
        token = 0
        for word in parse:
            # The first word of a multiword token begins it; the others continue it.
            token += word.multiword_token is None or word.multiword_token[0] == word.number
            span = (None, None) if word.span is None else (parse.start + offset for offset in word.span)
            own = (token, word.number, word.form, word.head, word.relation, word.probability)
            yield (text, sentence, *own, *span, *(word.columns.get(name) for name in predicted))
