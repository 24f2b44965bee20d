"""Critic fit: the value head learns returns while the language model is frozen.

Before the first update it learns from episodes of many tasks (--critic_warmup_episodes), after
each update from those of the last few (--critic_window_updates). The targets have lambda 1: the
values of a fresh critic teach nothing (VC-PPO, arXiv:2503.01491; VAPO, arXiv:2504.05118). A fit
holds out a fifth of the tasks, by the hash of their ids, and keeps the head of the epoch with the
least error there.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from fctncalling.algorithms.advantages import explained_variance
from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.learning_signal import shape_rewards
from fctncalling.algorithms.losses import value_losses
from fctncalling.algorithms.metrics import Metrics, explained_variance_by_turn
from fctncalling.algorithms.minibatches import bootstrap_values, make_passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.value_head import ValueHead
from fctncalling.algorithms.ppo import adamw, find_algorithm
from fctncalling.algorithms.targets import estimate_advantages, token_figures
from fctncalling.algorithms.values import Values

MOST_EPOCHS, PATIENCE = 200, 10
EPOCHS_WITHOUT_HELD_OUT = 20
TOKENS_A_STEP = 128
EXPLAINED = "critic_fit/explained_variance"


class CriticSamples(NamedTuple):
    """Samples to fit a critic to: value-head inputs at N acted tokens, and returns."""

    states: Tensor  # (N, F)
    returns: Tensor  # (N,)
    held_out: Tensor  # (N,) bool, of a task that teaches nothing
    turns: Tensor | None = None  # (N,) from 1; None: of a checkpoint that has none


def join_samples(samples: Sequence[CriticSamples]) -> CriticSamples:
    """Join samples to one; a field that one of them lacks the whole lacks."""
    turns = [each.turns for each in samples if each.turns is not None]
    return CriticSamples(
        torch.cat([each.states for each in samples]),
        torch.cat([each.returns for each in samples]),
        torch.cat([each.held_out for each in samples]),
        torch.cat(turns) if len(turns) == len(samples) else None,
    )


@torch.no_grad()
def critic_samples(
    policy: ActorCritic,
    episodes: Sequence[EpisodeRecord],
    config: TrainConfig,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> CriticSamples:
    """Return the samples for a critic of the episodes' tokens, under the current policy."""
    policy.eval()
    device = next(policy.parameters()).device
    experience = build_experience(shape_rewards(episodes, config), device)
    passes = make_passes(experience, policy, config)
    algorithm = find_algorithm(config.algorithm_name)
    bootstrap = bootstrap_values(policy, passes, algorithm, processes)
    plain = replace(config, lam=1.0, lam_value=None, lam_token=1.0, group_baseline="none")
    nothing = torch.zeros_like(experience.tokens.rewards)
    estimate = estimate_advantages(algorithm, experience, Values(nothing, bootstrap), plain)
    plan = passes.minibatches(torch.Generator())
    width = policy.value_head.num_features
    states = token_figures(policy.critic_states, passes, plan, processes, width)
    of_episode = [is_held_out(each.task_id) for each in experience.episodes]
    kept = estimate.loss_mask
    held_out = torch.tensor(of_episode, device=device)[experience.tokens.episode][kept]
    turns = experience.tokens.turn[kept]
    return CriticSamples(states[kept], estimate.returns[kept], held_out, turns)


def is_held_out(task_id: str) -> bool:
    """Whether a task is held out for validation, as a fifth are, by the id alone."""
    return zlib.crc32(task_id.encode()) % 5 == 0


def fit_critic(
    head: ValueHead,
    samples: Sequence[CriticSamples],
    config: TrainConfig,
    generator: torch.Generator,  # on the CPU: shuffles the tokens
) -> Metrics:
    """Fit the critic, its value head, to samples; return how well it explains held-out returns."""
    every = join_samples(samples)
    epochs = _fit(head, every, every.held_out, config, generator)
    with torch.no_grad():
        values = head(every.states)
    judged = every.held_out
    if judged.all() or not judged.any():
        judged = torch.ones_like(judged)
    return _fit_metrics(values, every, judged, epochs)


def _fit(
    head: ValueHead,
    samples: CriticSamples,
    held_out: Tensor,
    config: TrainConfig,
    generator: torch.Generator,
) -> int:
    """Fit the head, keep that of the best epoch, and return its number."""
    states, returns = samples.states, samples.returns
    train, validation = ((held_out == each).nonzero().squeeze(1) for each in (False, True))
    has_validation = len(train) > 0 and len(validation) > 0
    if not has_validation:
        train = validation = torch.arange(len(returns), device=returns.device)
    optimiser = adamw(head.parameters(), config.critic_lr, config)
    best_epoch = 0
    lowest_error = _error(head, states[validation], returns[validation], config)
    best_state = copy.deepcopy(head.state_dict())
    for epoch in range(1, (MOST_EPOCHS if has_validation else EPOCHS_WITHOUT_HELD_OUT) + 1):
        order = torch.randperm(len(train), generator=generator).to(train.device)
        for part in torch.split(train[order], TOKENS_A_STEP):
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(_losses(head, states[part], returns[part], config).mean())
            clip_grad_norm_(head.parameters(), config.max_grad_norm)
            optimiser.step()
        error = _error(head, states[validation], returns[validation], config)
        if error < lowest_error or not has_validation:
            best_epoch, lowest_error = epoch, error
            best_state = copy.deepcopy(head.state_dict())
        elif epoch - best_epoch >= PATIENCE:
            break
    head.load_state_dict(best_state)
    head.zero_grad(set_to_none=True)
    return best_epoch


def _fit_metrics(values: Tensor, samples: CriticSamples, judged: Tensor, epochs: float) -> Metrics:
    """Return the metrics of a fit; the explained variance is of the judged samples."""
    values, returns = values[judged], samples.returns[judged]
    metrics = {
        "critic_fit/epochs": float(epochs),
        "critic_fit/tokens": float(len(judged)),
        EXPLAINED: explained_variance(values, returns),
    }
    if samples.turns is not None:
        metrics |= explained_variance_by_turn(EXPLAINED, values, returns, samples.turns[judged])
    return metrics


def _losses(head: ValueHead, states: Tensor, returns: Tensor, config: TrainConfig) -> Tensor:
    scores = head.scores(states)
    values = head.values(scores)
    return value_losses(values, scores, returns, values.detach(), None, config)


@torch.no_grad()
def _error(head: ValueHead, states: Tensor, returns: Tensor, config: TrainConfig) -> float:
    return float(_losses(head, states, returns, config).mean())
