"""GRPO: no critic; an episode is compared with others of the same task (DeepSeekMath, arXiv:2402.03300).

What is here of its line, by flag: the original's mean over each row (--loss_aggregation row_mean); Dr. GRPO
(arXiv:2503.20783; --group_std false --loss_aggregation token_sum); DAPO (arXiv:2503.14476; --clip_high, token_mean and
--dynamic_sampling, without its length penalty); GSPO (arXiv:2507.18071; --sequence_ratio, with a far smaller clip
range). Rewards of single steps count: in an episode's return, or in each action's own (--group_credit step).
Truncated episodes are compared as they are: nothing can say what would have come.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.algorithm import Algorithm, Estimate, Spans, Timelines, averaged
from fctncalling.algorithms.batch import EpisodeRecord
from fctncalling.algorithms.config import TrainConfig

EPSILON = 1e-6  # keeps a group whose returns agree at advantage 0


def estimate(timelines: Timelines, config: TrainConfig) -> Estimate:
    """Return how far each token's outcome lies above the mean of its group.

    Its outcome is the episode's discounted return; or, by step, that from its action on, compared with the group's
    episodes at their action of the same number.
    """
    nothing = torch.zeros_like(timelines.rewards, dtype=torch.float64)
    _, returns = decomposed_gae(
        timelines.rewards, nothing, *timelines[2:4], nothing[:, 0], gamma=config.gamma, lam=1.0
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
    mean = _group_mean(returns, peers, samples)
    advantages = returns - mean
    if config.group_std:
        advantages = advantages / (
            _group_mean(advantages.square(), peers, samples).sqrt() + EPSILON
        )
    return Estimate(advantages.float(), returns.float(), counted=timelines.acted)


def log_ratio(token_log_ratios: Tensor, spans: Spans, config: TrainConfig) -> Tensor:
    """Return the token's own log-ratio; with --sequence_ratio the mean over its row, so that a row is clipped whole."""
    return averaged(token_log_ratios, spans.row) if config.sequence_ratio else token_log_ratios


def informative(episodes: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """Return the valid episodes of tasks whose episodes earned differently: of the others nothing is learned."""
    valid = [episode for episode in episodes if not episode.invalid and episode.rows]
    earned: dict[str, list[float]] = {}
    for episode in valid:
        earned.setdefault(episode.task_id, []).append(episode.episode_return)
    return [
        episode
        for episode in valid
        if max(earned[episode.task_id]) - min(earned[episode.task_id]) > EPSILON
    ]


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
