"""One offline HTML page of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid #8884;
  font-variant-numeric: tabular-nums; }
.gate { padding: .6rem 1rem; border-left: .4rem solid; }
.no { border-color: #c33; } .yes { border-color: #393; }
"""


@dataclass(frozen=True)
class ReportTable:
    """A table of the page."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: str = ""

    def html(self) -> str:
        """Return the table as HTML; a line where it is empty."""
        title = f"<h2>{escape(self.title)}</h2>\n"
        if not self.rows:
            return f"{title}<p>None.</p>\n"
        heads = "".join(f'<th scope="col">{escape(each)}</th>' for each in self.heads)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in row)}</tr>\n" for row in self.rows
        )
        text = f"<p>{escape(self.text)}</p>\n" if self.text else ""
        return f"{title}{text}<table>\n<tr>{heads}</tr>\n{rows}</table>\n"


def adapt_report_html(
    title: str,
    gate: str,
    may_ship: bool,
    tables: Sequence[ReportTable],
    links: Sequence[tuple[str, str, bool]],
    told: Sequence[str],
) -> str:
    """Return the page; it loads nothing. `links` are (address, text, whether it was solved)."""
    episodes = "".join(
        f'<li>{"✓" if solved else "✗"} <a href="{escape(address)}">{escape(text)}</a></li>\n'
        for address, text, solved in links
    )
    notes = "".join(f"<p>{escape(each)}</p>\n" for each in told)
    kind = "yes" if may_ship else "no"
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{escape(title)}</h1>\n"
        f'<p class="gate {kind}">{escape(gate)}</p>\n{notes}'
        f"{''.join(each.html() for each in tables)}"
        f"<h2>Episodes</h2>\n<ul>\n{episodes}</ul>\n</html>\n"
    )
