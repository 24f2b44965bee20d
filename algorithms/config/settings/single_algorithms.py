"""Settings of APPO and of GRPO alone."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class SingleAlgorithmSettings:
    """Settings of APPO and of GRPO alone."""

    action_logprob_norm: str = field(
        "token",
        "APPO: what an action's log-probability is divided by: nothing (sum: the true ratio, "
        "which clips long actions almost always), its number of tokens, or of words.",
        choices=("sum", "token", "word"),
        group="single algorithms",
    )
    group_credit: str = field(
        "episode",
        "GRPO: what a token answers for: the whole episode's return, or (step) that from its "
        "action on, against the group's at their action of the same number.",
        choices=("episode", "step"),
    )
    group_std: bool = field(
        True, "GRPO: whether a group's advantages are scaled to deviation 1; Dr. GRPO: false."
    )
    sequence_ratio: bool = field(
        False,
        "GRPO: whether a row (an episode, where the template only appends) has one ratio, the "
        "geometric mean of its tokens', as in GSPO, whose loss is also --loss_aggregation "
        "row_mean, with clip ranges near 4e-4.",
    )
    dynamic_sampling: int = field(
        1,
        "Rounds of collecting until --episodes_per_update episodes are in groups "
        "(--group_size) that did not all earn the same, the others being left out (DAPO); 1: one "
        "round, all are kept.",
        interval="[1, inf)",
    )
