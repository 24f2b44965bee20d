"""Random stream of one tool: its ids, dates and readings."""

from __future__ import annotations

import random
from typing import Any


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
