"""The documentation site: navigation, links, and an example that works on every page."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_documents import GENERATED
from test_site_in_browser import SEARCHES

import fctncalling
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.cli.idle_flags import idle_flag_notes
from fctncalling.cli.registry import subcommands
from fctncalling.cli.train import build_parser, parse_command_line
from fctncalling.cli.train_flags import SETTINGS
from fctncalling.training.rollouts.choose_rollout import check_rollout
from fctncalling.training.run_config import RunConfig

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
COMMAND = re.compile(  # a command and its words
    r"^(?:\$ )?(?:(?:torchrun|accelerate launch) .* -m )?fctncalling (\S+)( .*|)$"
)


@pytest.fixture(scope="module")
def hook() -> Iterator[Any]:
    sys.path.insert(0, str(DOCS))
    yield import_module("llms_txt")
    sys.path.remove(str(DOCS))


def prose_of(page: Path) -> str:
    """Return a page without its code blocks."""
    return FENCE.sub("", page.read_text("utf-8"))


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as the builder makes them."""
    plain = (re.sub(r"[`*]", "", title) for title in HEADING.findall(prose_of(page)))
    words = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in plain)
    return {re.sub(r"[-\s]+", "-", title) for title in words}


def test_what_readers_search_for_is_on_its_page() -> None:
    pages = {page: (DOCS / f"{page}.md").read_text("utf-8").lower() for page in SEARCHES.values()}
    assert [words for words, page in SEARCHES.items() if words.lower() not in pages[page]] == []


def test_the_navigation_has_every_page(hook: Any) -> None:
    listed = [page for _, page in hook.pages_of(CONFIG["nav"])]
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_former_addresses_lead_to_pages_and_are_none(hook: Any, tmp_path: Path) -> None:
    moved: dict[str, str] = CONFIG["extra"]["moved"]
    assert {page for page in moved.values() if not (DOCS / f"{page}.md").is_file()} == set()
    assert {page for page in moved if (DOCS / f"{page}.md").exists()} == set()
    assert {"start", "training", "pretrained", "algorithms/tppo", "results"} <= moved.keys()
    (tmp_path / "evidence").mkdir()
    hook.on_post_build({**CONFIG, "docs_dir": DOCS, "site_dir": tmp_path})
    assert 'href="../algorithms.html"' in (tmp_path / "algorithms/tppo.html").read_text("utf-8")
    assert 'href="evidence/results.html"' in (tmp_path / "results.html").read_text("utf-8")


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_every_link_inside_the_site_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(prose_of(page)):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.is_file(), f"{target}: no such file"
        if anchor:
            assert anchor in anchors_of(file), f"{target}: {sorted(anchors_of(file))}"


def test_a_cell_has_its_column_s_head_for_narrow_pages(hook: Any) -> None:
    heads = "<tr><th>flag</th><th style='x'>an <code>N</code></th></tr>"
    rows = "<tr><td>a</td><td style='x'>b</td></tr><tr><td>c</td><td>d</td></tr>"
    page = hook.on_page_content(f"<td>x<table>{heads}{rows}</table>")
    assert re.findall(r'data-head="(.*?)"[^>]*>(\w)', page) == [
        *(("flag", "a"), ("an N", "b"), ("flag", "c"), ("an N", "d"))
    ]
    assert "SUPPRESS" not in "".join(each.read_text("utf-8") for each in PAGES)


def test_a_broken_link_would_be_seen() -> None:
    assert "teams-of-agents" in anchors_of(DOCS / "environment.md")
    assert "teams-of-players" not in anchors_of(DOCS / "environment.md")
    assert LINK.findall("![a](b.png) and [c](d.md#e)") == ["b.png", "d.md#e"]


@pytest.mark.usefixtures("hook")
def test_the_generated_pages_are_those_of_today() -> None:
    pages = import_module("generated_pages").PAGES
    assert {*pages, "categories.md"} == GENERATED
    for page, make in pages.items():
        told = "run `python docs/generated_pages.py`"
        assert make() == (DOCS / page).read_text("utf-8"), told


