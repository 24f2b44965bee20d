"""Memory plan of a run: bytes of each phase, from the policy's sizes and the settings.

What is left out: environments and tools (processes of their own), rollout workers and vLLM servers,
texts and token records of the episodes, what another program takes meanwhile, attention
implementations that keep a matrix of scores, and mixture-of-experts layers, whose tokens are taken
to pass through all experts' weights.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fctncalling.algorithms.config import SettingError, TrainConfig, resolve_device
from fctncalling.algorithms.policy.precision import compute_dtype
from fctncalling.lab.memory_plan import terms
from fctncalling.lab.memory_plan.episode_lengths import EpisodeLengths
from fctncalling.lab.memory_plan.policy_sizes import BYTES_FP32, PolicySizes, policy_sizes


class MemoryTerm(NamedTuple):
    """Part of the memory that a phase needs."""

    name: str
    num_bytes: int
    set_by: str = ""  # the flags that decide it


class MemoryPhase(NamedTuple):
    """Phase of a run, and its memory at the peak."""

    name: str
    terms: tuple[MemoryTerm, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all terms."""
        return sum(term.num_bytes for term in self.terms)


class MicrobatchSize(NamedTuple):
    """Tokens of the update's largest forward pass."""

    tokens: int
    row: int  # longest row
    shared: bool  # a prefix tree
    is_only_one: bool  # of its optimiser step


class MemoryPlan(NamedTuple):
    """Memory that a run needs, and whether the machine has it."""

    sizes: PolicySizes
    device: str
    phases: tuple[MemoryPhase, ...]
    libraries: int  # bytes of the process before a model is loaded
    num_processes: int  # on this machine, sharing its memory
    available: int | None  # bytes; None: unknown
    microbatch: MicrobatchSize
    largest_microbatch: int | None  # tokens that fit; None: unknown or none
    remedies: tuple[str, ...] = ()

    @property
    def peak_phase(self) -> MemoryPhase:
        """Phase that needs most memory."""
        return max(self.phases, key=lambda phase: phase.num_bytes)

    @property
    def needed_bytes(self) -> int:
        """Peak memory of all processes of this machine in bytes, libraries included."""
        return self.num_processes * (self.libraries + self.peak_phase.num_bytes)

    @property
    def fits(self) -> bool:
        """Whether the memory suffices; True if its size is unknown."""
        return self.available is None or self.needed_bytes <= self.available

    def as_json(self) -> dict[str, Any]:
        """Convert the plan to JSON values; sizes in bytes."""
        return {
            "fits": self.fits,
            "device": self.device,
            "needed_bytes": self.needed_bytes,
            "available_bytes": self.available,
            "peak_bytes": self.peak_phase.num_bytes,
            "peak_phase": self.peak_phase.name,
            "libraries_bytes": self.libraries,
            "num_processes": self.num_processes,
            "num_weights": self.sizes.num_weights,
            "num_trained": self.sizes.num_trained,
            "microbatch_tokens": self.microbatch.tokens,
            "largest_microbatch_tokens": self.largest_microbatch,
            "phases": {
                phase.name: {term.name: term.num_bytes for term in phase.terms}
                for phase in self.phases
            },
            "remedies": list(self.remedies),
        }


CGROUP = Path("/sys/fs/cgroup")


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that this process could use, its present ones included.

    None where the system does not tell.
    """
    if device.type == "cuda":
        if not torch.cuda.is_available():  # it is another machine's
            return None
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device))
    own = resident_memory()
    limits = [size + own for size in (_available(), _left_in_container()) if size is not None]
    if limits:
        return min(limits)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def resident_memory() -> int:
    """Return the bytes of this process's resident memory."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def _available() -> int | None:
    """Return the bytes that Linux can give without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kilobytes = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return next((1024 * int(size) for size in kilobytes), None)


def _left_in_container() -> int | None:
    """Return the bytes that a control group (version 2) leaves; None without a limit."""
    try:
        names = ("memory.max", "memory.current")
        limit, used = ((CGROUP / name).read_text().strip() for name in names)
        return None if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None


PREFILL_TOKENS = 4096  # that the rollout's engine reads at once
CUDA_CONTEXT = 500_000_000  # bytes of a card that its driver takes for a process; not measured
_UNITS = {"GB": 10**9, "GIB": 2**30, "MB": 10**6, "MIB": 2**20}


def parse_memory(text: str) -> int:
    """Parse a size such as 24GB to bytes; SettingError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([GM]i?B)", text.strip(), re.IGNORECASE)
    if match is None:
        raise SettingError(f'--memory: got "{text}", expected a size such as 24GB or 512MiB')
    return int(float(match[1]) * _UNITS[match[2].upper()])


