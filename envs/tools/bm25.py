"""Keyword search by BM25+, as BFCL ranks memory keys; rank_bm25 does the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fctncalling.envs.errors import extra_module


def words(text: str) -> list[str]:
    """Return a text's words: lower case, split at blanks and underscores."""
    return text.replace("_", " ").lower().split()


def bm25(texts: Sequence[Sequence[str]]) -> Any:
    """Return rank_bm25's index over tokenised texts.

    Raises MissingExtra, and ZeroDivisionError for no texts.
    """
    return extra_module("rank_bm25", "agentic", "keyword search").BM25Plus(texts)


def ranked(query: str, texts: Sequence[str]) -> list[tuple[float, str]]:
    """Return (score, text) of every text, best first; of equals the earlier one comes first."""
    scores = bm25([words(text) for text in texts]).get_scores(words(query))
    pairs = [(float(score), text) for score, text in zip(scores, texts, strict=True)]
    return sorted(pairs, key=lambda pair: pair[0], reverse=True)
