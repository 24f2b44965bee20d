"""Pages: the shell of each, and a report with its sentence, bars, tables and notes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

_STYLE = files("fctncalling.lab.page") / "style.css"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:"


def html_page(title: str, body: str, script: str = "") -> str:
    """Return a self-contained HTML page; `body` is markup, `title` text.

    Without `script` its policy lets no script run.
    """
    policy = f"{_POLICY}; script-src 'unsafe-inline'" if script else _POLICY
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{_STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
{body}
{f"<script>{script}</script>" if script else ""}
</body>
</html>
"""


class Bar(NamedTuple):
    """Cell of a table: a share from 0 to 1, drawn as a bar before its text."""

    share: float
    text: str


class Link(NamedTuple):
    """Cell of a table: a text that leads to an address."""

    text: str
    address: str


Cell = str | Bar | Link


class ReportTable(NamedTuple):
    """Table of a report; tables with bars come first."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text: str = ""

    @property
    def has_bars(self) -> bool:
        """Whether a cell is a bar."""
        return any(isinstance(cell, Bar) for row in self.rows for cell in row)


def report_page(
    title: str,
    sentence: str,
    tables: Sequence[ReportTable],
    *,
    kind: str = "",
    reason: str = "",
    notes: Sequence[str] = (),
) -> str:
    """Return the page of a report; all of its texts are escaped.

    sentence: the result in one line, reason: the line below it. kind: "good", "bad" or "warn", the
    colour of its edge. Tables without rows are left out.
    """
    ordered = sorted(tables, key=lambda table: not table.has_bars)
    parts = [
        f'<div class="sheet report"><h1>{escape(title)}</h1>',
        f'<p class="sentence {escape(kind)}">{escape(sentence)}</p>',
        f'<p class="soft">{escape(reason)}</p>' if reason else "",
        *(_table(table) for table in ordered if table.rows),
    ]
    if notes:
        listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
        parts.append(f'<section class="card"><h2>Notes</h2><ul>{listed}</ul></section>')
    return html_page(title, "\n".join([*parts, "</div>"]))


def _table(table: ReportTable) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.heads)
    rows = "\n".join("<tr>" + "".join(map(_cell, table.heads, row)) + "</tr>" for row in table.rows)
    text = f'<p class="soft">{escape(table.text)}</p>' if table.text else ""
    return (
        f'<section class="card"><h2>{escape(table.title)}</h2>{text}<div class="wide">\n<table>'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div></section>"
    )


def _cell(head: str, cell: Cell) -> str:
    if isinstance(cell, Bar):
        width = f"width:{100 * min(1.0, max(0.0, cell.share)):.0f}%"
        shown = f'<span class="rate"><i style="{width}"></i></span> {escape(cell.text)}'
    elif isinstance(cell, Link):
        shown = f'<a href="{escape(cell.address)}">{escape(cell.text)}</a>'
    else:
        shown = escape(cell)
    return f'<td data-head="{escape(head)}">{shown}</td>'
