"""Pictures of docs/evidence/real_model.md: `python docs/real_model_picture.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from matplotlib import pyplot as plt
from real_model_tables import (
    CRITIC_ROW,
    DOCS,
    GROUPS,
    KEPT,
    MULTI_TURN,
    MULTI_TURN_ROWS,
    RESULTS_PAGE,
    Answer,
    chosen,
    of_tests,
)

CURVES = {"forged_tppo_1": "official tasks", "forged_only_tppo_1": "forged tasks"}
MODELS = {
    "forged": "SFT on\nforged tasks",
    "forged_2": "SFT,\nseed 2",
    "forged_tppo_1": "then TPPO on\nofficial tasks",
    "forged_only_tppo_1": "or TPPO on\nforged tasks",
}
LEAST = 10  # answers that a share is drawn of
SEED = r"_\d$"  # of an arm
LINES = {"_2": "--", "_3": ":"}  # of its curve
ESTIMATORS = ("TPPO_state", "TPPO_shrunk", "TPPO", "leave_one_out", "GRPO", "shuffled")


def metrics(run: str) -> list[dict[str, Any]]:
    """Return the lines of a recorded run's metrics."""
    text = (KEPT / run / "metrics.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def draw_single_turn() -> None:
    """Draw sampled success on training tasks, update by update, and the shares on test tasks."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 3))
    for run, label in CURVES.items():
        updates = [line for line in metrics(run) if "env/success_rate" in line]
        success = [100 * update["env/success_rate"] for update in updates]
        numbers = [update["update"] for update in updates]
        left.plot(numbers, success, marker="o", markersize=3, label=label)
    left.legend()
    left.set(xlabel="update", ylabel="success, %", ylim=(0, 100))
    left.set_xticks(range(2, 19, 4))
    left.set_title("TPPO: sampled, training tasks (drawn near one half)", fontsize=10)
    for offset, (name, group) in zip((-0.2, 0.2), GROUPS.items(), strict=True):
        for place, model in enumerate(MODELS):
            answers = chosen(model, group).values()
            share = sum(answer["valid"] for answer in answers) / len(answers)
            low, high = RESULTS_PAGE["wilson_interval"](share, len(answers))
            at, colour = place + offset, "C0" if name == "calls" else "C7"
            right.bar(at, 100 * share, width=0.38, color=colour, label=name if not place else None)
            right.plot([at, at], [100 * low, 100 * high], color="black", linewidth=1)
            right.text(at - 0.17, 2, f"{100 * share:.0f}", color="white", fontsize=9)
    right.set_xticks(range(len(MODELS)), MODELS.values(), fontsize=9)
    right.set(ylim=(0, 115), ylabel="valid answers, %")
    right.legend(loc="upper left", fontsize=9)
    right.set_title("greedy, 150 and 100 official test tasks, 95 % intervals", fontsize=10)
    figure.tight_layout()
    figure.savefig(DOCS / "evidence/real_model.png", dpi=100)


def right_by_turn(answers: Sequence[Answer]) -> list[float]:
    """Return the share that is right of all first turns, of all second turns and so on, in %."""
    columns = zip_longest(*(answer["per_turn"] for answer in answers))
    turns = [[turn for turn in column if turn is not None] for column in columns]
    return [100 * sum(turn) / len(turn) for turn in turns if len(turn) >= LEAST]


def explained_variance(turn: str) -> list[float]:
    """Return the critic's explained variance on unseen returns, by update.

    The first is that of the warm-up's folds. turn: "/turn_1" and so on; "": of all turns.
    """
    first, later = "critic_fit/explained_variance", "critic/monte_carlo_explained_variance"
    lines = metrics(MULTI_TURN + CRITIC_ROW)
    values = [line.get(first + turn) for line in lines if first in line][:1]
    values += [line.get(later + turn) for line in lines if later in line]
    return [float("nan") if value is None else value for value in values]


def draw_multi_turn() -> None:
    """Draw right turns, the critic's explained variance by turn, and cosines of credit."""
    methods = dict.fromkeys(re.sub(SEED, "", row) for row in MULTI_TURN_ROWS)
    colours = dict(zip(methods, plt.rcParams["axes.prop_cycle"].by_key()["color"], strict=False))
    figure, ((forged, official), (critic, credit)) = plt.subplots(2, 2, figsize=(10, 7.5))
    for axes, tests in ((forged, "test"), (official, "official")):
        for row in MULTI_TURN_ROWS:
            percent = right_by_turn([*chosen(MULTI_TURN + row, of_tests(tests)).values()])
            style = {"color": colours[re.sub(SEED, "", row)]}
            style["linestyle"] = LINES.get(row[-2:], "-")
            turns = range(1, len(percent) + 1)
            axes.plot(turns, percent, marker="o", markersize=3, label=row, **style)
        axes.set(xlabel="turn", ylabel="turns that are right, %", ylim=(0, 100), xticks=range(1, 7))
    forged.set_title("forged tests, greedy", fontsize=10)
    official.set_title("official tests, greedy", fontsize=10)
    official.legend(fontsize=7, ncols=2, loc="upper right")
    for turn in ("", "/turn_1", "/turn_2", "/turn_3"):
        explained = explained_variance(turn)
        label = turn[1:].replace("_", " ") or "all turns"
        critic.plot(range(len(explained)), explained, marker="o", markersize=3, label=label)
    critic.axhline(0, color="grey", linewidth=0.8)
    critic.set(xlabel="update", ylabel="explained variance", ylim=(-1, 1))
    critic.set_title(f"critic of {CRITIC_ROW}, returns not seen", fontsize=10)
    critic.legend(fontsize=8)
    graded = json.loads((KEPT / f"{MULTI_TURN}{CRITIC_ROW}/credit.json").read_text("utf-8"))
    names = [name for name in ESTIMATORS if name in graded["estimators"]][::-1]
    cosines = [graded["estimators"][name]["cosine"] for name in names]
    bounds = [graded["estimators"][name]["cosine_interval"] for name in names]
    sides = [[mean - low, high - mean] for mean, (low, high) in zip(cosines, bounds, strict=True)]
    credit.barh(names, cosines, xerr=list(zip(*sides, strict=True)), ecolor="grey")
    credit.set(xlabel="cosine with the true advantages (95 %, by tasks)", xlim=(-0.1, 1))
    credit.set_title("credit before the first update", fontsize=10)
    figure.tight_layout()
    figure.savefig(DOCS / "evidence/real_model_turns.png", dpi=100)


if __name__ == "__main__":
    draw_single_turn()
    draw_multi_turn()
