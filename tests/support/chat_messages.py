"""Chat messages of tests: tasks of every category, and answers as an assistant's messages."""

from __future__ import annotations

import json
from typing import Any

from fctncalling import load_tasks
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.types import Call

TASKS = load_tasks(embedded_path("held_out"))
FIRST = list({task.category: task for task in TASKS}.values())
CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "fc_simple_python",
)
"""Tables of official verdicts; fc_: as tool calls."""


def tool_calls_message(calls: list[Call]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {
                    "name": call.name.replace(".", "_"),
                    "arguments": json.dumps(dict(call.arguments)),
                },
            }
            for number, call in enumerate(calls)
        ],
    }


def recorded_message(response: Any, form: str) -> dict[str, Any]:
    """Return a recorded answer as an assistant's message; one that is no list of calls as text."""
    try:
        calls = json.loads(response) if form == "tool_call" else None
        named = [pair for call in calls for pair in call.items()] if calls else []
    except (ValueError, AttributeError):
        named = []
    if not named:
        return {"role": "assistant", "content": response}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": str(number), "type": "function", "function": {"name": name, "arguments": text}}
            for number, (name, text) in enumerate(named)
        ],
    }
