"""Table and picture of the multi-turn rows of docs/real_model.md, from stored answers.

`python docs/multi_turn_figures.py` draws docs/real_model_turns.png; the table is written by
`python docs/real_model_tables.py`.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
KEPT = DOCS.parent / "results/kept/smollm2"
ANSWERS = (KEPT / "answers.jsonl", KEPT / "multi_turn_forged.jsonl")
RESULTS_PAGE = runpy.run_path(str(DOCS.parent / "recipes/results_page.py"))
LEAST = 10  # answers that a share is told of
ROWS = ("supervised", "supervised_1500", "mixture")
"""Rows of recipes/smollm2_multi_turn_cpu.sh and of its GPU twin; stored as multi_turn_ROW."""
GROUPS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "forged": lambda it: it["tests"] == "test",
    "names seen": lambda it: it["tests"] == "test" and it["names"] == "seen",
    "names held out": lambda it: it["tests"] == "test" and it["names"] == "held_out",
    "official base": lambda it: it["tests"] == "official" and "base" in it["id"],
    "official miss_func": lambda it: it["tests"] == "official" and "miss_func" in it["id"],
}
"""What a test set is called -> which answers are of it."""


def answers_of(row: str) -> list[dict[str, Any]]:
    """Return the stored answers of a row, official and forged ones."""
    lines = [line for file in ANSWERS for line in file.read_text("utf-8").splitlines()]
    return [it for it in map(json.loads, lines) if it["model"] == f"multi_turn_{row}"]


def share(answers: Sequence[Mapping[str, Any]]) -> str:
    """Return "16.7 [7.3,33.6]/13.3/23.0": valid with its interval, strictly valid, progress."""
    number = len(answers)
    valid = sum(it["valid"] for it in answers) / number
    low, high = (100 * it for it in RESULTS_PAGE["wilson_interval"](valid, number))
    strict, progress = (
        100 * sum(it[name] for it in answers) / number for name in ("strict", "progress")
    )
    return f"{100 * valid:.1f} [{low:.1f},{high:.1f}]/{strict:.1f}/{progress:.1f}"


def table() -> str:
    """Return a line a test set, a column a row of the recipe."""
    rows = {row: answers_of(row) for row in ROWS}
    lines = [
        f"| valid/strictly/progress, % | {' | '.join(f'`{row}`' for row in rows)} |",
        "| --- |" + " --- |" * len(rows),
    ]
    for name, belongs in GROUPS.items():
        found = [[it for it in answers if belongs(it)] for answers in rows.values()]
        cells = " | ".join(map(share, found))
        lines.append(f"| {name} ({len(found[0])}) | {cells} |")
    return "\n".join(lines)


def right_by_turn(answers: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the share that is right of all first turns, of all second turns and so on."""
    columns = zip_longest(*(it["per_turn"] for it in answers))
    played = [[it for it in column if it is not None] for column in columns]
    return [sum(each) / len(each) for each in played if len(each) >= LEAST]


def main() -> None:
    """Draw how many turns are right, by turn."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for number, row in enumerate(ROWS):
        for tests, style in (("test", "-"), ("official", "--")):
            right_turns = right_by_turn([it for it in answers_of(row) if it["tests"] == tests])
            places = range(1, len(right_turns) + 1)
            label = f"{row}, {'forged' if tests == 'test' else 'official'}"
            axes.plot(
                places,
                [100 * it for it in right_turns],
                style,
                marker="o",
                markersize=3,
                color=f"C{number}",
                label=label,
            )
    axes.set(xlabel="turn", ylabel="turns that are right, %", ylim=(0, 100))
    axes.set_title("SmolLM2-135M, greedy", fontsize=10)
    axes.legend(fontsize=8, ncol=3, loc="upper center", bbox_to_anchor=(0.45, -0.2))
    figure.tight_layout()
    figure.savefig(DOCS / "real_model_turns.png", dpi=100)


if __name__ == "__main__":
    main()
