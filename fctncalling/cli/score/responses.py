"""Stored results as judge() responses."""

from __future__ import annotations

import json
from typing import Any

from fctncalling.cli.score.results import Results
from fctncalling.cli.shared.jsonl_records import Line
from fctncalling.data.types import Task
from fctncalling.envs.handlers import DecodeError, get_handler


def response_of(results: Results, task: Task, line: Line) -> Any:
    """Return the answer of a line in the format of `judge`."""
    answer, kind, is_jsonl = line.record["result"], task.kind, results.origin is not None
    if results.form == "decoded_calls" or (is_jsonl and kind != "multi_turn"):
        return answer
    if kind not in ("multi_turn", "agentic"):
        return json.dumps(answer) if results.form == "tool_call" else answer
    if not isinstance(answer, list):  # in a result file a text stands for a dialogue that failed
        return [] if kind == "agentic" else answer
    if results.form != "tool_call":
        return answer
    as_text = _message if kind == "agentic" else _jsonl_step if is_jsonl else _step
    return [[as_text(step) for step in turn] if isinstance(turn, list) else turn for turn in answer]


def _jsonl_step(step: Any) -> Any:
    return step if isinstance(step, str) else _step(step)  # our own lines hold texts already


def _step(step: Any) -> str:
    """Return a tool-calling model's step as text.

    Its calls as one list of {name: arguments as JSON}, chat as no call.

    Where calls are executed, BFCL takes more than a list of such objects: one object alone, several
    calls in one object, arguments that are an object already.
    """
    calls = [step] if isinstance(step, dict) else step
    if isinstance(calls, list) and all(isinstance(each, dict) for each in calls):
        calls = [{name: _arguments(given)} for each in calls for name, given in each.items()]
    return json.dumps(calls)


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _message(step: Any) -> Any:
    """Return a step of an agentic dialogue, whose last message is the answer.

    Calls as text, all else unchanged.
    """
    if isinstance(step, str):
        # Only what an interface returned as calls is one.
        return json.dumps(step) if _calls_something(step) else step
    text = _step(step)
    return text if _calls_something(text) else step


def _calls_something(text: str) -> bool:
    try:
        return bool(get_handler("tool_calls").decode(text))
    except DecodeError:
        return False
