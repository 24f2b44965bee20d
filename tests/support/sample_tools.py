"""Tools of all kinds, good and bad. Kept apart and light: a tool's process imports this module."""

from __future__ import annotations

import os
import time
from typing import Any, Literal

from fctncalling.data.types import StepRecord, Verdict


def weather(
    city: str, days: int = 1, unit: Literal["C", "F"] = "C", tags: list[str] | None = None
) -> dict[str, Any]:
    """Return the weather of a city.

    It is always fine.

    Args:
        city: Where,
            in words.
        days (int): How many days.
    """
    return {"city": city, "days": days, "unit": unit}


def shout(query):  # type: ignore[no-untyped-def]
    """Return the text in capitals."""
    return query.upper()


def hang(seconds: float) -> str:
    time.sleep(seconds)
    return "woke"


def spin() -> str:
    while True:
        pass


def fail(text: str) -> str:
    raise ValueError(text)


def leave(code: int) -> str:
    raise SystemExit(code)


def die() -> str:
    os._exit(3)


def flood(megabytes: int) -> str:
    print("x" * (megabytes << 20))
    return "y" * (megabytes << 20)


def process_id() -> int:
    return os.getpid()


class SmolTool:
    """Has the form of a smolagents Tool."""

    name = "add"
    description = "Adds."
    inputs = {  # noqa: RUF012
        "a": {"type": "integer", "description": "one"},
        "b": {"type": "number", "description": "other", "nullable": True},
    }
    output_type = "number"

    def __call__(self, a: int, b: float = 1) -> float:
        return a + b


def reward_of_length(step: StepRecord, verdict: Verdict | None) -> float:
    """Return a reward that differs between texts, whatever they say."""
    return len(step.text) / 100
