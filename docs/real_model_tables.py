"""Tables of docs/evidence/real_model.md from stored answers, for docs/evidence_tables.py."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from measured_tables import markdown_table

DOCS = Path(__file__).parent
KEPT = DOCS.parent / "results/kept/smollm2"
SPLIT = DOCS.parent / "recipes/official_split.json"
RESULTS_PAGE = runpy.run_path(str(DOCS.parent / "recipes/results_page.py"))
Answer = Mapping[str, Any]
Answers = Mapping[str, Answer]  # task id -> answer
Group = Callable[[Answer], bool]  # whether an answer is of a column of tests


@cache
def stored_answers() -> dict[str, list[dict[str, Any]]]:
    """Return the answers of each model, official and forged ones."""
    models: dict[str, list[dict[str, Any]]] = {}
    for name in ("answers", "multi_turn_forged"):
        for line in (KEPT / f"{name}.jsonl").read_text("utf-8").splitlines():
            answer = json.loads(line)
            models.setdefault(answer["model"], []).append(answer)
    return models


def chosen(model: str, group: Group) -> Answers:
    """Return a model's answers to the tests of a group."""
    return {answer["id"]: answer for answer in stored_answers().get(model, ()) if group(answer)}


@cache
def split_ids(part: str) -> frozenset[str]:
    """Return the ids of a part of the split."""
    parts = json.loads(SPLIT.read_text("utf-8"))
    return frozenset(task_id for ids in parts[part].values() for task_id in ids)


def of_split(part: str, *categories: str) -> Group:
    """Return the group of a part's tests of some categories."""

    def belongs(answer: Answer) -> bool:
        category = re.sub(r"_\d[\d-]*$", "", answer["id"])
        return category in categories and answer["id"] in split_ids(part)

    return belongs


def of_tests(tests: str, **fields: str) -> Group:
    """Return the group of multi-turn tests, forged ("test") or official, with words of fields."""

    def belongs(answer: Answer) -> bool:
        return answer.get("tests") == tests and all(
            word in answer[field] for field, word in fields.items()
        )

    return belongs


def share(answers: Answers, *others: str) -> str:
    """Return "37.2[28.8,46.4]/36.3": valid and interval, then other measures; or "-"."""
    if not answers:
        return "-"

    def percent(measure: str) -> float:
        return 100 * sum(answer[measure] for answer in answers.values()) / len(answers)

    low, high = RESULTS_PAGE["wilson_interval"](percent("valid") / 100, len(answers))
    interval = f"[{100 * low:.1f},{100 * high:.1f}]"
    means = (f"{percent(measure):.1f}" for measure in others or ("strict",))
    return "/".join([f"{percent('valid'):.1f}{interval}", *means])


def paired(before: Answers, after: Answers, verdict: str = "valid") -> str:
    """Return "16 gained, 1 lost (p = 0.0003)" of the tasks that both answered."""
    both = before.keys() & after.keys()
    gained = sum(after[name][verdict] > before[name][verdict] for name in both)
    lost = sum(after[name][verdict] < before[name][verdict] for name in both)
    return f"{gained} gained, {lost} lost (p = {RESULTS_PAGE['sign_test'](gained, lost):.1g})"


def shares_table(
    rows: Iterable[str], groups: Mapping[str, Group], prefix: str = "", *others: str
) -> str:
    """Return a row for each model, which is called prefix + row, and a column for each group."""
    table = [[chosen(prefix + row, group) for group in groups.values()] for row in rows]
    counts = [max(map(len, column)) for column in zip(*table, strict=True)]
    heads = [f"{name} ({count})" for name, count in zip(groups, counts, strict=True)]
    cells = [
        [f"`{row}`", *(share(answers, *others) for answers in line)]
        for row, line in zip(rows, table, strict=True)
    ]
    return markdown_table(["/".join(["valid", "strictly", *others[1:]]) + ", %", *heads], cells)


def pairs_table(pairs: Sequence[tuple[str, str]]) -> str:
    """Return a row for each pair of models: changes on calls and on irrelevance."""
    rows = [
        [
            f"`{before}` -> `{after}`",
            *(paired(chosen(before, group), chosen(after, group)) for group in GROUPS.values()),
        ]
        for before, after in pairs
    ]
    return markdown_table(["", *GROUPS], rows)


def arms_table() -> str:
    """Return a row an arm: tests gained and lost since the common start, with a sign test's p."""
    rows = []
    for row in (*ARMS, "mean_of_arms"):
        cells = [
            paired(*(chosen(MULTI_TURN + name, group) for name in (START, row)), verdict)
            for group, verdict in ((of_tests("test"), "strict"), (of_tests("official"), "valid"))
        ]
        rows.append([f"`{row}`", *cells])
    heads = ["arm", "forged tests, strictly", "official tests, by BFCL's verdict"]
    return markdown_table(heads, rows)


def branched_table() -> str:
    """Return a row an estimate: how near it comes to the truth that branching found."""
    graded = json.loads((KEPT / f"{MULTI_TURN}{CRITIC_ROW}/credit.json").read_text("utf-8"))
    rows = []
    for label, value, estimator in ESTIMATES:
        explained = f"{graded['values'][value]['explained_variance']:.2f}"
        grades = graded["estimators"][estimator]
        low, high = grades["cosine_interval"]
        rows.append([label, explained, f"{grades['cosine']:.2f} [{low:.2f},{high:.2f}]"])
    heads = ["estimate", "explained variance of values", "cosine of advantages"]
    return markdown_table(heads, rows)


GROUPS = {
    "calls": of_split("test", "simple_python", "multiple"),
    "irrelevance": of_split("test", "irrelevance"),
}
LIVE = {
    "live_simple": of_split("live_test", "live_simple"),
    "live_multiple": of_split("live_test", "live_multiple"),
    "both": of_split("live_test", "live_simple", "live_multiple"),
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

MULTI_TURN = "multi_turn_"  # row of a multi-turn recipe -> name of its model
START = "supervised_1500"
STATE, GRPO = (tuple(f"{method}_{seed}" for seed in (1, 2, 3)) for method in ("state", "grpo"))
ARMS = ("tppo_1", "cold_1", *STATE, "appo_1", "rloo_1", *GRPO)
MULTI_TURN_ROWS = (START, *ARMS, "mean_of_arms", "mixture")
"""Rows of recipes/smollm2_multi_turn_cpu.sh and of its GPU twin."""
MULTI_TURN_GROUPS = {
    "forged": of_tests("test"),
    "names seen": of_tests("test", names="seen"),
    "names held out": of_tests("test", names="held_out"),
    "official base": of_tests("official", id="base"),
    "official miss_func": of_tests("official", id="miss_func"),
}
CRITIC_ROW = "tppo_1"
ESTIMATES = (
    ("critic, TPPO", "critic", "TPPO"),
    ("matched states", "state", "TPPO_state"),
    ("others of the group, GRPO", "siblings", "GRPO"),
)
"""What the page calls an estimate -> its values and its advantages in credit.json."""
TABLES = {
    "rows": lambda: shares_table(ROWS, GROUPS),
    "pairs": lambda: pairs_table(PAIRS),
    "live": lambda: shares_table(LIVE_ROWS, LIVE),
    "multi_turn": lambda: shares_table(
        MULTI_TURN_ROWS, MULTI_TURN_GROUPS, MULTI_TURN, "strict", "progress"
    ),
    "arms": arms_table,
    "branched": branched_table,
}
