"""Grade the credit of a run: its estimators and its critic against branched truth.

Episodes of training tasks are played in groups, every state is branched by exact copies of the
environment until the wanted standard error, and every estimator is graded on the same episodes.
Writes credit/last.json and .png into the run's folder (of --update N update_N), and .jsonl, the
graded episodes, which `view` shows with the true V and A of each action. Exit code 0, or 2 if the
run cannot be graded.

example:
  fctncalling credit results/check/embedded/embedded/TPPO
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.output import align_rows
from fctncalling.cli.shared.parser import add_flag, print_error
from fctncalling.data.paths import atomic_write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's flags."""
    add = partial(add_flag, parser)
    passes = "passes over these by a critic with a body of its own; 0: none (default: 0)"
    others = "other tasks that critics are fitted on; 0: none (default: 256)"
    add("run_folder", Path, "RUN", "folder of a training run")
    add("--update", int, "N", "checkpoint to grade (default: the last)")
    add("--tasks", int, "K", "training tasks to grade (default: 30)", 30)
    add("--group_size", int, "G", "episodes of each (default: 8)", 8)
    add("--critic_tasks", int, "K", others, 256)
    add("--body_epochs", int, "N", passes, 0)
    add("--standard_error", float, "E", "wanted, of an action's advantage (default: 0.05)", 0.05)
    add("--max_branches", int, "K", "of one state, at most (default: 200)", 200)
    add("--seed", int, "N", "of tasks and branches", 1)
    add("--json", Path, "FILE", "write the grades here, too")


def run(arguments: argparse.Namespace) -> int:
    """Grade the run; return 0, or 2 if that cannot be done."""
    from fctncalling.algorithms.config import SettingError
    from fctncalling.data.errors import TaskError
    from fctncalling.lab.credit.grading import grade_run
    from fctncalling.lab.credit.ruler import RulerSettings, UngradableRunError
    from fctncalling.training.load_policy import ModelError

    for flag, least in (("tasks", 1), ("group_size", 2), ("critic_tasks", 0), ("max_branches", 2)):
        if (got := getattr(arguments, flag)) < least:
            return print_error(f"--{flag}: got {got}, expected at least {least}")
    settings = RulerSettings(
        group_size=arguments.group_size,
        standard_error=arguments.standard_error,
        min_branches=min(16, arguments.max_branches),
        max_branches=arguments.max_branches,
        seed=arguments.seed,
    )
    name = "last" if arguments.update is None else f"update_{arguments.update:06d}"
    place = arguments.run_folder / "credit" / name
    try:
        grades = grade_run(
            arguments.run_folder,
            update=arguments.update,
            num_tasks=arguments.tasks,
            num_critic_tasks=arguments.critic_tasks,
            body_epochs=arguments.body_epochs,
            settings=settings,
            episodes_to=place.with_suffix(".jsonl"),
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
        for path in filter(None, (place.with_suffix(".json"), arguments.json)):
            with atomic_write(path) as new:
                new.write_text(json.dumps(grades, indent=1), encoding="utf-8")
        plot_grades(grades, place.with_suffix(".png"))
    except (UngradableRunError, SettingError, TaskError, ModelError, OSError) as error:
        return print_error(error)
    print(grades_text(grades))
    return 0


def grades_text(grades: dict[str, Any]) -> str:
    """Format the grades: a description of the truth, then the tables."""
    truth, coverage = grades["truth"], grades["coverage"]
    variance = truth["return_variance"]
    parts = ("explained_variance", "between", "within")
    values = [
        [
            name,
            *(f"{row[part]:.2f}" for part in parts),
            f"{row['interval'][0]:.2f} to {row['interval'][1]:.2f}",
            f"{row['bias']:+.2f}",
        ]
        for name, row in grades["values"].items()
    ]
    estimators = [
        [name, *_estimator_cells(row, matters=truth["significant"] > 0)]
        for name, row in grades["estimators"].items()
    ]
    about = (
        f"{grades['checkpoint']}: {truth['episodes']} episodes of {truth['tasks']} tasks, "
        f"{truth['success']:.0%} solved; {truth['actions']} actions, "
        f"{truth['significant']:.0%} of which matter.\n"
        f"Truth by {truth['branches']:,} branches ({truth['cpu_ms_a_branch']:.1f} CPU-ms each, "
        f"{truth['environment_steps']:,} environment steps): standard error of an advantage "
        f"{truth['standard_error_median']:.3f} (median), {truth['standard_error_p90']:.3f} (90 %); "
        f"{truth['same_token_prefix']} of {truth['states']} states branched with the very tokens; "
        f"{coverage['all']:.0%} of states match another episode's; by turn: "
        f"{', '.join(f'{share:.0%}' for share in coverage['by_turn'].values())}.\n"
        f"Variance of returns: {variance['between_tasks']:z.0%} between tasks; in the actions of "
        f"each turn: {', '.join(f'{share:z.0%}' for share in variance['by_turn'].values())}."
    )
    head = ["value", "explained variance", "between tasks", "within", "95 %", "bias"]
    title = ["estimator", "sign", "speaks", "sign if so", "Spearman", "cosine", "ranking"]
    return "\n\n".join([about, align_rows([head, *values]), align_rows([title, *estimators])])


def _estimator_cells(row: dict[str, Any], *, matters: bool) -> list[str]:
    """Format an estimator's grades; "-" for a share without actions or pairs."""
    shares = (
        (row["sign"], matters),
        (row["speaks"], matters),
        (row["sign_where_it_speaks"], matters and row["speaks"] > 0),
        (row["spearman"], True),
        (row["cosine"], True),
        (row["ranking"]["right"], row["ranking"]["clear_pairs"] > 0),
    )
    return [f"{share:.2f}" if is_defined else "-" for share, is_defined in shares]


def plot_grades(grades: dict[str, Any], path: Path) -> None:
    """Write the grades as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
    names = list(grades["values"])
    for shift, key in enumerate(("explained_variance", "between", "within")):
        heights = [max(grades["values"][name][key], -1.0) for name in names]
        places = [index + 0.27 * (1 - shift) for index in range(len(names))]
        left.barh(places, heights, height=0.25, label=key.replace("_", " "))
    left.set_yticks(range(len(names)), names)
    left.axvline(0, color="black", linewidth=0.8)
    left.set_xlim(-1, 1)
    left.set_xlabel("explained variance of the true value (cut at -1)")
    left.legend(loc="upper left")
    ranked = sorted(grades["estimators"], key=lambda name: grades["estimators"][name]["sign"])
    signs = [grades["estimators"][name]["sign"] for name in ranked]
    bounds = [grades["estimators"][name]["interval"] for name in ranked]
    low = [max(0.0, sign - bound[0]) for sign, bound in zip(signs, bounds, strict=True)]
    high = [max(0.0, bound[1] - sign) for sign, bound in zip(signs, bounds, strict=True)]
    right.barh(ranked, signs, xerr=[low, high], color="tab:blue", ecolor="gray")
    right.axvline(0.5, color="black", linewidth=0.8, linestyle="dotted")
    right.set_xlim(0, 1)
    right.set_xlabel("sign right where the action matters (95 %)")
    figure.suptitle(f"Credit at {grades['checkpoint']}")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
