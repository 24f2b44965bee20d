"""TextTrainer learns from what the policy wrote, and from nothing else."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from tiny_models import tiny_model, tiny_tokenizer

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import ALGORITHMS
from fctncalling.lab.text_environment.text_trainer import TextTrainer

QUERY, RESPONSE = [10, 11, 12], [20, 21, 30, 31, 32, 22, 23]
MASK = [1, 1, 0, 0, 0, 1, 1]


def config(**changes: Any) -> TrainConfig:
    return TrainConfig(
        **{"num_mini_batch": 1, "lr": 1e-3, "target_kl": None, "group_size": 2, **changes}
    )


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_only_the_places_that_wrote_a_token_get_a_gradient(name: str) -> None:
    trainer = TextTrainer(config(algorithm_name=name), tiny_model())
    gradients: list[torch.Tensor] = []

    def watch(module: Any, inputs: Any, output: Any) -> None:
        if output.last_hidden_state.requires_grad:
            output.last_hidden_state.register_hook(gradients.append)

    decoder: Any = trainer.policy.model.get_decoder()
    decoder.register_forward_hook(watch)
    trainer.step([QUERY] * 2, [RESPONSE, RESPONSE], [1.0, 0.0], [MASK] * 2)
    [gradient] = (
        # (2, T, H), of the last hidden states, of which each sees its own next token alone
        gradients
    )
    writes = torch.tensor([*([0] * (len(QUERY) - 1)), *MASK], dtype=torch.bool)[
        : gradient.shape[1] - 1
    ]
    sizes = gradient.abs().sum((0, 2))[: len(writes)]
    assert sizes[~writes].tolist() == [0.0] * int((~writes).sum())  # exactly
    assert (sizes[writes] > 0).all()
    assert gradient[:, -1].abs().sum() == 0.0


def test_a_mask_of_ones_is_what_no_mask_means() -> None:
    policies = []
    for masks in (None, [torch.ones(7, dtype=torch.int64)] * 2):
        trainer = TextTrainer(config(), tiny_model())
        torch.manual_seed(0)
        for parameter in trainer.policy.value_head.parameters():
            torch.nn.init.constant_(parameter, 0.01)
        trainer.step(
            [torch.tensor(QUERY)] * 2, [torch.tensor(RESPONSE)] * 2, [torch.tensor(1.0), 0.0], masks
        )
        policies.append([parameter.detach().clone() for parameter in trainer.policy.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*policies, strict=True))


def test_steps_make_the_rewarded_response_likelier() -> None:
    model = tiny_model()
    trainer = TextTrainer(config(lr=3e-3, entropy_coef=0.0), model, tokenizer=tiny_tokenizer())
    other = [40, 41, *RESPONSE[2:5], 42, 43]

    def logprob(response: list[int]) -> float:
        with torch.no_grad():
            logprobs = model(torch.tensor([QUERY + response])).logits[0].log_softmax(-1)
        places = [len(QUERY) + i for i, acted in enumerate(MASK) if acted]
        return float(sum(logprobs[place - 1, (QUERY + response)[place]] for place in places))

    before = logprob(RESPONSE) - logprob(other)
    for _ in range(5):
        metrics = trainer.step([QUERY] * 2, [RESPONSE, other], [1.0, -1.0], [MASK, MASK])
    assert logprob(RESPONSE) - logprob(other) > before + 0.5
    assert metrics["env/reward_mean"] == 0.0
    assert not [key for key in metrics if key.startswith("mismatch/")]


def test_episodes_without_a_reward_or_a_word_are_left_out() -> None:
    trainer = TextTrainer(config(), tiny_model())
    metrics = trainer.step(
        [QUERY] * 4,
        [RESPONSE, RESPONSE, RESPONSE, []],
        [1.0, math.nan, None, 0.0],
        [MASK, MASK, MASK, []],
    )
    assert metrics["env/invalid_episodes"] == 2
    assert metrics["env/episodes_learned_from"] == 1
    with pytest.raises(ValueError, match="nothing to learn from"):
        trainer.step([QUERY], [RESPONSE], [None], [MASK])


def test_an_episode_that_a_limit_cut_goes_on_with_the_critics_value() -> None:
    for truncated, longest in (
        (None, 1.0),
        ([False, False], 1.0),
        ([True, False], 1.0 + 0.5 * 8.0),
    ):
        trainer = TextTrainer(config(lam=0.95, gamma=0.5, critic_detach=True), tiny_model())
        torch.nn.init.constant_(trainer.policy.value_head.out.bias, 8.0)  # every state is worth 8
        metrics = trainer.step(
            [QUERY] * 2, [RESPONSE] * 2, [1.0, 1.0], [MASK] * 2, truncated=truncated
        )
        assert metrics["critic/returns_max"] == pytest.approx(longest)  # the last action's
    with pytest.raises(ValueError, match="1 of truncated"):
        trainer.step([QUERY] * 2, [RESPONSE] * 2, [1.0, 1.0], [MASK] * 2, truncated=[True])


def test_probabilities_that_nobody_told_are_not_made_up_for() -> None:
    policies = []
    for cap in (2.0, None):
        changes = config(importance_cap=cap, compute_dtype="bfloat16")
        trainer = TextTrainer(changes, tiny_model())
        trainer.step([QUERY] * 2, [RESPONSE] * 2, [1.0, 0.0], [MASK] * 2)
        policies.append([parameter.detach().clone() for parameter in trainer.policy.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*policies, strict=True))


def test_wrong_lengths_are_told() -> None:
    trainer = TextTrainer(config(), tiny_model())
    with pytest.raises(ValueError, match="2 scores"):
        trainer.step([QUERY], [RESPONSE], [1.0, 2.0], [MASK])
    with pytest.raises(ValueError, match="2 entries for 7"):
        trainer.step([QUERY], [RESPONSE], [1.0], [[1, 1]])
    with pytest.raises(ValueError, match="ref_model"):
        TextTrainer(config(kl_coef=0.1), tiny_model())
    with pytest.raises(TypeError, match="NoneType"):
        TextTrainer(config())


def test_the_reference_pulls_back() -> None:
    model = tiny_model()
    trainer = TextTrainer(
        config(kl_coef=0.1, kl_mode="k3"), ActorCritic(model), copy.deepcopy(model)
    )
    metrics = [trainer.step([QUERY], [RESPONSE], [1.0], [MASK]) for _ in range(3)]
    assert metrics[-1]["losses/kl_ref"] > 0.0


def test_steps_follow_the_learning_rate_schedule_and_its_end_moves_nothing() -> None:
    schedule = {"lr_schedule": "linear", "warmup_updates": 2, "num_updates": 4}
    trainer = TextTrainer(config(**schedule), tiny_model())
    rates = []
    for _ in range(5):
        before = [parameter.detach().clone() for parameter in trainer.policy.parameters()]
        metrics = trainer.step([QUERY] * 2, [RESPONSE] * 2, [1.0, 0.0], [MASK] * 2)
        rates.append(metrics["charts/learning_rate"])
    assert rates == pytest.approx([0.5e-3, 1e-3, 1e-3, 0.5e-3, 0.0])
    after = trainer.policy.parameters()
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_critic_that_warms_up_learns_alone() -> None:
    trainer = TextTrainer(config(critic_warmup_episodes=1, critic_detach=True), tiny_model())
    weights = [
        trainer.policy.model.get_decoder().embed_tokens.weight,
        trainer.policy.value_head.out.weight,
    ]
    moved = []
    for _ in range(2):
        before = [weight.detach().clone() for weight in weights]
        trainer.step([QUERY] * 2, [RESPONSE] * 2, [1.0, 0.0], [MASK] * 2)
        moved.append([not torch.equal(*pair) for pair in zip(before, weights, strict=True)])
    assert moved == [[False, True], [True, True]]
