"""The scripts in examples/ run as their readers run them."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fctncalling import embedded_path

EXAMPLES = Path(__file__).parents[1] / "examples"
MODEL = ("--model", str(embedded_path("calculator")))


def example(name: str) -> Callable[[list[str]], None]:
    """Return what a script runs."""
    main: Any = runpy.run_path(str(EXAMPLES / name))["main"]
    return lambda arguments: main([*arguments, *MODEL])


def test_the_page_on_text_environments_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example("text_environment.py")(["--html", str(tmp_path / "episode.html")])
    told = capsys.readouterr().out
    assert told.startswith("0.5 2\n")
    assert "What is 1/2?" in told
    assert "env/reward_mean" in told
    assert "<html" in (tmp_path / "episode.html").read_text(encoding="utf-8")


@pytest.mark.prove
@pytest.mark.skipif(sys.platform == "win32", reason="there is no executor on Windows")
@pytest.mark.parametrize("part", ["calculator", "wiki", "python"])
def test_the_page_on_learning_tools_runs(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    if part == "wiki":
        pytest.importorskip("rank_bm25")
    example("learning_tools.py")(["--part", part, "--steps", "2", "--batch_size", "2"])
    told = capsys.readouterr().out
    assert told.startswith("step 0: reward ")
    assert "step 1: reward " in told
