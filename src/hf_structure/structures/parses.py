"""Parses of several sentences."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hf_structure.structures.parse import Parse
from hf_structure.structures.tables import words_frame

if TYPE_CHECKING:
    import pandas

SHOWN = 20  # pictures in a notebook


class Parses(list):
    """
    A list of parses, with None for a skipped sentence, or a list of such lists for texts that were split into
    sentences. It prints as trees, and a notebook shows it as pictures. Slices, sums and copies have the same type.
    """

    def to_dict(self) -> list[dict[str, Any] | list | None]:
        """Returns the `Parse.to_dict` of each parse, ready for JSON; `from_dict` is the inverse."""
        return [None if item is None else item.to_dict() for item in self]

    @classmethod
    def from_dict(cls, values: Iterable[Mapping[str, Any] | list | None]) -> "Parses":
        """Restores a list from the result of `to_dict`."""
        return cls(None if item is None else _from_dict(item) for item in values)

    def to_conllu(self) -> str:
        """
        Formats all parses as CoNLL-U. They are numbered in `# sent_id`; skipped sentences count. Raises `ValueError`
        for a parse that has neither a dependency tree nor a graph.
        """
        from hf_structure.drawing.saving import conllu_text

        return conllu_text(self._parses())

    def to_pandas(self) -> "pandas.DataFrame":
        """
        Makes a data frame with a row for each word.

        Returns:
            `pandas.DataFrame`: The columns are the numbers of `sentence`, `token` and `word`, from 1 (skipped
                sentences count; the words of a multiword token are one `token`); `form`, `head` (0 is the root,
                missing unless there is exactly one), `relation` and `probability`; `start` and `end`, offsets in the
                text; and further predictions. For texts that were split, the number of the `text` comes first.

        Raises:
            ImportError: pandas is not installed.
        """
        is_split = any(isinstance(item, Parses) for item in self)
        frame = words_frame(self._numbered())
        return frame if is_split else frame.drop(columns="text")

    def save(self, path: str | os.PathLike) -> None:
        """Writes all parses to a file, `.html` or `.conllu` by its suffix."""
        from hf_structure.drawing.saving import save_structures

        save_structures(self._parses(), path)

    def filter(self, keep: Callable[[Any], bool]) -> "Parses":
        """Returns the parses for which `keep` is true, without skipped sentences. Texts keep their lists."""
        kept = Parses()
        for item in self:
            if isinstance(item, Parses):
                kept.append(item.filter(keep))
            elif item is not None and keep(item):
                kept.append(item)
        return kept

    # `list` would return plain lists, which neither print as trees nor have methods.

    def copy(self) -> "Parses":
        """Returns a new list of the same parses."""
        return Parses(self)

    def __add__(self, others: list) -> "Parses":
        return Parses(super().__add__(others))

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Parses(found) if isinstance(index, slice) else found

    def _parses(self) -> list[Parse | None]:
        """All parses, in one list even if texts were split into sentences."""
        return [parse for _, parse in self._numbered()]

    def _numbered(self) -> Iterator[tuple[int, Parse | None]]:
        """Yields all parses, each with the number of its text."""
        for number, item in enumerate(self, start=1):
            parses = item if isinstance(item, Parses) else [item]
            for parse in parses:
                yield number, parse

    def __str__(self) -> str:
        """Draws all parses as text, one after the other."""
        return "\n\n".join(str(parse) for parse in self._parses() if parse is not None)

    def _repr_html_(self) -> str:
        from hf_structure.drawing.html import picture

        # A notebook with thousands of pictures is slow to open.
        parses = [parse for parse in self._parses() if parse is not None]
        more = len(parses) - SHOWN
        shown = "\n".join(picture(parsed) for parsed in parses[:SHOWN])
        return shown + (f"\n<p>and {more} more</p>" if more > 0 else "")


def _from_dict(values: Mapping[str, Any] | list) -> Parse | Parses:
    return Parse.from_dict(values) if isinstance(values, Mapping) else Parses.from_dict(values)
