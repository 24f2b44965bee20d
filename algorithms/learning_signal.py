"""Whether an update has something to learn from: no signal, no movement.

Where all episodes earn the same, only the critic's error is left of the advantages, and only the
entropy bonus of the loss. Whitening would scale the error up to size 1, and Adam makes whole steps
of any small gradient: in tens of updates the policy would be noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fctncalling.algorithms.advantages import decomposed_gae, whiten
from fctncalling.algorithms.algorithm import Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord

EPSILON = 1e-6  # of the largest reward to go: a spread below it is rounding
LEAST_SCALE = 0.1  # of the outcomes' spread: a critic that explains more than 99 % leaves noise
MOST_SPREAD = (
    2.0  # times the outcomes' spread: what advantages spread beyond it is the critic's error
)
CUT_SHARE = 0.5  # of actions cut by --max_new_tokens that explains why nothing is earned


def outcome_spread(timelines: Trajectories, discount: float) -> float:
    """Return how far rewards to go deviate from their mean over the actions of the same number; 0:
    nothing to learn.

    The position in an episode is no outcome: an earlier action is further from the same reward in
    every episode. A single episode has no other to be compared with: it spreads as far as it
    earned.
    """
    nothing = torch.zeros_like(timelines.rewards, dtype=torch.float64)
    _, returns = decomposed_gae(
        timelines.rewards, nothing, *timelines[2:4], nothing[:, 0], gamma=discount, lam=1.0
    )
    starts = timelines.begins_action()
    earned = returns[starts]
    if not earned.numel():
        return 0.0
    if len(returns) == 1:
        return float(earned.abs().max())
    number = timelines.action_number()[starts]
    counts = torch.bincount(number).to(earned)
    means = torch.zeros_like(counts).index_add_(0, number, earned) / counts
    spread = (earned - means[number]).square().mean().sqrt()
    return float(spread) if spread > EPSILON * earned.abs().max() else 0.0


def scaled(advantages: Tensor, counted: Tensor, spread: float) -> Tensor:
    """Return advantages whitened as far as outcomes that spread so far allow, 0 where they do not
    spread.
    """
    if spread == 0.0:
        return torch.zeros_like(advantages)
    whitened = whiten(advantages, counted, least_scale=LEAST_SCALE * spread)
    deviation = float(advantages[counted].std(correction=0)) if counted.any() else 0.0
    excess = deviation / (MOST_SPREAD * spread)
    return whitened / excess if excess > 1.0 else whitened


def no_signal_warning(episodes: Sequence[EpisodeRecord], config: TrainConfig) -> str:
    """Return the line that says why the policy was not moved, and what to try."""
    valid = [episode for episode in episodes if not episode.invalid]
    if not valid:
        return (
            "no valid episode to learn from: the policy was not moved. Look at the "
            "environment's errors"
        )
    returns = [episode.episode_return for episode in valid]
    if not any(returns):
        told = f"no episode of this update earned anything (0 of {len(valid)})"
        cures = ["easier tasks (--curriculum, --mixture)", "--reward progress"]
        cures += ["a model that was taught by examples first", "more --episodes_per_update"]
    else:
        whose = "all episodes of each group" if config.algorithm_name == "GRPO" else "all episodes"
        told = f"{whose} of this update earned the same ({min(returns):g} to {max(returns):g})"
        cures = ["tasks that succeed sometimes (--task_sampling success, other tasks)"]
        cures += ["more --episodes_per_update"]
    num_actions = max(1, sum(episode.num_steps for episode in valid))
    cut = sum(episode.num_actions_truncated for episode in valid) / num_actions
    if cut > CUT_SHARE:
        cures.insert(0, f"a larger --max_new_tokens ({100 * cut:.0f} % of the actions were cut)")
    return f"{told}: the policy was not moved. Read the episodes' logs, and try {', '.join(cures)}"
