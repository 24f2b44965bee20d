"""Explained variance of the critic against Monte-Carlo returns, whole and by turn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from token_worlds import episode, settings
from torch import Tensor

from fctncalling.algorithms.batch import Experience, build_experience
from fctncalling.algorithms.episodes import EpisodeRecord, action_facts
from fctncalling.algorithms.losses import Targets
from fctncalling.algorithms.metrics import (
    MONTE_CARLO,
    critic_metrics,
    monte_carlo_returns,
)
from fctncalling.algorithms.policy.value_head import ValueHead
from fctncalling.algorithms.supervised.critic_fit import CriticSamples, fit_critic


def targets_of(experience: Experience, values: Tensor) -> Targets:
    """Return targets of the values; what the metrics do not read is 0."""
    rewards = experience.tokens.rewards
    fields: dict[str, Any] = dict.fromkeys(Targets._fields, torch.zeros_like(rewards))
    is_all = torch.ones_like(rewards, dtype=torch.bool)
    fields |= {"old_values": values, "rewards": rewards, "loss_mask": is_all}
    return Targets(**fields)


ACTIONS = st.lists(st.tuples(st.integers(1, 4), st.floats(-1, 1, width=32)), min_size=1, max_size=5)


@given(
    st.lists(st.tuples(ACTIONS, st.booleans()), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.9, 1.0]),
)
def test_returns_are_the_discounted_sums_of_later_actions_and_the_bootstrap(
    drawn: list[tuple[list[tuple[int, float]], bool]], discount: float
) -> None:
    episodes = [episode(actions, terminated=True) for actions, _ in drawn]
    experience = build_experience(episodes, torch.device("cpu"))
    targets = targets_of(experience, torch.zeros_like(experience.tokens.rewards))
    of_episode = torch.tensor([0.5 if cut else 0.0 for _, cut in drawn])
    targets = targets._replace(bootstrap=of_episode[experience.tokens.episode])
    expected = []
    for (actions, _), end in zip(drawn, of_episode.tolist(), strict=True):
        for place, (length, _) in enumerate(actions):
            later = [reward for _, reward in actions[place:]] + [end]
            expected += [sum(r * discount**k for k, r in enumerate(later))] * length
    found = monte_carlo_returns(experience, targets, discount)
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


def played(rewards: list[float], begins_turn: list[bool]) -> EpisodeRecord:
    """Return an episode of actions of two tokens, with a user's message before some."""
    made = episode([(2, reward) for reward in rewards], terminated=True)
    roles = [["system", "user"]] + [["user"] if begins else ["tool"] for begins in begins_turn[1:]]
    made.messages = [[{"role": role, "content": ""} for role in each] for each in roles]
    return made


def test_a_turn_begins_with_a_message_of_the_user_alone() -> None:
    episodes = [
        played([0.0] * 4, [True, False, True, True]),
        episode([(2, 0.0), (1, 0.0)], terminated=True),
    ]
    assert action_facts(episodes).turns == [1, 1, 2, 3, 1, 1]


def test_a_critic_that_knows_the_second_turn_alone_explains_all_of_it_and_none_of_the_first() -> (
    None
):
    episodes = [played([0.0, 1.0], [True, True]), played([0.0, 0.0], [True, True])]
    experience = build_experience(episodes, torch.device("cpu"))
    values = torch.tensor([0.5, 0.5, 1.0, 1.0, 0.5, 0.5, 0.0, 0.0])
    metrics = critic_metrics(experience, targets_of(experience, values), 1.0)
    assert metrics[f"{MONTE_CARLO}/turn_1"] == pytest.approx(0.0)
    assert metrics[f"{MONTE_CARLO}/turn_2"] == pytest.approx(1.0)
    assert metrics[MONTE_CARLO] == pytest.approx(0.5)


def test_a_fitted_critic_tells_by_turn_what_it_explains_of_held_out_tasks() -> None:
    turns = torch.tensor([1, 2]).repeat(200)
    states = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(400, generator=torch.Generator().manual_seed(1))
    returns = torch.where(turns == 2, states[:, 0], noise)
    states[:, 1] = (turns == 2).float()
    samples = CriticSamples(states, returns, torch.arange(400) % 5 == 0, turns)
    head, config = ValueHead(8), settings(critic_lr=1e-2)
    metrics = fit_critic(head, [samples], config, torch.Generator().manual_seed(2))
    assert metrics["critic_fit/explained_variance/turn_2"] > 0.5
    assert metrics["critic_fit/explained_variance/turn_1"] < 0.2
    plain = fit_critic(head, [samples._replace(turns=None)], config, torch.Generator())
    assert not [name for name in plain if "turn" in name]


def test_episodes_of_one_turn_have_no_metric_by_turn() -> None:
    episodes = [episode([(2, 1.0)], terminated=True), episode([(2, 0.0)], terminated=True)]
    experience = build_experience(episodes, torch.device("cpu"))
    metrics = critic_metrics(experience, targets_of(experience, torch.zeros(4)), 1.0)
    assert [name for name in metrics if "turn" in name and "return" not in name] == []
