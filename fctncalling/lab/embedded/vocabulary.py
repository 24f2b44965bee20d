"""Vocabularies and phrases of the embedded tasks, and the choice of held-out combinations."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Entry = dict[str, Any]
HELD_OUT_SHARE = 6  # one combination in this many is reserved for the held-out tasks
MAX_DRAWS = 40


class RejectedDraw(Exception):
    """Signal that no combination of the split was found, so the task is drawn anew."""


@cache
def wording() -> Mapping[str, Any]:
    """Load the wording table, cached; treat it as read-only."""
    return json.loads((Path(__file__).parent / "vocabulary.json").read_text())  # type: ignore[no-any-return]


def render(name: str, arguments: Mapping[str, Any]) -> str:
    """Render a call as BFCL's ground truths write it."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def is_reserved(text: str) -> bool:
    """Whether a text (a call of two or more arguments, a question) is held out.

    A hash decides, not the seed, so that no seed can ever make a training task of a held-out
    combination.
    """
    return zlib.crc32(text.encode()) % HELD_OUT_SHARE == 0


@dataclass
class VocabularyDraw:
    """Seeded source of words that respects the split.

    `held_out` draws reserved combinations only, else none.
    """

    rng: random.Random
    held_out: bool

    def word(self, kind: str) -> Any:
        """Draw a word of a closed vocabulary."""
        return self.rng.choice(wording()["words"][kind])

    def words(self, kind: str, count: int) -> list[Any]:
        """Draw distinct words of a closed vocabulary."""
        return self.rng.sample(wording()["words"][kind], count)

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability

    def allows(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a call may be in this split.

        Calls of fewer than two arguments stand in both.
        """
        return len(arguments) < 2 or is_reserved(render(name, arguments)) == self.held_out

    def call(self, name: str, make: Callable[[], Mapping[str, Any]]) -> tuple[str, dict[str, Any]]:
        """Draw arguments of a call until it belongs to this split: (name, arguments).

        Raises RejectedDraw after MAX_DRAWS failures.
        """
        for _ in range(MAX_DRAWS):
            arguments = dict(make())
            if self.allows(name, arguments):
                return name, arguments
        raise RejectedDraw(name)

    def phrase(self, phrases: list[str], slots: Mapping[str, Any], *, opens: bool = True) -> str:
        """Draw one of the phrases and fill its slots.

        One that opens a message may begin with a greeting.
        """
        text = self.rng.choice(phrases).format(**slots)
        return str(self.rng.choice(wording()["openers"])) + text if opens else text


def distinct_entries(
    draw_entry: Callable[[], Entry | None],
    count: int,
    category: str,
    *,
    first_id: int,
    seen: set[str],
    key: Callable[[Entry], Any] = lambda entry: entry["question"],
) -> Iterator[Entry]:
    """Yield entries with ids of which no two have one `key`, nor one that is in `seen`.

    A draw of None, or one that raises RejectedDraw, is drawn anew.
    """
    made = 0
    while made < count:
        try:
            entry = draw_entry()
        except RejectedDraw:
            continue
        text = json.dumps(entry and key(entry))
        if entry is not None and text not in seen:
            seen.add(text)
            yield {"id": f"{category}_{first_id + made}", **entry}
            made += 1
