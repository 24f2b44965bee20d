"""Evaluation on held-out tasks, and which tasks are played."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class EvaluationSettings:
    """Evaluation on held-out tasks, and which tasks are played."""

    eval_interval: int = field(
        10,
        "Updates between two evaluations; 0: only before and after.",
        interval="[0, inf)",
        basic=True,
        group="collecting episodes",
    )
    eval_episodes: int = field(320, "Held-out episodes of one evaluation.", interval="[1, inf)")
    eval_samples: int = field(
        1,
        "Sampled episodes of each held-out task; from 2 on evaluation.json has pass@k and pass^k.",
        interval="[1, inf)",
    )
    task_sampling: str = field(
        "uniform",
        "How tasks are drawn. uniform: each comes once before any comes again; success: the "
        "likelier, the closer its success so far (at first its category's, and of like difficulty "
        "where tasks say theirs) is to one half.",
        choices=("uniform", "success"),
        group="which tasks are played",
    )
    mixture: str | None = field(
        None,
        "Categories and their weights, such as multi_turn_base=2,simple_python=1; those not "
        "named are left out. none: as the tasks are.",
        metavar="WEIGHTS",
    )
    curriculum: str | None = field(
        None,
        "Stages from easy to hard, such as simple_python+multiple:10,2:20: ten updates on two "
        "categories, twenty on tasks of at most 2 turns, then all tasks. With a point, 0.4:20: "
        "twenty on tasks of at most that difficulty, where tasks say theirs. none: all tasks at "
        "once.",
        metavar="STAGES",
    )
