"""The reference and the critic's head start: distances in loss and reward, who learns when, and
what is kept where.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from token_worlds import (
    gradient,
    policy_with_values,
    settings,
    some_episodes,
    targets_of,
    tiny_policy,
)
from torch import Tensor, nn

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.minibatches import make_batch
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.value_head import VALUE_HEAD_FILE
from fctncalling.algorithms.ppo import make_optimisers, update

torch.set_num_threads(1)


def referring_policy() -> ActorCritic:
    """Return a policy whose reference is another model."""
    policy = policy_with_values()
    policy.set_reference(tiny_policy(seed=7).model)
    return policy


def written_out(policy: ActorCritic, episodes: list[EpisodeRecord], mode: str) -> Tensor:
    """Return the gradient of the mean divergence from the reference over all acted tokens, from
    full logits.
    """
    policy.zero_grad()
    total, count = torch.tensor(0.0), 0
    for record in episodes:
        batch = make_batch(record.rows)
        places = batch.acted[0].nonzero()[:, 0]
        new, old = (
            model(batch.ids)
            .logits[0, places - 1]
            .log_softmax(-1)
            .gather(1, batch.ids[0, places][:, None])[:, 0]
            for model in (policy.model, tiny_policy(seed=7).model)
        )
        apart = new - old.detach()
        estimates = {"k1": apart, "k2": apart**2 / 2, "k3": (-apart).exp() - 1 + apart}
        total, count = total + estimates[mode].sum(), count + len(places)
    torch.autograd.backward(total / count)
    return torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])


@pytest.mark.parametrize("mode", ["k1", "k2", "k3"])
def test_the_loss_grows_by_the_divergence_from_the_reference(mode: str) -> None:
    policy = referring_policy()
    episodes = some_episodes(policy)
    without = gradient(policy, episodes, settings())
    with_it = gradient(policy, episodes, settings(kl_coef=0.7, kl_mode=mode))
    wanted = 0.7 * written_out(policy, episodes, mode)
    assert wanted.abs().max() > 1e-3
    assert torch.allclose((with_it - without)[: len(wanted)], wanted, atol=2e-6)


def test_in_the_reward_every_token_pays_for_its_own_divergence() -> None:
    policy = referring_policy()
    episodes = some_episodes(policy)
    config = {"gamma": 1.0, "lam": 1.0}
    free = targets_of(policy, episodes, settings(**config))
    paid = targets_of(policy, episodes, settings(**config, kl_coef=0.5, kl_mode="reward"))
    penalties = 0.5 * (paid.old_logprobs - paid.reference_logprobs)
    start = 0
    for record in episodes:
        length = sum(record.rows[0].acted)
        now = slice(start, start + length)
        to_come = penalties[now].flip(0).cumsum(0).flip(0)
        assert torch.allclose(paid.returns[now], free.returns[now] - to_come, atol=1e-5)
        start += length
    assert penalties.abs().max() > 0.01


@pytest.mark.parametrize("mode", ["reward", "k1", "k2", "k3"])
def test_a_policy_that_is_its_reference_pays_nothing(mode: str) -> None:
    policy = policy_with_values()
    policy.set_reference(copy.deepcopy(policy.model))
    episodes = some_episodes(policy)
    config = settings(kl_coef=5.0, kl_mode=mode)
    targets = targets_of(policy, episodes, config)
    assert torch.equal(targets.reference_logprobs, targets.old_logprobs)
    assert torch.equal(targets.returns, targets_of(policy, episodes, settings()).returns)
    metrics = update(
        policy, make_optimisers(policy, config), episodes, config, torch.Generator().manual_seed(0)
    )
    assert metrics["losses/kl_ref"] == 0.0


def test_a_reference_that_is_not_there_is_told() -> None:
    policy = policy_with_values()
    with pytest.raises(ValueError, match="set_reference"):
        targets_of(policy, some_episodes(policy), settings(kl_coef=0.1))


def test_the_reference_is_no_weight_of_the_policy_and_in_no_file(tmp_path: Path) -> None:
    with_one, without = referring_policy(), policy_with_values()
    assert len(list(with_one.parameters())) == len(list(without.parameters()))
    for name, policy in (("with", with_one), ("without", without)):
        policy.save(tmp_path / name)
    sizes = [
        sum(f.stat().st_size for f in (tmp_path / name).iterdir()) for name in ("with", "without")
    ]
    assert sizes[0] == sizes[1]


def weights(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def test_while_the_critic_warms_up_the_language_model_stands_still() -> None:
    policy = policy_with_values()
    episodes, config = some_episodes(policy), settings(ppo_epoch=3)
    before = weights(policy.model), weights(policy.value_head)
    optimisers = make_optimisers(policy, config)._replace(policy=None)
    metrics = update(policy, optimisers, episodes, config, torch.Generator().manual_seed(0))
    assert all(
        torch.equal(old, new) for old, new in zip(before[0], weights(policy.model), strict=True)
    )
    assert all(
        not torch.equal(old, new)
        for old, new in zip(before[1], weights(policy.value_head), strict=True)
    )
    assert metrics["losses/optimiser_steps"] == 3.0
    assert metrics["losses/approx_kl"] == 0.0


def test_a_critic_is_taken_over_from_a_checkpoint(tmp_path: Path) -> None:
    taught = policy_with_values()
    taught.save(tmp_path)
    fresh = tiny_policy(critic_head="linear")
    fresh.load_critic(tmp_path)
    assert all(
        torch.equal(a, b)
        for a, b in zip(weights(taught.value_head), weights(fresh.value_head), strict=True)
    )
    (tmp_path / VALUE_HEAD_FILE).unlink()
    with pytest.raises(ValueError, match="holds no critic"):
        fresh.load_critic(tmp_path)


def test_dual_clip_stops_the_gradient_of_a_bad_token_that_became_likely() -> None:
    policy = policy_with_values()
    episodes = some_episodes(policy)
    config = {"entropy_coef": 0.0, "value_coef": 0.0}
    free = gradient(policy, episodes, settings(**config), push=2.0)  # ratios up to e^2
    bound = gradient(policy, episodes, settings(**config, dual_clip=1.5), push=2.0)
    assert bound.norm() < free.norm()
    far = gradient(policy, episodes, settings(**config, dual_clip=1e6), push=2.0)
    assert torch.equal(far, free)


def test_what_needs_a_critic_is_refused_without_one() -> None:
    for setting in ({"critic_window_updates": 1}, {"init_critic_from": "somewhere"}):
        with pytest.raises(SettingError, match="GRPO has no critic"):
            TrainConfig(algorithm_name="GRPO", **setting)  # type: ignore[arg-type]
