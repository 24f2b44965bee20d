"""The commands of the tools page run one after another and print what the page shows."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from fctncalling.cli.command import main

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/toolbox.md"
TOOLS = ("run", "why", "view", "replay", "score", "lint", "canaries", "forge", "doctor")


def shown() -> list[tuple[str, list[str]]]:
    """Return each command of the page with the lines it is shown to print."""
    blocks = PAGE.read_text("utf-8").split("```\n")[1::2]
    commands: list[tuple[str, list[str]]] = []
    for line in "".join(blocks).splitlines():
        if line.startswith("$ fctncalling "):
            commands.append((line.removeprefix("$ fctncalling "), []))
        else:
            commands[-1][1].append(" ".join(line.split()))
    return commands


def test_each_tool_has_a_section_and_a_command() -> None:
    sections = [
        line[3:].split(":")[0] for line in PAGE.read_text("utf-8").splitlines() if line[:3] == "## "
    ]
    assert tuple(sections) == TOOLS
    assert {command.split()[0] for command, _ in shown()} == set(TOOLS)


@pytest.mark.prove
def test_the_commands_print_what_is_shown(
    shared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/embedded").symlink_to(ROOT / "data/embedded")
    (tmp_path / "data/bfcl").symlink_to(shared / "bfcl/data")
    for command, lines in shown():
        assert main(shlex.split(command)) == 0, (command, capsys.readouterr().err)
        printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        for line in lines:
            assert any(each.startswith(line) for each in printed), (command, line)
