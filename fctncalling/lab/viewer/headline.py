"""Headline of a page: one sentence on the results of its episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeGuard

from fctncalling.lab.viewer.run_files import LoadedRun, Record, is_number

MAX_ERRORS = 200
"""Error types of a category that are counted apart."""
ARROW = " \N{RIGHTWARDS ARROW} "
_COUNTS = ("episodes", "invalid", "judged", "success", "judged_strictly", "strict", "return")
_GREEDY = "eval/greedy_success_rate"
_BASE_GREEDY = "base/greedy_success_rate"  # before a supervised stage
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
    judged = [run.evaluation.get(name) for name in ("before", "after")]
    if base := run.evaluation.get("base"):  # of a supervised stage, behind which "before" stands
        by_stage = {each.get("stage"): each for each in (base, *judged) if isinstance(each, dict)}
        judged = [*by_stage.values()]  # without updates before and after are one
    if all(solved := [_solved(each) for each in judged]):
        stages = [str(each.get("stage", "")) for each in judged if isinstance(each, dict)]
        named = f", {ARROW.join(stages)}" if all(stages) and len({*stages}) > 1 else ""
        return f"{ARROW.join(solved)} held-out tasks right{named}"
    if rates := _rates_so_far(run.metrics):
        shown = ARROW.join(f"{100 * rate:.1f} %" for rate in rates.values())
        return f"{shown} of held-out tasks right so far, {ARROW.join(rates)}"
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


def _rates_so_far(metrics: Iterable[Record]) -> dict[str, float]:
    """Return greedy success on held-out tasks by model: base, supervised, the last update's."""
    rates, last = dict[str, float](), dict[str, float]()
    for line in metrics:
        update = line.get("update")
        if _is_share(rate := line.get(_BASE_GREEDY)):
            rates["base"] = rate
        elif _is_share(rate := line.get(_GREEDY)) and isinstance(update, int) and update > 0:
            last = {f"update {update}": rate}
        elif _is_share(rate):
            rates["supervised" if "base" in rates else "base"] = rate
    return rates | last


def _solved(evaluated: Any) -> str:
    """Return "27 of 45", of one evaluation's greedy answers; "" if unknown."""
    found = evaluated if isinstance(evaluated, dict) else {}
    rate, count = found.get("greedy"), found.get("num_tasks")
    return f"{round(rate * count)} of {count}" if _is_share(rate) and type(count) is int else ""


def _is_share(value: Any) -> TypeGuard[float]:
    return is_number(value) and 0 <= value <= 1
