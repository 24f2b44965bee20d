"""Every pair of base and compute precision plays and learns as transformers' own forward in it
does.
"""

from __future__ import annotations

import contextlib
import copy
import math
from typing import Any

import pytest
import torch
from tiny_models import pieces, tiny_model, uncached_logprobs
from token_worlds import CPU, settings
from torch import Tensor, nn

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.generation.engine import GenerationEngine, Request
from fctncalling.algorithms.generation.fused_linear import FusedLinear
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch
from fctncalling.algorithms.policy.precision import compute_dtypes, set_compute_dtype
from fctncalling.algorithms.ppo import make_optimisers, update
from fctncalling.training.load_policy import load_policy
from fctncalling.training.run_config import RunConfig

F32, BF16 = torch.float32, torch.bfloat16
END = 2


def policy_of(kind: str, base: torch.dtype, adapted: bool) -> ActorCritic:
    """Return a policy whose weights are kept in `base`; its adapter, if it has one, is no longer
    fresh.
    """
    model = tiny_model(kind)
    for weight in model.parameters():
        weight.data = weight.data.to(base)
    policy = ActorCritic(model.requires_grad_(base == F32))
    if adapted:
        policy.add_lora(r=2, alpha=4.0)
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                nn.init.normal_(weight, std=0.05)
    return policy


