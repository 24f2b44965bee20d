"""Evaluation on held-out tasks."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class EvaluationSettings:
    """Evaluation on held-out tasks."""

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
