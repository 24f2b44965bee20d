"""Official ground truths that are known to be wrong, with the issue that says so."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("disputed_truths.json")


@cache
def disputed_truths() -> dict[str, str]:
    """Return task id -> issue and what is wrong; all are in the data of bfcl-eval 2026.3.23."""
    listed = json.loads(_FILE.read_text("utf-8"))
    return {task: f"{issue}: {fault}" for task, (issue, fault) in listed.items()}


def disputed_line(task_ids: Iterable[str]) -> list[str]:
    """Return a line about the tasks among these that have such a truth, or none."""
    known = disputed_truths()
    found = [f"{each} ({known[each]})" for each in dict.fromkeys(task_ids) if each in known]
    return [f"failed by a truth that is known to be wrong: {'; '.join(found)}"] if found else []
