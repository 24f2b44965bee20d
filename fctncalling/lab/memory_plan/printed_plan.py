"""Printed plan of memory and time (`fctncalling train --plan`); no weights are loaded.

Time is estimated from the processor's rate of matrix products in a second or two. They take most of
it for models of 100 million parameters and more; what stands beside them is a factor, measured with
SmolLM2-135M on one core, and a constant a layer.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.policy.precision import compute_dtype
from fctncalling.lab.memory_plan.episode_lengths import EpisodeLengths, measure_episode_lengths
from fctncalling.lab.memory_plan.planning import MemoryPlan, make_plan, parse_memory
from fctncalling.lab.memory_plan.policy_sizes import PolicySizes
from fctncalling.progress_bar import duration_text
from fctncalling.training.announce import announce
from fctncalling.training.run_config import RunConfig

PASS_ROWS = 256  # tokens of a measured pass: with more of them the rate hardly rises
MEASURED_WEIGHTS = 25_000_000  # at most: more than caches hold
MEASURED_S = 0.3
OVERHEAD = 1.6  # times the products: norms, sampling, optimiser; the same of answers and of steps
LAYER_S = 2e-4  # of calls, a layer and pass
BACKWARD = 3  # a forward and a backward pass, in forward passes


class StageTime(NamedTuple):
    """Estimated time of one stage of a run."""

    name: str
    seconds: float
    basis: str  # what is done in it


class ProductTimes(NamedTuple):
    """Measured seconds in which free cores multiply one weight."""

    reading: float  # with a token, in a pass over many
    answering: float  # with a token of each episode that is played at once
    slowdown: float = 1.0  # times these that it took on the clock


def measure_products(config: TrainConfig, sizes: PolicySizes) -> ProductTimes:
    """Measure products of the model's widths with --torch_threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(config.torch_threads)
    started, cpu = time.perf_counter(), time.process_time()
    try:
        reading = _seconds_per_weight(config, sizes, PASS_ROWS) / PASS_ROWS
        answering = _seconds_per_weight(config, sizes, config.n_rollout_threads)
    finally:
        torch.set_num_threads(threads)
    used = (time.process_time() - cpu) / _num_cores(config)
    return ProductTimes(reading, answering, max(1.0, (time.perf_counter() - started) / used))


def _num_cores(config: TrainConfig) -> int:
    """Return how many cores the run's threads can have."""
    cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    return min(config.torch_threads, len(cores))


