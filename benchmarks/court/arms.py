"""Arms of the court as data: a new arm is a new line."""

from __future__ import annotations

from typing import Any, NamedTuple

from task_sets import TASK_SETS

RATES = (2.5e-4, 5e-4, 1e-3)  # tried for each arm that has a rate of its own
TUNING_SEEDS = (101, 102)
STREAMS = ("warm", "cold")
LONG = (*STREAMS, "mended")


class Arm(NamedTuple):
    """Training arm: flags of the trainer, and values that replace a critic's."""

    flags: dict[str, Any]
    about: str
    values: str = ""  # of values.HAND_MADE
    rate_of: str = ""  # arm whose rate it has; empty: one of its own
    seeds: int = 12
    tasks: tuple[str, ...] = tuple(TASK_SETS)


TPPO: dict[str, Any] = {"algorithm_name": "TPPO"}
NO_CRITIC: dict[str, Any] = {**TPPO, "gamma": 1.0, "lam": 1.0, "critic_lr": 0.0}
GROUPS: dict[str, Any] = {"group_size": 8}
ARMS = {
    "REINFORCE": Arm(NO_CRITIC, "batch baseline, group 1"),
    "TPPO": Arm({**TPPO, "gamma": 1.0}, "values by what they know, group 1"),
    "TPPO_095": Arm(
        {**TPPO, "gamma": 1.0, "lam": 0.95}, "head, lambda .95, group 1", seeds=6, tasks=LONG
    ),
    "GRPO": Arm({"algorithm_name": "GRPO", **GROUPS}, "groups of 8; not to be had on streams"),
    "leave_one_out": Arm(
        {**NO_CRITIC, **GROUPS, "group_baseline": "leave_one_out"},
        "groups of 8; not to be had on streams",
        rate_of="GRPO",
        seeds=6,
        tasks=LONG,
    ),
    "error": Arm(NO_CRITIC, "process reward: -1 at the first error", "error", tasks=LONG),
    "potential": Arm(
        NO_CRITIC, "process reward: potential of calls to come", "potential", tasks=LONG
    ),
    "ceiling": Arm(NO_CRITIC, "true values, lambda 0", "truth", seeds=6, tasks=STREAMS),
}
