"""The algorithms by themselves: where they must agree, where they must differ, and closed forms of
each.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from token_worlds import (
    CPU,
    Action,
    episode,
    gradient,
    one_row_a_step,
    policy_with_values,
    settings,
    some_episodes,
    targets_of,
    tiny_policy,
    trajectories,
)

from fctncalling.algorithms.algorithm import (
    TokenGroups,
    Trajectories,
    broadcast_span_mean,
    broadcast_span_sum,
)
from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.config.running_settings import ALGORITHM_NAMES
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.learning_signal import groups_with_signal
from fctncalling.algorithms.ppo import ALGORITHMS, make_optimisers, update
from fctncalling.algorithms.targets import loss_divisor

torch.set_num_threads(1)

WITH_CRITIC = ("TPPO", "POAD", "NTPO", "APPO")


def estimate(
    name: str, lines: Trajectories, **changes: Any
) -> tuple[list[list[float]], list[list[float]]]:
    """Return advantages and returns of the tokens that count, one list an episode."""
    got = ALGORITHMS[name].estimate(lines, settings(algorithm_name=name, **changes))
    kept = [
        [
            [x for x, counts in zip(*pair, strict=True) if counts]
            for pair in zip(field.tolist(), got.loss_mask, strict=True)
        ]
        for field in (got.advantages, got.returns)
    ]
    return kept[0], kept[1]


TWO_ACTIONS: list[Action] = [([0.1, 0.3, 0.2], 0.5), ([0.4, 0.6], 1.0)]


@pytest.mark.parametrize(
    ("name", "advantages", "returns"),
    [
        ("TPPO", [1.192, 0.992, 1.092, 0.6, 0.4], [1.292, 1.292, 1.292, 1.0, 1.0]),
        ("POAD", [0.782016, 0.72752, 1.0344, 0.52, 0.4], [0.882016, 1.02752, 1.2344, 0.92, 1.0]),
        (
            "NTPO",
            [0.585494, 0.577075, 0.96816, 0.428, 0.4],
            [0.685494, 0.877075, 1.16816, 0.828, 1.0],
        ),
        ("APPO", [1.192, 0.6], [1.292, 1.0]),
    ],
)
def test_each_algorithm_has_its_hand_computed_estimate(
    name: str, advantages: list[float], returns: list[float]
) -> None:
    got = estimate(name, trajectories(TWO_ACTIONS), gamma=0.9, lam=0.8)
    assert got[0][0] == pytest.approx(advantages, abs=1e-5)
    assert got[1][0] == pytest.approx(returns, abs=1e-5)


@pytest.mark.parametrize("name", WITH_CRITIC)
def test_on_actions_of_one_token_all_algorithms_with_a_critic_are_one(name: str) -> None:
    short: list[Action] = [([0.1], 0.5), ([0.4], 1.0)]
    assert estimate(name, trajectories(short), gamma=0.9, lam=0.8)[0][0] == pytest.approx(
        [1.192, 0.6], abs=1e-6
    )
    policy = policy_with_values()
    episodes = [
        episode([(1, 0.5), (1, -1.0), (1, 1.0)], terminated=True),
        episode([(1, 0.2)], truncated=True),
    ]
    wanted = gradient(policy, episodes, settings(entropy_coef=0.3), push=0.3)
    for norm in ("sum", "token"):
        config = settings(entropy_coef=0.3, algorithm_name=name, action_logprob_norm=norm)
        assert torch.allclose(gradient(policy, episodes, config, push=0.3), wanted, atol=1e-6)
        assert torch.allclose(
            targets_of(policy, episodes, config).advantages,
            targets_of(policy, episodes, settings()).advantages,
        )


@pytest.mark.parametrize("name", WITH_CRITIC)
def test_the_critics_lambda_moves_its_targets_and_no_advantage(name: str) -> None:
    lines = trajectories(TWO_ACTIONS)
    both, ahead = (
        estimate(name, lines, gamma=0.9, lam=0.5),
        estimate(name, lines, gamma=0.9, lam=1.0),
    )
    apart = estimate(name, lines, gamma=0.9, lam=0.5, lam_value=1.0)
    assert apart == (both[0], ahead[1])
    assert apart[1] != both[1]


# Gradients at ratio 1.

PLAIN = {
    "whiten_advantages": False,
    "entropy_coef": 0.0,
    "value_coef": 0.0,
    "lam": 1.0,
    "gamma": 0.9,
}


def actions_of(length: int) -> list[EpisodeRecord]:
    return [
        episode([(length, 1.0), (length, -0.5)], terminated=True),
        episode([(length, 0.25), (length, 2.0)], terminated=True),
    ]


@pytest.mark.parametrize("length", [1, 2, 5])
def test_at_ratio_one_summed_tokens_are_the_actions_likelihood_and_the_token_norm_its_share(
    length: int,
) -> None:
    policy, episodes = tiny_policy().eval(), actions_of(length)
    num_actions = 4
    tokens = (
        gradient(policy, episodes, settings(**PLAIN)) * num_actions * length
    )  # a sum, not a mean
    by_norm = {
        norm: gradient(
            policy, episodes, settings(**PLAIN, algorithm_name="APPO", action_logprob_norm=norm)
        )
        for norm in ("sum", "token")
    }
    assert tokens.abs().max() > 1e-3
    assert torch.allclose(by_norm["sum"] * num_actions, tokens, atol=1e-5)
    assert torch.allclose(by_norm["token"] * length, by_norm["sum"], atol=1e-5)


def test_away_from_ratio_one_clipping_tokens_is_not_clipping_actions() -> None:
    policy, episodes = tiny_policy().eval(), actions_of(3)
    config = {**PLAIN, "loss_aggregation": "action_mean"}
    tokens = gradient(policy, episodes, settings(**config), push=0.5)
    actions = gradient(policy, episodes, settings(**config, algorithm_name="APPO"), push=0.5)
    assert not torch.allclose(tokens, actions, atol=1e-3)


# An action's log-probability.


def spans(action: list[int], row: list[int] | None = None, num_words: int = 0) -> TokenGroups:
    return TokenGroups(
        torch.tensor(action),
        torch.tensor(row or action),
        torch.full((len(action),), float(num_words)),
    )


@pytest.mark.parametrize(
    ("norm", "logprob", "ratio"),
    [("sum", -6.0, 1.349859), ("token", -2.0, 1.105171), ("word", -3.0, 1.161834)],
)
def test_an_actions_log_probability_by_each_norm(norm: str, logprob: float, ratio: float) -> None:
    config = settings(algorithm_name="APPO", action_logprob_norm=norm)
    log_ratio, whole = ALGORITHMS["APPO"].log_ratio, spans([0, 0, 0], num_words=2)
    assert log_ratio(torch.tensor([-1.0, -2.0, -3.0]), whole, config).tolist() == pytest.approx(
        [logprob] * 3
    )
    assert log_ratio(torch.full((3,), 0.1), whole, config).exp().tolist() == pytest.approx(
        [ratio] * 3, abs=1e-6
    )


def test_words_that_nobody_counted_are_an_error_that_names_the_flag() -> None:
    config = settings(algorithm_name="APPO", action_logprob_norm="word")
    with pytest.raises(ValueError, match="--action_logprob_norm word"):
        ALGORITHMS["APPO"].log_ratio(torch.zeros(2), spans([0, 0]), config)


def test_an_actions_entropy_is_the_mean_of_its_tokens() -> None:
    got = ALGORITHMS["APPO"].average(torch.tensor([1.0, 3.0, 5.0]), spans([4, 4, 9]))
    assert got.tolist() == [2.0, 2.0, 5.0]


@examples(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=6))
def test_sums_over_spans_are_those_of_python(parts: list[list[float]]) -> None:
    numbers = torch.tensor([x for part in parts for x in part], dtype=torch.float64)
    span = torch.tensor([2 * index for index, part in enumerate(parts) for _ in part])
    assert broadcast_span_sum(numbers, span).tolist() == pytest.approx(
        [sum(part) for part in parts for _ in part]
    )
    assert broadcast_span_mean(numbers, span).tolist() == pytest.approx(
        [sum(part) / len(part) for part in parts for _ in part]
    )


# Laws of the action-level estimate.

numbers = st.floats(-5, 5)
some_actions = st.lists(
    st.tuples(st.lists(numbers, min_size=1, max_size=8), numbers), min_size=1, max_size=4
)


@examples(max_examples=60, deadline=None)
@given(some_actions, some_actions, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_appo_is_tppo_at_the_first_token_of_each_action_whatever_stands_inside(
    one: list[Action], two: list[Action], gamma: float, lam: float, lam_value: float
) -> None:
    lines, config = (
        trajectories(one, two, bootstrap=0.7),
        settings(gamma=gamma, lam=lam, lam_value=lam_value),
    )
    by_token, by_action = (ALGORITHMS[name].estimate(lines, config) for name in ("TPPO", "APPO"))
    first = by_action.loss_mask
    assert first.sum().item() == len(one) + len(two)
    assert torch.allclose(by_action.advantages[first], by_token.advantages[first], atol=1e-4)
    if lam == lam_value:
        assert torch.allclose(by_action.returns[first], by_token.returns[first], atol=1e-4)
    inside = lines._replace(values=torch.where(first, lines.values, torch.nan))
    assert torch.equal(ALGORITHMS["APPO"].estimate(inside, config).advantages, by_action.advantages)


# Groups.


def outcome(*rewards: float, task: str = "task") -> EpisodeRecord:
    record = episode([(1 + index, reward) for index, reward in enumerate(rewards)], terminated=True)
    record.task_id, record.episode_return = task, sum(rewards)
    return record


def test_an_episode_is_compared_with_those_of_its_task_alone() -> None:
    episodes: list[list[Action]] = [[([9.0, 9.0], r)] for r in (1.0, 0.0, 0.0, 1.0, 5.0, 3.0)]
    got, _ = estimate("GRPO", trajectories(*episodes, groups=[0, 0, 0, 0, 1, 1]))
    assert [tokens[0] for tokens in got] == pytest.approx(
        [1.0, -1.0, -1.0, 1.0, 1.0, -1.0], abs=1e-5
    )
    assert all(tokens[0] == tokens[1] for tokens in got)
    raw, _ = estimate("GRPO", trajectories(*episodes, groups=[0, 0, 0, 0, 1, 1]), group_std=False)
    assert [tokens[0] for tokens in raw] == pytest.approx([0.5, -0.5, -0.5, 0.5, 1.0, -1.0])


def test_by_episode_all_tokens_share_the_return_and_by_step_each_action_has_its_own() -> None:
    lines = trajectories(
        [([0.0], 1.0), ([0.0] * 2, 0.0)], [([0.0] * 2, 0.0), ([0.0], 4.0)], groups=[0, 0]
    )
    whole, _ = estimate("GRPO", lines, gamma=0.5, group_std=False)
    assert whole == [[-0.5] * 3, [0.5] * 3]  # returns 1 and 0.5 * 4
    steps, _ = estimate("GRPO", lines, gamma=0.5, group_std=False, group_credit="step")
    assert steps == [[-0.5, -2.0, -2.0], [0.5, 0.5, 2.0]]


def test_a_group_that_agrees_teaches_nothing_and_is_left_out_by_dynamic_sampling() -> None:
    agreeing, _ = estimate("GRPO", trajectories([([0.0], 0.7)], [([0.0], 0.7)], groups=[0, 0]))
    assert agreeing == [[0.0], [0.0]]
    told = [outcome(1.0, task="a"), outcome(0.0, task="a")]
    episodes = [*told, outcome(1.0, task="b"), outcome(1.0, task="b"), outcome(3.0, task="c")]
    assert (
        groups_with_signal(episodes, settings(algorithm_name="GRPO", episodes_per_update=8)) == told
    )


def test_the_critic_has_no_part_in_grpo() -> None:
    policy = policy_with_values()
    episodes = [*(outcome(1.0, 0.0), outcome(0.0, 0.5), outcome(0.0))]
    config = settings(algorithm_name="GRPO", group_size=2, episodes_per_update=4)
    before = [parameter.clone() for parameter in policy.critic_parameters()]
    metrics = update(
        policy, make_optimisers(policy, config), episodes, config, torch.Generator().manual_seed(0)
    )
    assert all(
        torch.equal(old, new) for old, new in zip(before, policy.critic_parameters(), strict=True)
    )
    assert not any(
        "value" in name or "critic_grad" in name or "explained" in name for name in metrics
    )
    assert metrics["losses/policy_grad_norm"] > 0


def test_a_sequence_ratio_is_the_geometric_mean_over_the_row() -> None:
    config = settings(algorithm_name="GRPO", sequence_ratio=True, episodes_per_update=8)
    rows = spans([0, 0, 1, 2], row=[0, 0, 0, 1])
    got = ALGORITHMS["GRPO"].log_ratio(torch.tensor([0.1, 0.2, 0.6, -0.4]), rows, config)
    assert got.tolist() == pytest.approx([0.3, 0.3, 0.3, -0.4])


@pytest.mark.parametrize("lengths", [(4, 2), (9, 1)])
def test_a_token_sum_is_over_a_constant_whatever_lengths_the_policy_chose(
    lengths: tuple[int, int],
) -> None:
    policy = policy_with_values()
    episodes = [episode([(n, 1.0 / n)], terminated=True) for n in lengths]
    mean = gradient(policy, episodes, settings())
    config = settings(loss_aggregation="token_sum", max_episode_tokens=1024)
    summed = gradient(policy, episodes, config)
    assert torch.allclose(summed * 2 * 1024 / sum(lengths), mean, rtol=1e-3, atol=1e-5)


def test_a_token_sum_s_divisor_counts_rows_not_episodes() -> None:
    config = settings(loss_aggregation="token_sum", max_episode_tokens=1024, num_mini_batch=2)
    episodes = [episode([(n, 0.0), (1, 1.0)], terminated=True) for n in (4, 2, 3)]
    # A template that rewrites history makes a row of each of the six steps.
    for laid_out, rows in ((episodes, 3), ([one_row_a_step(each) for each in episodes], 6)):
        targets = targets_of(policy_with_values(), laid_out, config)
        experience = build_experience(laid_out, CPU)
        assert loss_divisor(targets, experience, config) == 1024 * rows / 2


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_starts_at_ratio_one_and_splits_as_it_likes(name: str) -> None:
    policy = policy_with_values()
    episodes = some_episodes(policy)
    for first, second in pairwise(episodes):
        second.task_id = first.task_id
    for changes in ({}, {"sequence_ratio": True, "group_credit": "step"}):
        config = {"algorithm_name": name, "episodes_per_update": 16, **changes}
        whole = gradient(policy, episodes, settings(**config), push=0.3)
        split = gradient(policy, episodes, settings(**config, max_microbatch_tokens=20), push=0.3)
        assert torch.allclose(whole, split, atol=1e-6)
        metrics = update(
            tiny_policy(),
            make_optimisers(policy, settings(**config, lr=0.0)),
            episodes,
            settings(**config),
            torch.Generator().manual_seed(0),
        )
        assert metrics["losses/first_ratio_deviation"] == 0.0


def test_the_names_offered_are_the_algorithms_that_exist() -> None:
    assert tuple(ALGORITHMS) == ALGORITHM_NAMES
    for name in ALGORITHMS:
        assert TrainConfig(algorithm_name=name).algorithm_name == ALGORITHMS[name].name
