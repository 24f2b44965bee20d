"""GRPO: no critic; an episode is compared with others of the same task (DeepSeekMath,
arXiv:2402.03300).

A group shares the task and the seed its environments are reset with; what is sampled differs.

What is here of its line, by flag: the original's mean over each row (--loss_aggregation row_mean);
Dr. GRPO (arXiv:2503.20783; --group_std false --loss_aggregation token_sum); DAPO (arXiv:2503.14476;
--clip_high, token_mean and
--dynamic_sampling, without its length penalty); GSPO (arXiv:2507.18071; --sequence_ratio, with a
far smaller clip
range). Rewards of single steps count: in an episode's return, or in each action's own
(--group_credit step). Truncated episodes are compared as they are: nothing can say what would have
come.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch
from torch import Tensor

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.algorithm import (
    AdvantageEstimate,
    Algorithm,
    TokenGroups,
    Trajectories,
    span_mean,
)
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.reward_shaping import shaped

EPSILON = 1e-6  # a spread of outcomes below it is rounding


def estimate(timelines: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return how far each token's outcome lies above the mean of its group.

    Its outcome is the episode's return, which only an explicit --gamma discounts; or, by step, that
    from its action on, compared with the group's episodes at their action of the same number.
    """
    nothing = torch.zeros_like(timelines.rewards, dtype=torch.float64)
    _, returns = decomposed_gae(
        timelines.rewards, nothing, *timelines[2:4], nothing[:, 0], gamma=config.discount, lam=1.0
    )  # (E, L) reward to go: without a critic and with lambda 1
    number = timelines.action_number()
    samples = timelines.begins_action()
    if config.group_credit == "episode":
        returns, number, samples = (
            returns[:, :1].expand_as(returns),
            torch.zeros_like(number),
            samples & (number == 0),
        )
    peers = (
        timelines.group[:, None] * (int(number.max()) + 1) + number
    )  # (E, L) whom a token is compared with
    advantages = returns - _group_mean(returns, peers, samples)
    spread = _group_mean(advantages.square(), peers, samples).sqrt()
    if config.group_std:
        advantages = advantages / (spread + EPSILON)
    advantages = torch.where(spread > EPSILON, advantages, 0.0)  # not rounding's
    return AdvantageEstimate(advantages.float(), returns.float(), counted=timelines.acted)


def log_ratio(token_log_ratios: Tensor, spans: TokenGroups, config: TrainConfig) -> Tensor:
    """Return the token's own log-ratio; with --sequence_ratio the mean over its row, so that a row
    is clipped whole.
    """
    return span_mean(token_log_ratios, spans.row) if config.sequence_ratio else token_log_ratios


def groups_with_signal(
    episodes: Sequence[EpisodeRecord], config: TrainConfig
) -> list[EpisodeRecord]:
    """Return the valid episodes of groups whose outcomes differ, as `estimate` sees them: the
    others teach nothing.
    """
    valid = [episode for episode in episodes if not episode.invalid and episode.rows]
    compared: dict[tuple[Hashable, int], list[float]] = {}
    for episode in shaped(valid, config):
        outcomes = _outcomes(episode, config.discount)
        for number, outcome in enumerate(
            outcomes if config.group_credit == "step" else outcomes[:1]
        ):
            compared.setdefault((episode.situation, number), []).append(outcome)
    differing = {
        situation for (situation, _), outcomes in compared.items() if np.std(outcomes) > EPSILON
    }
    return [episode for episode in valid if episode.situation in differing]


def _outcomes(episode: EpisodeRecord, discount: float) -> list[float]:
    """Return the reward to go from each action of an episode on."""
    outcomes, later = list[float](), 0.0
    for row in reversed(episode.rows):
        for reward, ends in zip(reversed(row.rewards), reversed(row.ends_action), strict=True):
            if ends:
                later = reward + discount * later
                outcomes.append(later)
    return outcomes[::-1]


def _group_mean(numbers: Tensor, peers: Tensor, samples: Tensor) -> Tensor:
    """Return at each token the mean of the numbers at its peers' samples, (E, L)."""
    sums, counts = (
        torch.zeros(int(peers.max()) + 1, dtype=numbers.dtype, device=numbers.device).index_add(
            0, peers[samples], weight[samples]
        )
        for weight in (numbers, torch.ones_like(numbers))
    )
    return (sums / counts.clamp(min=1.0))[peers]


GRPO = Algorithm("GRPO", estimate, log_ratio, critic=False)
