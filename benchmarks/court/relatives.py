"""Relatives of the trainer's algorithms that a claim needs, each in its place for one run alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from statistics import pvariance
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
from fctncalling.algorithms.batch import Batch, Experience, Minibatch, build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.group_baseline import GROUP_BASELINES
from fctncalling.algorithms.grpo import EPSILON, _group_mean
from fctncalling.algorithms.metrics import LossTerms
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.targets import Targets, compute_targets
from fctncalling.envs import rewards
from fctncalling.envs.rewards import StepOutcome, strict_success

BONUS = 0.1  # of a success, for each message whose calls all ran
KEPT_SHARE = 0.5  # of the actions that a mask leaves, of the groups that a filter leaves
MARKERS, TOOL = 6, 5  # of the embedded tokenizers: ids below are role marks and ends; a result's


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


def result_tokens(batch: Batch) -> Tensor:
    """Return which tokens a tool wrote, its end among them, (B, T) bool: their last mark is its."""
    places = torch.arange(batch.ids.shape[1]).expand_as(batch.ids)
    marks = torch.where(batch.ids < MARKERS, places, 0).cummax(1).values
    before = torch.cat([marks[:, :1], marks[:, :-1]], 1)
    return (batch.ids.gather(1, before) == TOOL) & (places > 0) & batch.attention_mask


def echoing(coefficient: float) -> Callable[..., list[LossTerms]]:
    """Return `accumulate_gradients` that also predicts what tools answer, by the mean cross-entropy
    of their tokens (ECHO, arXiv:2605.24517).
    """
    accumulate = ppo.accumulate_gradients

    def echo(
        policy: ActorCritic,
        experience: Experience,
        targets: Targets,
        minibatch: Minibatch,
        *rest: Any,
    ) -> list[LossTerms]:
        terms = accumulate(policy, experience, targets, minibatch, *rest)
        batches = [experience.batch(rows)[0] for rows in minibatch]
        written = [result_tokens(batch) for batch in batches]
        total = sum(int(each.sum()) for each in written)
        for batch, tokens in zip(batches, written, strict=True):
            if tokens.any():
                logprobs = policy(*batch._replace(acted=tokens)).logprobs
                (-coefficient / total * logprobs.sum()).backward()
        return terms

    return echo


def groups_of_most_variance(episodes: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """Return the episodes of the KEPT_SHARE of groups whose returns vary most (RAGEN-2,
    arXiv:2604.06268).
    """
    returns = defaultdict[Any, list[float]](list)
    for episode in episodes:
        returns[episode.group_key].append(episode.episode_return)
    order = sorted(returns, key=lambda group: pvariance(returns[group]), reverse=True)
    kept = set(order[: round(KEPT_SHARE * len(order))])
    return [episode for episode in episodes if episode.group_key in kept]


def filtered(episodes: Sequence[EpisodeRecord], device: torch.device) -> Experience:
    """Return the update batch of those groups alone."""
    return build_experience(groups_of_most_variance(episodes), device)


@torch.no_grad()
def teacher_log_ratios(
    policy: ActorCritic,
    experience: Experience,  # with rows for a critic that sees the truth
    minibatches: Sequence[Minibatch],
    config: TrainConfig,
) -> Tensor:
    """Return each token's log-probability with the truth in front, less that without, (N,)."""
    ratios = torch.zeros_like(experience.tokens.rewards)
    for rows in [rows for minibatch in minibatches for rows in minibatch]:
        batch, indices = experience.batch(rows)
        told = Batch(*batch.critic_rows or ())
        with_truth, without = (
            policy(*each, temperature=config.temperature).logprobs for each in (told, batch)
        )
        ratios[indices] = with_truth - without
    return ratios


def self_distilled(policy: ActorCritic, experience: Experience, *rest: Any) -> Targets:
    """Return `compute_targets` with the teacher's log-ratios as advantages, in deviations: the
    policy gradient of the divergence from a teacher that sees the truth (SDPO, arXiv:2601.20802).
    """
    found = compute_targets(policy, experience, *rest)
    ratios = teacher_log_ratios(policy, experience, rest[0], rest[2])
    ratios = torch.where(found.loss_mask, ratios, 0.0)
    scale = ratios[found.loss_mask].square().mean().sqrt().clamp(min=EPSILON)
    return found._replace(advantages=ratios / scale)


def call_bonus(outcome: StepOutcome) -> float:
    """Return strict success, and BONUS for a message with calls of which none failed."""
    return strict_success(outcome) + BONUS * bool(outcome.step.calls and outcome.step.error is None)


PATCHES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "": nullcontext,
    "gigpo": lambda: mock.patch.dict(GROUP_BASELINES, state=gigpo),
    "gate": lambda: mock.patch.dict(ppo.ALGORITHMS, TPPO=ppo.TPPO._replace(estimate=gated)),
    "mask": lambda: mock.patch.object(ppo, "compute_targets", masked_targets(at_random=False)),
    "mask_at_random": lambda: mock.patch.object(
        ppo, "compute_targets", masked_targets(at_random=True)
    ),
    "filter": lambda: mock.patch.object(ppo, "build_experience", filtered),
    "self-distillation": lambda: mock.patch.object(ppo, "compute_targets", self_distilled),
    **{
        f"echo of {coefficient}": partial(
            mock.patch.object, ppo, "accumulate_gradients", echoing(coefficient)
        )
        for coefficient in (0.05, 0.2)
    },
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
