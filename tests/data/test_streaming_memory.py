"""Long task files stream: peak memory does not grow with their length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SHORT, LONG = 20_000, 200_000  # lines
MAX_GROWTH_MB = 6  # 33 bytes a line: a task or a verdict that was kept would take more
CHILD = """
import re, sys
from pathlib import Path
from evaluate_fctncalling import main
from fctncalling.data.bfcl import iter_tasks
reads = sys.argv[1] == "iter_tasks"
came_to = sum(1 for _ in iter_tasks(sys.argv[2])) if reads else main(sys.argv[1:])
peak_kb = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
sys.exit(f"{came_to} {peak_kb}")
"""


def write_lines(folder: Path, count: int) -> None:
    """Write `count` tasks, their answers, a result tree and lines of answers, every third one
    wrong.
    """
    told = {"type": "integer", "description": "One of the two numbers that are to be added."}
    parameters = {"first": told, "second": told}
    schema = {"type": "dict", "properties": parameters, "required": list(parameters)}
    doc = {
        "name": "add",
        "description": "Add two numbers and return their sum.",
        "parameters": schema,
    }
    model = folder / "result" / "m" / "non_live"
    for each in (folder / "possible_answer", model):
        each.mkdir(parents=True)
    name = "BFCL_v4_simple_python"
    with (
        (folder / f"{name}.json").open("w") as tasks,
        (folder / "possible_answer" / f"{name}.json").open("w") as truths,
        (model / f"{name}_result.json").open("w") as results,
        (folder / "answers.jsonl").open("w") as answers,
    ):
        for number in range(count):
            key = {"id": f"simple_python_{number}"}
            text = f"[add(first={number}, second={number % 3})]"
            question = [
                [
                    {
                        "role": "user",
                        "content": f"Please add the numbers {number} and 1, and tell me the sum.",
                    }
                ]
            ]
            tasks.write(json.dumps({**key, "question": question, "function": [doc]}) + "\n")
            truths.write(
                json.dumps(
                    {**key, "ground_truth": [{"add": {"first": [number], "second": [0, 1]}}]}
                )
                + "\n"
            )
            results.write(json.dumps({**key, "result": text, "latency": 1.5}) + "\n")
            record = {"category": "simple_python", "form": "prompting", **key, "response": text}
            answers.write(json.dumps(record) + "\n")


def peak_mb(*arguments: str) -> tuple[int, float]:
    """Return what a command came to, and the peak memory of its process."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=False
    )
    code, peak_kb = child.stderr.split()[-2:]
    return int(code), int(peak_kb) / 1024


def commands(folder: Path) -> dict[str, tuple[str, ...]]:
    data = ("--data_dir", str(folder))
    return {
        "iter_tasks": ("iter_tasks", str(folder / "BFCL_v4_simple_python.json")),
        "score": (
            "score",
            "--input",
            str(folder / "result"),
            "--score_dir",
            str(folder / "score"),
            *data,
        ),
        "score of lines": ("score", "--input", str(folder / "answers.jsonl"), *data),
        "verdicts": (
            "verdicts",
            "--input",
            str(folder / "answers.jsonl"),
            "--output",
            str(folder / "out.jsonl"),
            *data,
        ),
    }


@pytest.mark.prove
@pytest.mark.parametrize("command", ["iter_tasks", "score", "score of lines", "verdicts"])
def test_memory_does_not_grow_with_the_length_of_a_task_file(
    folders: tuple[Path, Path], command: str
) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc")
    short, long = (peak_mb(*commands(folder)[command]) for folder in folders)
    assert (short[0], long[0]) == ((SHORT, LONG) if command == "iter_tasks" else (0, 0))
    print(f"{command}: {short[1]:.1f} MB at {SHORT} lines, {long[1]:.1f} MB at {LONG}")
    assert long[1] - short[1] <= MAX_GROWTH_MB


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    made = []
    for count in (SHORT, LONG):
        made.append(tmp_path_factory.mktemp(f"lines_{count}"))
        write_lines(made[-1], count)
    return made[0], made[1]
