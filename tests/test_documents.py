"""The documents: every file and module they name exists, and they stay short."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import fctncalling

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TREES = "algorithms|benchmarks|checkers|data|docs|envs|evaluate|examples|fctncalling|tests|train"
FILE = re.compile(rf"(?<![\w/.-])((?:{TREES})[\w]*(?:/[\w.-]+)*\.(?:py|json|png|md))(?![\w/])")
MODULE = re.compile(r"(?:from|-m|`)\s*(fctncalling(?:\.\w+)+)")
ELSEWHERE = {"tests/test_environments.py"}  # of TRL
MOST_WORDS, MOST_WORDS_OF_EVIDENCE, MOST_WORDS_OF_A_NEWCOMER = 15_000, 6_000, 1_200
GENERATED = {"settings.md", "reference.md", "commands.md", "categories.md"}  # of the code alone


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


def test_the_documents_stay_short() -> None:
    """Pages for readers and pages of evidence; what is made of the code is not counted."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    evidence = sorted((ROOT / "docs/evidence").glob("*.md"))
    assert sorted({*pages, *evidence, ROOT / "CONTRIBUTING.md"}) == sorted(PAGES)
    written = [page for page in pages if page.name not in GENERATED]
    assert len(written) == 12, "a README and eleven pages, beside the settings"
    for most, files in ((MOST_WORDS, written), (MOST_WORDS_OF_EVIDENCE, evidence)):
        counts = {page.name: len(page.read_text("utf-8").split()) for page in files}
        longest = sorted(counts, key=counts.__getitem__)[-5:]
        assert sum(counts.values()) <= most, f"the longest pages are {', '.join(longest)}"


def test_newcomers_find_their_way_in_few_words() -> None:
    """README and one page: a model on BFCL, an API, a result tree, an algorithm of one's own."""
    readme = len((ROOT / "README.md").read_text("utf-8").split())
    for page in ("train", "your_api", "score", "algorithms"):
        words = len((ROOT / f"docs/{page}.md").read_text("utf-8").split())
        assert readme + words <= MOST_WORDS_OF_A_NEWCOMER, page


def test_a_missing_file_would_be_seen() -> None:
    text = "see `envs/asked.py`, algorithms/ppo.py and results/x/algorithms/ppo.py"
    assert FILE.findall(text) == ["envs/asked.py", "algorithms/ppo.py"]


def test_the_hooks_of_pre_commit_need_no_network() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    hooks = {hook["id"]: hook for repo in config["repos"] for hook in repo["hooks"]}
    assert {hook["language"] for hook in hooks.values()} == {"system"}
    assert sorted(hooks) == ["ruff-check", "ruff-format"]


def test_the_changelog_begins_with_the_version_that_is_installed() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (\d\S+)$", text, re.M)
    assert len(text.splitlines()) <= 120
    assert versions == [fctncalling.__version__, "0.3.0", "0.2.0", "0.1.0"]
