"""Memory plan of a run: bytes of each phase, from the policy's sizes and the settings.

Numbers are fp32 (4 bytes) on a CPU. Passes that compute in bfloat16 hold half of that for each
activation, and a cast copy of the weights; no GPU was at hand to check those. Left out are
environments and tools (other processes), rollout workers and vLLM servers, texts and token records
of the episodes, other programs, attention implementations that keep a matrix of scores, and
mixture-of-experts layers: tokens are taken to pass through all experts' weights.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fctncalling.algorithms.config import SettingError, TrainConfig, resolve_device
from fctncalling.algorithms.policy.actor_critic import MAX_LOGITS
from fctncalling.algorithms.policy.gradient_checkpointing import BYTES_A_TRIM
from fctncalling.algorithms.policy.precision import compute_dtype
from fctncalling.lab.memory_plan.episode_lengths import EpisodeLengths
from fctncalling.lab.memory_plan.policy_sizes import (
    BYTES_FP32,
    LayerWidths,
    PolicySizes,
    policy_sizes,
)

ADAMW_MOMENTS = 2
LIVE_LOGITS = 4  # arrays of one chunk's logits that exist at once, in the backward pass
STEP_ARRAYS = 2  # arrays of the largest weight's size that AdamW makes
MAX_SCORES_BYTES = 3 * 2**22 * BYTES_FP32  # of the rollout's attention, see generation/kv_cache.py
CACHE_GROWTH = 1.8  # a growing cache: the new buffers, and the old ones a fourth smaller
MAX_REDUCE_BYTES = 2**26 * BYTES_FP32  # of gradients that processes add up at once
# Memory that malloc holds in pieces, measured. Where passes trim the heap, of the arrays of the
# layers between two trims; adapted layers make more arrays for each one that stays.
TRIMMED_SHARE = 1.0
TRIMMED_ADAPTER_SHARE = 2.5
# Where they do not, of all but weights, and with adapters of activations on top.
ALLOCATOR_SHARE = 0.35
ADAPTER_SHARE = 1.2


def saved_activation_count(layer: LayerWidths, *, shared: bool) -> int:
    """Return how many numbers of a token autograd keeps of a Llama layer, for the backward pass:

        6 H           input, normed, scaled; the same before the feed-forward
        3 Q           queries, attention outputs by block and joined
        2 Q (or 2 K)  keys and values, repeated for all heads (shared: not repeated)
        4 I           gate, its SiLU, up, their product
        2 + heads     scales of norms, log-sum-exps

    H hidden size, Q heads * head size, K key heads * head size, I feed-forward. With LoRA the
    frozen norms keep 2 H less, and each adapted layer keeps its rank. Qwen3's norms of heads keep
    2 (Q + K) more, frozen ones half of that. Another family: 4 H, and inputs and outputs of its
    linear layers.
    """
    if layer.other_widths:
        return 4 * layer.hidden + layer.other_widths + layer.lora_rank
    keys = layer.keys if shared else layer.queries
    norms = 6 * layer.hidden if not layer.lora_rank else 4 * layer.hidden
    heads = (2 - bool(layer.lora_rank)) * (layer.queries + layer.keys) * layer.normed_heads
    attention = 3 * layer.queries + 2 * keys + heads
    return norms + attention + 4 * layer.inner + 2 + layer.heads + layer.lora_rank


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
    def checkpoint_bytes(self) -> int:
        """Bytes of a checkpoint on disk: weights, or adapters, and the optimiser's moments."""
        trained = BYTES_FP32 * self.sizes.num_trained
        saved = trained if self.sizes.layer.lora_rank else self.sizes.policy_weight_bytes
        return saved + ADAMW_MOMENTS * trained

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
            "checkpoint_bytes": self.checkpoint_bytes,
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
    memory_of = RunMemory(config, sizes, batch, count, width, on_cpu, prompt)
    phases = memory_of.phases()
    if config.sft_tasks or config.sft_episodes:
        taught, batch_taught = _supervised_pass(config, sizes, batch, lengths)
        of_stage = dataclasses.replace(memory_of, config=taught, batch=batch_taught, prompt=None)
        _, update, step = of_stage.phases()[:3]
        if not config.num_updates:
            batch, phases = batch_taught, (phases[0], step, *phases[3:])
        phases = (phases[0], update._replace(name="supervised stage"), *phases[1:])
    plan = MemoryPlan(sizes, device.type, phases, libraries, local, available, batch, None)
    largest = _largest_microbatch(plan, memory_of)
    return plan._replace(largest_microbatch=largest)


def with_expected_lengths(config: TrainConfig, lengths: EpisodeLengths | None) -> TrainConfig:
    """Limit the settings' episode length and held-out tasks to the expected numbers."""
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


