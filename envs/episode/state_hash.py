"""Hash of the state before an action: equal where the same actions have the same future.

It takes in the tools' whole state, the turn, the observation that the agent answers, what the
checker will look at (each turn's results, without order, and the state it ended in), and the steps
that are left where the limit is near. The agent's own earlier messages are left out on purpose:
tools are deterministic, so what can still happen does not depend on how the agent came here. A
policy may remember more; what is matched by this hash assumes that it does not matter.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

MAX_DEPTH = 16  # of a state's objects
LAST_STEPS = 2  # with so many or fewer steps left in a turn their number counts


def state_hash(
    tools: str, past: str, results: Iterable[str], turn: int, observation: str, *, steps_left: int
) -> str:
    """Return the hash, 16 hexadecimal digits, the same in every process and on every machine.

    tools: `content_hash` of the tools' state; past: of the turns that ended; results: this turn's.
    """
    left = steps_left if steps_left <= LAST_STEPS else -1
    return _digest([tools, past, sorted(set(results)), turn, observation, left])


def content_hash(value: Any) -> str:
    """Return the hash of an object's whole content, private parts included."""
    return _digest(canonical(value))


def canonical(value: Any, depth: int = 0) -> Any:
    """Return a JSON form of an object's whole content, equal for equal content."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth > MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return sorted([str(key), canonical(each, depth + 1)] for key, each in value.items())
    if isinstance(value, list | tuple):
        return [canonical(each, depth + 1) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(str(canonical(each, depth + 1)) for each in value)
    if isinstance(value, random.Random):
        return hashlib.sha256(repr(value.getstate()).encode()).hexdigest()
    if isinstance(value, np.random.Generator):
        return str(value.bit_generator.state)
    content = getattr(value, "__dict__", None)
    return [type(value).__name__, canonical(content, depth + 1) if content is not None else ""]


def _digest(content: Any) -> str:
    text = json.dumps(content, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
