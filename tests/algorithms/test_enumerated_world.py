"""A world small enough to enumerate: every target, gradient and optimum of it is known exactly.

Actions are two tokens A (0) and B (1); AB answers the first observation, else the episode ends with
0; then BA earns 1. A state is the tokens so far.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from token_worlds import Action, settings, trajectories
from torch import Tensor

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.algorithm import Trajectories
from fctncalling.algorithms.losses import policy_loss, value_loss
from fctncalling.algorithms.ppo import ALGORITHMS

torch.set_num_threads(1)

GAMMA = 0.9
TRAJECTORIES = [
    tokens
    for n in (2, 4)
    for tokens in product((0, 1), repeat=n)
    if (tokens[:2] == (0, 1)) == (n == 4)
]
STATES = sorted({tokens[:i] for tokens in TRAJECTORIES for i in range(len(tokens))})
EXACT = {(): 0.05625, (0,): 0.1125, (1,): 0.0, (0, 1): 0.25, (0, 1, 1): 0.5, (0, 1, 0): 0.0}
NAIVE = {(): 0.0455625, (0,): 0.10125, (1,): 0.0, (0, 1): 0.225, (0, 1, 1): 0.5, (0, 1, 0): 0.0}


def enumerated(values: dict[tuple[int, ...], float]) -> Trajectories:
    """Return every trajectory as an episode, its critic given by state."""

    def actions(tokens: tuple[int, ...]) -> list[Action]:
        seen = [values[tokens[:i]] for i in range(len(tokens))]
        solved = float(tokens == (0, 1, 1, 0))
        return [(seen[:2], 0.0), (seen[2:], solved)] if len(tokens) == 4 else [(seen, 0.0)]

    return trajectories(*(actions(tokens) for tokens in TRAJECTORIES))


def reach(policy: dict[tuple[int, ...], Tensor]) -> list[Tensor]:
    """Return the probability of each trajectory; policy:
    state -> probabilities of the two tokens.
    """
    return [
        torch.stack([policy[tokens[:i]][tokens[i]] for i in range(len(tokens))]).prod()
        for tokens in TRAJECTORIES
    ]


UNIFORM = {state: torch.tensor([0.5, 0.5], dtype=torch.float64) for state in STATES}


@pytest.mark.parametrize(("name", "wanted"), [("TPPO", EXACT), ("NTPO", NAIVE)])
def test_expected_targets_are_the_values_of_the_enumerated_world(
    name: str, wanted: dict[tuple[int, ...], float]
) -> None:
    lines = enumerated(dict.fromkeys(STATES, 0.0))
    returns = ALGORITHMS[name].estimate(lines, settings(gamma=GAMMA, lam=1.0)).returns
    chances = reach(UNIFORM)
    for state in STATES:
        through = [i for i, tokens in enumerate(TRAJECTORIES) if tokens[: len(state)] == state]
        mean = sum(chances[i] * returns[i, len(state)] for i in through) / sum(
            chances[i] for i in through
        )
        assert float(mean) == pytest.approx(wanted[state], abs=1e-7)


def test_at_the_exact_values_advantages_are_those_of_the_action_values_and_add_up() -> None:
    lines = enumerated(EXACT)
    got = (
        ALGORITHMS["TPPO"].estimate(lines, settings(gamma=GAMMA, lam=0.0, lam_token=0.0)).advantages
    )
    right = TRAJECTORIES.index((0, 1, 1, 0))
    assert got[right, :2].tolist() == pytest.approx([0.05625, 0.1125], abs=1e-6)
    assert got[right, :2].sum().item() == pytest.approx(GAMMA * 0.25 - 0.05625, abs=1e-6)
    wrong = TRAJECTORIES.index((1, 0))
    assert got[wrong, 0].item() == pytest.approx(-0.05625, abs=1e-6)


@pytest.mark.parametrize("name", ["TPPO", "NTPO"])
def test_a_tabular_critic_trained_by_the_value_loss_finds_the_values(name: str) -> None:
    table = torch.zeros(len(STATES), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([table], lr=1.0)
    chances = torch.stack(reach(UNIFORM))
    for _ in range(400):
        values = dict(zip(STATES, table.tolist(), strict=True))
        lines = enumerated(values)
        returns = ALGORITHMS[name].estimate(lines, settings(gamma=GAMMA, lam=0.5)).returns
        places = [(i, j) for i, tokens in enumerate(TRAJECTORIES) for j in range(len(tokens))]
        states = torch.tensor([STATES.index(TRAJECTORIES[i][:j]) for i, j in places])
        losses = value_loss(
            table[states], torch.stack([returns[p] for p in places]), table.detach()[states]
        )
        optimiser.zero_grad()
        torch.autograd.backward((losses * torch.stack([chances[i] for i, _ in places])).sum())
        optimiser.step()
    wanted = EXACT if name == "TPPO" else NAIVE
    assert table.tolist() == pytest.approx([wanted[state] for state in STATES], abs=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_expected_gradient_is_that_of_the_discounted_return_for_any_critic(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = {
        s: torch.randn(2, generator=generator, dtype=torch.float64).requires_grad_() for s in STATES
    }
    critic = torch.randn(len(STATES), generator=generator, dtype=torch.float64).tolist()
    policy = {state: logit.softmax(0) for state, logit in logits.items()}
    chances = reach(policy)
    wanted = torch.autograd.grad(
        GAMMA * chances[TRAJECTORIES.index((0, 1, 1, 0))],
        list(logits.values()),
        retain_graph=True,
        allow_unused=True,
    )
    lines = enumerated(dict(zip(STATES, critic, strict=True)))
    advantages, _ = decomposed_gae(
        lines.rewards.double(),
        lines.values.double(),
        *lines[2:4],
        lines.bootstrap.double(),
        gamma=GAMMA,
        lam=1.0,
    )
    surrogate = torch.zeros((), dtype=torch.float64)
    for i, tokens in enumerate(TRAJECTORIES):
        for j, token in enumerate(tokens):
            discount = GAMMA ** (j // 2)
            surrogate = (
                surrogate
                + chances[i].detach()
                * discount
                * advantages[i, j]
                * policy[tokens[:j]][token].log()
            )
    got = torch.autograd.grad(surrogate, list(logits.values()), allow_unused=True)
    for one, other in zip(got, wanted, strict=True):
        assert torch.allclose(
            one, torch.zeros(2).double() if other is None else other, atol=1e-6
        )  # values are fp32


@pytest.mark.parametrize("name", ["TPPO", "POAD", "NTPO"])
def test_tabular_ppo_solves_it_and_its_critic_finds_the_optimal_value(name: str) -> None:
    states = len(STATES)
    logits, table = (
        torch.zeros(*size, dtype=torch.float64, requires_grad=True)
        for size in ((states, 2), (states,))
    )
    optimiser = torch.optim.SGD([{"params": [logits], "lr": 4.0}, {"params": [table], "lr": 0.5}])
    places = [(i, j) for i, tokens in enumerate(TRAJECTORIES) for j in range(len(tokens))]
    at = torch.tensor([STATES.index(TRAJECTORIES[i][:j]) for i, j in places])
    taken = torch.tensor([TRAJECTORIES[i][j] for i, j in places])
    right = TRAJECTORIES.index((0, 1, 1, 0))
    for _ in range(150):
        old = logits.detach().log_softmax(-1)
        chances = torch.stack(reach(dict(zip(STATES, old.exp(), strict=True))))
        weights = torch.stack([chances[i] for i, _ in places])
        estimate = ALGORITHMS[name].estimate(
            enumerated(dict(zip(STATES, table.tolist(), strict=True))),
            settings(gamma=GAMMA, lam=0.9),
        )
        advantages, returns = (
            torch.stack([field[place] for place in places]) for field in estimate[:2]
        )
        for _ in range(4):
            ratios = (logits.log_softmax(-1) - old)[at, taken]
            losses = policy_loss(ratios, advantages, clip_low=0.2, clip_high=0.2)
            losses = losses + value_loss(table[at], returns, table.detach()[at])
            optimiser.zero_grad()
            torch.autograd.backward((weights * losses).sum())
            optimiser.step()
    assert chances[right].item() > 0.99
    # Nothing is discounted inside an action: one action's discount is left. To NTPO all of three
    # tokens' are.
    optimum = GAMMA if name != "NTPO" else GAMMA**3
    assert table[STATES.index(())].item() == pytest.approx(optimum, abs=0.01)
