"""The smallest complete examples of each job, in examples/compare, work."""

from __future__ import annotations

import re
import runpy
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from fctncalling.cli.evaluate import main
from fctncalling.cli.registry import subcommands
from fctncalling.cli.shared.parser import OneLineParser
from fctncalling.cli.train import parse_settings

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "compare"


def lines(file: Path) -> list[str]:
    """Return the lines that are neither blank nor comments."""
    return [line for line in file.read_text().splitlines() if re.match(r"\s*[^\s#]", line)]


def test_the_commands_of_the_scripts_are_those_of_today() -> None:
    scripts = [line for file in EXAMPLES.glob("*.sh") for line in lines(file)]
    commands = [shlex.split(line)[1:] for line in scripts if line.startswith("fctncalling ")]
    assert [words[0] for words in commands].count("train") == 1
    for name, *words in commands:
        if name == "train":
            assert parse_settings(words).allow_task_tools
        else:
            parser = OneLineParser(name)
            import_module(subcommands()[name]).add_arguments(parser)
            parser.parse_args(words)


def test_the_tasks_with_a_tool_are_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    own = ["--dataset_path", str(EXAMPLES / "my_tasks.json"), "--allow_task_tools"]
    assert main(["lint", *own]) == 0
    played = tmp_path / "played.jsonl"
    assert main(["run", "--agent", "oracle", *own, "--output", str(played)]) == 0
    assert '"valid": true' in played.read_text()


@pytest.mark.prove
def test_the_function_is_offered_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)  # its process imports the module
    env = import_module("python_tool").env
    _, info = env.reset(options={"task_id": "multi_turn_base_0"})
    assert "multiply" in {tool["function"]["name"] for tool in info["tools"]}
    assert env.step("[multiply(a=6, b=7)]")[-1]["messages"][0]["content"] == "42"
    env.close()


def test_the_environment_answers_until_the_number_is_found() -> None:
    env = runpy.run_path(str(EXAMPLES / "own_environment.py"))["Guess"]()
    env.reset(seed=3)
    low, high = 1, 9
    for _ in range(4):
        guess = (low + high) // 2
        hint, reward, terminated, _, _ = env.step(str(guess))
        if terminated:
            break
        low, high = (guess + 1, high) if hint == "higher" else (low, guess - 1)
    assert (guess, reward) == (env.number, 1.0)
    env.reset(seed=3)
    assert [env.step("no number")[2] for _ in range(4)] == [False, False, False, True]
