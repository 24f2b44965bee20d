"""Adapters: the base never changes, each learns from its own loss alone, and what is saved is what
peft reads.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from token_worlds import settings, some_episodes, targets_of, tiny_policy
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.minibatches import make_batch
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch
from fctncalling.algorithms.policy.lora import ACTOR, CRITIC
from fctncalling.algorithms.ppo import make_optimisers, update
from fctncalling.lab.export import merge_lora
from fctncalling.training.load_policy import critic_kind

torch.set_num_threads(1)


def adapted(critic: bool = True) -> ActorCritic:
    """Return a policy that learns by adapters, its critic by one of its own."""
    policy = tiny_policy(critic_head="linear").eval()
    nn.init.normal_(policy.value_head.out.weight, std=0.3)
    policy.add_lora(r=2, alpha=4.0, critic=critic)
    return policy


def trained(policy: ActorCritic, **changes: float) -> ActorCritic:
    config = settings(ppo_epoch=3, lr=1e-2, critic_lr=1e-2, kl_coef=0.1, **changes)
    update(
        policy, make_optimisers(policy, config), EPISODES, config, torch.Generator().manual_seed(0)
    )
    return policy


EPISODES = some_episodes(tiny_policy(), 6)
BATCH: Batch = make_batch([record.rows[0] for record in EPISODES])


def test_a_layer_that_is_not_there_is_named_by_its_flag() -> None:
    with pytest.raises(SettingError, match=r"^lora_targets foo: .*\bq_proj\b"):
        tiny_policy().add_lora(r=2, alpha=4.0, targets="foo")


def base_weights(policy: ActorCritic) -> dict[str, Tensor]:
    return {
        name.replace(".base_layer", ""): weight.clone()
        for name, weight in policy.model.state_dict().items()
        if "lora_" not in name
    }


def logits(model: nn.Module) -> Tensor:
    with torch.no_grad():
        out: Tensor = model(BATCH.ids).logits
    return out


def test_training_moves_both_factors_of_each_adapter_and_no_byte_of_the_base() -> None:
    policy = adapted()
    wanted, start = tiny_policy().model.state_dict(), copy.deepcopy(policy)
    trained(policy)
    got = base_weights(policy)
    assert got.keys() == wanted.keys()
    assert all(torch.equal(weight, wanted[name]) for name, weight in got.items())
    for name in (ACTOR, CRITIC):
        assert policy.adapters is not None
        assert start.adapters is not None
        pairs = list(
            zip(start.adapters.parameters(name), policy.adapters.parameters(name), strict=True)
        )
        assert len(pairs) == 2 * 7 * 2  # A and B of seven linear layers in two blocks
        assert all(not torch.equal(old, new) for old, new in pairs)


def test_the_reference_is_the_base_from_the_first_update_to_the_last() -> None:
    policy = adapted()
    wanted = targets_of(tiny_policy(), EPISODES, settings()).old_logprobs
    fresh = targets_of(policy, EPISODES, settings(kl_coef=0.1))
    assert torch.equal(fresh.reference_logprobs, wanted)
    assert torch.equal(
        fresh.reference_logprobs, fresh.old_logprobs
    )  # an untrained adapter adds nothing: KL 0
    moved = targets_of(trained(policy), EPISODES, settings(kl_coef=0.1))
    assert torch.equal(moved.reference_logprobs, wanted)
    assert not torch.allclose(moved.reference_logprobs, moved.old_logprobs, atol=1e-3)


def test_each_adapter_learns_from_its_own_loss_alone() -> None:
    policy = trained(adapted())
    for loss, mover, other in (("logprobs", ACTOR, CRITIC), ("values", CRITIC, ACTOR)):
        policy.zero_grad()
        outputs = policy(BATCH)
        torch.autograd.backward(getattr(outputs, loss).sum())
        assert policy.adapters is not None
        assert all(
            weight.grad is not None and bool(weight.grad.any())
            for weight in policy.adapters.parameters(mover)
        )
        assert all(
            weight.grad is None or not weight.grad.any()
            for weight in policy.adapters.parameters(other)
        )
    assert all(
        weight.grad is None
        for name, weight in policy.model.named_parameters()
        if "lora_" not in name
    )


def test_without_an_adapter_of_its_own_the_critic_reads_the_actors() -> None:
    policy = trained(adapted(critic=False))
    policy.zero_grad()
    torch.autograd.backward(policy(BATCH).values.sum())
    assert policy.adapters is not None
    assert policy.adapters.names == [ACTOR]
    assert all(weight.grad is not None for weight in policy.adapters.parameters(ACTOR))


def test_a_critic_of_its_own_model_leaves_the_language_model_to_the_policy_loss() -> None:
    policy = tiny_policy(critic_head="linear").eval()
    nn.init.normal_(policy.value_head.out.weight)
    before = policy(BATCH)
    policy.add_critic_model()
    assert torch.equal(policy(BATCH).values, before.values)
    torch.autograd.backward(policy(BATCH).values.sum())
    assert all(weight.grad is None for weight in policy.policy_parameters())
    assert sum(weight.grad is not None for weight in policy.critic_parameters()) > 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_hundred_steps_at_a_tiny_rate_move_an_adapter_on_any_base(dtype: torch.dtype) -> None:
    model = tiny_policy().model.to(dtype).requires_grad_(False)
    policy = ActorCritic(model)
    policy.add_lora(r=2, alpha=4.0)
    assert policy.adapters is not None
    weights = policy.adapters.parameters(ACTOR)
    assert {weight.dtype for weight in weights} == {torch.float32}
    before = [weight.clone() for weight in weights]
    optimiser = torch.optim.AdamW(weights, lr=1e-7, weight_decay=0.0)
    for _ in range(100):
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        optimiser.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, weights, strict=True))


def test_the_same_steps_in_half_precision_would_move_nothing() -> None:
    weight = torch.nn.Parameter(torch.full((3,), 0.01, dtype=torch.float16))
    optimiser = torch.optim.AdamW([weight], lr=1e-7, weight_decay=0.0)
    for _ in range(100):
        weight.grad = torch.ones_like(weight)
        optimiser.step()
    assert torch.equal(weight, torch.full((3,), 0.01, dtype=torch.float16))


def test_a_saved_adapter_loads_in_plain_peft_and_goes_on_here(tmp_path: Path) -> None:
    policy = trained(adapted())
    policy.save(tmp_path)
    plain = PeftModel.from_pretrained(tiny_policy().model.eval(), str(tmp_path))
    assert torch.equal(logits(plain), logits(policy.model))
    again = adapted()
    assert again.adapters is not None
    again.adapters.load(tmp_path)
    again.load_critic(tmp_path)
    for got, wanted in zip(again(BATCH), policy(BATCH), strict=True):
        assert torch.equal(got, wanted)


def test_a_further_adapter_is_switched_to_without_loading_anything_again(tmp_path: Path) -> None:
    policy = trained(adapted())
    policy.save(tmp_path)
    saved = logits(policy.model)
    trained(policy)
    newer = logits(policy.model)
    assert policy.adapters is not None
    policy.adapters.add("older", tmp_path)
    assert torch.equal(logits(policy.model), newer)
    with policy.adapters.use("older"):
        assert torch.equal(logits(policy.model), saved)
    assert torch.equal(logits(policy.model), newer)


def test_one_adapter_is_trained_and_another_evaluated_on_the_same_base() -> None:
    policy = adapted()
    assert policy.adapters is not None
    trained(policy)
    policy.adapters.add("second")
    assert policy.adapters.active == ACTOR
    first, base = logits(policy.model), logits(tiny_policy().model.eval())
    policy.adapters.activate("second")
    assert torch.equal(logits(policy.model), base)  # a fresh adapter adds nothing
    trained(policy)
    second = logits(policy.model)
    assert policy.adapters.active == "second"  # after passes of critic and reference too
    assert not torch.allclose(second, base, atol=1e-3)
    for name, wanted in ((ACTOR, first), (None, base), ("second", second)):
        with policy.adapters.use(name):
            assert torch.equal(logits(policy.model), wanted)
    got = base_weights(policy)
    assert all(
        torch.equal(weight, got[name]) for name, weight in tiny_policy().model.state_dict().items()
    )


@pytest.mark.parametrize("kind", ["head", "lora", "full"])
def test_a_critic_is_taken_over_whole_with_what_it_reads_with(tmp_path: Path, kind: str) -> None:
    def fresh() -> ActorCritic:
        policy = tiny_policy(critic_head="linear").eval()
        if kind == "full":
            policy.add_critic_model()
        policy.add_lora(r=2, alpha=4.0, critic=kind == "lora")
        return policy

    policy = trained(fresh())
    policy.save(tmp_path)
    again = fresh()
    again.load_critic(tmp_path)
    assert critic_kind(tmp_path) == kind
    assert again.adapters is not None
    assert policy.adapters is not None
    with (
        again.adapters.use(None),
        policy.adapters.use(None),
    ):  # what the actor reads with is not the critic's
        assert torch.equal(again(BATCH).values, policy(BATCH).values)
    other = adapted() if kind != "lora" else tiny_policy(critic_head="linear")
    if kind == "lora":
        other.add_critic_model()
    with pytest.raises(ValueError, match=r"holds no (adapter|critic with a model)"):
        other.load_critic(tmp_path)


def test_an_adapter_of_another_rank_is_refused_rather_than_half_taken(tmp_path: Path) -> None:
    adapted().save(tmp_path)
    other = tiny_policy(critic_head="linear")
    other.add_lora(r=3, alpha=4.0)
    assert other.adapters is not None
    with pytest.raises(ValueError, match="--lora_r"):
        other.adapters.load(tmp_path)
    with pytest.raises(ValueError, match="holds no adapter"):
        other.adapters.load(tmp_path / "elsewhere")


def test_merging_a_saved_adapter_gives_an_ordinary_model_and_touches_nothing_live(
    tmp_path: Path,
) -> None:
    policy = trained(adapted())
    policy.save(tmp_path / "checkpoint")
    tiny_policy().model.save_pretrained(tmp_path / "base")
    before = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
    merge_lora(tmp_path / "checkpoint", tmp_path / "base").save_pretrained(tmp_path / "merged")
    ordinary = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert not any("lora_" in name for name in ordinary.state_dict())
    assert torch.allclose(logits(ordinary), logits(policy.model), atol=1e-5)
    assert all(
        torch.equal(weight, before[name]) for name, weight in policy.model.state_dict().items()
    )


def test_layers_that_are_not_there_are_told_by_name() -> None:
    with pytest.raises(ValueError, match="nothing_of_the_kind"):
        tiny_policy().add_lora(r=2, alpha=4.0, targets="nothing_of_the_kind")
