"""examples/tppo_in_one_file.py: the trainer's estimate and gradient, in a file one can read."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from token_worlds import gradient, policy_with_values, settings, some_episodes, tiny_policy
from torch import Tensor, nn

from fctncalling.algorithms import losses
from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.policy.actor_critic import ActorCritic

FILE = Path(__file__).parents[2] / "examples/tppo_in_one_file.py"


@pytest.fixture(scope="module")
def one_file() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(FILE)))


def random_tokens(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return rewards, values, acted and ends_action of 6 rows of 20 tokens."""
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, 6, 20, generator=generator)
    acted = torch.rand(6, 20, generator=generator) < 0.7
    ends = acted & (torch.rand(6, 20, generator=generator) < 0.3)
    return torch.where(ends, rewards, 0.0), values, acted, ends


@pytest.mark.parametrize("seed", range(5))
def test_its_advantages_and_targets_are_those_of_decomposed_gae(
    one_file: SimpleNamespace, seed: int
) -> None:
    tokens = random_tokens(seed)
    expected = decomposed_gae(*tokens, torch.zeros(6), gamma=0.9, lam=0.8)
    for mine, theirs in zip(one_file.bad_gae(*tokens, gamma=0.9, lam=0.8), expected, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)


def test_its_token_losses_are_the_trainers(one_file: SimpleNamespace) -> None:
    chosen = one_file.Settings(value_coef=0.7, entropy_coef=0.03)
    generator = torch.Generator().manual_seed(1)
    tensors = torch.randn(6, 5, 9, generator=generator)
    logprobs, entropies, values, old_logprobs, advantages, returns = tensors
    acted = torch.rand(5, 9, generator=generator) < 0.6
    mine = one_file.token_losses(
        (logprobs, entropies, values), old_logprobs, advantages, returns, acted, chosen
    )
    ratios = losses.log_ratio(logprobs, old_logprobs, acted)
    clip = {"clip_low": chosen.clip_low, "clip_high": chosen.clip_high}
    expected = (
        losses.policy_loss(ratios, advantages, acted, **clip)
        + 0.7 * losses.value_loss(values, returns, values, acted)
        - 0.03 * torch.where(acted, entropies, 0.0)
    )
    assert torch.allclose(mine, expected, atol=1e-6)
    assert (ratios.exp() > 1.28).any()  # or no loss is clipped


def same_policy(one_file: SimpleNamespace, policy: ActorCritic) -> Any:
    """Return the example's actor-critic with the weights of the trainer's."""
    copied = one_file.ActorCritic(tiny_policy().model)
    copied.model.load_state_dict(policy.model.state_dict())
    head = policy.value_head
    copied.value_head[0].load_state_dict(head.hidden.state_dict())
    copied.value_head[2].load_state_dict(head.out.state_dict())
    return copied.eval()


def test_its_gradient_is_the_trainers(one_file: SimpleNamespace) -> None:
    policy = tiny_policy(critic_head="mlp").eval()
    nn.init.normal_(policy.value_head.out.weight, std=0.05)
    episodes = some_episodes(policy_with_values())
    chosen = one_file.Settings(minibatches=1, max_grad_norm=float("inf"))
    names = ("gamma", "lam", "clip_low", "clip_high", "value_coef", "entropy_coef")
    config = settings(share_prefixes=False, **{name: getattr(chosen, name) for name in names})
    expected = gradient(policy, episodes, config)

    copied, rows = same_policy(one_file, policy), one_file.rows_of(episodes)
    before = torch.cat([p.detach().clone().flatten() for p in copied.parameters()])
    optimiser = torch.optim.SGD(copied.parameters(), lr=1.0)
    one_file.learn(copied, optimiser, rows, chosen, torch.arange(len(rows.ids)))
    after = torch.cat([p.detach().flatten() for p in copied.parameters()])
    assert expected.abs().max() > 1e-2
    assert torch.allclose(before - after, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.prove
def test_it_learns_the_embedded_tasks() -> None:
    import subprocess
    import sys

    done = subprocess.run([sys.executable, str(FILE)], capture_output=True, text=True, check=True)
    shares = [float(line.split()[-1][:-1]) for line in done.stdout.splitlines()]
    assert shares[0] == 41.5
    assert shares[-1] >= 85.0
