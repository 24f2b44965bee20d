"""SupervisedLearner: supervised fine-tuning of a policy, one resumable optimiser step at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from fctncalling.algorithms.batch import length_to_last_acted
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.fsdp import (
    full_state_dict,
    full_tensor,
    load_full_state_dict,
)
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.minibatches import make_batch, microbatches, row_token_ids
from fctncalling.algorithms.nan_guard import check_finite
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch
from fctncalling.algorithms.policy.shared_prefixes import PrefixSharing, PrefixTree
from fctncalling.algorithms.policy.shared_prefixes.prefix_tree import common_prefix_with_previous

KEY_BLOCK = 64  # tokens of a prompt that are compared as one


@dataclass
class SupervisedConfig:
    """Configuration of supervised fine-tuning."""

    epochs: int = 1
    """Passes over the demonstrations."""
    max_steps: int | None = None
    """Optimiser steps after which to stop, whatever `epochs` says; the schedule ends there."""
    lr: float = 3e-3
    """Highest learning rate, reached after the warm-up."""
    final_lr_share: float = 0.05
    """Share of `lr` that the cosine ends at."""
    warmup_share: float = 0.05
    """Share of the steps over which the learning rate rises from 0."""
    weight_decay: float = 0.01
    """AdamW's decay, on matrices only."""
    batch_size: int = 64
    """Token rows an optimiser step."""
    max_tokens_per_microbatch: int = 8192
    """Tokens, padding included, that one forward may hold: bounds the memory."""
    max_grad_norm: float = 1.0
    """Norm to which the gradient is clipped."""
    share_prefixes: bool = True
    """Whether passes compute tokens that rows begin with alike once, where that is cheaper."""
    fixed_prefixes: bool = False
    """Whether such tokens, where all rows of a pass begin with them, get no gradient."""
    seed: int = 0
    """Seeds the order of the rows."""


def supervised_settings(config: TrainConfig) -> SupervisedConfig:
    """Return the settings of the supervised stage of a run."""
    return SupervisedConfig(
        epochs=config.sft_epochs,
        lr=config.sft_lr,
        weight_decay=config.weight_decay,
        batch_size=config.sft_batch_size,
        max_tokens_per_microbatch=config.max_microbatch_tokens,
        max_grad_norm=config.max_grad_norm,
        fixed_prefixes=config.sft_fixed_prefixes,
        seed=config.seed,
    )


