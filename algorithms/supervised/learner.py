"""SupervisedLearner: supervised fine-tuning of a policy, one resumable optimiser step at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from fctncalling.algorithms.batch import Batch
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.fsdp import full_state_dict, load_full_state_dict
from fctncalling.algorithms.distributed.process_group import (
    SINGLE_PROCESS,
    ProcessGroup,
    unsharded_norm,
)
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.nan_guard import check_finite
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.supervised.fit import (
    WarmStartConfig,
    adamw,
    learning_rate_multiplier,
    pass_batches,
    row_batches,
    shared_beginnings,
    trained_rows,
)


class SupervisedLearner:
    """Learns the acted tokens of demonstrations by heart: their mean negative log-likelihood.

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
        """policy: already sharded, where it is to be.

        ValueError for demonstrations without a trained token.
        """
        self._policy = policy
        self._config = config
        self._processes = processes
        self._settings = supervised_settings(config)
        self._rows = trained_rows(demonstrations)
        lengths, ids = [len(row.ids) for row in self._rows], [row.ids for row in self._rows]
        sort_keys = shared_beginnings(ids) if config.sft_group_by_prefix else lengths
        self._batches = row_batches(sort_keys, self._settings)
        # Fused steps take no sharded weights on every device.
        fused = processes.sharding is None
        self.optimiser = adamw(policy.policy_parameters(), self._settings, fused=fused)
        sharing = policy.prefix_sharing if config.share_prefixes else ""
        self._sharing = None if isinstance(sharing, str) else sharing
        self.steps = 0

    @property
    def num_steps(self) -> int:
        """Optimiser steps of all epochs."""
        return len(self._batches)

    @property
    def is_over(self) -> bool:
        """Whether every step was taken."""
        return self.steps >= self.num_steps

    def compute_gradient(self) -> dict[str, float]:
        """Set the policy's gradients to those of the next step's loss, before clipping.

        Return loss, confident_token_share, trained_tokens and tokens.
        """
        policy, config = self._policy, self._config
        policy.eval()  # no dropout, as in reinforcement learning
        policy.zero_grad(set_to_none=True)
        rows = [self._rows[index] for index in self._batches[self.steps]]
        total = sum(sum(row.acted) for row in rows)
        device = next(policy.parameters()).device

        def run_pass(batch: Batch) -> tuple[Tensor, tuple[float, int]]:
            outputs = policy(*batch, gradient_checkpointing=config.gradient_checkpointing)
            loss = -outputs.logprobs.sum() / total
            check_finite("loss", loss.detach(), f"at supervised step {self.steps + 1}")
            confident = int((outputs.logprobs.detach() > np.log(0.5)).sum())
            return loss, (loss.item(), confident)

        passes = list(pass_batches(rows, self._settings, self._sharing, device))
        parts = self._processes.accumulate_gradients(policy, passes, run_pass)
        return {
            "loss": sum(loss for loss, _ in parts),
            "confident_token_share": sum(confident for _, confident in parts) / total,
            "trained_tokens": float(total),
            "tokens": float(sum(len(row.ids) for row in rows)),
        }

    def take_step(self) -> dict[str, float]:
        """Clip the gradients, take the step at its learning rate.

        Return the norm before clipping and the rate. FloatingPointError at a NaN, before any weight
        is changed.
        """
        weights = list(self._policy.policy_parameters())
        norm = unsharded_norm(clip_grad_norm_(weights, self._settings.max_grad_norm))
        check_finite("policy_grad_norm", norm, f"at supervised step {self.steps + 1}")
        share = learning_rate_multiplier(self.steps, self.num_steps, self._settings)
        for group in self.optimiser.param_groups:
            group["lr"] = share * self._settings.lr
        self.optimiser.step()
        self._policy.zero_grad(set_to_none=True)
        self.steps += 1
        return {"grad_norm": float(norm), "learning_rate": share * self._settings.lr}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores: steps, optimiser, digest; a collective operation."""
        return {
            "steps": self.steps,
            "optimiser": full_state_dict(self.optimiser),
            "digest": self._digest(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; ValueError if it is of other demonstrations or settings."""
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


def supervised_settings(config: TrainConfig) -> WarmStartConfig:
    """Return the supervised stage's part of a run's settings."""
    return WarmStartConfig(
        epochs=config.sft_epochs,
        lr=config.sft_lr,
        final_lr_share=config.sft_final_lr_share,
        warmup_share=config.sft_warmup_share,
        weight_decay=config.weight_decay,
        batch_size=config.sft_batch_size,
        max_tokens_per_microbatch=config.max_microbatch_tokens,
        max_grad_norm=config.max_grad_norm,
        seed=config.seed,
    )