def make_plan(
    config: TrainConfig,
    roles: Sequence[str] = (),
    lengths: EpisodeLengths | None = None,
    memory: int | None = None,
) -> MemoryPlan:
    """Make the plan of these settings for this machine or a named device.

    SettingError or ModelError for settings that no run could start with. roles: of a team, where
    `team_roles` names them. lengths: of the episodes; none: rows have --max_episode_tokens. memory:
    bytes to plan for; none: what is free here.

    Started by torchrun, it is that of each process; those of one machine share its memory.
    """
    device = resolve_device("auto") if config.device == "auto" else torch.device(config.device)
    sizes = policy_sizes(config, device, roles)
    config = with_expected_lengths(config, lengths)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", str(count))) if device.type == "cpu" else 1
    libraries = resident_memory() if device.type == "cpu" else CUDA_CONTEXT * (memory is not None)
    available = free_memory(device) if memory is None else memory
    width = 2 if compute_dtype(config, device) == torch.bfloat16 else BYTES_FP32
    batch = largest_pass(config, sizes, count)
    on_cpu = device.type == "cpu"
    prompt = lengths.prompt if lengths else None
    phases = memory_phases(
        config, sizes, batch, count=count, width=width, on_cpu=on_cpu, prompt=prompt
    )
    if config.sft_tasks or config.sft_episodes:
        taught, batch_taught = _supervised_pass(config, sizes, batch, lengths)
        _, update, step = memory_phases(
            taught, sizes, batch_taught, count=count, width=width, on_cpu=on_cpu
        )[:3]
        if not config.num_updates:
            batch, phases = batch_taught, (phases[0], step, *phases[3:])
        phases = (phases[0], update._replace(name="supervised stage"), *phases[1:])
    plan = MemoryPlan(sizes, device.type, phases, libraries, local, available, batch, None)
    largest = _largest_microbatch(plan, config, count, width, prompt)
    return plan._replace(largest_microbatch=largest)


def with_expected_lengths(config: TrainConfig, lengths: EpisodeLengths | None) -> TrainConfig:
    """Limit the settings' episode length and held-out tasks to what is expected."""
    if lengths is None:
        return config
    return dataclasses.replace(
        config,
        max_episode_tokens=min(config.max_episode_tokens, lengths.episode),
        eval_episodes=max(1, min(config.eval_episodes, lengths.num_held_out)),
    )


