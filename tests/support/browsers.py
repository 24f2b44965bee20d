"""Chromium driven by playwright; tests are skipped by name where one of the two is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

PATIENCE_MS = 180_000
"""Longest wait for what a busy machine draws late; no bound of a page's."""


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a running browser with a profile of its own."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra browser)")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("needs Chromium (Debian: chromium)")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


class OpenPage:
    """A page in a tab: its errors, whatever it loaded, and shorthands."""

    def __init__(
        self,
        browser: Any,
        path: Path,
        *,
        width: int = 1280,
        height: int = 900,
        scheme: str = "light",
        at: str = "",
        ready: str = "html[data-ready]",
    ) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.tab = self._context.new_page()
        self.tab.set_default_timeout(PATIENCE_MS)
        self.tab.on("console", self._log)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(f"{path.as_uri()}{at}")
        self.tab.wait_for_selector(ready)

    def _log(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def __enter__(self) -> OpenPage:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()
        outside = [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]
        assert (self.errors, outside) == ([], [])

    def count(self, selector: str) -> int:
        """Return how many elements there are."""
        return int(self.tab.locator(selector).count())

    def text(self, selector: str) -> str:
        """Return the text of the first element."""
        return str(self.tab.locator(selector).first.inner_text())

    def value(self, script: str) -> Any:
        """Return what a script evaluates to."""
        return self.tab.evaluate(script)

    def saved(self, selector: str) -> bytes:
        """Return the file that a click downloads."""
        with self.tab.expect_download() as download:
            self.tab.click(selector)
        return Path(download.value.path()).read_bytes()
