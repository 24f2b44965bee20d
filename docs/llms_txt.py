"""Hooks of the site's builder: llms.txt, Markdown too, former addresses, flags, heads of cells.

llms.txt (llmstxt.org) lists the pages for language models: title, address, first sentence.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

MOVED = """<!doctype html><meta charset="utf-8"><title>Moved</title>
<meta http-equiv="refresh" content="0; url={address}"><h1><a href="{address}">{address}</a></h1>
"""
_SENTENCE = re.compile(r"(.+?[.])(?=\s|$)", re.DOTALL)
_INLINE_CODE = re.compile(r"<code>[^<]*--[^<]*</code>")
_FLAG = re.compile(r"--[\w-]+")
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def on_page_content(html: str, **_: Any) -> str:
    """Return a page without line breaks after a flag's dashes, with column names in its cells."""
    html = _TABLE.sub(lambda table: _with_heads(table[0]), html)
    return _INLINE_CODE.sub(
        lambda code: _FLAG.sub(r'<span class="flag">\g<0></span>', code[0]), html
    )


def _with_heads(table: str) -> str:
    """Return a table in which each cell has its column's head, for a telephone's narrow page."""
    heads = cycle(_TAG.sub("", head).replace('"', "&quot;") for head in _HEAD.findall(table))
    return re.sub(r"<td\b", lambda _: f'<td data-head="{next(heads)}"', table)


def on_post_build(config: Mapping[str, Any]) -> None:
    """Write llms.txt, the pages' Markdown and former addresses into the built site."""
    docs, site = Path(config["docs_dir"]), Path(config["site_dir"])
    text = llms_text(config["nav"], docs, config["site_name"])
    (site / "llms.txt").write_text(text, encoding="utf-8")
    for _, page in pages_of(config["nav"]):
        shutil.copyfile(docs / page, site / page)
    for former, page in config["extra"]["moved"].items():
        address = "../" * former.count("/") + f"{page}.html"
        (site / former).parent.mkdir(exist_ok=True)
        text = MOVED.format(address=address)
        (site / f"{former}.html").write_text(text, encoding="utf-8")


def llms_text(nav: Sequence[Any], docs: Path, name: str) -> str:
    """Return the text of llms.txt for the navigation of a folder of pages."""
    lines = [f"# {name}", "", f"> {first_sentence(docs / 'index.md')}"]
    section = None
    for titles, page in pages_of(nav):
        if (named := titles[0] if len(titles) > 1 else "Pages") != section:
            section = named
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{titles[-1]}]({page}): {first_sentence(docs / page)}")
    return "\n".join(lines) + "\n"


def pages_of(
    nav: Sequence[Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each page of a navigation with the titles that lead to it."""
    for entry in nav:
        [(title, what)] = entry.items()
        if isinstance(what, str):
            yield (*above, title), what
        else:
            yield from pages_of(what, (*above, title))


def first_sentence(page: Path) -> str:
    """Return the first sentence below a page's heading, without links."""
    text = page.read_text(encoding="utf-8")
    for paragraph in re.split(r"\n\s*\n", text):
        if not paragraph.lstrip().startswith(("#", "```", "|", "!", "<!--", ":::", "-")):
            plain = " ".join(_LINK.sub(r"\1", paragraph).split())
            found = _SENTENCE.match(plain)
            return (found[1] if found else plain).rstrip(":")
    raise ValueError(f"{page}: expected a sentence below the heading; write one")
