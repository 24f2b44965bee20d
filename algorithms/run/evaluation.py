"""Evaluation before and after training: JSON, table, curve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fctncalling.algorithms.episodes import (
    CLARIFY,
    EpisodeRecord,
    mean_return_without_verdict,
    question_rate,
    question_rates_by_category,
    strict_success_rate,
    success_metrics,
    success_rate,
)

MULTI_TURN = "multi_turn"
FEW_TASKS = 200
"""Held-out tasks below which the table tells how uncertain a rate is."""
RATES = ("greedy", "greedy_strict", "sampled", "sampled_strict")  # _strict: nothing is forgiven
RETURNS = ("greedy_return", "sampled_return")  # of environments without verdicts
TABLE_WIDTH = 104  # columns; a narrower terminal breaks lines, which is better than cutting numbers
WIDE_TABLE = 148  # with three numbers in each cell


@dataclass(frozen=True)
class Evaluation:
    """Evaluation on held-out tasks: episodes played greedily, and sampled."""

    greedy: Sequence[EpisodeRecord]
    sampled: Sequence[EpisodeRecord]

    def as_json(self) -> dict[str, Any]:
        """Return the evaluation as JSON: success rates, overall and by category."""
        categories = sorted({record.category for record in (*self.greedy, *self.sampled)})
        return {
            **_rates(self, ""),
            "categories": {name: _rates(self, name) for name in categories},
            MULTI_TURN: _rates(self, MULTI_TURN, whole=False),
        }

    def metrics(self) -> dict[str, float | None]:
        """Return the evaluation as flat metrics, for the log."""
        flat: dict[str, float | None] = {}
        for kind, records in (("greedy", self.greedy), ("sampled", self.sampled)):
            name = f"eval/{kind}_success_rate"
            flat |= success_metrics(records, name, f"eval/{kind}_strict_success_rate")
            flat |= question_rates_by_category(records, f"eval/{kind}_asked")
            if (mean := mean_return_without_verdict(records)) is not None:
                flat[f"eval/{kind}_return"] = mean
        flat["eval/invalid"] = sum(record.invalid for record in (*self.greedy, *self.sampled))
        return flat


def print_table(
    before: dict[str, Any], after: dict[str, Any], base: dict[str, Any] | None = None
) -> None:
    """Print a table of success rates by category, before and after all updates.

    base: those before a supervised stage. With them the rates stand in order under their "stage".
    """
    from rich.console import Console
    from rich.table import Table

    kinds = [kind for kind in (*RATES, *RETURNS) if after.get(kind) is not None]
    sides = {"before": before, "after": after}
    if base:  # without updates before and after are one
        sides = {side["stage"]: side for side in (base, before, after)}
    also = " and mean return" if after.get(RETURNS[0]) is not None else ""
    table = Table(title=f"Success on held-out tasks in %{also}, {' -> '.join(sides)}")
    for column in ("category", "tasks", *(kind.replace("_", " ") for kind in kinds)):
        table.add_column(column, justify="left" if column == "category" else "right", no_wrap=True)
    names = [*after["categories"], *([MULTI_TURN] if after[MULTI_TURN]["num_tasks"] else []), "all"]
    for name in names:
        parts = [
            side if name == "all" else side.get(name) or side["categories"].get(name, {})
            for side in sides.values()
        ]
        cells = [" -> ".join(_cell(side.get(kind), kind) for side in parts) for kind in kinds]
        if name in (MULTI_TURN, "all"):
            table.add_section()
        label = "all multi-turn" if name == MULTI_TURN else name
        table.add_row(label, str(parts[-1].get("num_tasks", 0)), *cells)
    console = Console()
    console.width = max(console.width, WIDE_TABLE if len(sides) > 2 else TABLE_WIDTH)
    console.print(table)
    if interval := (after.get("intervals") or {}).get("greedy"):
        count = after["num_tasks"]
        low, high = (f"{100 * bound:.0f}" for bound in interval)
        if count < FEW_TASKS:
            told = f"{round(after['greedy'] * count)} of {count} is {low} to {high} %"
            console.print(f"{count} tasks: {told} (greedy, 95 % interval)", highlight=False)


def plot_curve(folder: Path) -> Path | None:
    """Plot the curve of learning in metrics.jsonl as curve.png.

    None where matplotlib is not installed or nothing was logged.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        return None
    mpl.use("Agg")  # no display is needed, and none may be there
    import matplotlib.pyplot as plt

    with (folder / "metrics.jsonl").open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    curves = {
        "training, sampled": ("env/success_rate", "C0-"),
        "held-out, greedy": ("eval/greedy_success_rate", "C1o-"),
        "held-out, sampled": ("eval/sampled_success_rate", "C2s-"),
        "training, sampled, strict": ("env/success_rate_strict", "C0:"),
        "held-out, greedy, strict": ("eval/greedy_strict_success_rate", "C1o:"),
        "held-out, sampled, strict": ("eval/sampled_strict_success_rate", "C2s:"),
    }
    if not lines:
        return None
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    base = base_metrics(folder)
    if base:  # a twentieth of the curve left of the first update
        lines.insert(0, {**base, "update": -max(1.0, lines[-1]["update"] / 20)})
    for label, (name, style) in curves.items():
        points = [(line["update"], line[name]) for line in lines if line.get(name) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=label, markersize=4)
    xlabel = "update (at 0 supervised, left of it the base model)" if base else "update"
    title = curve_title(folder)
    axes.set(xlabel=xlabel, ylabel="success rate", ylim=(-0.02, 1.02), title=title)
    if base and not lines[-1]["update"]:
        axes.set(xlabel="", xlim=(-1.5, 0.5))
        axes.set_xticks([-1, 0], ["base", "supervised"])
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(folder / "curve.png", dpi=120)
    plt.close(figure)
    return folder / "curve.png"


