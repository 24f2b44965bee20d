"""State of simulated tools: deep copies faster than `copy.deepcopy`, and a random stream each."""

from __future__ import annotations

import copy
import random
from typing import Any

_ATOMIC = frozenset({str, int, float, bool, type(None), complex, bytes, type(...)})


def snapshot(value: Any, memo: dict[int, Any]) -> Any:
    """Return a snapshot of a value: a deep copy that keeps shared and cyclic parts.

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
    known = memo.get(id(value))
    if known is not None:
        return known
    if kind is set:
        return memo.setdefault(id(value), value.copy())
    if kind is list:
        twins: list[Any] = []
        memo[id(value)] = twins
        twins.extend(each if type(each) in _ATOMIC else snapshot(each, memo) for each in value)
        return twins
    twin: dict[Any, Any] = {}
    memo[id(value)] = twin
    for key, each in value.items():
        twin[key if type(key) in _ATOMIC else snapshot(key, memo)] = (
            each if type(each) in _ATOMIC else snapshot(each, memo)
        )
    return twin


class RandomStream:
    """Random stream of a tool, of numbers: CPython's Mersenne Twister, one per instance.

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
        """randint: return a random integer between two bounds, both included."""
        return self._stream().randint(least, most)

    def uniform(self, least: float, most: float) -> float:
        """uniform: return a random float between two bounds."""
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
