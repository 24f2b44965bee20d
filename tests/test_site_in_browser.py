"""The built site in a real browser: every page on a desk and a telephone, light and dark; search.

FCTNCALLING_SCREENSHOTS names a folder for pictures of the pages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browsers import PATIENCE_MS, chromium

pytestmark = pytest.mark.prove
ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
    for page in (ROOT / "docs").rglob("*.md")
)
DESK = (1280, 800)
SIZES = (DESK, (390, 844))
CUT_TABLES = """[...document.querySelectorAll(".md-typeset table")].filter(
  (table) => table.scrollWidth > table.closest(".md-typeset__scrollwrap").clientWidth + 1
).map((table) => table.innerText.slice(0, 30))"""
BROKEN_IMAGES = "[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    beside = Path(sys.executable).with_name("mkdocs")
    mkdocs = str(beside) if beside.exists() else shutil.which("mkdocs")
    if mkdocs is None:
        pytest.skip("needs mkdocs (extra docs)")
    folder = tmp_path_factory.mktemp("site")
    command = [mkdocs, "build", "--quiet", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


class Watched:
    """A tab that notes errors of the console, failed requests, and requests to other hosts."""

    def __init__(
        self, browser: Any, address: str, size: tuple[int, int] = DESK, scheme: str = "light"
    ) -> None:
        self.faults: list[str] = []
        self._address = address
        viewport = dict(zip(("width", "height"), size, strict=True))
        self.tab = browser.new_page(viewport=viewport, color_scheme=scheme)
        self.tab.set_default_timeout(PATIENCE_MS)
        self.tab.on("console", self._console)
        self.tab.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.tab.on("request", self._request)
        self.tab.on("requestfailed", self._failed)
        self.tab.on("response", self._response)

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.faults.append(f"console: {message.text}")

    def _failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # the tab went on to the next page
            self.faults.append(f"failed: {request.url}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self._address, "data:", "blob:")):
            self.faults.append(f"elsewhere: {request.url}")

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.status}: {response.url}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_page_fits_its_window_and_loads_what_it_shows(
    browser: Any, address: str, size: tuple[int, int], scheme: str
) -> None:
    watched = Watched(browser, address, size, scheme)
    too_wide, broken, cut = {}, {}, {}
    for page in PAGES:
        watched.tab.goto(f"{address}/{page}")
        assert watched.tab.locator("h1").count() == 1, page
        needed = watched.tab.evaluate("document.documentElement.scrollWidth")
        if needed > size[0]:
            too_wide[page] = needed
        if tables := watched.tab.evaluate(CUT_TABLES):
            cut[page] = tables
        if images := watched.tab.evaluate(BROKEN_IMAGES):
            broken[page] = images
        if folder := os.environ.get("FCTNCALLING_SCREENSHOTS"):
            name = f"{page.replace('/', '_').removesuffix('.html')}_{size[0]}_{scheme}.png"
            watched.tab.screenshot(path=str(Path(folder) / name))
    watched.tab.close()
    assert (too_wide, cut, broken, watched.faults) == ({}, {}, {}, [])


SEARCHES = {
    "canaries": "categories",
    "top_p": "gateway",
    "out of memory": "scaling",
    "GLM": "train",
    "OpenAPI": "your_api",
    "resume": "scaling",
    "GRPO": "algorithms",
    "24 GB": "scaling",
    "own reward": "own_tasks",
}
"""What a reader searches for -> a page that has to be among the results."""


def test_search_finds_the_page_that_a_reader_looks_for(browser: Any, address: str) -> None:
    watched = Watched(browser, address)
    watched.tab.goto(f"{address}/index.html")
    watched.tab.click("input.md-search__input")
    for words, page in SEARCHES.items():
        watched.tab.fill("input.md-search__input", "")
        watched.tab.locator("input.md-search__input").press_sequentially(words)
        result = watched.tab.locator(f"a.md-search-result__link[href*='{page}.html']")
        result.first.wait_for(state="attached")
    assert watched.faults == []
    watched.tab.fill("input.md-search__input", "")
    watched.tab.locator("input.md-search__input").press_sequentially("zzzqqqxxx")
    watched.tab.wait_for_function(
        "document.querySelector('.md-search-result__meta').innerText.startsWith('No')"
    )
    watched.tab.close()


@pytest.mark.parametrize("opened", ["served", "as files"])
def test_a_flag_is_found_by_its_name_with_dashes(
    browser: Any, address: str, site: Path, opened: str
) -> None:
    home = address if opened == "served" else site.as_uri()
    watched = Watched(browser, home)
    watched.tab.goto(f"{home}/index.html")
    watched.tab.locator("input.md-search__input").press_sequentially("--plan")
    result = watched.tab.locator("a.md-search-result__link[href*='settings.html']")
    result.first.wait_for()
    assert watched.faults == []
    watched.tab.close()


def test_the_site_has_llms_txt_and_its_links_lead_to_files(site: Path) -> None:
    text = (site / "llms.txt").read_text("utf-8")
    targets = re.findall(r"^- \[.+?\]\((\S+?)\):", text, re.M)
    assert len(targets) == len(PAGES)
    assert [target for target in targets if not (site / target).is_file()] == []


def test_no_page_asks_another_host_for_a_script_a_style_or_a_font(site: Path) -> None:
    loaded = re.compile(r"<(?:script|img|link)\b[^>]*?(?:src|href)=\"?(https?://[^\s\">]+)")
    for page in site.rglob("*.html"):
        found = [
            url for url in loaded.findall(page.read_text("utf-8")) if "rel=canonical" not in url
        ]
        assert found == [], page
