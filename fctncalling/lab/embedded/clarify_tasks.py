"""Clarify tasks: one request; half of the requests lack a value or give two.

The user (`fctncalling.envs.users`) tells the value when it is asked for. Run as `python -m
fctncalling.lab.embedded.clarify_tasks` it writes the committed files again, byte for byte.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from fctncalling.lab.embedded.make_tasks import write_splits
from fctncalling.lab.embedded.single_turn_tasks import (
    draw_request,
    ground_truth_of_call,
    single_turn_entry,
)
from fctncalling.lab.embedded.vocabulary import (
    Entry,
    RejectedDraw,
    VocabularyDraw,
    distinct_entries,
    wording,
)

SPLITS = {"clarify_train": (800, 0), "clarify_held_out": (200, 90000)}  # tasks, first number
SHARES = {  # in a hundred tasks; held out, neither asking always nor never solves more than 52
    "clarify_train": {"clarify_complete": 50, "clarify_missing": 30, "clarify_ambiguous": 20},
    "clarify_held_out": {"clarify_complete": 48, "clarify_missing": 32, "clarify_ambiguous": 20},
}
OR = " or "


def clarify_entries(split: str, num_tasks: int, *, seed: int = 0, first_id: int = 0) -> list[Entry]:
    """Return distinct entries of a split ("clarify_train" or "clarify_held_out"), with truth.

    No call of one split stands in the other.
    """
    draw = VocabularyDraw(random.Random(f"{split} {seed}"), held_out=split.endswith("held_out"))
    entries, seen = list[Entry](), set[str]()
    for category, share in SHARES[split].items():
        draw_entry, count = partial(clarify_entry, draw, category), num_tasks * share // 100
        entries += distinct_entries(draw_entry, count, category, first_id=first_id, seen=seen)
    return entries


def clarify_entry(draw: VocabularyDraw, category: str) -> Entry:
    """Draw an entry without id; its request leaves at most one value open."""
    name = draw.rng.choice(sorted(wording()["functions"]))
    text, call = draw_request(draw, name, opens=True)
    missing: list[str] = []
    if category != "clarify_complete":
        missing = [draw.rng.choice(sorted(call[1]))]
        phrase = _ambiguous if category == "clarify_ambiguous" else _incomplete
        text = phrase(draw, name, call[1], missing[0])
    return {
        **single_turn_entry(text, [name]),
        "ground_truth": [ground_truth_of_call(call)],
        "user_knows": call[1],
        "missing_parameters": missing,
    }


def _incomplete(draw: VocabularyDraw, name: str, values: Mapping[str, Any], missing: str) -> str:
    """Return a request that omits a value."""
    return draw.phrase(_incomplete_phrases()[name][missing], values)


def _ambiguous(draw: VocabularyDraw, name: str, values: Mapping[str, Any], missing: str) -> str:
    """Return a request that gives two values where one is needed."""
    function = wording()["functions"][name]
    kind = function["parameters"][missing][1]
    alternative = draw.word(kind)
    if alternative == values[missing]:
        raise RejectedDraw(missing)
    both = [str(values[missing]), str(alternative)]
    draw.rng.shuffle(both)
    return draw.phrase(function["phrases"], {**values, missing: OR.join(both)})


@cache
def _incomplete_phrases() -> Mapping[str, Any]:
    path = Path(__file__).parent / "clarify_phrases.json"
    return json.loads(path.read_text())  # type: ignore[no-any-return]


if __name__ == "__main__":
    write_splits(SPLITS, clarify_entries)
