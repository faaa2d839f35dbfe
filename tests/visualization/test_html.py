from html.parser import HTMLParser

from hf_structure.structures import ConstituencyTree, DependencyTree, Parse
from hf_structure.visualization.html import render_html


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
    assert "<b>1</b> &lt;a&gt; R&amp;D" in page
    assert "<b>2</b> &lt;a&gt; R&amp;D" in page
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
