"""Task entries of plans and their user texts: fields as in BFCL's own files, truth inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fctncalling.envs.python_source.parse import PlainCall
from fctncalling.envs.python_source.render import render_call
from fctncalling.lab.forge.plan import Plan, PlannedCall


def task_entry(plan: Plan, texts: Sequence[str], task_id: str) -> dict[str, Any]:
    """Return a plan's entry.

    `texts` has one text a turn; that of a turn in which only a function returns is not read.

    The entry has no function docs: those of `involved_classes` are added by whoever has them.
    """
    entry: dict[str, Any] = {
        "id": task_id,
        "question": [
            [] if turn.role == "function_returns" else [{"role": "user", "content": text}]
            for turn, text in zip(plan.turns, texts, strict=True)
        ],
        "initial_config": dict(plan.initial_config),
        "path": [
            f"{call.class_name}.{call.function}"
            for turn in plan.turns
            for call in turn.calls
            if call.purpose == "asked"
        ],
        "involved_classes": list(plan.involved_classes),
    }
    if plan.excluded_functions:
        entry["excluded_function"] = list(plan.excluded_functions)
    if plan.missed_functions:
        entry["missed_function"] = {
            str(turn): list(names) for turn, names in plan.missed_functions.items()
        }
    entry["ground_truth"] = [[call_text(call) for call in turn.calls] for turn in plan.turns]
    return entry


def call_text(call: PlannedCall) -> str:
    """Return a planned call as a truth writes it."""
    return render_call(call.function, {name: each.value for name, each in call.arguments.items()})


def plain_call(call: PlannedCall) -> PlainCall:
    """Return a planned call as the tools take it, its lists and dicts its own."""
    return PlainCall(
        call.function, (), {key: copy_argument(v.value) for key, v in call.arguments.items()}
    )


def copy_argument(value: Any) -> Any:
    """Return an argument that the tools may keep: lists and dicts are theirs to change."""
    if isinstance(value, list):
        return [copy_argument(each) for each in value]
    return dict(value) if isinstance(value, dict) else value
