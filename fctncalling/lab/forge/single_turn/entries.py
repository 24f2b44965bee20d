"""Entries of the single-turn categories, proven."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.lab.forge.forged_entry import ForgedEntry, NoTaskDrawn, SingleTurnTask, entry_task
from fctncalling.lab.forge.proof import UnprovenTask, proof_fault
from fctncalling.lab.forge.single_turn.code_tasks import LANGUAGES, code_task
from fctncalling.lab.forge.single_turn.irrelevant_tasks import irrelevant_task
from fctncalling.lab.forge.single_turn.live_tasks import LIVE, live_task
from fctncalling.lab.forge.single_turn.python_tasks import python_task

CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    *LIVE,
    *LANGUAGES,
)
"""The single-turn categories that can be forged."""
HARD_POINTS = 20.0  # at which the difficulty is two thirds


def single_turn_entry(category: str, seed: int, index: int, attempt: int = 0) -> ForgedEntry:
    """Return task `index` of a category; another `attempt` gives another task in its place.

    Nothing but these four numbers decides. Raises UnprovenTask.
    """
    forged = _drawn(category, f"{seed} {category} {index} {attempt}")
    system = [{"role": "system", "content": forged.system}] if forged.system else []
    entry: dict[str, Any] = {
        "id": f"{category}_{index}",
        "question": [[*system, {"role": "user", "content": forged.question}]],
        "function": forged.functions,
    }
    if forged.ground_truth is not None:
        entry["ground_truth"] = forged.ground_truth
    fault = proof_fault(entry_task(entry))
    if fault is not None:
        raise UnprovenTask(f"{entry['id']} (seed {seed}, attempt {attempt}): {fault}: {entry}")
    measured = difficulty(forged.functions, forged.ground_truth)
    return ForgedEntry(entry, measured, forged.provenance)


def difficulty(functions: Sequence[Any], truth: Sequence[Mapping[str, Any]] | None) -> float:
    """Return how much has to be right, from 0 (one call, one argument) towards 1.

    Points: an argument said in the question 1, one to leave out a half, an item of a list or a
    member of a dict 1, each call 1, each further function offered a half.
    """
    points = 0.5 * (len(functions) - 1)
    for call in truth or ():
        points += 1.0
        for accepted in call.values():
            points += sum(_points(values) for values in accepted.values())
    return round(1.0 - math.exp(-max(0.0, points - 2.0) / HARD_POINTS), 3)


def _points(values: list[Any]) -> float:
    if values[0] == "":
        return 0.5
    return float(len(values[0])) if isinstance(values[0], list | dict) else 1.0


def _drawn(category: str, key: str) -> SingleTurnTask:
    rng = random.Random(key)
    while True:
        try:
            if category == "irrelevance":
                return irrelevant_task(rng)
            if category in LIVE:
                return live_task(category, rng)
            return code_task(category, rng) if category in LANGUAGES else python_task(category, rng)
        except NoTaskDrawn:
            continue
