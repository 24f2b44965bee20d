"""Gradient checkpointing: the same gradient to the last bit, from layers computed again, all but
their attention.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from token_worlds import CPU, VOCABULARY, settings, some_episodes, tiny_policy
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.minibatches import Passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.gradient_checkpointing import (
    ATTENTION_KERNELS,
    MemoryMappedCopies,
)
from fctncalling.algorithms.policy.shared_prefixes import PrefixSharing
from fctncalling.algorithms.ppo import ALGORITHMS, accumulate_gradients, make_optimisers, update
from fctncalling.algorithms.targets import compute_targets
from fctncalling.training.load_policy import configure_policy

torch.set_num_threads(1)

OWN_FORWARD = ("gpt2", "opt", "gemma3_text", "qwen3_moe")  # of transformers; two have dropout
CRITICS = ("none", "lora", "lora critic", "full critic")


def policy_of(kind: str, adapters: str = "none") -> ActorCritic:
    """Return a random policy whose critic, and whose adapters, say something."""
    torch.manual_seed(0)
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "word_embed_proj_dim": 32,
        "intermediate_size": 48,
        "ffn_dim": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 64,
        "moe_intermediate_size": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "pad_token_id": 0,
        **({"n_layer": 3, "n_embd": 32, "n_head": 4} if kind == "gpt2" else {}),
    }
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes))
    policy = ActorCritic(model, critic_head="linear").eval()
    nn.init.normal_(policy.value_head.out.weight, std=0.3)
    if adapters == "full critic":
        policy.add_critic_model()
    if adapters.startswith("lora"):
        policy.add_lora(r=2, alpha=4.0, critic=adapters == "lora critic")
        assert policy.adapters is not None
        for name in policy.adapters.names:
            for weight in policy.adapters.parameters(name):
                nn.init.normal_(weight, std=0.05)
    return policy


def count_calls(policy: ActorCritic) -> list[object]:
    """Return a list that grows by one whenever the first layer's feed-forward is computed."""
    calls: list[object] = []
    decoder = policy.model.get_decoder()
    layer = (getattr(decoder, "layers", None) or decoder.h)[0]
    feed_forward = getattr(layer, "mlp", None) or layer.fc1
    feed_forward.register_forward_pre_hook(lambda this, inputs: calls.append(this))
    return calls


class AttentionCounter(TorchDispatchMode):
    """Counts the calls of attention kernels, those of the backward pass not among them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += func in ATTENTION_KERNELS
        return func(*args, **(kwargs or {}))


def gradient(policy: ActorCritic, config: TrainConfig, *, shares: bool) -> list[Tensor]:
    """Return the gradients of one step, in the order of the policy's weights."""
    passes = Passes(build_experience(some_episodes(tiny_policy(), 8), CPU), config)
    if shares:
        assert isinstance(policy.prefix_sharing, PrefixSharing)
        passes = passes._replace(
            sharing=policy.prefix_sharing._replace(layer_flops=10**9)  # every token is shared
        )
    generator = torch.Generator().manual_seed(0)
    plan = passes.minibatches(generator)
    algorithm = ALGORITHMS[config.algorithm_name]
    targets = compute_targets(policy, passes, plan, algorithm, config, generator)
    moved = targets.old_logprobs + 0.1 * torch.sin(torch.arange(len(targets.old_logprobs)))
    accumulate_gradients(
        policy, passes, targets._replace(old_logprobs=moved), plan[0], algorithm, config
    )
    return [it.grad for it in policy.parameters() if it.grad is not None]


def check_same_gradient(policy: ActorCritic, *, shares: bool, **changes: Any) -> None:
    config = settings(max_microbatch_tokens=100, **changes)
    calls = count_calls(policy)
    kept, once = gradient(policy, config, shares=shares), len(calls)
    recomputed = dataclasses.replace(config, gradient_checkpointing=True)
    found = gradient(policy, recomputed, shares=shares)
    assert sum(float(each.norm()) for each in kept) > 1e-3
    assert all(torch.equal(got, wanted) for got, wanted in zip(found, kept, strict=True))
    # Without: a pass for the old log-probabilities and one for the gradient. With: once more.
    assert len(calls) - once == once * 3 // 2


@pytest.mark.parametrize("shares", [False, True], ids=["rows", "tree"])
@pytest.mark.parametrize("adapters", CRITICS)
def test_layers_computed_again_give_the_same_gradient(adapters: str, shares: bool) -> None:
    check_same_gradient(policy_of("llama", adapters), shares=shares)


@pytest.mark.parametrize("kind", OWN_FORWARD)
def test_layers_of_transformers_own_forward_computed_again_give_the_same_gradient(
    kind: str,
) -> None:
    check_same_gradient(policy_of(kind), shares=False)


@pytest.mark.parametrize("shares", [False, True], ids=["rows", "tree"])
def test_attention_is_computed_once(shares: bool) -> None:
    counts = []
    for on in (False, True):
        with AttentionCounter() as counter:
            config = settings(max_microbatch_tokens=100, gradient_checkpointing=on)
            gradient(policy_of("llama"), config, shares=shares)
        counts.append(counter.count)
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("numbers", [5, 2**12, 2**20])
def test_copies_lie_apart_in_pages_and_keep_numbers_and_strides(numbers: int) -> None:
    memory, leaf = MemoryMappedCopies(), torch.randn(numbers, 3, 2, requires_grad=True)
    assert memory.copy_layer_output(leaf) is leaf
    outputs = [leaf.transpose(0, 1) * 2, leaf[:, :1] * 3, (leaf * 4)[:, 1:], leaf * 5]
    copies = [memory.copy_layer_output(it) for it in outputs]
    del memory
    assert all(torch.equal(it, copy) for it, copy in zip(outputs, copies, strict=True))
    assert copies[0].stride() == outputs[0].stride()
    assert all(copy.data_ptr() % 64 == 0 for copy in copies)
    assert len({copy.data_ptr() for copy in [*outputs, *copies]}) == 8


def test_a_whole_update_leaves_the_same_weights_and_figures() -> None:
    left = []
    for on in (False, True):
        policy = policy_of("llama")
        config = settings(gradient_checkpointing=on, num_mini_batch=2, lr=1e-2)
        metrics = update(
            policy,
            make_optimisers(policy, config),
            some_episodes(tiny_policy(), 8),
            config,
            torch.Generator().manual_seed(0),
        )
        left.append((metrics, [it.tolist() for it in policy.parameters()]))
    assert left[0] == left[1]


def test_a_model_without_layers_to_compute_again_is_refused() -> None:
    class Flat(nn.Module):
        config = AutoConfig.for_model("gpt2", n_embd=8)

        def get_decoder(self) -> nn.Module:
            return nn.Linear(1, 1)

    policy = ActorCritic(Flat())
    with pytest.raises(SettingError, match="--gradient_checkpointing: Linear has no layers"):
        configure_policy(policy, settings(gradient_checkpointing=True), None, CPU)
