"""The page as one HTML file: scripts of `page/`, data compressed inside."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from fctncalling.data.paths import atomic_write
from fctncalling.lab.page.report_page import html_page

SCRIPTS = tuple(
    "state elements numbers theme lanes curve formula environment episode list tree updates "
    "discarded overview compared export keys main".split()
)
"""Script files in the order they are joined: the page starts at the end of the last one."""
MAX_DEPTH = 100
_FOLDER = files("fctncalling.lab.viewer") / "page"
_BODY = """<a class="skip" href="#" id="skip">Skip to the episode</a>
<header id="top"></header>
<main id="main" tabindex="-1"><p class="loading">Reading …</p></main>
<section id="detail" aria-label="Chosen token" aria-live="polite" hidden></section>
<dialog id="help" aria-label="Keys"></dialog>
<noscript>This page is drawn by its own scripts: allow them.</noscript>
<script id="data" type="text/plain">{data}</script>"""


def page_html(data: Mapping[str, Any]) -> str:
    """Return the page of some data; it makes no requests."""
    packed = base64.b64encode(gzip.compress(_json(data).encode(), 9, mtime=0)).decode()
    script = "\n".join((_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    return html_page("fctncalling", _BODY.format(data=packed), script)


def _json(data: Any) -> str:
    """Return JSON that a browser reads: NaN and infinities, which a tool may return, as texts."""
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)


def _finite(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        return "nested too deep"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item, depth + 1) for item in value]
    return value


def write_page(path: Path, data: Mapping[str, Any]) -> int:
    """Write the page in one step and return its size in bytes. Raises OSError."""
    text = page_html(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial:
        return partial.write_text(text, encoding="utf-8")
