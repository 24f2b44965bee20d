"""State of simulated tools: fast deep copies, and a random stream for each tool."""

from __future__ import annotations

import copy
import random
from typing import Any

_ATOMIC = frozenset({str, int, float, bool, type(None), complex, bytes, type(...)})


def snapshot(value: Any, memo: dict[int, Any]) -> Any:
    """Deep-copy a value, keeping shared and cyclic parts.

    Parts are shared, or cyclic, within one `memo`.

    A memo knows objects by their identity, so what it has seen must live as long as it does. As
    with `copy.deepcopy`, immutable atoms are themselves: a NaN inside a container stays equal to
    its copy.
    """
    kind = type(value)
    if kind in _ATOMIC:
        return value
    if (
        kind is not dict
        and kind is not list
        and (kind is not set or not _ATOMIC.issuperset(map(type, value)))
    ):
        return copy.deepcopy(value, memo)
    copied = memo.get(id(value))
    if copied is not None:
        return copied
    if kind is set:
        return memo.setdefault(id(value), value.copy())
    if kind is list:
        twins: list[Any] = []
        memo[id(value)] = twins
        twins.extend(item if type(item) in _ATOMIC else snapshot(item, memo) for item in value)
        return twins
    twin: dict[Any, Any] = {}
    memo[id(value)] = twin
    for key, item in value.items():
        twin[key if type(key) in _ATOMIC else snapshot(key, memo)] = (
            item if type(item) in _ATOMIC else snapshot(item, memo)
        )
    return twin


class RandomStream:
    """Random stream of one tool: CPython's Mersenne Twister.

    No tool or episode shifts another's numbers.

    Seeding it takes longer than loading the rest of a tool, and most episodes draw nothing: it is
    seeded when it is first asked. An environment copies its tools at every turn, and the generic
    deep copy walks all 625 words of the state; this one hands them over whole, which takes a tenth
    of the time.
    """

    def __init__(self, seed: Any) -> None:
        self._seed = seed
        # What is not known to be a seed is tried at once; None is the clock's, which goes on.
        self._random = None if type(seed) in (int, float, str) else random.Random(seed)

    def randint(self, least: int, most: int) -> int:
        """Return a random integer between two bounds, both included."""
        return self._stream().randint(least, most)

    def uniform(self, least: float, most: float) -> float:
        """Return a random float between two bounds."""
        return self._stream().uniform(least, most)

    def _stream(self) -> random.Random:
        if self._random is None:
            self._random = random.Random(self._seed)
        return self._random

    def __deepcopy__(self, memo: dict[int, Any]) -> RandomStream:
        twin = memo[id(self)] = RandomStream(0)
        twin._seed = self._seed
        if self._random is not None:
            twin._random = random.Random(0)
            twin._random.setstate(self._random.getstate())
        return twin
