"""An HTML page of pictures."""

from collections.abc import Iterable
from html import escape
from typing import Any

from hf_structure.visualization.style import FONT

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
.picture {{ overflow-x: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
{figures}
</body>
</html>
"""


def render_html(parses: Iterable[Any], title: str = "Trees") -> str:
    """
    One HTML page with the pictures of several sentences, numbered; complete in itself, without scripts or other files.

    Args:
        parses (iterable of `Parse`, `DependencyTree` or `ConstituencyTree`): Anything with `words` and `to_svg()`.
        title (`str`): Title and heading of the page.
    """
    figures = [
        f"<figure>\n<figcaption><b>{number}</b> {escape(' '.join(parse.words))}</figcaption>\n"
        f'<div class="picture" tabindex="0">{parse.to_svg()}</div>\n</figure>'
        for number, parse in enumerate(parses, start=1)
    ]
    return _PAGE.format(title=escape(title), font=FONT, figures="\n".join(figures))
