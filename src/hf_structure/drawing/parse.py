"""Both structures of a sentence in one picture."""

from collections.abc import Sequence

from hf_structure.drawing.arcs import tree_arcs
from hf_structure.drawing.constituency import Brackets
from hf_structure.drawing.dependency import arcs_svg


def parse_svg(
    words: Sequence[str],
    heads: Sequence[int],
    spans: Sequence[tuple[int, int]],
    *,
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
    span_labels: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    width: float | None = None,
) -> str:
    """
    Draws the dependencies as arcs above the words and the constituents as brackets that hang under them.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        heads (`Sequence[int]` of length `n`): Head of each word, 0 = root.
        spans (`Sequence[tuple[int, int]]`): The constituents, half-open, in words from 0; in any order.
        labels (`Sequence[str]`, *optional*), probabilities (`Sequence[float | None]`, *optional*): Of the arcs.
        span_labels (`Sequence[str]`, *optional*): Of the constituents.
        tags (`Sequence[str]`, *optional*): Written under the words.
        width (`float`, *optional*): In pixels; a longer sentence goes on in another row.

    Returns:
        `str`: an `<svg>` element, well-formed XML without scripts or references to other files.

    Raises:
        ValueError: as for `dependency_svg` and `constituency_svg`.
    """
    brackets = Brackets(words, spans, span_labels, below=True)
    return arcs_svg(words, tree_arcs(words, heads, labels, probabilities), tags, width, brackets.part)
