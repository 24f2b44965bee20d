"""Supervised fine-tuning of a policy: the loss is the actions' alone, shared prefixes change no
gradient, and a saved learner goes on bit for bit.
"""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from tiny_models import uncached_logprobs
from token_worlds import act, empty_row, observe, settings, tiny_policy
from torch import Tensor, nn

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.nan_guard import NotFiniteError
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.shared_prefixes import prefix_sharing
from fctncalling.algorithms.supervised import SupervisedConfig, SupervisedLearner
from fctncalling.algorithms.supervised.learner import find_shared_prefixes, row_batches

STAGE = {"sft_tasks": "dataset", "sft_epochs": 2, "sft_batch_size": 4, "sft_lr": 1e-3}


def demonstrations(num_tasks: int = 3, size: int = 4) -> list[EpisodeRecord]:
    """Return episodes of two actions each; those of a task begin with one prompt."""
    draw = torch.Generator().manual_seed(4)
    found = []
    for task in range(num_tasks):
        prompt = torch.randint(1, 9, (24,), generator=draw).tolist()
        for number in range(size):
            row = empty_row()
            observe(row, prompt)
            for length in (2, 1 + number):
                for place in range(length):
                    token = int(torch.randint(1, 9, (1,), generator=draw))
                    act(row, token, 0.0, place == length - 1, 0.0)
                observe(row, [1, 2])
            found.append(EpisodeRecord(f"task_{task}", "world", [row], terminated=True))
    return found


def policy_of(kind: str) -> ActorCritic:
    policy = tiny_policy(critic_head="linear")
    if kind == "lora":
        policy.add_lora(r=2, alpha=4.0)
        assert policy.adapters is not None
        for weight in policy.adapters.parameters("default"):
            nn.init.normal_(weight, std=0.05)
    return policy


def gradients(policy: ActorCritic) -> dict[str, Tensor]:
    return {name: it.grad for name, it in policy.named_parameters() if it.grad is not None}


def weights(policy: ActorCritic) -> dict[str, Tensor]:
    return {name: it.detach().clone() for name, it in policy.named_parameters()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(it, other[n]) for n, it in one.items())


def test_the_loss_is_the_mean_over_the_actions_tokens_and_nothing_else() -> None:
    policy, shown = policy_of("full"), demonstrations(1, 4)
    learner = SupervisedLearner(policy, shown, settings(**STAGE))
    found = learner.compute_gradient()
    logprobs = list[Tensor]()
    for row in (episode.rows[0] for episode in shown):
        every = uncached_logprobs(policy.model, row.ids)
        chosen = every[torch.arange(len(row.ids) - 1), torch.tensor(row.ids[1:])]
        logprobs.append(chosen[torch.tensor(row.acted[1:])])
    expected = -torch.cat(logprobs)
    assert found["loss"] == pytest.approx(float(expected.mean()), rel=1e-5)
    assert found["trained_tokens"] == len(expected)
    assert found["confident_token_share"] == pytest.approx(
        float((expected < -torch.log(torch.tensor(0.5))).float().mean())
    )
    assert policy.value_head.out.weight.grad is None  # the critic is not taught


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_shared_prefixes_change_no_gradient(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_sharing, "CALL_FLOPS", 0.0)  # what a call costs a tiny model
    found, passed = {}, {True: 0, False: 0}
    for shares in (True, False):
        policy = policy_of(kind)

        def count(module: Any, args: Any, output: Any, shares: bool = shares) -> None:
            passed[shares] += output[..., 0].numel()

        policy.model.get_decoder().layers[0].mlp.register_forward_hook(count)
        config = settings(**STAGE | {"sft_batch_size": 12}, share_prefixes=shares)
        metrics = SupervisedLearner(policy, demonstrations(), config).compute_gradient()
        found[shares] = gradients(policy), metrics["loss"]
    assert passed[True] < 0.8 * passed[False]  # else nothing was shared
    assert found[True][1] == pytest.approx(found[False][1], rel=1e-6)
    for name, gradient in found[False][0].items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(found[True][0][name], gradient, rtol=1e-5, atol=1e-5 * scale)


