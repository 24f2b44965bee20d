"""Learning signal of an update: without differing returns the policy is not moved.

Where all returns are equal, advantages hold nothing but the critic's error, and the loss nothing
but the entropy bonus. Whitening would scale that error up to size 1, and Adam takes full steps for
any gradient however small: within tens of updates the policy would be noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fctncalling.algorithms.advantages import whiten
from fctncalling.algorithms.algorithm import Trajectories, returns_to_go
from fctncalling.algorithms.episodes import EpisodeRecord

EPSILON = 1e-6  # of the largest reward to go: a spread below it is rounding
# Whitening divides by at least this share of the outcomes' spread: where the critic explains more
# than 99 % of them, what is left is noise.
MIN_SCALE = 0.1
# What advantages spread beyond this many times the outcomes' spread is the critic's error.
MAX_SPREAD = 2.0


def pooled_return_std(trajectories: Trajectories, discount: float) -> float:
    """Return the pooled standard deviation of returns, from their means by action index.

    0: no learning signal.

    Per index, because an earlier action is further from the same reward in every episode. A single
    episode has nothing to be compared with: its largest reward to go is returned.
    """
    returns = returns_to_go(trajectories, discount)
    starts = trajectories.begins_action()
    outcomes = returns[starts]
    if not outcomes.numel():
        return 0.0
    if len(returns) == 1:
        return float(outcomes.abs().max())
    number = trajectories.action_number()[starts]
    counts = torch.bincount(number).to(outcomes)
    means = torch.zeros_like(counts).index_add_(0, number, outcomes) / counts
    spread = (outcomes - means[number]).square().mean().sqrt()
    return float(spread) if spread > EPSILON * outcomes.abs().max() else 0.0


def whiten_by_spread(advantages: Tensor, loss_mask: Tensor, spread: float) -> Tensor:
    """Whiten advantages by the outcomes' spread, within bounds; 0 where that is 0."""
    if spread == 0.0:
        return torch.zeros_like(advantages)
    whitened = whiten(advantages, loss_mask, min_scale=MIN_SCALE * spread)
    deviation = float(advantages[loss_mask].std(correction=0)) if loss_mask.any() else 0.0
    excess = deviation / (MAX_SPREAD * spread)
    return whitened / excess if excess > 1.0 else whitened


def no_signal_warning(episodes: Sequence[EpisodeRecord]) -> str:
    """Return the no-signal warning: why an update had no learning signal, and what to try."""
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
