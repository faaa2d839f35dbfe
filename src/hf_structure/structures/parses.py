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
    A list of parses, with None for a sentence that was left out; of texts that were split into sentences, a list of
    such lists. It prints as trees, and a notebook shows it as pictures. Its slices, sums and copies are of this kind,
    too.
    """

    def to_dict(self) -> list[dict[str, Any] | list | None]:
        """What `Parse.to_dict` gives of each, ready for JSON; `from_dict` takes it back."""
        return [None if item is None else item.to_dict() for item in self]

    @classmethod
    def from_dict(cls, values: Iterable[Mapping[str, Any] | list | None]) -> "Parses":
        """Makes the list from what `to_dict` gave."""
        return cls(None if item is None else _from_dict(item) for item in values)

    def to_conllu(self) -> str:
        """
        CoNLL-U of all parses. They are numbered in `# sent_id`, with those that were left out. Raises `ValueError` for
        a parse that has neither a dependency tree nor a graph.
        """
        from hf_structure.drawing.saving import conllu_text

        return conllu_text(self._parses())

    def to_pandas(self) -> "pandas.DataFrame":
        """
        A data frame with a row for each word.

        Returns:
            `pandas.DataFrame`: The columns are the numbers of `sentence`, `token` and `word`, from 1 (sentences that
                were left out are counted; the words of a multiword token are one `token`); `form`, `head` (0 is the
                root, missing where there is not exactly one), `relation` and `probability`; `start` and `end`, its
                place in the text; and what else the model predicts. Of texts that were split, the number of the `text`
                comes first.

        Raises:
            ImportError: there is no pandas.
        """
        is_split = any(isinstance(item, Parses) for item in self)
        frame = words_frame(self._numbered())
        return frame if is_split else frame.drop(columns="text")

    def save(self, path: str | os.PathLike) -> None:
        """Writes all parses to a file, `.html` or `.conllu` by its suffix."""
        from hf_structure.drawing.saving import save_structures

        save_structures(self._parses(), path)

    def filter(self, keep: Callable[[Any], bool]) -> "Parses":
        """The parses for which `keep` is true, without sentences that were left out. Texts keep their lists."""
        kept = Parses()
        for item in self:
            if isinstance(item, Parses):
                kept.append(item.filter(keep))
            elif item is not None and keep(item):
                kept.append(item)
        return kept

    def copy(self) -> "Parses":
        """A new list of the same parses."""
        return Parses(self)

    def __add__(self, others: list) -> "Parses":
        return Parses(super().__add__(others))

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Parses(found) if isinstance(index, slice) else found

    def _parses(self) -> list[Parse | None]:
        """All of them, also those of texts that were split into sentences."""
        return [parse for _, parse in self._numbered()]

    def _numbered(self) -> Iterator[tuple[int, Parse | None]]:
        """The same, each with the number of its text."""
        for number, item in enumerate(self, start=1):
            parses = item if isinstance(item, Parses) else [item]
            for parse in parses:
                yield number, parse

    def __str__(self) -> str:
        """All of them as text, one after the other."""
        return "\n\n".join(str(parse) for parse in self._parses() if parse is not None)

    def _repr_html_(self) -> str:
        from hf_structure.drawing.html import picture

        parses = [parse for parse in self._parses() if parse is not None]
        more = len(parses) - SHOWN
        shown = "\n".join(picture(parsed) for parsed in parses[:SHOWN])
        return shown + (f"\n<p>and {more} more</p>" if more > 0 else "")


def _from_dict(values: Mapping[str, Any] | list) -> Parse | Parses:
    return Parse.from_dict(values) if isinstance(values, Mapping) else Parses.from_dict(values)
