"""Tables and picture of the multi-turn rows of docs/evidence/real_model.md, from stored answers.

`python docs/multi_turn_figures.py` draws the picture; `python docs/evidence_tables.py` writes the
tables.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
KEPT = DOCS.parent / "results/kept/smollm2"
ANSWERS = (KEPT / "answers.jsonl", KEPT / "multi_turn_forged.jsonl")
RESULTS_PAGE = runpy.run_path(str(DOCS.parent / "recipes/results_page.py"))
LEAST = 10  # answers that a share is told of
STATE, GRPO = (tuple(f"{method}_{seed}" for seed in (1, 2, 3)) for method in ("state", "grpo"))
ARMS = ("tppo_1", "cold_1", *STATE, "appo_1", "rloo_1", *GRPO)
ROWS = ("supervised_1500", *ARMS, "mean_of_arms", "mixture")
"""Rows of recipes/smollm2_multi_turn_cpu.sh and of its GPU twin; stored as multi_turn_ROW."""
SEED = r"_\d$"  # of an arm
LINES = {"_2": "--", "_3": ":"}  # of its curve
CRITIC_ROW = "tppo_1"
ESTIMATORS = ("TPPO_state", "TPPO_shrunk", "TPPO", "leave_one_out", "GRPO", "shuffled")
ESTIMATES = (
    ("critic, TPPO", "critic", "TPPO"),
    ("matched states", "state", "TPPO_state"),
    ("others of the group, GRPO", "siblings", "GRPO"),
)
"""What the page calls an estimate -> its values and its advantages in credit.json."""
GROUPS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "forged": lambda it: it["tests"] == "test",
    "names seen": lambda it: it["tests"] == "test" and it["names"] == "seen",
    "names held out": lambda it: it["tests"] == "test" and it["names"] == "held_out",
    "official base": lambda it: it["tests"] == "official" and "base" in it["id"],
    "official miss_func": lambda it: it["tests"] == "official" and "miss_func" in it["id"],
}
"""What a test set is called -> which answers are of it."""


@cache
def stored_answers() -> dict[str, list[dict[str, Any]]]:
    """Return the answers of each model, official and forged ones."""
    models: dict[str, list[dict[str, Any]]] = {}
    for file in ANSWERS:
        for line in file.read_text("utf-8").splitlines():
            answer = json.loads(line)
            models.setdefault(answer["model"], []).append(answer)
    return models


def answers_of(row: str) -> list[dict[str, Any]]:
    """Return the stored answers of a row."""
    return stored_answers().get(f"multi_turn_{row}", [])


def share(answers: Sequence[Mapping[str, Any]]) -> str:
    """Return "16.7[7.3,33.6]/13.3/23.0": valid and interval, strict, progress; or "-"."""
    if not answers:
        return "-"
    number = len(answers)
    valid = sum(it["valid"] for it in answers) / number
    low, high = (100 * it for it in RESULTS_PAGE["wilson_interval"](valid, number))
    strict, progress = (
        100 * sum(it[name] for it in answers) / number for name in ("strict", "progress")
    )
    return f"{100 * valid:.1f}[{low:.1f},{high:.1f}]/{strict:.1f}/{progress:.1f}"


def table() -> str:
    """Return a line a row of the recipe, a column a test set."""
    rows = {row: answers_of(row) for row in ROWS}
    numbers = [sum(map(belongs, rows[ROWS[0]])) for belongs in GROUPS.values()]
    headers = [f"{name} ({number})" for name, number in zip(GROUPS, numbers, strict=True)]
    lines = [
        f"| valid/strictly/progress, % | {' | '.join(headers)} |",
        "|---" * (len(GROUPS) + 1) + "|",
    ]
    for row, answers in rows.items():
        cells = [share([it for it in answers if belongs(it)]) for belongs in GROUPS.values()]
        lines.append(f"| `{row}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def arms_table() -> str:
    """Return a line an arm: tests gained and lost since the common start, with a sign test's p."""
    lines = [
        "| arm | forged tests, strictly | official tests, by BFCL's verdict |",
        "|---|---|---|",
    ]
    for row in (*ARMS, "mean_of_arms"):
        cells = [
            _change(row, tests, verdict)
            for tests, verdict in (("test", "strict"), ("official", "valid"))
        ]
        lines.append(f"| `{row}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _change(row: str, tests: str, verdict: str) -> str:
    before, after = (
        {it["id"]: it[verdict] for it in answers_of(name) if it["tests"] == tests}
        for name in (ROWS[0], row)
    )
    assert before.keys() == after.keys()
    gained = sum(after[name] > before[name] for name in before)
    lost = sum(after[name] < before[name] for name in before)
    return f"{gained} gained, {lost} lost (p = {RESULTS_PAGE['sign_test'](gained, lost):.1g})"


def branched_table() -> str:
    """Return a line an estimate: how near it comes to the truth that branching found."""
    graded = json.loads((KEPT / f"multi_turn_{CRITIC_ROW}/credit.json").read_text("utf-8"))
    values, estimators = graded["values"], graded["estimators"]
    lines = ["| estimate | explained variance of values | cosine of advantages |", "|---|---|---|"]
    for label, value, estimator in ESTIMATES:
        explained = f"{values[value]['explained_variance']:.2f}"
        low, high = estimators[estimator]["cosine_interval"]
        cosine = f"{estimators[estimator]['cosine']:.2f} [{low:.2f},{high:.2f}]"
        lines.append(f"| {label} | {explained} | {cosine} |")
    return "\n".join(lines)


def right_by_turn(answers: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the share that is right of all first turns, of all second turns and so on."""
    columns = zip_longest(*(it["per_turn"] for it in answers))
    played = [[it for it in column if it is not None] for column in columns]
    return [sum(each) / len(each) for each in played if len(each) >= LEAST]


def explained_variance(row: str, turn: str) -> list[float]:
    """Return what the critic of a kept arm explains of returns that it has not seen, by update.

    The first is that of the warm-up's folds. turn: "/turn_1" and so on; "": of all turns.
    """
    file = KEPT / f"multi_turn_{row}/metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    before = [it for it in lines if "critic_fit/explained_variance" in it][:1]
    after = [it for it in lines if "critic/monte_carlo_explained_variance" in it]
    found = [it.get(f"critic_fit/explained_variance{turn}") for it in before]
    found += [it.get(f"critic/monte_carlo_explained_variance{turn}") for it in after]
    return [float("nan") if it is None else it for it in found]


def main() -> None:
    """Draw the turns that are right, what the critic explains, by turn, and credit's cosines."""
    import matplotlib.pyplot as plt

    methods = dict.fromkeys(re.sub(SEED, "", row) for row in ROWS)
    colours = dict(zip(methods, plt.rcParams["axes.prop_cycle"].by_key()["color"], strict=False))
    figure, ((forged, official), (critic, credit)) = plt.subplots(2, 2, figsize=(10, 7.5))
    for axes, tests in ((forged, "test"), (official, "official")):
        for row in ROWS:
            shares = right_by_turn([it for it in answers_of(row) if it["tests"] == tests])
            percent = [100 * it for it in shares]
            style = {"color": colours[re.sub(SEED, "", row)]}
            style["linestyle"] = LINES.get(row[-2:], "-")
            turns = range(1, len(shares) + 1)
            axes.plot(turns, percent, marker="o", markersize=3, label=row, **style)
        axes.set(xlabel="turn", ylabel="turns that are right, %", ylim=(0, 100), xticks=range(1, 7))
    forged.set_title("forged tests, greedy", fontsize=10)
    official.set_title("official tests, greedy", fontsize=10)
    official.legend(fontsize=7, ncols=2, loc="upper right")
    for turn in ("", "/turn_1", "/turn_2", "/turn_3"):
        explained = explained_variance(CRITIC_ROW, turn)
        label = turn[1:].replace("_", " ") or "all turns"
        critic.plot(range(len(explained)), explained, marker="o", markersize=3, label=label)
    critic.axhline(0, color="grey", linewidth=0.8)
    critic.set(xlabel="update", ylabel="explained variance", ylim=(-1, 1))
    critic.set_title(f"critic of {CRITIC_ROW}, returns not seen", fontsize=10)
    critic.legend(fontsize=8)
    graded = json.loads((KEPT / f"multi_turn_{CRITIC_ROW}/credit.json").read_text("utf-8"))
    names = [name for name in ESTIMATORS if name in graded["estimators"]][::-1]
    cosines = [graded["estimators"][name]["cosine"] for name in names]
    bounds = [graded["estimators"][name]["cosine_interval"] for name in names]
    sides = [[mean - it[0], it[1] - mean] for mean, it in zip(cosines, bounds, strict=True)]
    credit.barh(names, cosines, xerr=list(zip(*sides, strict=True)), ecolor="grey")
    credit.set(xlabel="cosine with the true advantages (95 %, by tasks)", xlim=(-0.1, 1))
    credit.set_title("credit before the first update", fontsize=10)
    figure.tight_layout()
    figure.savefig(DOCS / "evidence/real_model_turns.png", dpi=100)


if __name__ == "__main__":
    main()
