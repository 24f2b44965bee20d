"""Sections of gpu.py: updates, steps of the optimiser, log-probabilities of rollout and update."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from on_gpu.machine import Figures, Machine, Sizes, make_policy, num_parameters, tf32, tried


def random_episodes(sizes: Sizes) -> list[Any]:
    """Return episodes of groups with one prompt each, a quarter of their tokens acted."""
    from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord

    rows, group, length = sizes.update
    generator, context = random.Random(0), length - length // 4
    prompts = [
        [generator.randrange(100, sizes.vocabulary) for _ in range(context)]
        for _ in range(rows // group)
    ]
    episodes = []
    for row in range(rows):
        said = [generator.randrange(100, sizes.vocabulary) for _ in range(length - context)]
        acted = [False] * context + [True] * len(said)
        ends = [False] * (length - 1) + [True]
        rewards = [0.0] * (length - 1) + [float(row % 2)]
        record = TokenRecord(
            [*prompts[row // group], *said], acted, ends, [-10.0 * one for one in acted], rewards
        )
        episodes.append(EpisodeRecord(f"task_{row // group}", "", [record], terminated=True))
    return episodes


def learning(machine: Machine) -> Figures:
    """An update: prefixes shared or not, activations kept or not, AdamW fused or not, TF32."""
    from fctncalling.algorithms.ppo import make_optimisers, update

    episodes = random_episodes(machine.sizes)
    tokens = sum(len(row.ids) for episode in episodes for row in episode.rows)
    apart = {"share_prefixes": False}
    ways = (
        ("apart", apart, False),
        ("shared prefixes", {}, False),
        ("apart, TF32 output layer", apart, True),
        ("apart, gradient checkpointing", apart | {"gradient_checkpointing": True}, False),
        ("adapters, apart", apart | {"lora_r": 16}, False),
    )
    for number, (name, settings, on) in enumerate(ways):
        if number and not machine.has_time(12):
            return
        config, policy = make_policy(machine, **settings)
        optimisers = make_optimisers(policy, config)
        if number == 0:
            update(policy, optimisers, episodes[:2], config, torch.Generator())  # it warms up

        def learn(policy: Any = policy, optimisers: Any = optimisers, config: Any = config) -> None:
            update(policy, optimisers, episodes, config, torch.Generator().manual_seed(0))

        def figures(policy: Any = policy, learn: Any = learn, on: bool = on) -> dict[str, Any]:
            with tf32(on=on):
                spent = machine.seconds(learn, warm=0)
            return {
                "value": tokens / spent,
                "unit": "tokens/s",
                "mfu_6pt": 6 * num_parameters(policy) * tokens / spent / machine.flops,
                "peak_gb": machine.peak_gb(learn) if machine.has_time(2 * spent) else None,
            }

        yield tried(f"update, {name}", figures)
        if number == 0:
            yield tried("kernels of an update, apart", lambda learn=learn: machine.kernels(learn))
            yield from optimiser_steps(machine, policy)
        del policy, optimisers, learn, figures


def optimiser_steps(machine: Machine, policy: Any) -> Figures:
    """A step of AdamW over all weights, fused and not."""
    for weight in policy.parameters():
        weight.grad = torch.zeros_like(weight)
    for fused in (True, False):
        optimiser = torch.optim.AdamW(policy.parameters(), lr=0.0, fused=fused)
        spent = machine.seconds(optimiser.step, times=2)
        name = "fused" if fused else "not fused"
        yield {"what": f"AdamW step, {name}", "value": 1e3 * spent, "unit": "ms"}
        del optimiser
    policy.zero_grad(set_to_none=True)


def mismatch(machine: Machine) -> Figures:
    """Log-probabilities of rollout and training, of the same tokens in bf16."""
    from fctncalling.algorithms.episodes import RowArrays
    from fctncalling.algorithms.generation.engine import GenerationEngine, Request
    from fctncalling.algorithms.minibatches import make_batch

    _, policy = make_policy(machine)
    engine = GenerationEngine(policy.model, [], max_new_tokens=machine.sizes.steps)
    engine.allocate_slots(8)
    prompts = [[100 + 7 * row + place for place in range(64)] for row in range(8)]
    with torch.autocast(machine.device.type, dtype=torch.bfloat16):
        actions = engine.generate([Request(row, prompt) for row, prompt in enumerate(prompts)])
    rows = []
    for prompt, action in zip(prompts, actions, strict=True):
        ids = np.array([*prompt, *action.ids], dtype=np.int32)
        rows.append(RowArrays(ids, np.arange(len(ids)) >= len(prompt)))
    batch = make_batch(rows, device=machine.device)
    with torch.no_grad():
        trained = policy(batch).logprobs
    sampled = torch.tensor([one for action in actions for one in action.logprobs])
    difference = (trained.cpu() - sampled).abs()
    yield {
        "what": "rollout against training, bf16",
        "value": float(difference.mean()),
        "unit": "nats a token",
        "largest": float(difference.max()),
    }
