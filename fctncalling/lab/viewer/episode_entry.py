"""Entry of an episode on the page: messages, calls, results and outcome."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import Any

from fctncalling.checkers.multi_turn import state_differences, turn_fault
from fctncalling.data.types import Task
from fctncalling.envs.handlers import split_thought
from fctncalling.envs.judging.judge import ExtraTools, iter_ground_truth, replay_turns
from fctncalling.envs.tools.tool_state import snapshot
from fctncalling.lab.viewer.run_files import LoadedRun, Record

_PLACE = re.compile(r"(?:step \d+ \()?turn (\d+)\)?:")  # that a verdict's message begins with
_STEP_FIELDS = tuple("turn text calls executed results error reward messages role credit".split())


def episode_entry(record: Record, run: LoadedRun) -> Record:
    """Return the entry of a line of `run`'s output or of a run's episodes."""
    task = str(record.get("task_id", record.get("id", f"line {record['line']}")))
    verdict = record.get("verdict")
    verdict = verdict if isinstance(verdict, dict) else {}
    per_turn: list[bool] = list(verdict.get("per_turn") or ())
    known = record.get("success", record.get("valid", False))
    success = None if known is None else bool(known)  # None: nobody judged it
    error_type = record.get("error_type") or verdict.get("error_type")
    if error_type is None and record.get("cut"):
        error_type = "cut"
    file = Path(str(record.get("dataset_path") or "")).name  # others may have tasks of this id
    earned = record.get("return", record.get("progress", float(bool(success))))
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
        "message": _count_from_one(str(verdict.get("message", ""))),
        "per_turn": per_turn,
        "first_failing_turn": per_turn.index(False) if False in per_turn else None,
        "group": f"{file} {task} seed {record.get('seed')}".lstrip(),
        "seed": record.get("seed"),
        "opening": record.get("messages") or [],
        "questions": [],
        "steps": [_step(step) for step in record.get("steps") or ()],
        "truth": record.get("ground_truth"),
        "environment": [],
        "environment_note": "",
    }


def _strict_fields(record: Record, success: bool | None) -> Record:
    """Return the strict verdict, the rule that it broke and the turn that its message names."""
    strict = record.get("strict_success", record.get("strict_valid"))
    forgiven = strict is False and bool(success)
    message = str(record.get("strict_message") or "") if forgiven else ""
    turn = _PLACE.match(message)
    return {
        "strict": strict,
        "strict_error_type": record.get("strict_error_type") if forgiven else None,
        "strict_message": _count_from_one(message),
        "strict_turn": int(turn[1]) if turn else None,
    }


def _count_from_one(message: str) -> str:
    """Return a verdict's message with its turn and step counted as the page counts them."""
    place = _PLACE.match(message)
    if place is None:
        return message
    return re.sub(r"\d+", lambda number: str(int(number[0]) + 1), place[0]) + message[place.end() :]


def group_member_entry(entry: Record) -> Record:
    """Return an episode's fields for a group's tree and the comparison over updates."""
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
    if thought := step.get("reasoning_content") or split_thought(found["text"]).thought:
        found["thought"] = thought
    return found


_SHOWN = 400  # characters of a value


def state_differences_by_turn(
    task: Task | None, steps: Sequence[Mapping[str, Any]], extra_tools: ExtraTools | None = None
) -> tuple[list[Record], str]:
    """Return each turn's changes of the tools' state, against the truth; or a reason for none.

    The logged calls are executed again, and so are the truth's.
    """
    if task is None:
        return [], "the task was not found: name its file or folder by --dataset_path"
    if not task.is_multi_turn or task.ground_truth is None:
        return [], ""
    calls: list[list[str]] = [[] for _ in task.ground_truth]
    for step in steps:
        if (step.get("turn") or 0) < len(calls):
            calls[step.get("turn") or 0] += [str(call) for call in step.get("executed") or ()]
    try:
        return _turns(task, calls, extra_tools), ""
    except Exception as error:  # whatever a damaged task or a user's tool raises
        return [], f"the calls could not be executed again ({type(error).__name__}: {error})"


def _turns(task: Task, calls: list[list[str]], extra_tools: ExtraTools | None) -> list[Record]:
    found: list[Record] = []
    seen: dict[str, int] = {}
    played = replay_turns(task, [[], *calls], extra_tools, "model")
    before = _public(next(played).states)  # as the task begins
    truth = iter_ground_truth(task, extra_tools)
    for turn, expected in zip(played, truth, strict=False):
        for text in turn.results:
            seen[text] = seen.get(text, 0) + 1
        fault = turn_fault(turn, expected, seen)
        now = _public(turn.states)
        different = state_differences(turn.states, expected.states)
        changed = state_differences(now, before) + [
            f"{name}.{attribute}"
            for name, attributes in now.items()
            for attribute in attributes
            if attribute not in before.get(name, {})
        ]
        found.append(
            {
                "turn": len(found),
                "fault": None if fault is None else list(fault),
                "truth": [str(call) for call in (task.ground_truth or ())[len(found)]],
                "truth_results": [_short(result) for result in expected.results],
                "changed": [_values(name, before, now, "before", "after") for name in changed],
                "different": [
                    _values(name, now, expected.states, "found", "expected") for name in different
                ],
            }
        )
        before = now
    return found


def _public(states: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return a private copy of the public states."""
    return {
        name: {key: snapshot(value, {}) for key, value in attributes.items() if key[:1] != "_"}
        for name, attributes in states.items()
    }


def _values(
    name: str,
    first: Mapping[str, Mapping[str, Any]],
    second: Mapping[str, Mapping[str, Any]],
    first_label: str,
    second_label: str,
) -> Record:
    class_name, _, attribute = name.partition(".")
    values = [_text(states.get(class_name, {}).get(attribute)) for states in (first, second)]
    equal = sum(takewhile(bool, map(eq, *values)))
    start = equal - 60 if equal > 120 else 0  # what can be left out in front
    cut = [_short(f"…{value[start:]}" if start else value) for value in values]
    return {"name": name, first_label: cut[0], second_label: cut[1]}


def _text(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "nested too deep"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
