"""Commands that pages show with their output run one after another and print it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fctncalling.cli.command import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / f"docs/{name}.md" for name in ("score", "own_tasks")]


def shown() -> list[tuple[str, list[str]]]:
    """Return each command of the pages with the lines it is shown to print."""
    text = "".join(page.read_text("utf-8") for page in PAGES)
    commands: list[tuple[str, list[str]]] = []
    for line in "".join(re.findall(r"^```\n(\$ .*?)^```$", text, re.M | re.DOTALL)).splitlines():
        if line.startswith("$ fctncalling "):
            commands.append((line.removeprefix("$ fctncalling "), []))
        else:
            commands[-1][1].append(" ".join(line.split()))
    return commands


@pytest.mark.prove
def test_the_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/embedded").symlink_to(ROOT / "data/embedded")
    assert len(shown()) == 6
    for command, lines in shown():
        assert main(shlex.split(command)) == 0, (command, capsys.readouterr().err)
        printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        for line in lines:
            assert any(each.startswith(line) for each in printed), (command, line)
