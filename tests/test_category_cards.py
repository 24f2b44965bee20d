"""The page of the categories is what its script prints, and names every category and error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fctncalling.data.categories import AGENTIC, AST, LANGUAGE_VARIANTS, MULTI_TURN, RELEVANCE

pytest.importorskip("tree_sitter_java", reason="needs the extra java")
ROOT = Path(__file__).parents[1]
ERROR = re.compile(r'"([a-z_]+:[a-z_/]+)"')
SOURCES = ("checkers/*.py", "checkers/math/*.py", "envs/judging/*.py", "envs/tool_text/env.py")
NOT_PLAYED = {"memory", "memory_prereq", "web_search"}  # played under the names of their variants


@pytest.fixture(scope="module")
def cards() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "docs"))
    yield import_module("category_cards")
    sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def text() -> str:
    return (ROOT / "docs/categories.md").read_text("utf-8")


def test_the_page_is_what_the_episodes_are_today(cards: Any, text: str) -> None:
    made = cards.page()
    assert made == text, "run `python docs/category_cards.py`"


def test_a_wrong_answer_taken_for_a_right_one_would_be_seen(cards: Any) -> None:
    card = cards.CARDS[0]
    wrong = card._replace(right=card.wrong[0][1])
    with pytest.raises(AssertionError, match="simple_python"):
        list(cards._card(wrong))


def test_every_category_has_a_card(text: str) -> None:
    named = set(re.findall(r"[a-z_]+", text))
    shown = {*AST, *RELEVANCE, *MULTI_TURN, *AGENTIC} - NOT_PLAYED
    assert {*shown, "calculator", "python_math", "format_sensitivity"} - named == set()
    assert {"multiple_java", "parallel_java", "parallel_multiple_java"} <= named
    assert all(name.endswith(("_java", "_javascript")) for name in LANGUAGE_VARIANTS)


def test_every_error_of_the_checkers_is_on_the_page(text: str) -> None:
    files = [file for pattern in SOURCES for file in ROOT.glob(pattern)]
    known = {name for file in files for name in ERROR.findall(file.read_text("utf-8"))}
    assert len(known) > 25
    missing = {name for name in known if f"`{name}`" not in text} - {"strict:"}
    assert {name for name in missing if not name.startswith("strict:")} == set()


@pytest.mark.prove
def test_the_canaries_are_what_they_were(cards: Any, shared: Path) -> None:
    stored = json.loads((ROOT / "docs/canaries.json").read_text("utf-8"))
    assert cards.measured(shared / "bfcl/data") == stored
