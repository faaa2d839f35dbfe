from html.parser import HTMLParser

import pytest

from hf_structure.drawing.html import WIDTH, render_html
from hf_structure.structures import ConstituencyTree, DependencyTree, Parse


class _References(HTMLParser):
    """Collects what a page would load or run."""

    def __init__(self):
        super().__init__()
        self.tags, self.references = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.references += [
            value for name, value in attributes if name in ("src", "href", "action") or name.startswith("on")
        ]


def test_html_page_is_complete_and_numbered():
    tree = DependencyTree(["<a>", "R&D"], [2, 0])
    page = render_html([Parse(tree.words, tree), tree], title="Trees <of> R&D")
    parser = _References()
    parser.feed(page)
    assert parser.references == []
    assert not {"script", "link", "iframe", "img", "object"} & set(parser.tags)
    assert "url(" not in page
    assert "@import" not in page
    assert parser.tags.count("svg") == parser.tags.count("figure") == 2
    assert page.count("<title>Trees &lt;of&gt; R&amp;D</title>") == 1
    assert '<b>1</b> <span dir="auto">&lt;a&gt; R&amp;D</span>' in page
    assert '<b>2</b> <span dir="auto">&lt;a&gt; R&amp;D</span>' in page
    assert "overflow-x: auto" in page


def test_html_page_keeps_braces():
    assert "{title}" in render_html([DependencyTree(["{title}"], [0])])


def test_html_page_shows_both_structures():
    words = ["The", "dog", "barks"]
    dependency, constituency = DependencyTree(words, [2, 3, 0]), ConstituencyTree(words, [(0, 3), (0, 2)])
    parse = Parse(words, dependency, constituency)
    page = render_html([parse, Parse(words, constituency=constituency), constituency])
    assert page.count("<svg") == 3
    assert parse.to_svg() in page
    assert page.count(constituency.to_svg()) == 2
    assert "<title>Trees</title>" in page


def test_html_page_names_models_and_shows_all_readings():
    trees = [
        DependencyTree(["a", "b"], heads, log_probability=value) for heads, value in (([2, 0], -0.1), ([0, 1], -3.0))
    ]
    parse = Parse(["a", "b"], trees[0], alternatives=trees)
    page = render_html([parse, trees[1]], names=["udgn<en>", None])
    assert page.count("<svg") == 3
    assert page.count("<code>udgn&lt;en&gt;</code>") == page.count("<code>") == 1
    assert page.index("1 more") < page.index("2. probability 0.0498") < page.index(trees[1].to_svg())
    with pytest.raises(ValueError, match="zip"):
        render_html([parse], names=[])


def test_html_page_breaks_long_sentences_unless_they_shall_scroll():
    tree = DependencyTree(["word"] * 60, [0, *range(1, 60)])
    assert tree.to_svg(width=WIDTH) in render_html([tree])
    assert tree.to_svg() in render_html([tree], width=None)
    assert tree.to_svg() != tree.to_svg(width=WIDTH)