def _supervised_pass(
    config: TrainConfig,
    sizes: PolicySizes,
    batch: MicrobatchSize,
    lengths: EpisodeLengths | None,
) -> tuple[TrainConfig, MicrobatchSize]:
    """Return the supervised stage's settings as an update's, and its largest pass."""
    longest = lengths.demonstration if lengths else config.max_episode_tokens
    row = min(longest, config.max_episode_tokens)
    shared = lengths.shared if lengths and config.share_prefixes and sizes.own_forward else 0
    tokens = config.sft_batch_size * (row - shared) + shared
    if tokens > config.max_microbatch_tokens:
        tokens = max(1, config.max_microbatch_tokens // row) * row
    taught = dataclasses.replace(config, episodes_per_update=config.sft_batch_size)
    is_only_one = config.sft_batch_size * row <= config.max_microbatch_tokens
    return taught, batch._replace(
        tokens=tokens, row=row, shared=bool(shared), is_only_one=is_only_one
    )


def largest_pass(config: TrainConfig, sizes: PolicySizes, count: int) -> MicrobatchSize:
    """Return the update's largest pass if all rows have --max_episode_tokens.

    As many tokens as --max_microbatch_tokens and an equal share of the minibatch by
    --gradient_cp_steps allow, at least one row. A team has a row for each role and episode; those
    of a central critic hold all of these, and no prefix twice.
    """
    row = longest_row(config, sizes)
    rows = -(-config.episodes_per_update // config.num_mini_batch) * sizes.num_roles
    parts = -(-config.gradient_cp_steps // count) * count
    limit = min(config.max_microbatch_tokens, -(-rows * row // parts))
    shared = config.share_prefixes and config.episodes_per_task > 1 and sizes.own_forward
    shared = shared and not config.critic_has_own_rows
    tokens = max(limit, row)
    is_only_one = tokens * count >= rows * row and not config.roles_have_own_weights
    return MicrobatchSize(tokens, row, shared, is_only_one)


def longest_row(config: TrainConfig, sizes: PolicySizes) -> int:
    """Return the length of the longest row in tokens.

    An episode, or what a central critic reads of one, all roles' rows and the state before them.
    """
    joined = sizes.num_roles + 1 if config.critic_has_own_rows else 1
    return joined * config.max_episode_tokens


def memory_phases(
    config: TrainConfig,
    sizes: PolicySizes,
    batch: MicrobatchSize,
    *,
    count: int = 1,
    width: int = BYTES_FP32,
    on_cpu: bool = True,
    prompt: int | None = None,
) -> tuple[MemoryPhase, ...]:
    """Return the memory of each phase in one of `count` processes; pure arithmetic.

    prompt: tokens of the longest prompt; none: of the longest episode.
    """
    shares = count if config.fsdp else 1
    flags = "--model_name_or_path, --critic"
    weights = [MemoryTerm("weights", sizes.weight_bytes // shares, flags)]
    cast = MemoryTerm("weights cast", sizes.cast_bytes // shares, "--compute_dtype")  # in a pass
    moments = MemoryTerm("optimiser", terms.optimiser_bytes(sizes) // shares, "--lora_r, --fsdp")
    gradients = MemoryTerm("gradients", terms.gradient_bytes(sizes) // shares, "--lora_r, --fsdp")
    held = [*weights, moments]
    if shares > 1:
        held.append(MemoryTerm("gathered shards", terms.fsdp_gathered_bytes(sizes), "--fsdp"))
    passes = _update_passes(config, sizes, batch, width)
    before = [] if batch.is_only_one else [gradients]
    output = MemoryTerm("output gradient", terms.output_gradient_bytes(sizes), "the vocabulary")
    update = MemoryPhase("update", (*held, cast, *before, *passes, output))
    if on_cpu:  # CUDA's cache is not in max_memory_allocated
        update = _with_slack(update, config, sizes, batch, width)
    step_terms = [*held, gradients, MemoryTerm("step", terms.optimiser_step_bytes(sizes) // shares)]
    if count > 1 and shares == 1:
        joined = min(gradients.num_bytes, terms.MAX_REDUCE_BYTES + 4 * sizes.largest_trained)
        step_terms[-1] = MemoryTerm("step", max(joined, step_terms[-1].num_bytes))
    step = MemoryPhase("optimiser step", tuple(step_terms))
    # without updates none of its moments are there before or after the supervised stage
    beside = [*weights, moments] if config.num_updates else weights
    phases = [_rollout_phase(config, sizes, beside, count, width, prompt), update, step]
    if shares > 1:  # a checkpoint is written from whole tensors
        whole = sizes.policy_weight_bytes + terms.optimiser_bytes(sizes)
        phases.append(MemoryPhase("checkpoint", (*held[:-1], MemoryTerm("whole tensors", whole))))
    return tuple(phases)


def _with_slack(
    phase: MemoryPhase, config: TrainConfig, sizes: PolicySizes, batch: MicrobatchSize, width: int
) -> MemoryPhase:
    """Add the free but fragmented blocks of malloc to an update's memory.

    Other phases have none to speak of: they make few small things that stay.
    """
    recomputed = config.gradient_checkpointing
    moving = sum(term.num_bytes for term in phase.terms if term.name != "weights")
    activations = sum(term.num_bytes for term in phase.terms if term.name == "activations")
    adapted = bool(config.lora_r) and not recomputed
    held = terms.fragmented_heap_bytes(moving, activations, adapted=adapted)
    if sizes.own_forward or recomputed:  # passes that trim the heap
        trimmed = terms.untrimmed_heap_bytes(
            sizes, batch.tokens, checkpointing=recomputed, shared=batch.shared, width=width
        )
        held = min(held, trimmed)
    slack = MemoryTerm("allocator", held, "--max_microbatch_tokens")
    return phase._replace(terms=(*phase.terms, slack))


def _update_passes(
    config: TrainConfig, sizes: PolicySizes, batch: MicrobatchSize, width: int
) -> list[MemoryTerm]:
    """Return the terms of the largest forward and backward pass.

    Logits and one layer's gradients of activations do not meet.
    """
    activations = terms.activation_bytes(
        sizes,
        batch.tokens,
        batch.row,
        checkpointing=config.gradient_checkpointing,
        shared=batch.shared,
        width=width,
    )
    whole = terms.saved_activation_count(sizes.layer, shared=batch.shared) * batch.tokens * width
    recomputed = int(whole) if config.gradient_checkpointing else 0
    logits = terms.logits_bytes(sizes, batch.tokens)
    layer = terms.activation_gradient_bytes(sizes, batch.tokens, width=width) + recomputed
    flags = "--max_microbatch_tokens, --gradient_checkpointing"
    return [
        MemoryTerm("activations", activations - recomputed, flags),
        MemoryTerm("logits or one layer", max(logits, layer), "--max_microbatch_tokens"),
    ]


def _rollout_phase(
    config: TrainConfig,
    sizes: PolicySizes,
    held: list[MemoryTerm],
    count: int,
    width: int,
    prompt: int | None,
) -> MemoryPhase:
    """Return the memory of a rollout: decoder copies, largest cache and a pass."""
    if config.rollout_engine != "local":
        return MemoryPhase("rollout", tuple(held))
    # With --num_updates 0 only evaluations play: demonstrations are written, not sampled.
    played = config.episodes_per_update if config.num_updates else 0
    episodes = max(played, config.eval_episodes)
    slots = min(config.n_rollout_threads, -(-episodes // count))
    engines = sizes.num_roles if config.role_adapters else 1  # each with caches of its own
    tokens = engines * slots * config.max_episode_tokens
    # in the tree of prompts that were read: as many as the slots hold
    prefixes = engines * slots * min(prompt or tokens, config.max_episode_tokens)
    if config.max_cache_tokens is not None:
        tokens = min(tokens, config.max_cache_tokens)
        prefixes = 0  # of the same budget
    a_token = terms.kv_cache_bytes_per_token(sizes, width)
    cache = int(tokens * a_token * terms.CACHE_GROWTH)
    read = min(PREFILL_TOKENS, tokens)
    passes = terms.rollout_pass_bytes(sizes, read, slots, width)
    cache_flags = "--n_rollout_threads, --max_episode_tokens, --max_cache_tokens"
    candidates = [
        *held,
        MemoryTerm("decoder's copies", engines * sizes.copied_bytes, "--compute_dtype"),
        MemoryTerm("KV cache", cache, cache_flags),
        MemoryTerm("prefix tree", prefixes * a_token, "--max_cache_tokens"),
        MemoryTerm("pass", passes, "--n_rollout_threads"),
    ]
    if config.fsdp and count > 1:
        candidates.append(MemoryTerm("whole weights", sizes.gathered_bytes, "--fsdp"))
    return MemoryPhase("rollout", tuple(candidates))


def _largest_microbatch(
    plan: MemoryPlan, config: TrainConfig, count: int, width: int, prompt: int | None
) -> int | None:
    """Return the largest --max_microbatch_tokens, in whole rows, that fits all phases.

    None where not even one row does, or where nothing is known of the memory.
    """
    if plan.available is None:
        return None
    row = longest_row(config, plan.sizes)

    def fits(rows: int) -> bool:
        tokens = rows * row
        changed = dataclasses.replace(
            config, max_microbatch_tokens=tokens, gradient_cp_steps=1, num_mini_batch=1
        )
        batch = largest_pass(changed, plan.sizes, 1)._replace(tokens=tokens, is_only_one=False)
        on_cpu = plan.device == "cpu"
        phases = memory_phases(
            config, plan.sizes, batch, count=count, width=width, on_cpu=on_cpu, prompt=prompt
        )
        return plan._replace(phases=phases).fits

    if not fits(1):
        return None
    low, high = 1, 2
    while high < 2**20 and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * row
