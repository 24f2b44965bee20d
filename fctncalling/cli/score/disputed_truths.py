"""Official ground truths that are known to be wrong, with the issue that says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fctncalling.data.types import Task
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.accepted_answers import accepted_answer

_FILE = Path(__file__).with_name("disputed_truths.json")


@cache
def disputed_truths() -> dict[str, str]:
    """Return task id -> issue and what is wrong; all are in the data of bfcl-eval 2026.3.23."""
    listed = json.loads(_FILE.read_text("utf-8"))
    return {task: f"{issue}: {fault}" for task, (issue, fault) in listed.items()}


_SINGLE_TURN = ("simple", "multiple", "parallel")


def truth_fault(task: Task, form: str) -> str:
    """Return the fault of a task's ground truth when judged in an answer form; "" if sound.

    Known by its issue, or seen: the answer written from the truth itself fails.
    """
    if known := disputed_truths().get(task.id):
        return known
    if task.kind not in _SINGLE_TURN:
        return ""
    text = accepted_answer(task, form)
    fails = text is not None and not judge(task, text, form).valid
    return "no answer passes" if fails else ""


def disputed_line(faults: Mapping[str, str]) -> list[str]:
    """Return a line about failed tasks with what is wrong with their truths, or none."""
    found = [f"{task} ({fault})" for task, fault in faults.items()]
    return [f"failed by a truth that is known to be wrong: {'; '.join(found)}"] if found else []
