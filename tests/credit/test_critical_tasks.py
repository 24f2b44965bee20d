"""Claims about the critical tasks: what they hold, that the oracle solves them, and that most of
their mistakes are seen by the final checker alone.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded import critical_tasks
from fctncalling.lab.embedded.critical_tasks import SPLITS
from fctncalling.lab.embedded.make_critical_model import CriticalDemonstrator
from fctncalling.lab.embedded.make_tasks import EMBEDDED, write_entry_splits

Splits = dict[str, list[Task]]


@pytest.fixture(scope="module")
def splits() -> Splits:
    """Return the committed tasks of both splits."""
    return {split: load_tasks(embedded_path(split)) for split in SPLITS}


def test_the_committed_critical_tasks_are_what_the_command_makes(tmp_path: Path) -> None:
    write_entry_splits(SPLITS, critical_tasks.critical_entries, ["--output_dir", str(tmp_path)])
    for split in SPLITS:
        made = (tmp_path / f"{split}.json").read_bytes()
        assert made == (EMBEDDED / f"{split}.json").read_bytes()


def test_the_oracle_solves_every_critical_task_in_six_to_sixteen_actions(splits: Splits) -> None:
    for tasks in splits.values():
        env = FunctionCallingEnv(tasks=tasks, reward="strict")
        oracle = CriticalDemonstrator(tasks)
        for task in tasks:
            rewards, results = played(env, task, oracle)
            assert sum(rewards) == 1.0, task.id
            assert 6 <= len(rewards) <= 16
            assert "error" not in results


def test_slips_are_seen_late(splits: Splits) -> None:
    """Of the episodes that a careless demonstrator fails, most show no error at all before the
    verdict.
    """
    tasks = splits["critical_held_out"]
    env = FunctionCallingEnv(tasks=tasks, reward="strict")
    careless = CriticalDemonstrator(tasks, careful=False)
    betrayed = Counter[bool]()
    for task in tasks:
        rewards, results = played(env, task, careless)
        if not sum(rewards):
            betrayed["error" in results] += 1
    assert 0.4 * len(tasks) < betrayed.total() < 0.9 * len(tasks)
    assert betrayed[False] > 0.6 * betrayed.total()


def test_no_held_out_words_occur_in_training(splits: Splits) -> None:
    seen = {json.dumps(task.question) for task in splits["critical_train"]}
    assert not [t.id for t in splits["critical_held_out"] if json.dumps(t.question) in seen]


def test_the_committed_critical_model_is_the_one_its_hashes_name() -> None:
    folder = embedded_path("critical_model")
    recorded = json.loads((folder / "SHA256.json").read_text())["sha256"]
    files = {path.name: path for path in folder.iterdir() if path.name != "SHA256.json"}
    assert {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()
    } == recorded
    assert sum(path.stat().st_size for path in files.values()) <= 750_000


def played(
    env: FunctionCallingEnv, task: Task, script: CriticalDemonstrator
) -> tuple[list[float], str]:
    """Return the rewards of an episode, and what the tools said."""
    _, info = env.reset(options={"task_id": task.id})
    step, ended, rewards, results = 0, False, list[float](), ""
    while not ended:
        turn = info["turn"]
        _, reward, terminated, truncated, info = env.step(script(task.id, turn, step, info))
        results += "".join(each["content"] for each in info["messages"] if each["role"] == "tool")
        step = step + 1 if info["turn"] == turn else 0
        rewards.append(float(reward))
        ended = terminated or truncated
    return rewards, results
