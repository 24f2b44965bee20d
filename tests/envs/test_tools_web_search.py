"""Web search works offline over pages of one's own, and over any search function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.tools.bfcl.web_search import visible_text, web_search_class

PAGES = [
    {
        "title": "Tea",
        "href": "https://a.example/tea",
        "body": "<p>Oolong is a tea.</p><script>x()</script>",
    },
    {"title": "Coffee", "href": "https://a.example/coffee", "body": "Espresso is a coffee."},
    {
        "title": "Milk",
        "href": "https://a.example/milk",
        "body": "Milk goes with coffee, less with tea.",
    },
]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(page) + "\n" for page in PAGES))
    monkeypatch.setenv("FCTNCALLING_SEARCH_CORPUS", str(path))
    return path


def session(scenario: dict[str, Any] | None = None, **extra: type) -> ToolSession:
    return ToolSession(["WebSearchAPI"], {"WebSearchAPI": scenario or {}}, extra_tools=extra)


def hrefs(results: str) -> list[str]:
    return [page["href"].rsplit("/", 1)[1] for page in json.loads(results.replace("'", '"'))]


def test_pages_are_ranked_by_the_words_asked_for(corpus: Path) -> None:
    tools = session()
    assert hrefs(tools.execute("search_engine_query(keywords='espresso coffee')")) == [
        "coffee",
        "milk",
    ]
    assert hrefs(tools.execute("search_engine_query(keywords='tea', max_results=1)")) == ["tea"]
    assert tools.execute("search_engine_query(keywords='zeppelin')") == "[]"


def test_snippets_are_shown_unless_the_task_hides_them(corpus: Path) -> None:
    assert "body" in session({"show_snippet": True}).execute("search_engine_query(keywords='milk')")
    assert "body" not in session({"show_snippet": False}).execute(
        "search_engine_query(keywords='milk')"
    )


def test_a_page_is_fetched_as_it_is_or_as_text(corpus: Path) -> None:
    tools = session()
    raw = json.loads(tools.execute("fetch_url_content(url='https://a.example/tea')"))
    text = json.loads(
        tools.execute("fetch_url_content(url='https://a.example/tea', mode='truncate')")
    )
    assert raw == {"content": PAGES[0]["body"]}
    assert text == {"content": "Oolong is a tea."}
    assert "error" in tools.execute("fetch_url_content(url='https://a.example/none')")
    assert "error" in tools.execute("fetch_url_content(url='https://a.example/tea', mode='poem')")
    assert tools.execute("fetch_url_content(url='file:///etc/passwd')").startswith(
        "Error during execution: "
    )


def test_a_corpus_that_cannot_be_read_is_failed_infrastructure_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content in (None, "{broken", '[{"title": "no address"}]'):
        path = tmp_path / "pages.json"
        if content is not None:
            path.write_text(content)
        monkeypatch.setenv("FCTNCALLING_SEARCH_CORPUS", str(path))
        with pytest.raises(InfrastructureError, match=r"pages\.json"):
            session()


def test_own_search_function_takes_the_place_of_the_corpus() -> None:
    asked = []

    def search(keywords: str, max_results: int, region: str) -> list[dict[str, Any]]:
        asked.append((keywords, max_results, region))
        return [{"title": "t", "href": "https://b.example", "body": "b", "rank": 1}] * 3

    tools = session(WebSearchAPI=web_search_class(search, lambda url: f"page of {url}"))
    assert (
        hrefs(tools.execute("search_engine_query(keywords='x', max_results=2, region='it-it')"))
        == ["b.example"] * 2
    )
    assert asked == [("x", 2, "it-it")]
    assert "page of https://b.example" in tools.execute(
        "fetch_url_content(url='https://b.example')"
    )


def test_a_search_function_that_breaks_is_failed_infrastructure() -> None:
    def broken(*_: Any) -> list[dict[str, Any]]:
        raise OSError("no network")

    with pytest.raises(InfrastructureError, match="no network"):
        session(WebSearchAPI=web_search_class(broken)).execute("search_engine_query(keywords='x')")


def test_visible_text_leaves_out_tags_scripts_and_styles() -> None:
    assert visible_text("<h1>A</h1><style>b{}</style><p>C &amp; D<br>E") == "A\nC & D\nE"
