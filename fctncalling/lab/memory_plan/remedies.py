"""Remedies: changes of flags with which a run that does not fit would."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.lab.memory_plan.phases import MemoryPlan
from fctncalling.lab.memory_plan.planning import longest_row, make_plan

LORA_RANK = 16


def remedies(plan: MemoryPlan, config: TrainConfig, roles: Sequence[str] = ()) -> tuple[str, ...]:
    """Return changes that make a run fit, the mildest first, each with its need; () if it fits.

    Where no change alone is enough, the one that saves most is named, and that it is not.
    """
    if plan.fits:
        return ()
    tried = list(_tried(plan, config, roles))
    enough = [f"{words}: {size_text(it.needed)}" for words, it in tried if it.fits]
    if enough or not tried:
        return tuple(enough)
    words, best = min(tried, key=lambda one: one[1].needed)
    return (f"{words}: {size_text(best.needed)}, which does not fit either; take a smaller model",)


def _tried(
    plan: MemoryPlan, config: TrainConfig, roles: Sequence[str]
) -> Iterator[tuple[str, MemoryPlan]]:
    for changes in _changes(plan, config):
        try:
            yield _words(changes), make_plan(dataclasses.replace(config, **changes), roles)
        except SettingError:  # a change that does not go with the other flags
            continue


def _changes(plan: MemoryPlan, config: TrainConfig) -> Iterator[dict[str, Any]]:
    if plan.peak.name == "rollout":
        for threads in (config.n_rollout_threads // 2, config.n_rollout_threads // 8, 1):
            if threads:
                yield {"n_rollout_threads": threads}
    if plan.largest_microbatch is not None:
        yield {"max_microbatch_tokens": plan.largest_microbatch}
    recomputed = {"gradient_checkpointing": True}
    one_row = {**recomputed, "max_microbatch_tokens": longest_row(config, plan.sizes)}
    if not config.gradient_checkpointing:
        yield recomputed
    yield one_row
    if config.critic == "full" and config.team_critic != "central":
        yield {**one_row, "critic": "head"}
    if not config.lora_r:
        lighter = {"critic": "lora"} if config.critic == "full" else {}
        yield {"lora_r": LORA_RANK, **lighter}
        yield {**one_row, "lora_r": LORA_RANK, **lighter}
        yield {**one_row, "lora_r": LORA_RANK, **lighter, "n_rollout_threads": 1}
    yield {**one_row, "n_rollout_threads": 1}


def _words(changes: dict[str, Any]) -> str:
    return " ".join(
        f"--{name}" if value is True else f"--{name} {value}" for name, value in changes.items()
    )


def size_text(num_bytes: float) -> str:
    """Return a size as people read it."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"
