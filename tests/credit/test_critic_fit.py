"""The critic that is fitted apart from the policy: returns in closed form, held-out tasks, and what
stands still meanwhile.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from token_worlds import episode, policy_with_values, settings, tiny_policy

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.minibatches import make_batch
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.supervised.critic_fit import (
    CriticSamples,
    critic_samples,
    fit_critic,
)


def fitted(
    states: torch.Tensor, returns: torch.Tensor, held_out: torch.Tensor, **changes: Any
) -> tuple[ActorCritic, torch.Tensor, dict[str, float]]:
    """Return a policy whose head was fitted, its values of the 32 unit states, and the metrics."""
    policy = tiny_policy(critic_head="linear")
    samples = [CriticSamples(states, returns, held_out)]
    config = settings(**{"critic_lr": 0.1, **changes})
    metrics = fit_critic(policy.value_head, samples, config, torch.Generator().manual_seed(0))
    return policy, policy.value_head(torch.eye(32)).detach(), metrics


def test_its_values_are_the_mean_returns_of_states() -> None:
    """Three states, told apart: .75, .5 and 0 of their returns are 1."""
    kinds = torch.tensor([0] * 40 + [1] * 40 + [2] * 40)
    returns = torch.tensor([1.0, 1, 1, 0] * 10 + [1.0, 0, 1, 0] * 10 + [0.0] * 40)
    held_out = torch.arange(120) % 40 >= 32
    _, values, metrics = fitted(torch.eye(32)[kinds], returns, held_out)
    assert values[:3].tolist() == pytest.approx([0.75, 0.5, 0.0], abs=0.03)
    between = torch.tensor([0.75, 0.5, 0.0]).repeat_interleave(8).var(correction=0)
    expected = float(between / returns[held_out].var(correction=0))
    assert metrics["critic_fit/explained_variance"] == pytest.approx(expected, abs=0.03)


def test_what_holds_on_no_other_task_is_not_learned() -> None:
    """On held-out tasks the returns are the negative: every pass makes it worse."""
    states = torch.eye(32)[torch.arange(64) % 2]
    held_out = torch.arange(64) >= 32
    returns = torch.where(held_out, -1.0, 1.0)
    policy, values, metrics = fitted(states, returns, held_out)
    assert metrics["critic_fit/epochs"] == 0
    assert not values.any()
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_samples_are_what_the_head_reads_and_the_discounted_rewards_to_come() -> None:
    policy = policy_with_values()
    records = [
        episode([(2, 0.5), (1, 1.0)], terminated=True),
        episode([(1, 0.0)], terminated=False, truncated=True),
    ]
    for record, name in zip(records, ("task", "task 2"), strict=True):
        record.task_id = name
    # the fit's own lambdas are 1
    config = settings(gamma=0.9, lam=0.3, lam_value=0.2, lam_token=0.5)
    found = critic_samples(policy, records, config)
    row = records[1].rows[0]
    after = policy.values_at(make_batch([row]), torch.tensor([len(row.ids) - 1]))
    assert found.returns.tolist() == pytest.approx([1.4, 1.4, 1.0, 0.9 * after.item()])
    outputs = policy(make_batch([records[0].rows[0]]))
    assert torch.allclose(policy.value_head(found.states[:3]), outputs.values, atol=1e-6)
    assert len(set(found.held_out[:3].tolist())) == 1


def test_every_fifth_task_is_held_out_always_the_same() -> None:
    policy = policy_with_values()
    records = [episode([(1, 1.0)], terminated=True) for _ in range(200)]
    for number, record in enumerate(records):
        record.task_id = f"multi_turn_base_{number}"
    found = [critic_samples(policy, part, settings()).held_out for part in (records, records[100:])]
    assert 0.12 < found[0].float().mean() < 0.28
    assert torch.equal(found[0][100:], found[1])


def test_the_former_flag_counts_updates_of_episodes() -> None:
    config = TrainConfig(critic_warmup_updates=3, episodes_per_update=64)
    assert (config.critic_warmup_episodes, config.critic_warmup_updates) == (192, 0)
    with pytest.raises(SettingError, match="--critic lora learns by the value loss"):
        TrainConfig(critic_window_updates=2, critic="lora", lora_r=4)