def base_metrics(folder: Path) -> dict[str, float | None]:
    """Return the metrics of the model before its supervised stage; {} without such a stage."""
    try:
        base = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["base"]
        return {
            f"eval/{kind}{strict}_success_rate": base[f"{kind}{strict}"]
            for kind in ("greedy", "sampled")
            for strict in ("", "_strict")
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def curve_title(folder: Path) -> str:
    """Return the title of a learning curve: task, model, algorithm (of updates) and seed."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        algorithm, seed = config["algorithm_name"], config["seed"]
        learned = f"{algorithm}, " if config.get("num_updates") != 0 else ""
    except (OSError, ValueError, KeyError, TypeError):
        return folder.name
    task = Path(config.get("dataset_path") or "embedded").stem
    if config.get("env_name") not in (None, "fctncalling_env"):
        task = config["env_name"]
    model = Path(config.get("model_name_or_path") or "embedded").name
    control = ", control: advantages shuffled" if config.get("permute_advantages") else ""
    return f"{task} tasks, {model} model, {learned}seed {seed}{control}"


def _rates(evaluation: Evaluation, category: str, *, whole: bool = True) -> dict[str, Any]:
    """Return the rates of one category, or with whole=False of all categories with that prefix.

    "" stands for all.
    """

    def of_category(records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
        matches = str.__eq__ if whole and category else str.startswith
        return [record for record in records if matches(record.category, category)]

    greedy, sampled = of_category(evaluation.greedy), of_category(evaluation.sampled)
    asked = {"greedy_asked": question_rate(greedy), "sampled_asked": question_rate(sampled)}
    returns = {
        "greedy_return": mean_return_without_verdict(greedy),
        "sampled_return": mean_return_without_verdict(sampled),
    }
    return {
        **(asked if category.startswith(CLARIFY) else {}),
        **{name: mean for name, mean in returns.items() if mean is not None},
        "greedy": success_rate(greedy),
        "greedy_strict": strict_success_rate(greedy),
        "sampled": success_rate(sampled),
        "sampled_strict": strict_success_rate(sampled),
        "num_tasks": len(greedy),
    }


def _cell(value: float | None, kind: str) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if kind in RETURNS else f"{100 * value:5.1f}"