class SupervisedLearner:
    """Learner of demonstrations by supervised fine-tuning on their acted tokens.

    The passes are those of reinforcement learning: adapters, precision, shared prefixes, several
    processes and sharded weights work alike. Which rows a step learns from depends on the settings
    and its number alone, so a learner that loads a state goes on exactly.
    """

    def __init__(
        self,
        policy: ActorCritic,
        demonstrations: Sequence[EpisodeRecord],
        config: TrainConfig,
        processes: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        """policy: sharded already if the run shards it.

        ValueError for demonstrations without a trained token.
        """
        self._policy = policy
        self._config = config
        self._processes = processes
        self._settings = supervised_settings(config)
        self._rows = trainable_rows(demonstrations)
        lengths, ids = [len(row.ids) for row in self._rows], [row.ids for row in self._rows]
        sort_keys = find_shared_prefixes(ids) if config.sft_group_by_prefix else lengths
        self._batches = row_batches(sort_keys, self._settings)
        # Fused steps take no sharded weights on every device.
        fused = processes.sharding is None
        self.optimiser = adamw(policy.policy_parameters(), self._settings, fused=fused)
        sharing = policy.prefix_sharing if config.share_prefixes else ""
        self._sharing = None if isinstance(sharing, str) else sharing
        self.steps = 0

    @property
    def num_steps(self) -> int:
        """Number of optimiser steps of all epochs."""
        return len(self._batches)

    @property
    def is_over(self) -> bool:
        """Whether the stage is over: every step was taken."""
        return self.steps >= self.num_steps

    def compute_gradient(self) -> dict[str, float]:
        """Compute the gradient of the next step's loss, before clipping.

        Return loss, confident_token_share, trained_tokens and tokens.
        """
        policy, config = self._policy, self._config
        policy.eval()  # no dropout, as in reinforcement learning
        policy.zero_grad(set_to_none=True)
        rows = [self._rows[index] for index in self._batches[self.steps]]
        total = sum(sum(row.acted) for row in rows)
        device = next(policy.parameters()).device

        def run_pass(batch: Batch) -> tuple[Tensor, Tensor]:
            outputs = policy(batch, gradient_checkpointing=config.gradient_checkpointing)
            loss = -outputs.logprobs.sum() / total
            check_finite("loss", loss.detach(), f"at supervised step {self.steps + 1}")
            confident = (outputs.logprobs.detach() > np.log(0.5)).sum()
            return loss, torch.stack((loss.detach(), confident.to(loss.dtype)))[:, None]

        passes = list(make_batches(rows, self._settings, self._sharing, device))
        ones = [1] * len(passes)
        found = self._processes.accumulate_gradients(policy, passes, run_pass, ones)
        losses, confident = found.tolist()
        return {
            "loss": sum(losses),
            "confident_token_share": sum(confident) / total,
            "trained_tokens": float(total),
            "tokens": float(sum(len(row.ids) for row in rows)),
        }

    def take_step(self) -> dict[str, float]:
        """Take a step of the optimiser: clip the gradients, step at its learning rate.

        Return the norm before clipping and the rate. FloatingPointError at a NaN, before any weight
        is changed.
        """
        weights = list(self._policy.policy_parameters())
        norm = full_tensor(clip_grad_norm_(weights, self._settings.max_grad_norm))
        check_finite("policy_grad_norm", norm, f"at supervised step {self.steps + 1}")
        share = learning_rate_multiplier(self.steps, self.num_steps, self._settings)
        for group in self.optimiser.param_groups:
            group["lr"] = share * self._settings.lr
        self.optimiser.step()
        self._policy.zero_grad(set_to_none=True)
        self.steps += 1
        return {"grad_norm": float(norm), "learning_rate": share * self._settings.lr}

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint: steps, optimiser, digest; a collective operation."""
        return {
            "steps": self.steps,
            "optimiser": full_state_dict(self.optimiser),
            "digest": self._digest(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Load a saved state; ValueError for one of other demonstrations or settings."""
        if state["digest"] != self._digest():
            raise ValueError(
                "its supervised stage has other demonstrations, --sft_epochs, --sft_batch_size or "
                "--sft_group_by_prefix"
            )
        load_full_state_dict(self.optimiser, state["optimiser"])
        self.steps = int(state["steps"])

    def _digest(self) -> str:
        """Return a digest of all rows in the order of their steps."""
        digest = hashlib.sha256()
        for batch in self._batches:
            for row in (self._rows[index] for index in batch):
                digest.update(np.asarray(row.ids, dtype=np.int64).tobytes())
                digest.update(np.asarray(row.acted, dtype=bool).tobytes())
        return digest.hexdigest()


def trainable_rows(records: Sequence[EpisodeRecord]) -> list[TokenRecord]:
    """Return the rows of valid demonstrations that have a trained token.

    ValueError where none has one.
    """
    rows = [
        row for record in records if not record.invalid for row in record.rows if any(row.acted)
    ]
    if not rows:
        raise ValueError(f"none of the {len(records)} demonstrations has a token that was acted")
    return rows


def make_batches(
    rows: list[TokenRecord],
    config: SupervisedConfig,
    sharing: PrefixSharing | None,
    device: torch.device,
) -> Iterator[Batch]:
    """Make the batches of an optimiser step's rows, with shared prefixes if that is cheaper."""
    limit, lengths = config.max_tokens_per_microbatch, [*map(length_to_last_acted, rows)]
    # Padding is not bounded: the grouping of rows decides the last bits of the published weights.
    groups, shares = microbatches(lengths, max_tokens=limit, max_padding_share=1.0), False
    ids: list[NDArray[np.int64]] = []
    if sharing is not None:
        ids = [it[:length] for it, length in zip(row_token_ids(rows), lengths, strict=True)]
        if sharing.may_save_tokens(ids, max(lengths)):
            together = sharing.microbatches(ids, max_tokens=limit)
            shares = sharing.saves_tokens(ids, together, groups)
            groups = together if shares else groups
    for group in groups:
        batch = make_batch([rows[i] for i in group], device=device, trim=True)
        if shares and sharing is not None:
            tree = sharing.build_tree([ids[i] for i in group])
            if config.fixed_prefixes and sharing.by_segment:
                tree = tree._replace(fixed=_fixed_tokens(tree, [rows[i] for i in group]))
            batch = batch._replace(tree=tree.to(device))
        yield batch


def _fixed_tokens(tree: PrefixTree, rows: Sequence[TokenRecord]) -> int:
    """Return the number of leading context tokens that all rows share."""
    root = tree.segments[0]
    shared = root.end if root.descendants_end == len(tree.ids) else 0
    return min(shared, *(row.acted.index(True) - 1 for row in rows))


def row_batches(
    sort_keys: Sequence[int] | Sequence[list[int]], config: SupervisedConfig
) -> list[list[int]]:
    """Return row batches, one for each optimiser step, as row indices.

    Shuffled each epoch, rows with similar keys together. A key is the row's length, or the token
    ids that it shares with another row: rows of one prompt come together wherever they are.
    """
    generator = torch.Generator().manual_seed(config.seed)
    batches: list[list[int]] = []
    by_prefix = any(isinstance(key, list) for key in sort_keys)
    # Sorting by length inside a pool saves padding and keeps epochs different.
    pool = len(sort_keys) if by_prefix else 16 * config.batch_size
    for _ in range(config.epochs):
        order = torch.randperm(len(sort_keys), generator=generator).tolist()
        pools = [
            sorted(order[i : i + pool], key=lambda row: sort_keys[row])
            for i in range(0, len(order), pool)
        ]
        ordered = [row for part in pools for row in part]
        epoch = [
            ordered[i : i + config.batch_size] for i in range(0, len(ordered), config.batch_size)
        ]
        batches += [epoch[i] for i in torch.randperm(len(epoch), generator=generator).tolist()]
    return batches[: config.max_steps]


def find_shared_prefixes(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Find the prefix that each row shares with another, in whole blocks.

    As keys of `row_batches` they bring rows of one prompt together and leave them mixed otherwise:
    by all of its tokens a row would lie among those whose requests begin with the same words.
    """
    ids = [np.asarray(row, dtype=np.int64) for row in rows]
    order = sorted(range(len(ids)), key=lambda row: ids[row].tobytes())
    common = [*common_prefix_with_previous([ids[row] for row in order]), 0]
    keys: list[list[int]] = [[]] * len(ids)
    for place, row in enumerate(order):
        shared = max(common[place], common[place + 1])
        keys[row] = list(rows[row][: shared // KEY_BLOCK * KEY_BLOCK or shared])
    return keys


def learning_rate_multiplier(step: int, num_steps: int, config: SupervisedConfig) -> float:
    """Return the multiplier of the learning rate at a step: linear warm-up, half a cosine."""
    warmup = max(1, round(config.warmup_share * num_steps))
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, num_steps - warmup)
    return config.final_lr_share + (1 - config.final_lr_share) * 0.5 * (
        1 + math.cos(math.pi * progress)
    )


def adamw(
    parameters: Iterable[nn.Parameter], config: SupervisedConfig, *, fused: bool = True
) -> torch.optim.AdamW:
    """Return AdamW over the trainable parameters; weight decay applies to matrices only."""
    trainable = [p for p in parameters if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trainable if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, 0.95), fused=fused)
