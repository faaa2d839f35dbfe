"""
A browser, for tests of pages as people see them. `HF_STRUCTURE_PICTURES` names a folder that keeps pictures of the
pages, to be looked at.
"""

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

DESKTOP = {"viewport": {"width": 1440, "height": 900}}
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A Chromium; skips without one, or without playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs Chromium: apt install chromium")
    with api.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium) -> Iterator[Callable[..., Any]]:
    """
    `open_page(url, phone=False)` opens a page on a desktop or on a phone. Fails if a page had an error, or asked for
    anything that is not at its own address.
    """
    problems = []

    def opened(url: str, phone: bool = False) -> Any:
        own = ("/".join(url.split("/")[:3]), "data:", "blob:")

        def check(request: Any) -> None:
            if not request.url.startswith(own):
                problems.append(request.url)

        page = chromium.new_context(**(PHONE if phone else DESKTOP)).new_page()
        page.set_default_timeout(300_000)  # the machine may be busy
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", check)
        page.goto(url)
        return page

    yield opened
    assert not problems


@pytest.fixture
def keep_picture(tmp_path) -> Callable[..., None]:
    """`keep_picture(page, name)` saves a picture of a whole page."""
    folder = Path(os.environ.get("HF_STRUCTURE_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return lambda page, name: page.screenshot(path=folder / f"{name}.png", full_page=True)


@pytest.fixture(scope="module")
def port() -> int:
    """A free port."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]
