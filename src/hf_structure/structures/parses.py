"""Parses of several sentences."""

import os
from collections.abc import Iterator

from hf_structure.structures.parse import Parse
from hf_structure.structures.saving import save_structures
from hf_structure.visualization.html import picture

SHOWN = 20  # pictures in a notebook


class Parses(list):
    """A list of parses, which a notebook shows as pictures and `save` writes to one file."""

    def save(self, path: str | os.PathLike) -> None:
        """Writes all parses to a file, `.html` or `.conllu` by its suffix."""
        save_structures(list(self._parses()), path)

    def _parses(self) -> Iterator[Parse]:
        """All of them, also those of texts that were split into sentences, without what was too long."""
        for item in self:
            if isinstance(item, Parses):
                yield from item._parses()
            elif item is not None:
                yield item

    def _repr_html_(self) -> str:
        parses = list(self._parses())
        more = len(parses) - SHOWN
        shown = "\n".join(picture(parsed) for parsed in parses[:SHOWN])
        return shown + (f"\n<p>and {more} more</p>" if more > 0 else "")
