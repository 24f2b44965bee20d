"""Local search corpus: pages of a file, ranked by BM25+; needs no network."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from fctncalling.envs.errors import import_extra


def tokenize_words(text: str) -> list[str]:
    """Split a text into lower-case words, at blanks and underscores."""
    return text.replace("_", " ").lower().split()


def bm25_index(texts: Sequence[Sequence[str]]) -> Any:
    """Build the BM25 index of tokenised texts.

    Raises MissingExtra, and ZeroDivisionError for no texts.
    """
    return import_extra("rank_bm25", "agentic", "keyword search").BM25Plus(texts)


def rank_texts(query: str, texts: Sequence[str]) -> list[tuple[float, str]]:
    """Rank texts by a query: (score, text), best first."""
    scores = bm25_index([tokenize_words(text) for text in texts]).get_scores(tokenize_words(query))
    pairs = [(float(score), text) for score, text in zip(scores, texts, strict=True)]
    return sorted(pairs, key=lambda pair: pair[0], reverse=True)


VARIABLE = "FCTNCALLING_SEARCH_CORPUS"
DEFAULT = Path(__file__).with_name("web_pages.json")
SNIPPET_CHARS = 300
_KEYS = ("title", "href", "body")
_PUNCTUATION = str.maketrans(dict.fromkeys(".,;:!?()[]{}\"'", " "))


class CorpusError(RuntimeError):
    """Error of an unreadable corpus, never the model's fault."""


class LocalCorpus:
    """Corpus of pages {"title", "href", "body"} that replaces the web.

    `body` is a page's whole text or HTML.
    """

    def __init__(self, pages: Sequence[dict[str, str]]) -> None:
        self._pages = pages
        self._texts = [_words(f"{page['title']} {page['body']}") for page in pages]
        self._index: Any = None

    def search(
        self, keywords: str, max_results: int = 10, region: str = "wt-wt"
    ) -> list[dict[str, str]]:
        """Return the pages that contain a keyword, best first, each with its beginning.

        The region is ignored.
        """
        query_words = _words(keywords)
        if not self._pages:
            return []
        if self._index is None:
            self._index = bm25_index(self._texts)
        scores = self._index.get_scores(query_words)
        # BM25+ gives every page a share for every word, so only a word in common tells a page that
        # was found.
        matching = [i for i, texts in enumerate(self._texts) if set(query_words) & set(texts)]
        best = sorted(matching, key=lambda i: -float(scores[i]))[:max_results]
        return [{**self._pages[i], "body": self._pages[i]["body"][:SNIPPET_CHARS]} for i in best]

    def fetch(self, url: str) -> str:
        """Return the body of a page; raises LookupError for an unknown address."""
        for page in self._pages:
            if page["href"] == url:
                return page["body"]
        raise LookupError(f"404 Client Error: Not Found for url: {url}")


def default_corpus() -> LocalCorpus:
    """Return the corpus of FCTNCALLING_SEARCH_CORPUS, else the small one shipped.

    CorpusError where unreadable.
    """
    path = Path(os.environ.get(VARIABLE) or DEFAULT)
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise CorpusError(
            f"{path} ({VARIABLE}): the search corpus cannot be read: {error}"
        ) from None


@lru_cache(maxsize=4)
def _read(path: Path, stamp: int) -> LocalCorpus:
    text = path.read_text("utf-8")
    try:
        pages = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [json.loads(line) for line in text.splitlines()]
        )
    except ValueError as error:
        raise CorpusError(
            f"{path}: expected a JSON array or JSON Lines of pages, but {error}"
        ) from None
    for number, page in enumerate(pages, 1):
        if not isinstance(page, dict) or not all(isinstance(page.get(key), str) for key in _KEYS):
            raise CorpusError(
                f"{path}, page {number}: expected texts under {', '.join(_KEYS)}, got {page!r:.80}"
            )
    return LocalCorpus(pages)


def _words(text: str) -> list[str]:
    return tokenize_words(text.translate(_PUNCTUATION))
