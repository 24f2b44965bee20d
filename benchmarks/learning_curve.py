"""The learning curve of README and docs: the main job's runs and its control experiment.

Train with some seeds and with the control, then draw:

    for seed in 1 2 3; do
        python train_fctncalling.py --seed $seed --experiment_name seed$seed
        python train_fctncalling.py --seed $seed --experiment_name control$seed --permute_advantages
    done
    python benchmarks/learning_curve.py --runs results/seed*/embedded/embedded/TPPO \\
        --controls results/control*/embedded/embedded/TPPO --output docs/learning_curve.png
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pictures import GREY, goal, save, seeds, spread, subplots

CURVES = {  # panel -> (metric, colour, label)
    "Held-out tasks, greedy": (
        ("eval/greedy_success_rate", "C0", "official verdict"),
        ("eval/greedy_strict_success_rate", "C1", "strict verdict"),
    ),
    "Training episodes, sampled": (
        ("env/success_rate", "C0", "official verdict"),
        ("env/success_rate_strict", "C1", "strict verdict"),
    ),
}
GOAL = 0.9


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="results folders")
    parser.add_argument("--controls", type=Path, nargs="*", default=[], help="results folders")
    parser.add_argument("--output", type=Path, default=Path("learning_curve.png"))
    options = parser.parse_args()
    draw(options.runs, options.controls, options.output)


def draw(runs: Sequence[Path], controls: Sequence[Path], path: Path) -> None:
    """Draw the runs' success by both verdicts and the controls', each as the mean and the range of
    its seeds.
    """
    figure, panels = subplots(1, 2, size=(11, 4.8))
    logs, control_logs = (list(map(_metrics, folders)) for folders in (runs, controls))
    for axes, (title, curves) in zip(panels, CURVES.items(), strict=True):
        for metric, colour, label in curves:
            _add(axes, logs, metric, colour, label, "-")
        name = f"control, advantages shuffled ({seeds(len(controls))})"
        _add(axes, control_logs, curves[0][0], GREY, name, "--")
        axes.set(title=title, xlabel="update")
    goal(panels[0], GOAL, f"goal: {GOAL:.0%} by the official verdict")
    panels[0].set_ylabel("success rate")
    panels[1].legend(loc="lower right")
    figure.suptitle(f"{_subject(runs[0])}, {seeds(len(runs))}")
    save(figure, path)


def _metrics(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _add(
    axes: Any,
    logs: Sequence[list[dict[str, Any]]],
    metric: str,
    colour: str,
    label: str,
    style: str,
) -> None:
    curves = [
        {line["update"]: line[metric] for line in log if line.get(metric) is not None}
        for log in logs
    ]
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    if shared:
        rows = [[curve[update] for update in shared] for curve in curves]
        spread(axes, shared, rows, colour, label, style)


def _subject(folder: Path) -> str:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    task = Path(config.get("dataset_path") or "embedded").stem
    model = Path(config.get("model_name_or_path") or "embedded").name
    size = " (0.46 M weights)" if model == "embedded" else ""
    return f"{task} tasks, {model} model{size}, {config.get('algorithm_name', '')}"


if __name__ == "__main__":
    main()
