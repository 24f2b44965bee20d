"""PPO update shared by all algorithms, and its learning rates over a run.

Old log-probs, advantages, epochs of clipped optimiser steps.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from fctncalling.algorithms.algorithm import Algorithm
from fctncalling.algorithms.appo import APPO
from fctncalling.algorithms.batch import Experience, build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.fsdp import full_tensor
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.grpo import GRPO
from fctncalling.algorithms.learning_signal import shape_rewards
from fctncalling.algorithms.losses import LossTerms, Targets, loss_terms, total_loss
from fctncalling.algorithms.metrics import (
    Metrics,
    drop_critic_metrics,
    pass_metrics,
    step_metrics,
    update_metrics,
)
from fctncalling.algorithms.minibatches import Minibatch, Passes, make_passes
from fctncalling.algorithms.nan_guard import (
    annotate_error_with_tasks,
    annotate_location,
    check_finite,
)
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch, TokenOutputs
from fctncalling.algorithms.step_guard import StepGuard
from fctncalling.algorithms.targets import compute_targets, loss_divisor
from fctncalling.algorithms.tppo import NTPO, POAD, TPPO
from fctncalling.algorithms.values import ValueSource

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm for algorithm in (TPPO, POAD, NTPO, APPO, GRPO)
}


def find_algorithm(name: str) -> Algorithm:
    """Find an algorithm by its name, or a user's by MODULE:NAME.

    `fctncalling.training.user_code` has checked at the start that it can be imported.
    """
    module, _, own = name.partition(":")
    if not own:
        return ALGORITHMS[name]
    algorithm: Algorithm = getattr(importlib.import_module(module), own)
    return algorithm


# Loss terms of each token that a trace keeps.
PASS_TERMS = ("logprobs", "log_ratios", "token_entropies", "token_reference_kl")


class TokenDiagnostics:
    """Token diagnostics of an update: targets of its acted tokens, last pass's loss terms.

    No pass is made for it. A token whose last pass belongs to an earlier epoch (--target_kl ended
    the update early) keeps that one's terms.
    """

    def __init__(self) -> None:
        self.experience: Experience | None = None  # None: no pass was made
        self.targets: Targets | None = None
        self.terms: dict[str, Tensor] = {}  # (N,) each; NaN where no pass saw the token

    def add(
        self,
        experience: Experience,
        targets: Targets,
        indices: Tensor,  # (n,) of the step's tokens
        terms: LossTerms,
    ) -> None:
        """Add the loss terms of an optimiser step."""
        if self.targets is None:
            blank = torch.full_like(targets.advantages, torch.nan)
            self.terms = {name: blank.clone() for name in PASS_TERMS}
        self.experience = experience
        self.targets = targets
        for name, latest in self.terms.items():
            latest[indices] = getattr(terms, name)


class Optimisers(NamedTuple):
    """Optimisers of policy and critic."""

    policy: torch.optim.Optimizer | None  # None: the language model is not trained
    critic: torch.optim.Optimizer

    def zero_grad(self) -> None:
        """Clear the gradients that steps were taken from.

        After a pass without gradients the policy cannot do so itself: it leaves FSDP's root
        gathered, and the gradients of its shards would be added to the next step's.
        """
        for optimiser in self:
            if optimiser is not None:
                optimiser.zero_grad(set_to_none=True)


def make_optimisers(policy: ActorCritic, config: TrainConfig) -> Optimisers:
    """Make the optimisers, one AdamW each for policy and critic.

    Weight decay is off by default: it pulls a fine-tuned model towards 0.
    """
    return Optimisers(
        policy=adamw(policy.policy_parameters(), config.lr, config),
        critic=adamw(policy.critic_parameters(), config.critic_lr, config),
    )


def adamw(
    parameters: Iterable[torch.nn.Parameter], lr: float, config: TrainConfig
) -> torch.optim.AdamW:
    """Return AdamW over the parameters; weight decay applies to matrices only."""
    by_decay: dict[float, list[torch.nn.Parameter]] = {config.weight_decay: [], 0.0: []}
    for weight in parameters:
        by_decay[config.weight_decay if weight.dim() > 1 else 0.0].append(weight)
    groups = [{"params": params, "weight_decay": decay} for decay, params in by_decay.items()]
    betas = (config.adam_beta1, config.adam_beta2)
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=lr,
        betas=betas,
        eps=config.adam_eps,
        fused=config.adam_fused or None,  # None: torch's own choice
    )


def update(
    policy: ActorCritic,
    optimisers: Optimisers,
    episodes: Sequence[EpisodeRecord],
    config: TrainConfig,
    generator: torch.Generator,  # on the CPU: shuffles the minibatches
    # every process passes the same episodes and gets the same metrics
    processes: ProcessGroup = SINGLE_PROCESS,
    trace: TokenDiagnostics | None = None,  # takes the loss terms of each token's last pass
    source: ValueSource | None = None,  # of the run's values, which remembers; None: a fresh one
) -> Metrics:
    """Update the policy on the episodes (PPO epochs) and return the metrics.

    Where all returns are equal, only the critic learns. Raises ValueError where no token was acted,
    and FloatingPointError at a NaN or infinity, before the step that would spread it to the
    weights.
    """
    policy.eval()  # dropout would move the ratio away from 1 before anything was learned
    algorithm = find_algorithm(config.algorithm_name)
    config_alone, config = config, processes.with_equal_accumulation(config)
    device = next(policy.parameters()).device
    experience = build_experience(shape_rewards(episodes, config), device)
    passes = make_passes(experience, policy, config)
    planned = passes.minibatches(generator)
    with (
        annotate_location(policy, "the passes before the first step"),
        annotate_error_with_tasks(experience),
    ):
        targets = compute_targets(
            policy, passes, planned, algorithm, config, generator, processes, source=source
        )
    optimisers, config = _apply_learning_signal(optimisers, config, algorithm, experience, targets)
    in_loss = _rows_in_loss(planned, experience, targets, config)

    steps, early_stop_epoch = _run_epochs(
        policy, optimisers, passes, targets, in_loss, config, generator, processes, trace
    )
    policy.zero_grad(set_to_none=True)
    metrics = update_metrics(episodes, experience, targets, steps, early_stop_epoch, config)
    if source is not None and algorithm.critic:
        as_learned = experience.tokens._replace(rewards=targets.rewards)
        metrics |= source.learn(experience._replace(tokens=as_learned), targets.old_values, config)
    if processes.count > 1 and passes.sharing is not None:
        # each reads once more what all groups begin with: not counted
        alone = passes._replace(config=config_alone)
        in_loss = [alone.over([*itertools.chain(*minibatch)]) for minibatch in planned]
        in_loss = _rows_in_loss(in_loss, experience, targets, config)
    metrics |= pass_metrics(passes, planned, in_loss)
    return metrics if algorithm.critic else drop_critic_metrics(metrics)


def _run_epochs(
    policy: ActorCritic,
    optimisers: Optimisers,
    passes: Passes,
    targets: Targets,
    minibatches: list[Minibatch],  # of the first epoch; later epochs are shuffled anew
    config: TrainConfig,
    generator: torch.Generator,
    processes: ProcessGroup,
    trace: TokenDiagnostics | None,
) -> tuple[list[Metrics], int]:
    """Take the optimiser steps of all epochs.

    Return the metrics of every step, and the epoch in which the guard refused one, else 0.
    """
    algorithm, experience = find_algorithm(config.algorithm_name), passes.experience
    steps: list[Metrics] = []
    guard = None
    if config.target_kl is not None and optimisers.policy is not None:
        guard = StepGuard(policy, optimisers.policy, passes, targets, config, processes)
    for epoch in range(1, config.ppo_epoch + 1):
        if epoch > 1:
            planned = passes.minibatches(generator)
            minibatches = _rows_in_loss(planned, experience, targets, config)
        for number, minibatch in enumerate(minibatches, 1):
            with annotate_location(
                policy, f"minibatch {number} of {len(minibatches)} of epoch {epoch}"
            ):
                terms = accumulate_gradients(
                    policy, passes, targets, minibatch, algorithm, config, processes
                )
                indices = experience.token_indices(itertools.chain(*minibatch))
                if trace is not None:
                    trace.add(experience, targets, indices, terms)
                steps.append(step_metrics(terms, config) | take_step(policy, optimisers, config))
                if guard is not None:
                    steps[-1] |= guard.check(indices, terms)
                    optimisers.zero_grad()
                    if not steps[-1]["losses/step_share"]:
                        return steps, epoch
    return steps, 0


def _rows_in_loss(
    minibatches: list[Minibatch], experience: Experience, targets: Targets, config: TrainConfig
) -> list[Minibatch]:
    """Return minibatches without the rows that --overlong mask leaves no token of."""
    if config.overlong != "mask":
        return minibatches
    rows = set(experience.tokens.row[targets.loss_mask].tolist())
    remaining = [
        [learned for group in minibatch if (learned := [row for row in group if row in rows])]
        for minibatch in minibatches
    ]
    return [minibatch for minibatch in remaining if minibatch]


def _apply_learning_signal(
    optimisers: Optimisers,
    config: TrainConfig,
    algorithm: Algorithm,
    experience: Experience,
    targets: Targets,
) -> tuple[Optimisers, TrainConfig]:
    """Return optimisers and config adapted to the learning signal.

    Without any advantage the policy's optimiser is left out: else the entropy bonus alone would
    move it. Without a critic (GRPO), entropy_coef is scaled by the share of episodes that have an
    advantage, for the same reason.
    """
    with_signal = set(experience.tokens.episode[targets.advantages != 0.0].tolist())
    if not with_signal:
        return optimisers._replace(policy=None), config
    if algorithm.critic:
        return optimisers, config
    share = len(with_signal) / len(experience.episodes)
    return optimisers, replace(config, entropy_coef=share * config.entropy_coef)


def accumulate_gradients(
    policy: ActorCritic,
    passes: Passes,
    targets: Targets,
    minibatch: Minibatch,
    algorithm: Algorithm,
    config: TrainConfig,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> LossTerms:
    """Accumulate the gradients of a minibatch over its microbatches.

    Returns the loss terms of its tokens, in the order of the microbatches.
    """
    policy.zero_grad(set_to_none=True)
    experience = passes.experience
    divisor = loss_divisor(targets, experience, config)
    value_coef = config.value_coef if algorithm.critic else 0.0

    def run_pass(rows: list[int]) -> tuple[Tensor, Tensor]:
        batch, indices = passes.batch(rows)
        outputs = _training_pass(policy, batch, config)
        groups = experience.token_groups(indices)
        terms = loss_terms(outputs, targets, indices, groups, algorithm, config)
        loss = total_loss(terms, config, value_coef=value_coef, divisor=divisor)
        if not torch.isfinite(loss):
            with annotate_error_with_tasks(experience, indices):
                _require_finite(outputs._asdict() | terms._asdict() | {"loss": loss})
        # detached from the graph, which holds every activation
        return loss, torch.stack([term.detach().float() for term in terms])

    sizes = [len(experience.token_indices(rows)) for rows in minibatch]
    terms = LossTerms(*processes.accumulate_gradients(policy, minibatch, run_pass, sizes).unbind())
    return terms._replace(loss_mask=terms.loss_mask.bool())


def _training_pass(policy: ActorCritic, batch: Batch, config: TrainConfig) -> TokenOutputs:
    """Return the outputs of a pass that gradients flow through."""
    outputs: TokenOutputs = policy(
        batch,
        temperature=config.temperature,
        entropy_gradient=config.entropy_coef > 0,
        gradient_checkpointing=config.gradient_checkpointing,
    )
    return outputs


def take_step(policy: ActorCritic, optimisers: Optimisers, config: TrainConfig) -> Metrics:
    """Take a step of the optimiser: clip policy and critic gradients apart; return their norms."""
    parts = {"policy": policy.policy_parameters(), "critic": policy.critic_parameters()}
    norms = {
        f"{part}_grad_norm": full_tensor(clip_grad_norm_(weights, config.max_grad_norm))
        for part, weights in parts.items()
    }
    _require_finite(norms)
    if optimisers.policy is not None:
        optimisers.policy.step()
    optimisers.critic.step()
    return {f"losses/{name}": float(norm) for name, norm in norms.items()}


def _require_finite(tensors: dict[str, Tensor]) -> None:
    """Raise FloatingPointError naming the first tensor, as computed, with a NaN or infinity."""
    for name, tensor in tensors.items():
        check_finite(name, tensor, "before a step")


def learning_rates(config: TrainConfig, update: int) -> tuple[float, float]:
    """Return the learning rates of policy and critic in an update, counted from 0.

    They depend on the settings and the update's index alone, so a resumed run continues them. The
    warm-up rises to 1 in equal parts; the decay then falls from 1 and would reach --min_lr_ratio
    one update after the last. A critic that --critic_warmup_episodes has begun has no warm-up.
    """
    end = config.warmup_updates
    if update >= end:
        factor = _decay(config, update - end, config.num_updates - end)
        return factor * config.lr, factor * config.critic_lr
    rise = (update + 1) / end
    return rise * config.lr, (1.0 if config.critic_warmup_episodes else rise) * config.critic_lr


def _decay(config: TrainConfig, update: int, length: int) -> float:
    """Return the factor of both rates so many updates after the warm-up.

    The run ends after `length` updates.
    """
    if config.lr_schedule == "constant":
        return 1.0
    progress = min(1.0, update / max(1, length))
    left = 1.0 - progress
    if config.lr_schedule == "cosine":
        left = 0.5 * (1.0 + math.cos(math.pi * progress))
    return config.min_lr_ratio + (1.0 - config.min_lr_ratio) * left


def set_learning_rates(
    optimisers: Iterable[torch.optim.Optimizer | None], rates: Iterable[float]
) -> None:
    """Set the learning rate of each optimiser; None: unused."""
    for optimiser, rate in zip(optimisers, rates, strict=True):
        for group in () if optimiser is None else optimiser.param_groups:
            group["lr"] = rate
