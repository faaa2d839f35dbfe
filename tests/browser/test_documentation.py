"""The documentation site in a browser, at the sizes of a desktop and of a phone."""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytestmark = pytest.mark.slow  # builds the site

ROOT = Path(__file__).parents[2]
# Tables wider than their page, and those of them that neither scroll nor stand in something that does.
WIDE = """() => {
    const wide = [...document.querySelectorAll(".md-content table")].filter(
        table => Math.max(table.scrollWidth, table.getBoundingClientRect().right) > screen.width);
    const scrolls = element => element && (
        ["auto", "scroll"].includes(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
    return [wide.length, wide.filter(table => !scrolls(table)).length];
}"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The built site."""
    build = pytest.importorskip("mkdocs.commands.build", reason="needs mkdocs: pip install 'hf_structure[docs]'")
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


@pytest.fixture(scope="module")
def site(folder):
    """The address of the site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_search_finds_a_page(site, open_page, keep_picture):
    page = open_page(site)
    keep_picture(page, "site-start")
    page.get_by_role("textbox", name="Search").fill("calibration")
    result = page.locator(".md-search-result__link").first
    result.wait_for()
    keep_picture(page, "site-search")
    title = result.locator("h1, h2").first.inner_text()
    result.click()
    page.wait_for_url(lambda url: url != site)
    page.locator(f"h1:has-text('{title}'), h2:has-text('{title}')").first.wait_for()
    assert "reference" not in page.url
    assert "calibrat" in page.locator("article").inner_text()
    keep_picture(page, "site-found")


def test_pictures_are_shown(site, open_page, keep_picture):
    page = open_page(f"{site}pictures.html")
    sizes = page.eval_on_selector_all("article img", "all => all.map(image => image.naturalWidth)")
    assert sizes
    assert all(sizes)
    keep_picture(page, "site-pictures")


def test_pictures_are_legible_on_a_phone(site, open_page, keep_picture):
    page = open_page(site, phone=True)
    image = page.locator("article img").first
    width = image.evaluate("image => image.naturalWidth")
    assert image.bounding_box()["width"] >= min(width, 1.8 * page.viewport_size["width"])
    keep_picture(page, "site-phone-start")


def test_wide_tables_scroll_on_a_phone(site, folder, open_page, keep_picture):
    page = open_page(site, phone=True)
    found = 0
    for path in sorted(folder.rglob("*.html")):
        name = path.relative_to(folder).as_posix()
        page.goto(f"{site}{name}")
        assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"], name
        wide, stuck = page.evaluate(WIDE)
        assert not stuck, name
        found += wide
    assert found > 10
    for name in ("models/index", "tutorials/parse"):
        page.goto(f"{site}{name}.html")
        keep_picture(page, f"site-phone-{name.replace('/', '-')}")