@pytest.mark.usefixtures("hook")
def test_the_reference_has_every_public_name_and_its_lists_stay_lists() -> None:
    entries = {name: text for _, name, text in import_module("generated_pages").reference_entries()}
    kept = {"__version__", "embedded_path", "TaskError", "TrainConfig"}  # said on other pages
    assert set(fctncalling.__all__) - kept <= set(entries)
    assert {"FunctionCallingEnv.step", "Trainer.run", "PythonExecutor.map"} <= set(entries)
    for name, text in entries.items():
        for paragraph in text.split("\n\n"):
            starts_as_list = paragraph.lstrip().startswith("- ")
            assert starts_as_list or "\n- " not in paragraph, f"{name}: {paragraph[:60]}"
        assert " at 0x" not in text, f"{name}: another address each time"


@pytest.mark.usefixtures("hook")
def test_the_page_of_the_settings_has_every_flag_and_its_default() -> None:
    tables = import_module("generated_pages")
    page = (DOCS / "settings.md").read_text("utf-8")
    page = page.split("\n## Names in other libraries\n")[0]
    rows = dict(re.findall(r"^\| `(?:--)?(\w+)`.*? \| `(.*?)` \| .", page, re.MULTILINE))
    settings = {**vars(TrainConfig()), **vars(RunConfig())}
    assert rows == {name: tables.shown(SETTINGS[name].default) for name in settings}
    flags = {action.dest for action in build_parser()._actions} & set(settings)
    assert flags == set(re.findall(r"^\| `--(\w+)`", page, re.MULTILINE)), "of --help-all"
    assert {name: each.default for name, each in SETTINGS.items()} == settings
    assert (rows["lr"], rows["algorithm_name"], rows["plan"]) == ("8e-05", "TPPO", "off")
    assert "\n| `8B-lora` | `--episodes_per_update 128 " in page


def command_lines(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a page's code blocks, each with its words, broken lines joined."""
    found = []
    for language, block in FENCE.findall(text):
        if language in ("", "bash", "sh", "console"):
            for line in block.replace("\\\n", " ").splitlines():
                if match := COMMAND.match(line.split("  #")[0].rstrip()):
                    words = shlex.split(match[2].split(" | ")[0].split(" > ")[0])
                    found.append((match[1], words))
    return found


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser of `train` or of a subcommand."""
    if command == "train":
        return build_parser()
    parser = argparse.ArgumentParser()
    import_module(subcommands()[command]).add_arguments(parser)
    return parser


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_has_an_example_and_its_commands_have_flags_that_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    commands = command_lines(text)
    for name, words in commands:
        if name == "train" and not words:
            continue
        parser_of(name).parse_args(words)  # exits where a flag is unknown
    others = any(block.startswith(("make ", "python ")) for _, block in FENCE.findall(text))
    assert commands or "```python\n" in text or others, "a page without an example"


def test_a_flag_that_does_not_exist_would_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    [(name, words)] = command_lines("```\n$ fctncalling lint --no_such_flag 3\n```\n")
    with pytest.raises(SystemExit):
        parser_of(name).parse_args(words)
    assert "--no_such_flag" in capsys.readouterr().err


def checked_notes(words: list[str]) -> list[str]:
    """Pass a `train` command line through the checks before a start; return its notes.

    SettingError where it could not start.
    """
    line = parse_command_line(words)
    config, run_config = line.configs()
    check_rollout(config, run_config)
    return idle_flag_notes(config, run_config, line.given)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_every_train_command_could_start_and_has_no_flag_that_does_nothing(page: Path) -> None:
    for name, words in command_lines(page.read_text("utf-8")):
        if name == "train" and "--config" not in words and "--help-all" not in words:
            assert checked_notes(words) == [], words


def test_a_train_command_that_cannot_start_would_be_seen() -> None:
    ray = ["--num_rollout_workers", "2", "--max_staleness", "1"]
    with pytest.raises(SettingError, match="--dynamic_sampling: got 2, expected 1"):
        checked_notes(ray)
    [note] = checked_notes(["--env_name", "CartPole-v1", "--dataset_path", "mine.json"])
    assert note.startswith("--dataset_path: no effect without")


def test_nothing_of_the_site_comes_from_elsewhere() -> None:
    assert CONFIG["theme"]["font"] is False
    assert "extra_javascript" not in CONFIG
    assert all((DOCS / script).is_file() for script in CONFIG["extra"]["polyfills"])
    assert "http" not in (DOCS / "site.css").read_text("utf-8")
    for page in PAGES:
        assert not re.search(r"<(?:script|link|iframe|img)\b", prose_of(page)), page
        assert not re.findall(r"!\[[^\]]*\]\(http", prose_of(page)), page
