"""Names and sentences: first lines of docstrings are plain English."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from house_rules import nodes_of, python_files

ROOT = Path(__file__).parents[1]
PLAIN = ("algorithms", "benchmarks", "checkers", "data", "docs", "envs", "examples", "fctncalling")
RIDDLE = re.compile(
    r"\b(alike|bears|behind|besides?|gone|keeps|kept|known|lets?|nothing|own|said|says?|shown|shows"
    r"|stands?|tells?|told|whatever|whoever|whose|in its place|is to be|such that|what there)\b"
)


def test_first_lines_of_docstrings_are_plain_english() -> None:
    nodes = [n for room in PLAIN for file in python_files(ROOT / room) for n in nodes_of(file)]
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
    first_lines = [text.split("\n")[0] for text in docstrings if text]
    riddles = [line for line in first_lines if RIDDLE.search(line)]
    assert len(riddles) <= 0.04 * len(first_lines), "\n".join(riddles)