def test_grouped_by_prefix_a_step_has_the_demonstrations_of_one_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefix_sharing, "CALL_FLOPS", 0.0)
    shown, passed = demonstrations(3, 4), dict[bool, int]()
    for grouped in (True, False):
        policy, sizes = policy_of("full"), list[int]()
        policy.model.get_decoder().layers[0].mlp.register_forward_hook(
            lambda module, args, output, sizes=sizes: sizes.append(output[..., 0].numel())
        )
        config = settings(**STAGE, sft_group_by_prefix=grouped)
        learner = SupervisedLearner(policy, shown, config)
        trained = 0.0
        while not learner.is_over:
            trained += learner.compute_gradient()["trained_tokens"]
            learner.take_step()
        passed[grouped] = sum(sizes)
        assert learner.num_steps == 6
        assert trained == 2 * sum(sum(it.rows[0].acted) for it in shown)  # each row in each epoch
    # a prompt of 24 tokens passes once a step, not once a row
    ends = sum(len(it.rows[0].ids) - 24 for it in shown)
    assert passed[True] <= 2 * (3 * 24 + ends) < passed[False]


def test_within_one_prompt_rows_are_not_ordered_by_their_requests() -> None:
    prompts = [list(range(start, start + 200)) for start in range(0, 8_000, 200)]
    rows = [[*prompts[n % 40], n // 40, 7, 9] for n in range(40 * 16)]
    keys = find_shared_prefixes(rows)
    assert {tuple(key) for key in keys} == {tuple(prompt[:192]) for prompt in prompts}
    batches = row_batches(keys, SupervisedConfig(batch_size=8, seed=1))
    for batch in batches:
        assert len({n % 40 for n in batch}) == 1  # however many prompts there are
        words = [rows[n][200] for n in batch]
        assert words != sorted(words)


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_a_saved_learner_goes_on_to_the_same_weights(kind: str) -> None:
    config = settings(**STAGE)
    whole, cut = policy_of(kind), policy_of(kind)
    learner = SupervisedLearner(whole, demonstrations(), config)
    while not learner.is_over:
        learner.compute_gradient()
        learner.take_step()
    assert learner.num_steps == 6
    first = SupervisedLearner(cut, demonstrations(), config)
    for _ in range(2):
        first.compute_gradient()
        first.take_step()
    file = io.BytesIO()
    torch.save(first.state(), file)
    file.seek(0)
    second = SupervisedLearner(cut, demonstrations(), config)
    second.load_state(torch.load(file, weights_only=True))
    while not second.is_over:
        second.compute_gradient()
        second.take_step()
    assert same(weights(cut), weights(whole))
    assert not same(weights(whole), weights(policy_of(kind)))


@pytest.mark.parametrize(
    "changes",
    [
        {"sft_epochs": 3},
        {"sft_batch_size": 3},
        {"sft_group_by_prefix": True},
        {"seed": 5},
        {"others": True},
    ],
)
def test_a_state_of_other_demonstrations_or_another_order_is_refused(
    changes: dict[str, Any],
) -> None:
    shown = demonstrations(2 if changes.pop("others", False) else 3)
    state = SupervisedLearner(policy_of("full"), demonstrations(), settings(**STAGE)).state()
    learner = SupervisedLearner(policy_of("full"), shown, settings(**STAGE | changes))
    with pytest.raises(ValueError, match="other demonstrations"):
        learner.load_state(state)


def test_a_weight_of_nan_ends_the_stage_before_it_spreads() -> None:
    policy = policy_of("full")
    learner = SupervisedLearner(policy, demonstrations(), settings(**STAGE))
    with torch.no_grad():
        policy.model.get_decoder().layers[0].mlp.down_proj.weight[0, 0] = torch.nan
    with pytest.raises(NotFiniteError, match="supervised step 1"):
        learner.compute_gradient()


def test_demonstrations_without_an_action_are_refused() -> None:
    row = empty_row()
    observe(row, [1, 2, 3])
    with pytest.raises(ValueError, match="none of the 1 demonstrations"):
        SupervisedLearner(policy_of("full"), [EpisodeRecord("t", "w", [row])], settings(**STAGE))
