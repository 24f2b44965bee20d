"""Learning rates, AdamW's settings and the entropy's weight, each as its formula says; resumed runs
use their own.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from token_worlds import settings, some_episodes, tiny_policy

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.fsdp import full_state_dict, load_full_state_dict
from fctncalling.algorithms.ppo import (
    learning_rates,
    make_optimisers,
    set_learning_rates,
    update,
)

torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1 / 2, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [1 / 2, 1.0, 1.0, 0.775, 0.55, 0.325]),
        (
            "cosine",
            [1 / 2, 1.0, *(0.1 + 0.9 * (1 + math.cos(math.pi * k / 4)) / 2 for k in range(4))],
        ),
    ],
)
def test_schedules_follow_their_formulas(schedule: str, expected: list[float]) -> None:
    config = settings(lr_schedule=schedule, warmup_updates=2, min_lr_ratio=0.1, num_updates=6)
    rates = [learning_rates(config, k) for k in range(6)]
    assert [policy / config.lr for policy, _ in rates] == pytest.approx(expected)
    assert [critic / config.critic_lr for _, critic in rates] == pytest.approx(expected)


def test_a_critic_that_was_fitted_before_has_no_warm_up() -> None:
    config = TrainConfig(
        lr=1.0, critic_lr=10.0, num_updates=20, warmup_updates=5, critic_warmup_episodes=640
    )
    rates = [learning_rates(config, k) for k in range(20)]
    assert [policy for policy, _ in rates] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0] + [1.0] * 15)
    assert {critic for _, critic in rates} == {10.0}
    falling = replace(config, lr_schedule="linear", num_updates=15)
    assert [learning_rates(falling, k)[0] for k in (4, 5, 10, 14)] == pytest.approx(
        [1.0, 1.0, 0.5, 0.1]
    )


def test_by_default_the_rate_is_the_flags_own_in_every_update() -> None:
    assert {learning_rates(TrainConfig(), k) for k in range(100)} == {(8e-5, 3e-3)}


def test_adamw_gets_its_settings_and_only_matrices_decay() -> None:
    config = settings(adam_beta1=0.8, adam_beta2=0.95, adam_eps=1e-6, weight_decay=0.1)
    for optimiser in make_optimisers(tiny_policy(), config):
        assert optimiser is not None
        for group in optimiser.param_groups:
            assert (group["betas"], group["eps"]) == ((0.8, 0.95), 1e-6)
            decays = {weight.dim() > 1 for weight in group["params"]}
            assert decays == {group["weight_decay"] == 0.1}


@pytest.mark.parametrize("fused", [False, True])
def test_a_fused_adamw_is_asked_for_and_takes_the_same_step(fused: bool) -> None:
    policies = [tiny_policy() for _ in range(2)]
    changed = [make_optimisers(policies[0], settings(lr=0.1, adam_fused=fused)).policy]
    changed.append(torch.optim.AdamW(policies[1].policy_parameters(), lr=0.1, weight_decay=0.0))
    for policy, optimiser in zip(policies, changed, strict=True):
        assert optimiser is not None
        for weight in policy.policy_parameters():
            weight.grad = torch.sin(torch.arange(weight.numel())).view_as(weight)
        optimiser.step()
    assert bool(changed[0].defaults["fused"]) is fused
    for one, other in zip(*(policy.policy_parameters() for policy in policies), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
        assert fused or torch.equal(one, other)


def test_by_default_a_first_step_is_the_rate_however_small_the_gradients() -> None:
    """AdamW's first step is rate * g / (|g| + eps), and eps is far below any gradient."""
    policy = tiny_policy()
    for optimiser in make_optimisers(policy, settings(lr=0.1, critic_lr=0.1)):
        assert optimiser is not None
        weights = [weight for group in optimiser.param_groups for weight in group["params"]]
        before = [weight.detach().clone() for weight in weights]
        for weight in weights:
            weight.grad = torch.full_like(weight, 1e-4)
        optimiser.step()
        for old, new in zip(before, weights, strict=True):
            assert torch.allclose(new, old - 0.1, atol=1e-4)


def test_a_first_step_without_gradient_shrinks_matrices_by_rate_times_decay() -> None:
    policy = tiny_policy()
    config = settings(weight_decay=0.5, lr=0.1)
    before = [weight.detach().clone() for weight in policy.policy_parameters()]
    optimiser = make_optimisers(policy, config).policy
    assert optimiser is not None
    for weight in policy.policy_parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    for old, new in zip(before, policy.policy_parameters(), strict=True):
        assert torch.allclose(new, old * (1 - 0.1 * 0.5) if old.dim() > 1 else old)


def test_saved_optimisers_bring_their_moments_and_not_their_rates() -> None:
    policy, config = tiny_policy(), settings(lr=0.01)
    old = make_optimisers(policy, config)
    update(policy, old, some_episodes(policy, 2), config, torch.Generator().manual_seed(0))
    new = make_optimisers(policy, settings(lr=0.5, critic_lr=0.25, adam_beta2=0.9))
    for one, other in zip(old, new, strict=True):
        assert one is not None
        assert other is not None
        load_full_state_dict(other, full_state_dict(one))
        saved, taken = one.state_dict()["state"], other.state_dict()["state"]
        assert saved.keys() == taken.keys()
        for number, slot in saved.items():
            assert all(torch.equal(slot[name], taken[number][name]) for name in slot)
    assert [group["lr"] for o in new if o is not None for group in o.param_groups] == [0.5, 0.25]
    assert new.critic.param_groups[0]["betas"][1] == 0.9


def test_saved_optimisers_of_other_groups_are_refused() -> None:
    policy = tiny_policy()
    saved = full_state_dict(make_optimisers(policy, settings()).critic)
    with pytest.raises(ValueError, match="--weight_decay"):
        load_full_state_dict(make_optimisers(policy, settings(weight_decay=0.1)).critic, saved)


def test_rates_are_set_where_there_is_an_optimiser() -> None:
    optimisers = make_optimisers(tiny_policy(), settings())
    set_learning_rates((None, optimisers.critic), (0.5, 0.125))
    assert [group["lr"] for group in optimisers.critic.param_groups] == [0.125]
