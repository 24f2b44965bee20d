"""Truncated importance weights: they make up for another sampler exactly, are cut, and stay out
where none are due.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
from token_worlds import (
    VOCABULARY,
    act,
    empty_row,
    gradient,
    observe,
    settings,
    some_episodes,
    targets_of,
    tiny_policy,
)

from fctncalling.algorithms.algorithm import Algorithm
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.ppo import ALGORITHMS, make_optimisers, update

STALE = {"max_staleness": 1, "whiten_advantages": False, "entropy_coef": 0.0, "value_coef": 0.0}


def one_token_episodes(logprobs: torch.Tensor) -> list[EpisodeRecord]:
    """Return an episode for each token that may be said, recorded as sampled with these
    log-probabilities.
    """
    episodes = []
    for token, logprob in enumerate(logprobs.tolist()):
        row = empty_row()
        observe(row, [1, 2])
        act(row, token, logprob, ends_action=True, reward=float(token % 3) - 0.5)
        episodes.append(EpisodeRecord("task", "world", [row], terminated=True))
    return episodes


def test_expected_over_a_foreign_sampler_the_gradient_is_the_policy_s_own() -> None:
    policy = tiny_policy().eval()
    sampler = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(0)).log_softmax(0)
    episodes = one_token_episodes(sampler)
    foreign = sum(
        sampler[token].exp() * gradient(policy, [one], settings(importance_cap=1e9, **STALE))
        for token, one in enumerate(episodes)
    )
    policy.zero_grad()
    own = targets_of(policy, episodes, settings()).old_logprobs
    rewards = torch.tensor([record.rows[0].rewards[-1] for record in episodes])
    exact = sum(
        own[token].exp() * gradient(policy, [one], settings(importance_cap=None, **STALE))
        for token, one in enumerate(episodes)
    )
    assert isinstance(foreign, torch.Tensor)
    assert isinstance(exact, torch.Tensor)
    assert torch.allclose(foreign, exact, atol=1e-6)
    uncorrected = sum(
        sampler[token].exp() * gradient(policy, [one], settings(importance_cap=None, **STALE))
        for token, one in enumerate(episodes)
    )
    assert isinstance(uncorrected, torch.Tensor)
    assert not torch.allclose(uncorrected, exact, atol=1e-3 * float(rewards.abs().max()))


@pytest.mark.parametrize("shift", [-0.5, 0.5, 3.0])
def test_a_weight_is_the_ratio_of_probabilities_and_no_more_than_the_cap(shift: float) -> None:
    policy = tiny_policy().eval()
    episodes = some_episodes(policy)
    for record in episodes:
        for row in record.rows:
            row.rollout_logprobs = [logprob - shift for logprob in row.rollout_logprobs]
    weights = targets_of(policy, episodes, settings(importance_cap=2.0, max_staleness=1)).importance
    expected = torch.tensor(min(2.0, torch.tensor(shift).exp().item())).expand_as(weights)
    assert torch.allclose(weights, expected, atol=1e-4)


def test_a_token_whose_sampling_probability_is_unknown_weighs_one() -> None:
    policy = tiny_policy().eval()
    episodes = some_episodes(policy)
    unknown = torch.rand(500, generator=torch.Generator().manual_seed(0)) < 0.5
    places = iter(unknown.tolist())
    expected = []
    for record in episodes:
        for row in record.rows:
            for index, acted in enumerate(row.acted):
                if acted:
                    lost = next(places)
                    row.rollout_logprobs[index] = (
                        math.nan if lost else row.rollout_logprobs[index] - 0.5
                    )
                    expected.append(1.0 if lost else math.exp(0.5))
    weights = targets_of(policy, episodes, settings(importance_cap=2.0, max_staleness=1)).importance
    assert 0 < unknown[: len(expected)].sum() < len(expected)
    assert weights.tolist() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    "algorithm", [ALGORITHMS["APPO"], ALGORITHMS["GRPO"]], ids=lambda it: it.name
)
def test_what_is_weighted_is_what_has_a_ratio(algorithm: Algorithm) -> None:
    policy = tiny_policy().eval()
    episodes = some_episodes(policy)
    generator = torch.Generator().manual_seed(0)
    for record in episodes:
        for row in record.rows:
            noise = torch.randn(len(row.ids), generator=generator).tolist()
            row.rollout_logprobs = [
                old - 0.3 * by for old, by in zip(row.rollout_logprobs, noise, strict=True)
            ]
    changes = (
        {"action_logprob_norm": "sum"} if algorithm.name == "APPO" else {"sequence_ratio": True}
    )
    config = settings(
        algorithm_name=algorithm.name,
        importance_cap=1e9,
        max_staleness=1,
        episodes_per_update=16,
        **changes,
    )
    targets = targets_of(policy, episodes, config)
    first, rows = 0, [row for record in episodes for row in record.rows]
    for row in rows:
        old = targets.old_logprobs[first : first + sum(row.acted)]
        sampled = torch.tensor(
            [p for p, acted in zip(row.rollout_logprobs, row.acted, strict=True) if acted]
        )
        ends = [end for end, acted in zip(row.ends_action, row.acted, strict=True) if acted]
        found = targets.importance[first : first + len(old)]
        if algorithm.name == "GRPO":
            assert torch.allclose(found, (old - sampled).mean().exp().expand_as(found), atol=1e-4)
        else:
            begin = 0
            for end in [place + 1 for place, ends_here in enumerate(ends) if ends_here]:
                ratio = (old - sampled)[begin:end].sum().exp()
                assert torch.allclose(found[begin:end], ratio.expand(end - begin), rtol=1e-4)
                begin = end
        first += len(old)


def test_without_staleness_and_foreign_engine_nothing_changes_and_nothing_is_told() -> None:
    results = []
    for cap in (2.0, None):
        policy = tiny_policy().eval()
        episodes = some_episodes(copy.deepcopy(policy))
        for record in episodes:
            record.rows[0].rollout_logprobs = [
                logprob - 0.4 for logprob in record.rows[0].rollout_logprobs
            ]
        config = settings(importance_cap=cap)
        metrics = update(
            policy,
            make_optimisers(policy, config),
            episodes,
            config,
            torch.Generator().manual_seed(3),
        )
        results.append(
            (metrics, torch.cat([weight.detach().flatten() for weight in policy.parameters()]))
        )
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])
    assert not any(name.startswith("mismatch/importance") for name in results[0][0])


def test_the_metrics_tell_how_much_was_cut() -> None:
    policy = tiny_policy().eval()
    episodes = some_episodes(policy)
    for record in episodes[:6]:
        record.rows[0].rollout_logprobs = [
            logprob - 1.0 for logprob in record.rows[0].rollout_logprobs
        ]
    config = settings(max_staleness=1)
    metrics = update(
        policy, make_optimisers(policy, config), episodes, config, torch.Generator().manual_seed(3)
    )
    acted = [sum(sum(row.acted) for row in record.rows) for record in episodes]
    share = sum(acted[:6]) / sum(acted)
    assert metrics["mismatch/importance_cut_share"] == pytest.approx(share)
    assert metrics["mismatch/importance_mean"] == pytest.approx(1.0 + share, rel=1e-3)
    assert metrics["mismatch/importance_min"] == pytest.approx(1.0, rel=1e-3)
