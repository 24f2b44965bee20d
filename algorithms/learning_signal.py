"""Learning signal of an update: shaped rewards, groups that differ, the scale of advantages.

Reward scaling, overlong and KL penalties shape what is learned from; logs keep the raw rewards.
Without differing returns the policy is not moved: where all returns are equal, advantages hold
nothing but the critic's error, and the loss nothing but the entropy bonus. Whitening would scale
that error up to size 1, and Adam takes full steps for any gradient however small: within tens of
updates the policy would be noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np
import torch
from torch import Tensor

from fctncalling.algorithms import grpo
from fctncalling.algorithms.advantages import whiten
from fctncalling.algorithms.algorithm import Trajectories, action_outcomes
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord

EPSILON = 1e-6  # of the largest reward to go: a spread below it is rounding
# Whitening divides by at least this share of the outcomes' spread: where the critic explains more
# than 99 % of them, what is left is noise.
MIN_SCALE = 0.1
# What advantages spread beyond this many times the outcomes' spread is the critic's error.
MAX_SPREAD = 2.0


def shape_rewards(episodes: Sequence[EpisodeRecord], config: TrainConfig) -> list[EpisodeRecord]:
    """Return the episodes with shaped rewards: --overlong penalty, reward_scale."""
    if config.reward_scale == 1.0 and config.overlong != "penalty":
        return list(episodes)
    return [_shape_episode(episode, config) for episode in episodes]


def learnable_episodes(
    episodes: Sequence[EpisodeRecord], config: TrainConfig
) -> list[EpisodeRecord]:
    """Return the learnable episodes: valid, with actions, not all masked by --overlong."""
    usable = [episode for episode in episodes if not episode.invalid and episode.rows]
    if config.overlong == "mask" and all(is_fully_truncated(episode) for episode in usable):
        return []
    return usable


def overlong_penalty(length: int, *, cut: bool, config: TrainConfig) -> float:
    """Return the penalty for an overlong action of `length` tokens.

    It is overlong_penalty if the action was cut.

    Over the last overlong_buffer tokens before the limit it rises linearly from 0 (DAPO,
    arXiv:2503.14476, eq. 13).
    """
    if cut:
        return config.overlong_penalty
    buffer = config.overlong_buffer
    beyond = length - (config.max_new_tokens - buffer)
    return config.overlong_penalty * min(1.0, beyond / buffer) if buffer and beyond > 0 else 0.0


def _shape_episode(episode: EpisodeRecord, config: TrainConfig) -> EpisodeRecord:
    cut, number, rows = frozenset(episode.cut_actions), 0, []
    for row in episode.rows:
        rewards, length = list(row.rewards), 0
        for index, (acted, ends) in enumerate(zip(row.acted, row.ends_action, strict=True)):
            length += acted
            if not ends:
                continue
            if config.overlong == "penalty":
                rewards[index] -= overlong_penalty(length, cut=number in cut, config=config)
            number, length = number + 1, 0
        scaled = [config.reward_scale * reward for reward in rewards]
        rows.append(dataclasses.replace(row, rewards=scaled))
    return dataclasses.replace(episode, rows=rows)


def is_fully_truncated(episode: EpisodeRecord) -> bool:
    """Whether an episode is fully truncated: every action by --max_new_tokens."""
    return len(episode.cut_actions) >= sum(sum(row.ends_action) for row in episode.rows)


def groups_with_signal(
    episodes: Sequence[EpisodeRecord], config: TrainConfig
) -> list[EpisodeRecord]:
    """Return the episodes of groups with different outcomes (DAPO).

    GRPO's are those that `grpo_estimate` compares: equal ones give advantages of 0. The others' are
    not discounted: else success after two steps and after three would differ by (1 - gamma), and a
    group that always succeeds would seem to have something to tell.
    """
    gamma = config.resolved_gamma if config.algorithm_name == "GRPO" else 1.0
    valid = [episode for episode in episodes if not episode.invalid and episode.rows]
    compared: dict[tuple[Hashable, int], list[float]] = {}
    for episode in shape_rewards(valid, config):
        outcomes = _outcomes(episode, gamma)
        for number, outcome in enumerate(
            outcomes if config.group_credit == "step" else outcomes[:1]
        ):
            compared.setdefault((episode.group_key, number), []).append(outcome)
    differing = {
        group_key
        for (group_key, _), outcomes in compared.items()
        if np.std(outcomes) > grpo.EPSILON
    }
    return [episode for episode in valid if episode.group_key in differing]


def _outcomes(episode: EpisodeRecord, gamma: float) -> list[float]:
    """Return the discounted reward to go from each action of an episode."""
    outcomes, later = list[float](), 0.0
    for row in reversed(episode.rows):
        for reward, ends in zip(reversed(row.rewards), reversed(row.ends_action), strict=True):
            if ends:
                later = reward + gamma * later
                outcomes.append(later)
    return outcomes[::-1]


def pooled_return_std(trajectories: Trajectories, gamma: float) -> float:
    """Return the pooled standard deviation of returns, from their means by action index.

    0: no learning signal.

    Per index, because an earlier action is further from the same reward in every episode. A single
    episode has nothing to be compared with: its largest reward to go is returned.
    """
    outcomes, number = action_outcomes(trajectories, gamma)
    if not outcomes.numel():
        return 0.0
    if len(trajectories.rewards) == 1:
        return float(outcomes.abs().max())
    counts = torch.bincount(number).to(outcomes)
    means = torch.zeros_like(counts).index_add_(0, number, outcomes) / counts
    spread = (outcomes - means[number]).square().mean().sqrt()
    return float(spread) if spread > EPSILON * outcomes.abs().max() else 0.0


def whiten_by_spread(
    advantages: Tensor, loss_mask: Tensor, spread: float, *, shift: bool = True
) -> Tensor:
    """Whiten advantages within bounds of the outcomes' spread; 0 if there is no spread.

    shift: as of `whiten`.
    """
    if spread == 0.0:
        return torch.zeros_like(advantages)
    whitened = whiten(advantages, loss_mask, min_scale=MIN_SCALE * spread, shift=shift)
    deviation = float(advantages[loss_mask].std(correction=0)) if loss_mask.any() else 0.0
    excess = deviation / (MAX_SPREAD * spread)
    return whitened / excess if excess > 1.0 else whitened


def no_signal_warning(episodes: Sequence[EpisodeRecord]) -> str:
    """Return the warning about an update without learning signal: likely cause and cure."""
    valid = [episode for episode in episodes if not episode.invalid]
    if not valid:
        return (
            "no valid episode to learn from: the policy was not moved. Look at the "
            "environment's errors"
        )
    returns = [episode.episode_return for episode in valid]
    num_actions = max(1, sum(episode.num_steps for episode in valid))
    cut = sum(episode.num_actions_truncated for episode in valid) / num_actions
    return (
        f"no episode earned more than others alike ({min(returns):g} to {max(returns):g}), "
        f"{cut:.0%} of the actions were cut by --max_new_tokens: the policy was not moved. Read "
        "the episodes' logs, and take tasks that succeed sometimes (--task_sampling success), a "
        "reward for parts of one, or a model that was taught by examples first"
    )
