"""Entries of the single-turn categories, proven."""

from __future__ import annotations

import random
from typing import Any

from fctncalling.lab.forge.forged_entry import (
    ForgedEntry,
    NoTaskDrawn,
    SingleTurnTask,
    difficulty,
    entry_task,
)
from fctncalling.lab.forge.proof import UnprovenTask, proof_fault
from fctncalling.lab.forge.single_turn.tasks import single_turn_task

CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_relevance",
    "simple_java",
    "simple_javascript",
)
"""The single-turn categories that can be forged."""


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


def _drawn(category: str, key: str) -> SingleTurnTask:
    rng = random.Random(key)
    while True:
        try:
            return single_turn_task(category, rng)
        except NoTaskDrawn:
            continue
