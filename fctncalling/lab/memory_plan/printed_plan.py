"""`fctncalling train --plan`: print the memory plan and load nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.lab.memory_plan.planning import MemoryPlan, longest_row, make_plan
from fctncalling.training.announce import announce

LORA_RANK = 16


def remedies(plan: MemoryPlan, config: TrainConfig, roles: Sequence[str] = ()) -> tuple[str, ...]:
    """Return changes that make a run fit, the mildest first, each with its need; () if it fits.

    Where no change alone is enough, the one that saves most is named, and that it is not.
    """
    if plan.fits:
        return ()
    tried = list(_tried(plan, config, roles))
    enough = [f"{words}: {size_text(it.needed_bytes)}" for words, it in tried if it.fits]
    if enough or not tried:
        return tuple(enough)
    words, best = min(tried, key=lambda one: one[1].needed_bytes)
    return (
        f"{words}: {size_text(best.needed_bytes)}, which does not fit either; take a smaller model",
    )


def _tried(
    plan: MemoryPlan, config: TrainConfig, roles: Sequence[str]
) -> Iterator[tuple[str, MemoryPlan]]:
    for changes in _changes(plan, config):
        try:
            yield _words(changes), make_plan(dataclasses.replace(config, **changes), roles)
        except SettingError:  # a change that does not go with the other flags
            continue


def _changes(plan: MemoryPlan, config: TrainConfig) -> Iterator[dict[str, Any]]:
    if plan.peak_phase.name == "rollout":
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


def plan_text(plan: MemoryPlan) -> str:
    """Return the plan as a screen: parameters, phases, the largest microbatch, changes."""
    sizes = plan.sizes
    lines = [
        f"Parameters: {sizes.num_weights:,}, trained {sizes.num_trained:,}.",
        f"Largest pass of the update: {plan.microbatch.tokens:,} tokens"
        f"{', each shared prefix once' if plan.microbatch.shared else ''}.",
        "",
    ]
    for phase in plan.phases:
        mark = "  <- peak" if phase is plan.peak_phase else ""
        lines.append(f"{phase.name:24} {size_text(phase.num_bytes):>9}{mark}")
        for term in phase.terms:
            if term.num_bytes:
                flags = f"  {term.set_by}" if term.set_by else ""
                lines.append(f"  {term.name:22} {size_text(term.num_bytes):>9}{flags}")
    lines += [f"{'libraries':24} {size_text(plan.libraries):>9}", "", _verdict(plan)]
    if plan.largest_microbatch is not None:
        lines.append(f"Largest --max_microbatch_tokens that fits: {plan.largest_microbatch}.")
    if plan.remedies:
        lines += ["It would fit, or nearly, with", *(f"  {each}" for each in plan.remedies)]
    return "\n".join(lines)


def _verdict(plan: MemoryPlan) -> str:
    several = f" in {plan.num_processes} processes" if plan.num_processes > 1 else ""
    needed = f"Needed on {plan.device}{several}: {size_text(plan.needed_bytes)}"
    if plan.available is None:
        return f"{needed}; how much there is, this system does not tell."
    outcome = "fits" if plan.fits else "DOES NOT FIT"
    return f"{needed}, available {size_text(plan.available)}: {outcome}."


def print_plan(config: TrainConfig, form: str, roles: Sequence[str] = ()) -> int:
    """Print the plan as "text" or "json", in the first process; return 0 if it fits, else 1.

    roles: of a team, where `team_roles` names them.
    """
    plan = make_plan(config, roles)
    plan = plan._replace(remedies=remedies(plan, config, roles))
    announce(json.dumps(plan.as_json(), indent=2) if form == "json" else plan_text(plan))
    return 0 if plan.fits else 1
