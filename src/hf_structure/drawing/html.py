"""An HTML page of pictures."""

import math
from collections.abc import Iterable
from html import escape
from typing import Any

from hf_structure.drawing.arcs import CERTAIN
from hf_structure.drawing.style import FONT

WIDTH = 1100.0  # of the pictures on a page, in pixels

NOTE = f"""Numbers are probabilities below {CERTAIN}. Pale arcs are improbable. Dashed arcs are put there by rule:
the model did not see these words."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 2rem auto; max-width: 72rem; padding: 0 1.25rem; font: 16px/1.5 {font}; }}
h1 {{ font-size: 1.5rem; font-weight: 600; }}
figure {{ margin: 2rem 0; }}
figcaption {{ margin-bottom: 0.5rem; }}
figcaption b {{ display: inline-block; min-width: 2em; opacity: 0.6; }}
code {{ padding: 0 0.4em; border: 1px solid; border-radius: 4px; opacity: 0.7; font-size: 0.85em; }}
details {{ margin: 0.5rem 0 0 2rem; }}
.note, summary {{ font-size: 0.85rem; opacity: 0.75; }}
.picture {{ overflow-x: auto; }}
@media print {{
  body {{ margin: 0; max-width: none; padding: 0; }}
  figure, .picture {{ break-inside: avoid; }}
  .picture {{ overflow: visible; }}
  .picture svg {{ max-width: 100% !important; height: auto; }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
{figures}
<p class="note">{note}</p>
</body>
</html>
"""


def render_html(
    parses: Iterable[Any],
    title: str = "Trees",
    names: Iterable[str | None] | None = None,
    width: float | None = WIDTH,
    note: str = NOTE,
) -> str:
    """
    Renders an HTML page with the numbered pictures of several sentences, without scripts or references to other files.

    Args:
        parses (iterable of `Parse`, `DependencyTree` or `ConstituencyTree`):
            Anything with `words` and `to_svg()`. The `alternatives` of a `Parse` follow its picture.
        title (`str`): Title and heading of the page.
        names (iterable of `str`, *optional*): Shown next to each sentence, such as the model that parsed it.
        width (`float`, *optional*): In pixels; longer sentences take several rows. With None, they scroll.
        note (`str`): Explanation below the pictures.
    """
    named = ((parse, None) for parse in parses) if names is None else zip(parses, names, strict=True)
    figures = [
        f"<figure>\n<figcaption><b>{number}</b> {f'<code>{escape(name)}</code> ' if name else ''}"
        f'<span dir="auto">{escape(" ".join(parse.words))}</span></figcaption>\n'
        f"{picture(parse, width)}{_others(parse, width)}\n</figure>"
        for number, (parse, name) in enumerate(named, start=1)
    ]
    return _PAGE.format(title=escape(title), font=FONT, figures="\n".join(figures), note=escape(note))


def picture(structure: Any, width: float | None = None) -> str:
    """Wraps a picture into an element that scrolls in narrow pages."""
    return f'<div class="picture" tabindex="0" style="overflow-x:auto">{structure.to_svg(width=width)}</div>'


def _others(parse: Any, width: float | None) -> str:
    """HTML of the second best tree or graph and the rest of the k best."""
    others = getattr(parse, "alternatives", ())[1:]
    if not others:
        return ""
    drawn = [
        f"<p class='note'>{rank_title(rank, each)}</p>\n{picture(each, width)}" for rank, each in enumerate(others, 2)
    ]
    return f"\n<details open>\n<summary>{len(drawn)} more</summary>\n" + "\n".join(drawn) + "\n</details>"


def rank_title(rank: int, structure: Any) -> str:
    """The caption of one of the k best."""
    has_probability = structure.log_probability is not None
    return f"{rank}." + (f" probability {math.exp(structure.log_probability):.3g}" if has_probability else "")
