"""The scripts in examples/ run as their readers run them."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> Callable[[list[str]], None]:
    """Return what a script runs."""
    main: Callable[[list[str]], None] = runpy.run_path(str(EXAMPLES / name))["main"]
    return main


def test_the_page_on_text_environments_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example("text_environment.py")(["--html", str(tmp_path / "episode.html")])
    told = capsys.readouterr().out
    assert told.startswith("0.5 2\n")
    assert "What is 8 - 5?" in told
    assert told.count("<request><calculator>") >= 2  # the model does what the page is about
    assert "Result=" in told
    assert "env/reward_mean" in told
    assert "<html" in (tmp_path / "episode.html").read_text(encoding="utf-8")


@pytest.mark.prove
@pytest.mark.skipif(sys.platform == "win32", reason="there is no executor on Windows")
@pytest.mark.parametrize("part", ["calculator", "wiki", "python"])
def test_the_page_on_learning_tools_runs(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    if part == "wiki":
        pytest.importorskip("rank_bm25")
    example("learning_tools.py")(["--part", part])
    told = capsys.readouterr().out
    rewards = [float(reward) for reward in re.findall(r"reward (\d\.\d\d)", told)]
    if part == "wiki":
        assert rewards == [1.0]
    else:
        assert len(rewards) == 8
        assert rewards[-1] > rewards[0] + 0.1
