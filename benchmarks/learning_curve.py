"""Learning curve of README and docs: the default run and its control experiment.

Without arguments it draws the runs that results/kept/main keeps: of each run what pages and picture
say, in files named as the run's own. Train with some seeds and with the control, keep them, draw:

    for seed in 1 2 3; do
        fctncalling train --eval_interval 4 --seed $seed --experiment_name seed$seed
    done
    fctncalling train --eval_interval 4 --experiment_name control1 --permute_advantages
    python benchmarks/learning_curve.py --keep results/{seed,control}*/embedded/embedded/TPPO
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pictures import GREY, goal, save, seeds, spread, subplots

DOCS = Path(__file__).resolve().parents[1] / "docs"
KEPT = DOCS.parent / "results/kept/main"
CURVES = {  # panel -> metric by the official verdict, and by the strict one
    "Held-out tasks, greedy": ("eval/greedy_success_rate", "eval/greedy_strict_success_rate"),
    "Training episodes, sampled": ("env/success_rate", "env/success_rate_strict"),
}
# The verdicts often agree: the wide pale line then shows on both sides of the narrow one.
STYLES = (
    ("official verdict", "C0", {"linewidth": 6, "alpha": 0.4}),
    ("strict verdict", "C1", {"linewidth": 2}),
)
GOAL = 0.9
SETTINGS = ("seed", "algorithm_name", "dataset_path", "model_name_or_path", "permute_advantages")
METRICS = (  # that viewer.md tells the healthy values of
    *("losses/approx_kl", "losses/entropy", "losses/explained_variance", "losses/clipfrac"),
    *("losses/ratio_max", "losses/policy_grad_norm", "losses/first_ratio_deviation"),
    *("critic/values_min", "critic/values_mean", "critic/values_max", "update/policy_skipped"),
    *("mismatch/mean_logdiff", "tokens/action_truncated_rate", "critic/weight", "critic/lambda"),
)


def main() -> None:
    """Draw the curve."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, nargs="+", default=[], help="results folders")
    parser.add_argument("--output", type=Path, default=DOCS / "learning_curve.png")
    options = parser.parse_args()
    for folder in options.keep:
        keep(folder)
    folders = sorted(KEPT.iterdir())
    controls = [folder for folder in folders if folder.name.startswith("control")]
    draw([folder for folder in folders if folder not in controls], controls, options.output)


def keep(folder: Path) -> None:
    """Return the figures of a run that pages and picture need."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = ("control" if config["permute_advantages"] else "seed") + str(config["seed"])
    target = KEPT / name
    target.mkdir(parents=True, exist_ok=True)
    settings = {setting: config[setting] for setting in SETTINGS}
    (target / "config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    evaluation = (folder / "evaluation.json").read_text(encoding="utf-8")
    (target / "evaluation.json").write_text(evaluation, encoding="utf-8")
    metrics = ("update", *(metric for pair in CURVES.values() for metric in pair), *METRICS)
    lines = [{key: line[key] for key in metrics if key in line} for line in _metrics(folder)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (target / "metrics.jsonl").write_text(text, encoding="utf-8")


def medians(run: str = "seed1") -> dict[str, float]:
    """Return the median of each metric over the updates of a stored run."""
    log = _metrics(KEPT / run)
    return {
        name: statistics.median(line[name] for line in log if line.get(name) is not None)
        for name in METRICS
    }


def draw(runs: Sequence[Path], controls: Sequence[Path], path: Path) -> None:
    """Draw success by both verdicts, and the controls', as mean and range of runs."""
    figure, panels = subplots(1, 2, size=(11, 4.8))
    logs, control_logs = (list(map(_metrics, folders)) for folders in (runs, controls))
    for axes, (title, metrics) in zip(panels, CURVES.items(), strict=True):
        for metric, (label, colour, line) in zip(metrics, STYLES, strict=True):
            _add(axes, logs, metric, colour, label, **line)
        name = f"control, advantages shuffled ({seeds(len(controls))})"
        _add(axes, control_logs, metrics[0], GREY, name, linewidth=2, linestyle="--")
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
    **line: Any,
) -> None:
    curves = [
        {line["update"]: line[metric] for line in log if line.get(metric) is not None}
        for log in logs
    ]
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    if shared:
        rows = [[curve[update] for update in shared] for curve in curves]
        spread(axes, shared, rows, colour, label, **line)


def _subject(folder: Path) -> str:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    task = Path(config.get("dataset_path") or "embedded").stem
    model = Path(config.get("model_name_or_path") or "embedded").name
    size = " (0.46 M weights)" if model == "embedded" else ""
    return f"{task} tasks, {model} model{size}, {config.get('algorithm_name', '')}"


if __name__ == "__main__":
    main()
