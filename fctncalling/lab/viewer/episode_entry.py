"""Entry of an episode on the page: what was said, called, answered, and what came of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from fctncalling.lab.viewer.run_files import LoadedRun, Record

_STEP_FIELDS = tuple("turn text calls executed results error reward messages role credit".split())


def episode_entry(record: Record, run: LoadedRun) -> Record:
    """Return the entry of a line of `run`'s output or of a run's episodes."""
    task = str(record.get("task_id", record.get("id", f"line {record['line']}")))
    verdict = record.get("verdict")
    verdict = verdict if isinstance(verdict, dict) else {}
    per_turn: list[bool] = list(verdict.get("per_turn") or ())
    success = bool(record.get("success", record.get("valid", False)))
    error_type = record.get("error_type") or verdict.get("error_type")
    if error_type is None and record.get("cut"):
        error_type = "cut"
    earned = record.get("return", record.get("progress", float(success)))
    return {
        "id": f"{run.episodes_file.name.split('.')[0]}:{record['line']}",
        "line": record["line"],
        "task": task,
        "category": str(record.get("category", "")),
        "model": record.get("model"),
        "success": success,
        **_strict_fields(record, success),
        "return": earned if isinstance(earned, int | float) else None,
        "terminated": bool(record.get("terminated")),
        "truncated": bool(record.get("truncated")),
        "invalid": bool(record.get("invalid")),
        "reason": record.get("invalid_reason") or record.get("not_learned_from"),
        "learned": None,
        "num_cut": record.get("num_actions_truncated", 0),
        "error_type": error_type,
        "message": str(verdict.get("message", "")),
        "per_turn": per_turn,
        "first_failing_turn": per_turn.index(False) if False in per_turn else None,
        "group": f"{task} seed {record.get('seed')}",
        "seed": record.get("seed"),
        "opening": record.get("messages") or [],
        "questions": [],
        "steps": [_step(step) for step in record.get("steps") or ()],
        "truth": record.get("ground_truth"),
        "environment": [],
        "environment_note": "",
    }


def _strict_fields(record: Record, success: bool) -> Record:
    """Return the strict verdict, the rule that it broke and the turn that its message names."""
    strict = record.get("strict_success", record.get("strict_valid"))
    forgiven = strict is False and success
    message = str(record.get("strict_message") or "") if forgiven else ""
    turn = re.match(r"(?:step \d+ \()?turn (\d+)", message)
    return {
        "strict": strict,
        "strict_error_type": record.get("strict_error_type") if forgiven else None,
        "strict_message": message,
        "strict_turn": int(turn[1]) if turn else None,
    }


def text_history_entry(record: Record) -> Record:
    """Return the entry of a TextHistory: its first segment is the query."""
    steps: list[Record] = []
    opening: list[Record] = []
    for span, system in zip(record["text_spans"], record.get("system_spans") or (), strict=False):
        text = str(record.get("text", ""))[span[0] : span[1]]
        if not system:
            steps.append({"turn": 0, "text": text, "results": [], "calls": [], "executed": []})
        elif steps:
            steps[-1]["results"].append(text)
        else:
            opening.append({"role": "user", "content": text})
    reward = record.get("reward")
    earned = float(reward) if isinstance(reward, int | float) else None
    if steps:
        steps[-1]["reward"] = earned
    invalid = bool(record.get("invalid"))
    blank = episode_entry({"line": record["line"]}, LoadedRun.of_histories())
    return {
        **blank,
        "task": (opening[0]["content"] if opening else "")[:60],
        "category": "text history",
        "success": earned is not None and earned > 0,
        "return": earned if earned is not None and math.isfinite(earned) else None,
        "terminated": bool(record.get("completed")) and not record.get("truncated"),
        "truncated": bool(record.get("truncated")),
        "invalid": invalid,
        "reason": "infrastructure failed" if invalid else None,
        "group": str(record.get("text", ""))[: (record["text_spans"] or [[0, 0]])[0][1]],
        "opening": opening,
        "steps": steps,
    }


def group_member_entry(entry: Record) -> Record:
    """Return what a group's tree and the comparison over updates need of an episode."""
    names = ("id", "line", "task", "group", "success", "strict", "return", "invalid")
    return {
        **{name: entry[name] for name in names},
        "error_type": entry["error_type"] or entry["strict_error_type"],
        "reason": entry["reason"],
        "learned": entry["learned"],
        "category": entry["category"],
        "texts": [step["text"] for step in entry["steps"]],
    }


def _step(step: Mapping[str, Any]) -> Record:
    found = {name: step[name] for name in _STEP_FIELDS if name in step}
    found["text"] = str(step.get("text", ""))
    return found
