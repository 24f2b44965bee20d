"""Reports as pages: the sentence first, bars before tables, notes last, all texts as text."""

from __future__ import annotations

from html.parser import HTMLParser

import torch

from fctncalling.lab.page.report_page import Bar, Cell, Link, ReportTable, report_page
from fctncalling.lab.text_environment import TextHistory

HOSTILE = '</td><script>alert(1)</script><img src=x onerror="alert(1)">\'&amp;'
TAGS = {
    *("html", "head", "meta", "title", "link", "style", "body", "div", "h1", "h2", "p", "section"),
    *("table", "thead", "tbody", "tr", "th", "td", "span", "i", "a", "ul", "li"),
}


class _Read(HTMLParser):
    """Tags, attributes and texts of a page as a browser would read them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_what_a_model_wrote_is_text_wherever_it_stands() -> None:
    rows: list[list[Cell]] = [[HOSTILE, Bar(2.0, HOSTILE), Link(HOSTILE, HOSTILE)]]
    table = ReportTable(HOSTILE, [HOSTILE, "b", HOSTILE], rows, HOSTILE)
    page = report_page(HOSTILE, HOSTILE, [table], kind=HOSTILE, reason=HOSTILE, notes=[HOSTILE])
    history = TextHistory(HOSTILE, torch.tensor([1]))
    for text, places in ((page, 12), (history.to_html(), 1)):
        read = _Read(text)
        assert set(read.tags) <= TAGS
        assert not [name for name, _ in read.attributes if name.startswith("on")]
        assert [each.strip() for each in read.texts].count(HOSTILE) == places
        (policy,) = (value for name, value in read.attributes if "default-src" in str(value))
        assert "script-src" not in str(policy)  # even a tag that slips through runs nothing


def test_the_sentence_comes_first_bars_before_tables_and_notes_last() -> None:
    plain = ReportTable("plain", ["a"], [["1"]])
    bars = ReportTable("bars", ["a"], [[Bar(0.5, "1 of 2")]])
    page = report_page("t", "8 of 45", [plain, ReportTable("none", [], []), bars], notes=["last"])
    places = [page.index(f">{each}<") for each in ("8 of 45", "bars", "plain", "last")]
    assert places == sorted(places)
    assert ">none<" not in page
    assert "width:50%" in page