@torch.inference_mode()
def _seconds_per_weight(config: TrainConfig, sizes: PolicySizes, num_rows: int) -> float:
    """Return the time of a product by so many rows on free cores, divided by the weights."""
    hidden, inner = sizes.layer.hidden, sizes.layer.inner
    dtype = compute_dtype(config, torch.device("cpu"))
    weights = min(sizes.num_weights, MEASURED_WEIGHTS)
    number = max(1, weights // (hidden * inner))
    matrices = [torch.full((inner, hidden), 0.01, dtype=dtype) for _ in range(number)]
    rows = torch.full((num_rows, hidden), 0.01, dtype=dtype)
    F.linear(rows, matrices[0])  # the first call prepares itself
    products, spent, started = 0, 0.0, time.process_time()
    while spent < MEASURED_S:
        F.linear(rows, matrices[products % number])
        products += 1
        spent = (time.process_time() - started) / _num_cores(config)
    return spent / (products * hidden * inner)


class RunTime(NamedTuple):
    """Estimated time of a run; pure arithmetic on its settings and on measured products.

    Before a supervised stage answers are taken to be as long as --max_new_tokens allows, behind it
    as long as the right ones.
    """

    config: TrainConfig
    sizes: PolicySizes
    lengths: EpisodeLengths
    products: ProductTimes

    def stages(self) -> tuple[StageTime, ...]:
        """Return the times of a run's stages, in their order."""
        config, lengths = self.config, self.lengths
        played = lengths.num_held_out * (1 + config.eval_samples)
        longest = min(lengths.num_actions * config.max_new_tokens, config.max_episode_tokens)
        answer, basis = longest, f"{played} episodes"
        stages = [StageTime("evaluation before", self._playing(played, answer), basis)]
        if lengths.num_demonstrations:
            answer = lengths.answer
            steps = config.sft_epochs * -(-lengths.num_demonstrations // config.sft_batch_size)
            seconds = steps * self._learning(config.sft_batch_size, answer, lengths.shared)
            words = f"{steps} steps of {config.sft_batch_size} demonstrations"
            stages.append(StageTime("supervised stage", seconds, words))
            stages.append(StageTime("evaluation", self._playing(played, answer), basis))
        if config.num_updates:
            number, group = config.episodes_per_update, config.episodes_per_task
            shared = lengths.shared if group == 1 else lengths.context
            passes = 1 / BACKWARD + config.ppo_epoch  # one before the first step
            learning = number / group * self._learning(group, answer, shared) * passes
            update = self._playing(number, answer) + self.sizes.num_backbones * learning
            words = f"{config.num_updates} of {number} episodes"
            stages.append(StageTime("updates", config.num_updates * update, words))
            every = config.eval_interval or config.num_updates
            evaluations = -(-config.num_updates // every)
            seconds = evaluations * self._playing(played, answer)
            words = f"{evaluations} of {played} episodes"
            stages.append(StageTime("evaluations", seconds, words))
        return tuple(stages)

    def _playing(self, episodes: int, answer: float) -> float:
        """Return the time of episodes with a given number of answer tokens in total."""
        config, sizes = self.config, self.sizes
        read = self._tokens(episodes, self.lengths.context, self.lengths.shared)
        steps = answer * -(-episodes // config.n_rollout_threads)
        weights = sizes.num_layers * sizes.layer_weights + sizes.layer.hidden * sizes.vocabulary
        answering = steps * (weights * self.products.answering + sizes.num_layers * LAYER_S)
        return OVERHEAD * (self._reading(read, self.lengths.context + answer) + answering)

    def _learning(self, rows: int, answer: float, shared: float) -> float:
        """Return the time of forward and backward passes over rows that share their beginning."""
        row = self.lengths.context + answer
        reading = self._reading(self._tokens(rows, row, shared), row)
        return OVERHEAD * (BACKWARD + self.config.gradient_checkpointing) * reading

    def _tokens(self, rows: int, length: float, shared: float) -> float:
        """Return the tokens of rows, counting shared prefixes once if they are computed once."""
        shared = min(shared, length) if self.config.share_prefixes else 0.0
        return rows * (length - shared) + shared

    def _reading(self, tokens: float, row: float) -> float:
        """Return the time of forward passes over tokens in rows of a length."""
        sizes = self.sizes
        attention = sizes.num_layers * sizes.layer.queries * row  # causal: half of two products
        weights = sizes.num_layers * sizes.layer_weights + attention
        passes = -(-tokens // self.config.max_microbatch_tokens)
        return tokens * weights * self.products.reading + passes * sizes.num_layers * LAYER_S


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
    checkpoint = f"about {size_text(plan.checkpoint_bytes)} a checkpoint"
    lines.append(f"Disk: {checkpoint}; the newest and the best stay (--keep_checkpoints).")
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
        announce(*["next: the same command without --plan"] * plan.fits)
    return 0 if plan.fits else 1


def _run_time(
    config: TrainConfig, run_config: RunConfig, plan: MemoryPlan, lengths: EpisodeLengths | None
) -> RunTime | None:
    """Return the estimated time of a run; None if unknown."""
    elsewhere = config.rollout_engine != "local" or run_config.num_rollout_workers
    elsewhere = elsewhere or plan.device != "cpu" or int(os.environ.get("WORLD_SIZE", "1")) > 1
    if elsewhere or lengths is None or lengths.num_demonstrations is None:
        return None
    return RunTime(config, plan.sizes, lengths, measure_products(config, plan.sizes))