@dataclass(frozen=True)
class RunMemory:
    """Memory of a run in one of `count` processes, phase by phase; pure arithmetic.

    width: bytes of a number in a pass. prompt: tokens of the longest prompt; none: of the longest
    episode.
    """

    config: TrainConfig
    sizes: PolicySizes
    batch: MicrobatchSize
    count: int = 1
    width: int = BYTES_FP32
    on_cpu: bool = True
    prompt: int | None = None

    def phases(self) -> tuple[MemoryPhase, ...]:
        """Return the phases: rollout, update, optimiser step, and with FSDP a checkpoint."""
        config, sizes = self.config, self.sizes
        shares = self.count if config.fsdp else 1
        gradient_bytes = BYTES_FP32 * sizes.num_trained
        moment_bytes = ADAMW_MOMENTS * gradient_bytes
        flags = "--model_name_or_path, --critic"
        weights = [MemoryTerm("weights", sizes.weight_bytes // shares, flags)]
        cast = MemoryTerm("weights cast", sizes.cast_bytes // shares, "--compute_dtype")
        moments = MemoryTerm("optimiser", moment_bytes // shares, "--lora_r, --fsdp")
        gradients = MemoryTerm("gradients", gradient_bytes // shares, "--lora_r, --fsdp")
        held = [*weights, moments]
        if shares > 1:  # the embedding with what is in no layer, and two layers, with gradients
            layers = sizes.num_layers * sizes.num_backbones * sizes.layer_weights
            gathered = max(0, sizes.num_weights - layers) + 2 * sizes.layer_weights
            held.append(MemoryTerm("gathered shards", BYTES_FP32 * 2 * gathered, "--fsdp"))
        before = [] if self.batch.is_only_one else [gradients]
        update = [*held, cast, *before, *self._passes()]
        if self.on_cpu:  # CUDA's cache is not in max_memory_allocated
            update.append(self._allocator(update))
        step_bytes = STEP_ARRAYS * BYTES_FP32 * sizes.largest_trained // shares
        if self.count > 1 and shares == 1:
            reduced = min(gradient_bytes, MAX_REDUCE_BYTES + 4 * sizes.largest_trained)
            step_bytes = max(step_bytes, reduced)
        step = (*held, gradients, MemoryTerm("step", step_bytes))
        # without updates none of its moments are there before or after the supervised stage
        beside = [*weights, moments] if config.num_updates else weights
        phases = [
            MemoryPhase("rollout", (*beside, *self._rollout())),
            MemoryPhase("update", tuple(update)),
            MemoryPhase("optimiser step", step),
        ]
        if shares > 1:  # a checkpoint is written from whole tensors
            whole = MemoryTerm("whole tensors", sizes.policy_weight_bytes + moment_bytes)
            phases.append(MemoryPhase("checkpoint", (*held[:-1], whole)))
        return tuple(phases)

    @property
    def layer_bytes(self) -> int:
        """Bytes that a pass over the microbatch saves of one layer for the backward pass."""
        numbers = saved_activation_count(self.sizes.layer, shared=self.batch.shared)
        return self.batch.tokens * numbers * self.width

    def activation_bytes(self) -> int:
        """Return the bytes that the passes over a microbatch save for the backward pass.

        Those of all layers of each backbone. Checkpointing keeps of a layer its input, output and
        log-sum-exps of its attention; on a tree, computed in parts, most tokens have two of these.
        Then the biases of attention, row * row / 2, once for each backbone (rows of our own forward
        with more than one block; trees have small ones).
        """
        sizes, batch, layer = self.sizes, self.batch, self.sizes.layer
        saved = self.layer_bytes
        if self.config.gradient_checkpointing:
            kept = layer.hidden + (1 + batch.shared) * (layer.queries + layer.heads)
            saved = batch.tokens * kept * self.width
        has_bias = sizes.own_forward and not batch.shared
        bias = batch.row * batch.row / 2 * BYTES_FP32 if has_bias else 0
        return int(sizes.num_backbones * (saved * sizes.num_layers + bias))

    def _passes(self) -> list[MemoryTerm]:
        """Return the terms of the largest forward and backward pass."""
        sizes, tokens, layer = self.sizes, self.batch.tokens, self.sizes.layer
        # arrays (positions, vocabulary) of one chunk; they do not meet one layer's gradients
        chunk = min(tokens * sizes.vocabulary, max(MAX_LOGITS, sizes.vocabulary))
        # of the feed-forward's three arrays, and of four of the hidden size
        gradients = tokens * (3 * layer.inner + 4 * layer.hidden) * self.width
        gradients += self.layer_bytes if self.config.gradient_checkpointing else 0
        logits = max(LIVE_LOGITS * chunk * BYTES_FP32, gradients)
        # of an output layer tied to the embedding, held apart until the backward pass ends
        output = BYTES_FP32 * sizes.vocabulary * layer.hidden if sizes.tied else 0
        flags = "--max_microbatch_tokens, --gradient_checkpointing"
        return [
            MemoryTerm("activations", self.activation_bytes(), flags),
            MemoryTerm("logits or one layer", logits, "--max_microbatch_tokens"),
            MemoryTerm("output gradient", output, "the vocabulary"),
        ]

    def _allocator(self, update: Sequence[MemoryTerm]) -> MemoryTerm:
        """Return the free but fragmented blocks that malloc holds in an update.

        Other phases have none to speak of: they make few small things that stay. If the heap is not
        trimmed, a share of all but weights, and of activations with adapters. Else a share of the
        layers between two trims, with adapters whose layers are not computed again a larger one;
        with checkpointing half a layer more, for what its second pass makes.
        """
        config, sizes = self.config, self.sizes
        recomputed = config.gradient_checkpointing
        moving = sum(term.num_bytes for term in update if term.name != "weights")
        adapted = bool(config.lora_r) and not recomputed
        held = int(ALLOCATOR_SHARE * moving + adapted * ADAPTER_SHARE * self.activation_bytes())
        if sizes.own_forward or recomputed:  # passes that trim the heap
            trim = -(-BYTES_A_TRIM // (self.batch.tokens * sizes.layer.hidden * self.width))
            num_layers = min(sizes.num_layers, trim) + recomputed / 2
            own_adapters = sizes.layer.lora_rank and not recomputed
            share = TRIMMED_ADAPTER_SHARE if own_adapters else TRIMMED_SHARE
            held = min(held, int(share * num_layers * self.layer_bytes))
        return MemoryTerm("allocator", held, "--max_microbatch_tokens")

    def _rollout(self) -> list[MemoryTerm]:
        """Return the terms of a rollout: decoder copies, largest cache and a pass."""
        config, sizes, layer = self.config, self.sizes, self.sizes.layer
        if config.rollout_engine != "local":
            return []
        # With --num_updates 0 only evaluations play: demonstrations are written, not sampled.
        played = config.episodes_per_update if config.num_updates else 0
        episodes = max(played, config.eval_episodes)
        slots = min(config.n_rollout_threads, -(-episodes // self.count))
        engines = sizes.num_roles if config.role_adapters else 1  # each with caches of its own
        tokens = engines * slots * config.max_episode_tokens
        # in the tree of prompts that were read: as many as the slots hold
        prefixes = engines * slots * min(self.prompt or tokens, config.max_episode_tokens)
        if config.max_cache_tokens is not None:
            tokens = min(tokens, config.max_cache_tokens)
            prefixes = 0  # of the same budget
        a_token = sizes.num_layers * 2 * layer.keys * self.width  # keys and values
        # the wider of two layers' arrays, attention scores, three arrays of logits of all slots
        numbers = 4 * layer.hidden + 4 * layer.inner + 2 * layer.queries
        read = min(PREFILL_TOKENS, tokens) * numbers * self.width
        passes = read + MAX_SCORES_BYTES + 3 * slots * sizes.vocabulary * BYTES_FP32
        flags = "--n_rollout_threads, --max_episode_tokens, --max_cache_tokens"
        terms = [
            MemoryTerm("decoder's copies", engines * sizes.copied_bytes, "--compute_dtype"),
            MemoryTerm("KV cache", int(tokens * a_token * CACHE_GROWTH), flags),
            MemoryTerm("prefix tree", prefixes * a_token, "--max_cache_tokens"),
            MemoryTerm("pass", passes, "--n_rollout_threads"),
        ]
        if config.fsdp and self.count > 1:
            terms.append(MemoryTerm("whole weights", sizes.gathered_bytes, "--fsdp"))
        return terms


def _largest_microbatch(plan: MemoryPlan, memory_of: RunMemory) -> int | None:
    """Return the largest --max_microbatch_tokens, in whole rows, that fits all phases.

    None where not even one row does, or where nothing is known of the memory.
    """
    if plan.available is None:
        return None
    config = memory_of.config
    row = longest_row(config, plan.sizes)

    def fits(rows: int) -> bool:
        tokens = rows * row
        changed = dataclasses.replace(
            config, max_microbatch_tokens=tokens, gradient_cp_steps=1, num_mini_batch=1
        )
        batch = largest_pass(changed, plan.sizes, 1)._replace(tokens=tokens, is_only_one=False)
        phases = dataclasses.replace(memory_of, batch=batch).phases()
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
