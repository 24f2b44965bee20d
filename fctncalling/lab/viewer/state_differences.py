"""Environment column: each turn's state against the ground truth's, and the rule that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.checkers.multi_turn import state_differences, turn_fault
from fctncalling.data.types import Task
from fctncalling.envs.judging.ground_truth import ExtraTools, iter_ground_truth, replay_turns
from fctncalling.envs.tools.tool_state import snapshot

Record = dict[str, Any]
_SHOWN = 400  # characters of a value


def state_differences_by_turn(
    task: Task | None, steps: Sequence[Mapping[str, Any]], extra_tools: ExtraTools | None = None
) -> tuple[list[Record], str]:
    """Return what each turn did to the tools' state, against the truth; and why there is nothing.

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
        changed = state_differences(now, before) + _new(now, before)
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


def _new(
    now: Mapping[str, Mapping[str, Any]], before: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    return [
        f"{name}.{attribute}"
        for name, attributes in now.items()
        for attribute in attributes
        if attribute not in before.get(name, {})
    ]


def _values(
    name: str,
    first: Mapping[str, Mapping[str, Any]],
    second: Mapping[str, Mapping[str, Any]],
    first_label: str,
    second_label: str,
) -> Record:
    class_name, _, attribute = name.partition(".")
    values = [_text(states.get(class_name, {}).get(attribute)) for states in (first, second)]
    start = _common_start(*values)
    cut = [_short(f"…{value[start:]}" if start else value) for value in values]
    return {"name": name, first_label: cut[0], second_label: cut[1]}


def _text(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "nested too deep"


def _common_start(first: str, second: str) -> int:
    """Return how much of two long texts can be left out in front, all equal."""
    equal = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        equal += 1
    return equal - 60 if equal > 120 else 0


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
