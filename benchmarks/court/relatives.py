"""Relatives of the trainer's algorithms that a claim needs, each in its place for one run alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from fctncalling.algorithms import ppo
from fctncalling.algorithms.advantages import explained_variance
from fctncalling.algorithms.algorithm import (
    AdvantageEstimate,
    Trajectories,
    broadcast_span_mean,
    returns_to_go,
)
from fctncalling.algorithms.batch import Experience, Minibatch
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.group_baseline import GROUP_BASELINES
from fctncalling.algorithms.grpo import EPSILON, _group_mean
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.targets import Targets, compute_targets
from fctncalling.envs import rewards
from fctncalling.envs.rewards import Outcome, strict

BONUS = 0.1  # of a success, for each message whose calls all ran
KEPT_SHARE = 0.5  # of the actions, that a mask leaves


def gigpo(
    estimate: AdvantageEstimate,
    trajectories: Trajectories,
    hashes: Sequence[Sequence[str]],  # of each episode, one an action
    discount: float,
) -> AdvantageEstimate:
    """Return GiGPO's advantages (arXiv:2505.10978): of the episode in its group, plus of the action
    in its state.

    The first is the return less the group's mean, the second the discounted return to go less the
    mean over all visits of the state in the group, each over the deviation of what it is compared
    with. It takes the place of credit by state.
    """
    number = trajectories.action_number().clamp(min=0)  # (E, L)
    names: dict[tuple[int, str], int] = {}
    state = torch.zeros_like(number)
    for episode, group in enumerate(trajectories.group.tolist()):
        own = [names.setdefault((group, name), len(names)) for name in hashes[episode]]
        state[episode] = torch.tensor(own)[number[episode]]
    group = torch.unique(trajectories.group, return_inverse=True)[1][:, None].expand_as(number)
    begins = trajectories.begins_action()
    whole = returns_to_go(trajectories, 1.0)[:, :1].expand_as(number)
    advantages = _standardised(whole, group, begins & (number == 0)) + _standardised(
        returns_to_go(trajectories, discount), state, begins
    )
    advantages = torch.where(estimate.loss_mask, advantages, 0.0)
    return estimate._replace(advantages=advantages.to(estimate.advantages))


def _standardised(values: Tensor, peers: Tensor, samples: Tensor) -> Tensor:
    """Return values less the mean of their peers' samples, over their deviation; 0 where equal."""
    centred = values - _group_mean(values, peers, samples)
    spread = _group_mean(centred.square(), peers, samples).sqrt()
    return torch.where(spread > EPSILON, centred / (spread + EPSILON), 0.0)


def gated(trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return TPPO's estimate by the critic's values, by the mean return to go where these explain
    none of its variance (EVPO, arXiv:2604.19485).
    """
    begins = trajectories.begins_action()
    returns = returns_to_go(trajectories, config.discount).float()
    if explained_variance(trajectories.values[begins], returns[begins]) > 0.0:
        return ppo.TPPO.estimate(trajectories, config)
    level = torch.where(trajectories.acted, returns[begins].mean(), 0.0)
    estimate = ppo.TPPO.estimate(trajectories._replace(values=level), config)
    return estimate._replace(returns=ppo.TPPO.estimate(trajectories, config).returns)


def action_entropies(
    policy: ActorCritic,
    experience: Experience,
    minibatches: Sequence[Minibatch],
    config: TrainConfig,
) -> Tensor:
    """Return at each token the mean entropy over its action, (N,): one more pass."""
    entropies = torch.zeros_like(experience.tokens.rewards)
    with torch.no_grad():
        for rows in [rows for minibatch in minibatches for rows in minibatch]:
            batch, indices = experience.batch(rows)
            entropies[indices] = policy(*batch, temperature=config.temperature).entropies
    return broadcast_span_mean(entropies, experience.tokens.action)


def kept_actions(scores: Tensor, actions: Tensor) -> Tensor:
    """Return whether each token's action is among the KEPT_SHARE of highest score, (N,) bool.

    Scores are equal at all tokens of an action.
    """
    _, index, lengths = torch.unique_consecutive(actions, return_inverse=True, return_counts=True)
    of_actions = scores[lengths.cumsum(0) - lengths]
    count = round(KEPT_SHARE * len(of_actions))
    kept = torch.zeros_like(of_actions, dtype=torch.bool)
    kept[of_actions.argsort(descending=True, stable=True)[:count]] = True
    return kept[index]


def masked_targets(*, at_random: bool) -> Callable[..., Targets]:
    """Return `compute_targets` with no loss on half of the actions: those of least entropy (CARL,
    arXiv:2512.04949), or any.
    """

    def masked(
        policy: ActorCritic,
        experience: Experience,
        minibatches: Sequence[Minibatch],
        *rest: Any,
    ) -> Targets:
        found = compute_targets(policy, experience, minibatches, *rest)
        config, generator = rest[1], rest[2]
        actions = experience.tokens.action
        if at_random:
            scores = torch.rand(int(actions.max()) + 1, generator=generator)[actions]
        else:
            scores = action_entropies(policy, experience, minibatches, config)
        kept = kept_actions(scores, actions)
        return found._replace(
            loss_mask=found.loss_mask & kept,
            loss_weights=found.loss_weights * kept,
            advantages=found.advantages * kept,
        )

    return masked


def noisy_targets(deviations: float) -> Callable[..., Targets]:
    """Return `compute_targets` with normal noise on the advantage of each action, in deviations of
    the advantages: their cosine with the truth is divided by the root of 1 + deviations squared.
    """

    def noisy(policy: ActorCritic, experience: Experience, *rest: Any) -> Targets:
        found = compute_targets(policy, experience, *rest)
        actions, generator = experience.tokens.action, rest[3]  # as ppo.update has them
        draws = torch.randn(int(actions.max()) + 1, generator=generator)[actions]
        scale = deviations * found.advantages[found.loss_mask].std(correction=0)
        noise = torch.where(found.loss_mask, scale * draws, 0.0)
        return found._replace(advantages=found.advantages + noise)

    return noisy


def call_bonus(outcome: Outcome) -> float:
    """Return strict success, and BONUS for a message with calls of which none failed."""
    return strict(outcome) + BONUS * bool(outcome.step.calls and outcome.step.error is None)


PATCHES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "": nullcontext,
    "gigpo": lambda: mock.patch.dict(GROUP_BASELINES, state=gigpo),
    "gate": lambda: mock.patch.dict(ppo.ALGORITHMS, TPPO=ppo.TPPO._replace(estimate=gated)),
    "mask": lambda: mock.patch.object(ppo, "compute_targets", masked_targets(at_random=False)),
    "mask_at_random": lambda: mock.patch.object(
        ppo, "compute_targets", masked_targets(at_random=True)
    ),
    "bonus": lambda: mock.patch.dict(rewards.REWARDS, strict=call_bonus),
    **{
        f"noise of {deviations}": partial(
            mock.patch.object, ppo, "compute_targets", noisy_targets(deviations)
        )
        for deviations in (1, 3, 10)
    },
}


def patched(name: str) -> AbstractContextManager[Any]:
    """Return what a run with this relative is trained in."""
    return PATCHES[name]()