def play(model: Any) -> list[TokenRecord]:
    """Return three episodes of two actions; the first two begin alike."""
    engine = GenerationEngine(model, [END], max_new_tokens=8)
    engine.allocate_slots(3)
    rows = [TokenRecord([], [], [], [], []) for _ in range(3)]
    for step in range(2):
        news = [next(pieces(10 * step + slot // 2, longest=30)) for slot in range(3)]
        actions = engine.generate([*map(Request, range(3), news)])
        for number, (row, new, action) in enumerate(zip(rows, news, actions, strict=True)):
            row.ids += new + action.ids
            row.acted += [False] * len(new) + action.acted
            row.rollout_logprobs += [0.0] * len(new) + action.logprobs
            ends = [False] * (len(action.ids) - 1) + [True]
            row.ends_action += [False] * len(new) + ends
            row.rewards += [0.0] * len(new) + [number * end for end in ends]
    return rows


def logprobs_of(policy: ActorCritic, row: TokenRecord) -> Tensor:
    """Return what training reads of a row's acted tokens, (N,)."""
    acted = torch.tensor([row.acted])
    with torch.no_grad():
        return policy(Batch(torch.tensor([row.ids]), torch.ones_like(acted), acted)).logprobs


def own_logprobs(model: Any, row: TokenRecord, dtype: torch.dtype, fp32_head: bool) -> Tensor:
    """Return what transformers' own forward says of a row's acted tokens, (N,): under autocast
    where it is bf16.
    """
    autocast = torch.autocast("cpu", dtype=BF16) if dtype == BF16 else contextlib.nullcontext()
    ids = torch.tensor([row.ids])
    with torch.no_grad(), autocast:
        output = model(ids, output_hidden_states=True)
    logits = output.logits[0].float()
    if fp32_head:
        head = model.get_output_embeddings().weight.float()
        logits = output.hidden_states[-1][0].float() @ head.t()
    places = torch.tensor(row.acted).nonzero()[:, 0]
    return logits.log_softmax(-1)[places - 1, ids[0, places]]


def in_fp32(model: Any) -> Any:
    """Return a copy that keeps the same weights in fp32."""
    return copy.deepcopy(model).float()


def assert_as_near(got: Tensor, own: Tensor, true: Tensor) -> None:
    """Two orders of the same operations in bf16 round differently, and are about as far from the
    truth.

    A rotation, a norm or an adapter left out moves log-probabilities of these models by 0.5 nats
    and more.
    """
    assert (got - true).abs().mean() < 1.5 * (own - true).abs().mean()
    assert (got - own).abs().max() < 0.2


@pytest.mark.parametrize("compute", [F32, BF16], ids=["compute_fp32", "compute_bf16"])
@pytest.mark.parametrize("base", [F32, BF16], ids=["base_fp32", "base_bf16"])
@pytest.mark.parametrize("adapted", [False, True], ids=["whole", "lora"])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gpt2"])
def test_plays_and_learns_as_transformers_own_forward_speaks(
    kind: str, adapted: bool, base: torch.dtype, compute: torch.dtype
) -> None:
    policy = policy_of(kind, base, adapted)
    plain = copy.deepcopy(policy.model)
    exact = in_fp32(plain)
    set_compute_dtype(policy.model, compute, CPU)
    rows = play(policy.model)
    sampled, trained, own, true = (
        torch.cat(parts)
        for parts in (
            [torch.tensor(row.rollout_logprobs)[torch.tensor(row.acted)] for row in rows],
            [logprobs_of(policy, row) for row in rows],
            [own_logprobs(plain if compute == BF16 else exact, it, compute, True) for it in rows],
            [own_logprobs(exact, row, F32, True) for row in rows],
        )
    )
    torch.testing.assert_close(trained, own, atol=2e-6, rtol=0)  # the same operations
    if compute == F32:
        torch.testing.assert_close(sampled, own, atol=1e-5, rtol=0)
    else:
        assert_as_near(sampled, own, true)

    if not (learning := list(policy.policy_parameters())):
        return  # a frozen base without an adapter, which no run has
    before = [weight.clone() for weight in learning]
    config = settings(compute_dtype=str(compute)[6:], lr=1e-3, num_mini_batch=1)
    episodes = [EpisodeRecord(str(i), "", [row], terminated=True) for i, row in enumerate(rows)]
    generator = torch.Generator().manual_seed(0)
    metrics = update(policy, make_optimisers(policy, config), episodes, config, generator)
    assert metrics["losses/first_ratio_deviation"] == 0.0
    assert all(weight.dtype == F32 for weight in learning)
    assert sum(not torch.equal(*pair) for pair in zip(learning, before, strict=True)) > 1
    # What rounding alone makes of the ratio is made up for, and told.
    difference = (trained - sampled).abs().mean()
    assert metrics["mismatch/mean_logdiff"] == pytest.approx(difference.item(), abs=1e-6)
    assert ("mismatch/importance_mean" in metrics) == (compute == BF16)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_under_a_users_own_autocast_the_rotation_is_not_lost(kind: str) -> None:
    model = tiny_model(kind)
    with torch.autocast("cpu", dtype=BF16):
        rows = play(model)
    sampled, own, true = (
        torch.cat(parts)
        for parts in (
            [torch.tensor(row.rollout_logprobs)[torch.tensor(row.acted)] for row in rows],
            [own_logprobs(model, row, BF16, False) for row in rows],
            [own_logprobs(model, row, F32, False) for row in rows],
        )
    )
    assert_as_near(sampled, own, true)


def test_an_output_layer_in_fp32_halves_what_rounding_does_to_log_probabilities() -> None:
    errors = []
    for fp32_head in (True, False):
        policy = policy_of("llama", F32, adapted=False)
        plain = copy.deepcopy(policy.model)
        set_compute_dtype(policy.model, BF16, CPU, fp32_head=fp32_head)
        assert compute_dtypes(policy.model) == (BF16, F32 if fp32_head else BF16)
        row = play(policy.model)[0]
        trained = logprobs_of(policy, row)
        own = own_logprobs(plain, row, BF16, fp32_head)
        torch.testing.assert_close(trained, own, atol=2e-6, rtol=0)
        with torch.no_grad(), torch.autocast("cpu", dtype=BF16):
            hidden = plain.get_decoder()(torch.tensor([row.ids])).last_hidden_state[0].float()
        places = torch.tensor(row.acted).nonzero()[:, 0]
        logits = hidden[places - 1] @ plain.get_output_embeddings().weight.detach().t()
        exact = logits.log_softmax(-1).gather(1, torch.tensor(row.ids)[places, None])[:, 0]
        errors.append((trained - exact).abs().mean().item())
    assert errors[0] < 1e-5 < 1e-3 < errors[1]


def test_what_a_young_adapter_adds_is_not_rounded_away() -> None:
    # Its part of each weight is less than half a step of bf16; its part of an output is more than
    # one.
    torch.manual_seed(0)
    signs = torch.randn(64).sign()
    layer = nn.Module()
    layer.q_proj = nn.Linear(64, 8, bias=False)
    nn.init.uniform_(layer.q_proj.weight, 1.0, 1.9)
    layer.q_proj.weight.data = layer.q_proj.weight.data.bfloat16()
    from peft import LoraConfig, inject_adapter_in_model

    adapted: Any = inject_adapter_in_model(
        LoraConfig(r=1, lora_alpha=1, target_modules=["q_proj"]), layer
    )
    x = signs.bfloat16().unsqueeze(0)
    without = FusedLinear((adapted.q_proj.base_layer,), True)(x)
    adapted.q_proj.lora_A["default"].weight.data.copy_(signs)
    adapted.q_proj.lora_B["default"].weight.data.fill_(2e-3)
    added = FusedLinear((adapted.q_proj,), True, BF16)(x) - without
    assert (added > 0).all()
    assert added.float().mean() == pytest.approx(64 * 2e-3, rel=0.3)


def test_the_models_own_forward_is_as_it_was_without_a_precision_of_its_own() -> None:
    model = tiny_model()
    before = uncached_logprobs(model, [5, 6, 7])
    set_compute_dtype(model, F32, CPU)
    assert not model.get_decoder()._forward_pre_hooks  # so the quick training pass is still taken
    assert torch.equal(uncached_logprobs(model, [5, 6, 7]), before)
    assert math.isfinite(before.sum())


def test_tf32_is_off_unless_it_is_asked_for() -> None:
    """CUDA alone computes in it; the switch can be read without."""
    for wanted in (True, False):
        config = TrainConfig(device="cpu", **({"tf32": True} if wanted else {}))
        load_policy(config, RunConfig(), None, CPU)
        assert torch.backends.cuda.matmul.allow_tf32 is wanted
