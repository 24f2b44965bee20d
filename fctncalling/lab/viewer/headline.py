"""Headline of a page: one sentence on the results of its episodes."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeGuard

from fctncalling.lab.viewer.run_files import LoadedRun, Record, is_number

MAX_ERRORS = 200
"""Error types of a category that are counted apart."""
ARROW = " \N{RIGHTWARDS ARROW} "
_COUNTS = ("episodes", "invalid", "judged", "success", "judged_strictly", "strict", "return")
_GREEDY = "eval/greedy_success_rate"
Tally = dict[str, Record]
"""Category -> how many episodes, and what came of them."""


def count_outcome(tally: Tally, entry: Record) -> None:
    """Add an episode to the counts of its category; rates are those of valid episodes."""
    count = tally.setdefault(entry["category"], {**dict.fromkeys(_COUNTS, 0), "errors": {}})
    count["episodes"] += 1
    if entry["invalid"]:
        count["invalid"] += 1
        return
    count["judged"] += entry["success"] is not None
    count["success"] += entry["success"] is True
    count["return"] += entry["return"] or 0
    count["judged_strictly"] += entry["strict"] is not None
    count["strict"] += entry["strict"] is True
    if error := entry["error_type"] or entry["strict_error_type"]:
        known = error if error in count["errors"] or len(count["errors"]) < MAX_ERRORS else "others"
        count["errors"][known] = count["errors"].get(known, 0) + 1


def headline(run: LoadedRun, tally: Tally) -> str:
    """Return the result of a run in one sentence: of held-out tasks, else of its episodes."""
    first = "base" if run.evaluation.get("base") else "before"  # base: before a supervised stage
    judged = [run.evaluation.get(name) for name in (first, "after")]
    if all(solved := [_solved(each) for each in judged]):
        stages = [str(each.get("stage", "")) for each in judged if isinstance(each, dict)]
        named = f", {ARROW.join(stages)}" if all(stages) and len({*stages}) > 1 else ""
        return f"{ARROW.join(solved)} held-out tasks right{named}"
    rates = [line[_GREEDY] for line in run.metrics if _is_share(line.get(_GREEDY))]
    if rates:
        ends = " \N{RIGHTWARDS ARROW} ".join(
            f"{100 * rate:.1f} %" for rate in (rates[0], rates[-1])
        )
        return f"{ends} of held-out tasks right so far"
    return episodes_headline(tally)


def episodes_headline(tally: Tally) -> str:
    """Return the results of the episodes in one sentence."""
    total = {name: sum(count[name] for count in tally.values()) for name in _COUNTS}
    valid = total["episodes"] - total["invalid"]
    words = f"{total['success']} of {total['judged']} episodes right"
    if not total["judged"] and valid:
        words = f"mean reward {total['return'] / valid:.4g} of {valid} episodes that nobody judged"
    errors = sum((Counter(count["errors"]) for count in tally.values()), Counter[str]())
    for name, count in errors.most_common(1):
        words += f"; most often {name} ({count})"
    return words + (f"; {total['invalid']} invalid" if total["invalid"] else "")


def _solved(evaluated: Any) -> str:
    """Return "27 of 45", of one evaluation's greedy answers; "" if unknown."""
    found = evaluated if isinstance(evaluated, dict) else {}
    rate, count = found.get("greedy"), found.get("num_tasks")
    return f"{round(rate * count)} of {count}" if _is_share(rate) and type(count) is int else ""


def _is_share(value: Any) -> TypeGuard[float]:
    return is_number(value) and 0 <= value <= 1
