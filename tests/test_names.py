"""Names: no class, function, module or flag bears a name that once misled readers."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house_rules import PACKAGE, ROOMS, nodes_of, python_files

from fctncalling.cli.train import build_parser

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests/support/old_names.json"
OLD: dict[str, list[str]] = json.loads(LIST.read_text())
FOLDERS = (*ROOMS, PACKAGE, "tests", "benchmarks", "examples", "docs")
SEARCHED = (".py", ".md", ".json", ".toml")
LAB = ("credit", "embedded", "integrations", "mcp_client", "memory_plan", "text_environment")
PLAIN = ("data", "checkers", "envs", "benchmarks", "examples", "fctncalling/training")
PLAIN += ("fctncalling/evaluation/agents", *(f"fctncalling/lab/{room}" for room in LAB))
RIDDLE = re.compile(
    r"\b(alike|bears|behind|besides?|gone|keeps|kept|known|lets?|nothing|own|said|says?|shown|shows"
    r"|stands?|tells?|told|whatever|whoever|whose|in its place|is to be|such that|what there)\b"
)


def defined(root: Path, folders: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, name, file) of every class, function and module of a tree."""
    for folder in folders:
        for file in python_files(root / folder):
            place = file.relative_to(root).as_posix()
            yield "modules", file.stem, place
            for node in nodes_of(file):
                if isinstance(node, ast.ClassDef):
                    yield "classes", node.name, place
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield "functions", node.name, place


def old_definitions(root: Path, folders: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Return the definitions that bear an old name."""
    return [found for found in defined(root, folders) if found[1] in OLD[found[0]]]


def old_words(root: Path, folders: tuple[str, ...]) -> list[str]:
    """Return "file:line: name" of every old class name in code, documents and data, but in LIST."""
    pattern = re.compile(rf"\b({'|'.join(OLD['nowhere'])})\b")
    files = [
        file
        for folder in folders
        for file in sorted((root / folder).rglob("*"))
        if file.suffix in SEARCHED and file.name != LIST.name and "embedded" not in file.parts[:-1]
    ]
    return [
        f"{file.relative_to(root).as_posix()}:{number}: {found[1]}"
        for file in [*files, *root.glob("*.md"), *root.glob("*.py")]
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if (found := pattern.search(line))
    ]


def test_no_class_function_or_module_bears_an_old_name() -> None:
    found = old_definitions(ROOT, FOLDERS)
    assert found == []


def test_first_lines_of_docstrings_are_plain_english() -> None:
    nodes = [n for room in PLAIN for file in python_files(ROOT / room) for n in nodes_of(file)]
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
    first_lines = [text.split("\n")[0] for text in docstrings if text]
    riddles = [line for line in first_lines if RIDDLE.search(line)]
    assert len(riddles) <= 0.04 * len(first_lines), "\n".join(riddles)


def test_no_flag_bears_an_old_name() -> None:
    flags = {
        flag.lstrip("-") for action in build_parser()._actions for flag in action.option_strings
    }
    assert flags.isdisjoint(OLD["flags"])
    assert "max_staleness" in flags


def test_old_class_names_that_are_no_english_words_stand_nowhere() -> None:
    found = old_words(ROOT, FOLDERS)
    assert found == []


@pytest.mark.parametrize(
    ("file", "text", "kind"),
    [
        ("data/asked.py", "", "modules"),
        ("data/a.py", "class Referee:\n    pass\n", "classes"),
        ("data/a.py", "class A:\n    async def widened(self):\n        pass\n", "functions"),
    ],
)
def test_the_rule_sees_an_old_name(tmp_path: Path, file: str, text: str, kind: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / file).write_text(text)
    assert [found[0] for found in old_definitions(tmp_path, ("data",))] == [kind]


def test_the_search_sees_an_old_word_in_documents(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text(f"A cache.\nOnce `{OLD['nowhere'][0]}`.\n")
    assert old_words(tmp_path, ("docs",)) == [f"docs/page.md:2: {OLD['nowhere'][0]}"]
