"""Printed plan of memory and time (`fctncalling train --plan`); no weights are loaded."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.lab.memory_plan.episode_lengths import EpisodeLengths, measure_episode_lengths
from fctncalling.lab.memory_plan.planning import MemoryPlan, make_plan, parse_memory
from fctncalling.lab.memory_plan.run_time import RunTime, measure_products
from fctncalling.progress_bar import duration_text
from fctncalling.training.announce import announce
from fctncalling.training.run_config import RunConfig

LORA_RANK = 16
BUSY = 1.3  # times as long as on free cores, from which on it is said


def remedies(
    plan: MemoryPlan, config: TrainConfig, plan_of: Callable[[TrainConfig], MemoryPlan]
) -> tuple[str, ...]:
    """Return changes that make a run fit, the mildest first, with their needs; () if it fits.

    Of changes that differ in a number of episodes side by side, the one with most that fits. Where
    no change alone is enough, the one that saves most is named, and that it is not.
    """
    if plan.fits:
        return ()
    enough, best = list[str](), None
    for alternatives in _changes(plan, config):
        for changes in alternatives:
            try:
                changed = plan_of(dataclasses.replace(config, **changes))
            except SettingError:  # a change that does not go with the other flags
                continue
            words = f"{_words(changes)}: {size_text(changed.needed_bytes)}"
            if changed.fits:
                enough.append(words)
                break
            if best is None or changed.needed_bytes < best[0]:
                best = changed.needed_bytes, words
    if enough or best is None:
        return tuple(enough)
    return (f"{best[1]}, which does not fit either; take a smaller model",)


def _changes(plan: MemoryPlan, config: TrainConfig) -> Iterator[list[dict[str, Any]]]:
    """Yield changes, each with its alternatives, the gentlest first."""
    fewer = list[dict[str, Any]]()
    threads = config.n_rollout_threads // 2
    while threads:
        fewer.append({"n_rollout_threads": threads})
        threads //= 2
    if plan.peak_phase.name == "rollout":
        yield fewer
    if plan.largest_microbatch is not None:
        yield [{"max_microbatch_tokens": plan.largest_microbatch}]
    recomputed = {"gradient_checkpointing": True}
    one_row = {**recomputed, "max_microbatch_tokens": plan.microbatch.row}
    if not config.gradient_checkpointing:
        yield [recomputed]
    yield [one_row]
    if config.critic == "full" and config.team_critic != "central":
        yield [{**one_row, "critic": "head"}]
    if not config.lora_r:
        lighter = {"lora_r": LORA_RANK, **({"critic": "lora"} if config.critic == "full" else {})}
        yield [lighter, {**one_row, **lighter}]
        yield [{**one_row, **lighter, **change} for change in fewer]
    yield [{**one_row, **change} for change in fewer]


def _words(changes: dict[str, Any]) -> str:
    return " ".join(
        f"--{name}" if value is True else f"--{name} {value}" for name, value in changes.items()
    )


def size_text(num_bytes: float) -> str:
    """Format a size for people."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"


def plan_text(plan: MemoryPlan) -> str:
    """Format the plan: parameters, phases, the largest microbatch, changes."""
    sizes = plan.sizes
    lines = [
        f"Parameters: {sizes.num_weights:,}, trained {sizes.num_trained:,}.",
        f"Largest pass: {plan.microbatch.tokens:,} tokens"
        f"{', each shared prefix once' if plan.microbatch.shared else ''}. Longest episode: "
        f"{plan.microbatch.row:,}.",
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
        lines += ["It would fit, or nearly, with", *(f"  {remedy}" for remedy in plan.remedies)]
    return "\n".join(lines)


def _verdict(plan: MemoryPlan) -> str:
    several = f" in {plan.num_processes} processes" if plan.num_processes > 1 else ""
    needed = f"Needed on {plan.device}{several}: {size_text(plan.needed_bytes)}"
    if plan.available is None:
        return f"{needed}; how much there is, is not known here: --memory 24GB says it."
    outcome = "fits" if plan.fits else "DOES NOT FIT"
    return f"{needed}, available {size_text(plan.available)}: {outcome}."


def time_text(run_time: RunTime | None) -> str:
    """Format the estimated time of a run."""
    if run_time is None:
        return (
            "Time: not estimated; it is for one process on this machine's CPU, with tasks whose "
            "lengths are known."
        )
    stages, slowdown = run_time.stages(), run_time.products.slowdown
    total = sum(stage.seconds for stage in stages)
    duration = f"about {duration_text(total)} on free cores"
    if slowdown > BUSY:
        duration += f", {duration_text(slowdown * total)} where they stay as busy as now"
    lines = [
        f"Time, estimated from CPU seconds of matrix products: {duration}.",
        "Answers: as long as --max_new_tokens allows, after a supervised stage as the right ones.",
    ]
    for stage in stages:
        lines.append(f"  {stage.name:22} {duration_text(stage.seconds):>9}  {stage.basis}")
    return "\n".join(lines)


def print_plan(config: TrainConfig, run_config: RunConfig, roles: Sequence[str] = ()) -> int:
    """Print the plan in the form of --plan in the first process; return 0 if it fits, else 1.

    roles: of a team, where `team_roles` names them.
    """
    memory = None if run_config.memory is None else parse_memory(run_config.memory)
    lengths = measure_episode_lengths(config, run_config)
    plan_of = partial(make_plan, roles=roles, lengths=lengths, memory=memory)
    plan = plan_of(config)
    plan = plan._replace(remedies=remedies(plan, config, plan_of))
    run_time = _run_time(config, run_config, plan, lengths)
    if run_config.plan == "json":
        seconds = run_time and {each.name: round(each.seconds, 1) for each in run_time.stages()}
        slowdown = run_time and round(run_time.products.slowdown, 2)
        times = {"seconds": seconds, "slowdown_now": slowdown}
        announce(json.dumps({**plan.as_json(), **times}, indent=2))
    else:
        announce(plan_text(plan), time_text(run_time))
    return 0 if plan.fits else 1


def _run_time(
    config: TrainConfig, run_config: RunConfig, plan: MemoryPlan, lengths: EpisodeLengths | None
) -> RunTime | None:
    """Return the estimated time of a run; None where nothing is known."""
    elsewhere = config.rollout_engine != "local" or run_config.num_rollout_workers
    elsewhere = elsewhere or plan.device != "cpu" or int(os.environ.get("WORLD_SIZE", "1")) > 1
    if elsewhere or lengths is None or lengths.num_demonstrations is None:
        return None
    return RunTime(config, plan.sizes, lengths, measure_products(config, plan.sizes))
