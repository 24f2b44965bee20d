"""Tables of docs/evidence/real_model.md, which docs/evidence_tables.py writes: stored answers."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
KEPT = DOCS.parent / "results/kept/smollm2"
ANSWERS = KEPT / "answers.jsonl"
SPLIT = DOCS.parent / "recipes/official_split.json"
MULTI_TURN = runpy.run_path(str(DOCS / "multi_turn_figures.py"))
RESULTS_PAGE = runpy.run_path(str(DOCS.parent / "recipes/results_page.py"))

CALLS = ("simple_python", "multiple")
Answers = Mapping[str, Mapping[str, Any]]  # task id -> answer


@cache
def stored_answers() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the answers of each model, by task id."""
    models: dict[str, dict[str, dict[str, Any]]] = {}
    for line in ANSWERS.read_text(encoding="utf-8").splitlines():
        answer = json.loads(line)
        models.setdefault(answer["model"], {})[answer["id"]] = answer
    return models


@cache
def test_ids(part: str) -> frozenset[str]:
    """Return the ids of a part of the split."""
    return frozenset(
        it for ids in json.loads(SPLIT.read_text("utf-8"))[part].values() for it in ids
    )


def chosen(model: str, part: str, categories: Sequence[str]) -> Answers:
    """Return a model's answers to the test tasks of some categories."""
    return {
        name: answer
        for name, answer in stored_answers()[model].items()
        if name in test_ids(part) and re.sub(r"_\d[\d-]*$", "", name) in categories
    }


def share(answers: Answers) -> str:
    """Return "37.2[28.8,46.4]/36.3": valid and interval, strict; "-" without answers."""
    if not answers:
        return "-"
    count, total = sum(it["valid"] for it in answers.values()), len(answers)
    low, high = RESULTS_PAGE["wilson_interval"](count / total, total)
    strict = sum(it["strict"] for it in answers.values()) / total
    interval = f"[{100 * low:.1f},{100 * high:.1f}]"
    return f"{100 * count / total:.1f}{interval}/{100 * strict:.1f}"


def paired(before: Answers, after: Answers) -> str:
    """Return "16 gained, 1 lost (p = 0.0003)" of the tasks that both answered."""
    both = before.keys() & after.keys()
    gained = sum(after[name]["valid"] > before[name]["valid"] for name in both)
    lost = sum(after[name]["valid"] < before[name]["valid"] for name in both)
    return f"{gained} gained, {lost} lost (p = {RESULTS_PAGE['sign_test'](gained, lost):.1g})"


def shares_table(models: Sequence[str], part: str, groups: Mapping[str, Sequence[str]]) -> str:
    """Return a row for each model, a column for each group of categories."""
    counts = {
        name: max(len(chosen(model, part, categories)) for model in models)
        for name, categories in groups.items()
    }
    head = ["valid/strictly, %", *(f"{name} ({count})" for name, count in counts.items())]
    rows = [
        [f"`{model}`", *(share(chosen(model, part, group)) for group in groups.values())]
        for model in models
    ]
    return _markdown([head, *rows])


def pairs_table(pairs: Sequence[tuple[str, str]]) -> str:
    """Return a row for each pair of models: what changed on calls and on irrelevance."""
    rows = [
        [f"`{before}` -> `{after}`"]
        + [paired(chosen(before, "test", it), chosen(after, "test", it)) for it in GROUPS.values()]
        for before, after in pairs
    ]
    head = ["", *GROUPS]
    return _markdown([head, *rows])


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *lines = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *lines])


GROUPS: dict[str, Sequence[str]] = {"calls": CALLS, "irrelevance": ("irrelevance",)}
LIVE: dict[str, Sequence[str]] = {
    "live_simple": ("live_simple",),
    "live_multiple": ("live_multiple",),
    "both": ("live_simple", "live_multiple"),
}
ROWS = (
    *("base", "forged", "forged_2", "forged_tppo_1", "forged_only_tppo_1"),
    *("forged_1800", "forged_1800_tppo_1", "forged_1800_more_tppo_1", "forged_1800_mixed_tppo_1"),
    *("forged_6000_1", "forged_6000_2"),
)
PAIRS = (
    *(("forged", name) for name in ROWS[3:5]),
    *(("forged_1800", name) for name in ROWS[6:9]),
)
LIVE_ROWS = ("forged_tppo_1", "forged_1800_mixed_tppo_1")
TABLES = {
    "rows": lambda: shares_table(ROWS, "test", GROUPS),
    "pairs": lambda: pairs_table(PAIRS),
    "live": lambda: shares_table(LIVE_ROWS, "live_test", LIVE),
    "multi_turn": MULTI_TURN["table"],
    "arms": MULTI_TURN["arms_table"],
    "branched": MULTI_TURN["branched_table"],
}
