"""The documents: every file they name exists, and the tour of an iteration stays short."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest
from house_rules import tree_of

import fctncalling

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TREES = "algorithms|benchmarks|checkers|data|docs|envs|evaluate|examples|fctncalling|tests|train"
FILE = re.compile(rf"(?<![\w/.-])((?:{TREES})[\w]*(?:/[\w.-]+)*\.(?:py|json|png|md))(?![\w/])")
MODULE = re.compile(r"(?:from|-m|`)\s*(fctncalling(?:\.\w+)+)")
ELSEWHERE = {"tests/test_environments.py"}  # of TRL
MOST_STOPS = 12


def section(name: str) -> str:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    return text.split(f"\n## {name}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_a_document_names_exists(page: Path) -> None:
    named = set(FILE.findall(page.read_text("utf-8"))) - ELSEWHERE
    named -= {file for file in named if file.startswith("data/bfcl/")}  # what import-bfcl writes
    missing = {f for f in named if not ((ROOT / f).exists() or (page.parent / f).exists())}
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_a_document_names_can_be_imported(page: Path) -> None:
    for name in set(MODULE.findall(page.read_text("utf-8"))):
        home, _, last = name.rpartition(".")
        if name.partition(".")[2] in fctncalling.__all__:
            continue
        path = ROOT.joinpath(*name.split(".")[1:])
        top = ROOT / name.replace(".", "/")
        found = (path, top, path.with_suffix(".py"), top.with_suffix(".py"))
        assert any(each.exists() for each in found) or hasattr(import_module(home), last), name


def test_a_missing_file_would_be_seen() -> None:
    text = "see `envs/asked.py`, algorithms/ppo.py and results/x/algorithms/ppo.py"
    assert FILE.findall(text) == ["envs/asked.py", "algorithms/ppo.py"]


def test_one_iteration_is_told_in_a_few_files() -> None:
    stops = re.findall(r"^\| \d+ \| `([\w/.]+)`", section("One TPPO iteration, stop by stop"), re.M)
    assert len(stops) == len(set(stops)) <= MOST_STOPS
    assert {stop for stop in stops if not (ROOT / stop).is_file()} == set()


def test_the_containers_of_the_table_are_classes_of_their_files() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([\w/.]+)` \|", section("From tokens to the loss"), re.M)
    assert len(rows) == 12
    for name, file in rows:
        classes = {
            node.name for node in tree_of(ROOT / file).body if isinstance(node, ast.ClassDef)
        }
        assert name in classes, file
