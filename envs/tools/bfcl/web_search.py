"""BFCL's web search (`WebSearchAPI`) over any search function.

Without one it searches a local corpus.
"""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.tools.local_corpus import default_corpus

Search = Callable[[str, int, str], list[dict[str, Any]]]
"""(keywords, max_results, region) -> results {"title", "href", "body"}, best first."""

Fetch = Callable[[str], str]
"""Address -> the page as text or HTML; LookupError where there is none."""

_MODES = ("raw", "markdown", "truncate")
_HIDDEN = ("script", "style")


class WebSearchAPI:
    """Web search and page fetching; `web_search_class` takes another engine."""

    show_snippet: bool
    _search: Search | None = None
    _fetch: Fetch | None = None

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        self.show_snippet = scenario.get("show_snippet", True)
        if type(self)._search is None:
            # a missing corpus is told before the first call, not in the middle of an episode
            default_corpus()

    def search_engine_query(
        self, keywords: str, max_results: int = 10, region: str = "wt-wt"
    ) -> Any:
        """Return titles and addresses of pages, with snippets if these are on."""
        search = type(self)._search or default_corpus().search
        results = search(str(keywords), max_results, region)[:max_results]
        keys = ("title", "href", "body") if self.show_snippet else ("title", "href")
        return [{key: result.get(key, "") for key in keys} for result in results]

    def fetch_url_content(self, url: str, mode: str = "raw") -> dict[str, str]:
        """Fetch a page unchanged ("raw") or as text ("markdown", "truncate").

        ValueError for no http address.
        """
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"Invalid URL: {url}")
        if mode not in _MODES:
            return {"error": f"Unsupported mode: {mode}. Expected one of {', '.join(_MODES)}."}
        fetch = type(self)._fetch or default_corpus().fetch
        try:
            page = fetch(url)
        except LookupError as error:
            return {"error": f"{url} cannot be fetched: {error.args[0] if error.args else error}"}
        return {"content": page if mode == "raw" else visible_text(page)}


def web_search_class(search: Search, fetch: Fetch | None = None) -> type[WebSearchAPI]:
    """Make a WebSearchAPI class over a custom search function.

    `tools={"WebSearchAPI": web_search_class(search)}`.

    Without `fetch` only pages of the local corpus can be fetched. What either raises (LookupError
    of `fetch` apart) is failed infrastructure: the episode is invalid, for a broken network is no
    mistake of the model.
    """
    attributes = {
        "_search": staticmethod(_guarded(search)),
        "_fetch": staticmethod(_guarded(fetch)) if fetch else None,
    }
    return type("WebSearchAPI", (WebSearchAPI,), attributes)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except LookupError:
            raise
        except Exception as error:
            raise InfrastructureError(
                f"web search {function!r}: {type(error).__name__}: {error}"
            ) from error

    return ask


class _VisibleText(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN and self._hidden > 0

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.pieces.append(data.strip())


def visible_text(page: str) -> str:
    """Return the text of an HTML page without tags, scripts and styles."""
    parser = _VisibleText()
    parser.feed(page)
    parser.close()
    return "\n".join(parser.pieces)
