"""Sections of gpu.py: decoding, prefill, attention of later turns, transformers as the peer."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from on_gpu.machine import Figures, Machine, make_model, make_policy, num_parameters, tried
from torch import Tensor


def filled_engine(machine: Machine, policy: Any, batch: int, context: int, steps: int) -> Any:
    """Return an engine of which each slot holds random states of a context."""
    from fctncalling.algorithms.generation.engine import GenerationEngine

    engine = GenerationEngine(policy.model, [], max_new_tokens=steps)
    engine.allocate_slots(batch)
    sizes, decoder = machine.sizes, engine._decoder
    shape = (sizes.layers, sizes.kv_heads, context, sizes.hidden // sizes.heads)
    states = (0.1 * machine.randn(*shape),) * 2
    with torch.inference_mode():
        for slot in range(batch):
            engine.begin_sequence(slot, slot)
            decoder.cache.append_states(slot, states)
    return engine


def generated(machine: Machine, policy: Any, batch: int, context: int, steps: int) -> Any:
    """Return a function that decodes `steps` steps of a batch after a context, warmed up."""
    from fctncalling.algorithms.generation.engine import Request

    engine = filled_engine(machine, policy, batch, context, steps)

    def run(steps: int = steps) -> list[Any]:
        requests = [Request(slot, [1], max_new_tokens=steps) for slot in range(batch)]
        actions: list[Any] = engine.generate(requests)
        return actions

    run(2)
    return run


def decode(machine: Machine) -> Figures:
    """Tokens a second of the engine, the share of the bandwidth, kernels and gaps of steps."""
    from fctncalling.algorithms.generation import fused_decoder

    contexts, most = machine.sizes.decodes, fused_decoder.MAX_FUSED_PARAMETERS
    ways: tuple[tuple[str, dict[str, Any], int, int], ...] = (
        ("full weights", {}, most, len(contexts)),
        ("full weights, bf16 output layer", {"cast_lm_head_to_fp32": False}, most, 3),
        ("adapters", {"lora_r": 16}, most, 3),
        ("adapters, fused", {"lora_r": 16}, 2**34, 3),
    )
    for name, settings, limit, count in ways:
        config, policy = make_policy(machine, **settings)
        fused_decoder.MAX_FUSED_PARAMETERS = limit
        try:
            for number, (batch, context) in enumerate(contexts[:count]):
                if not machine.has_time(3):
                    break
                given = (machine, policy, batch, context, config.cast_lm_head_to_fp32, number < 2)
                what = f"{name}, batch {batch}, context {context}"
                yield tried(what, lambda given=given: decode_figures(*given))
        finally:
            fused_decoder.MAX_FUSED_PARAMETERS = most
        del policy


def decode_figures(
    machine: Machine, policy: Any, batch: int, context: int, fp32_head: bool, profiled: bool
) -> dict[str, Any]:
    """Return the figures of decoding a batch after a context."""
    sizes = machine.sizes
    head = sizes.vocabulary * sizes.hidden
    weights = 2 * (num_parameters(policy) - head) + (4 if fp32_head else 2) * head
    a_token = 2 * 2 * sizes.layers * sizes.kv_heads * sizes.hidden // sizes.heads
    with torch.autocast(machine.device.type, dtype=torch.bfloat16):
        run = generated(machine, policy, batch, context, sizes.steps)
        step = machine.seconds(run, warm=0) / sizes.steps
        needed = weights + batch * (context + sizes.steps / 2) * a_token
        return {
            "value": batch / step,
            "unit": "tokens/s",
            "bandwidth_share": needed / step / machine.bandwidth,
            **(machine.kernels(lambda: run(4)) if profiled else {}),
        }


def prefill(machine: Machine) -> Figures:
    """Prompts read by groups, shared and not; then turns after turns."""
    from fctncalling.algorithms.generation.engine import GenerationEngine, Request

    _, policy = make_policy(machine)
    rows, group, length = machine.sizes.prefill
    flops = 2 * num_parameters(policy)
    generator = random.Random(0)
    prompts = [
        [generator.randrange(100, machine.sizes.vocabulary) for _ in range(length)]
        for _ in range(rows // group)
    ]
    requests = [Request(row, prompts[row // group]) for row in range(rows)]
    with torch.autocast(machine.device.type, dtype=torch.bfloat16):
        for shared in (True, False):
            engine = GenerationEngine(policy.model, [], max_new_tokens=1, share_prefixes=shared)

            def read(engine: Any = engine) -> None:
                engine.allocate_slots(rows)
                engine.generate(requests)

            tokens = (rows // group if shared else rows) * length
            spent = machine.seconds(read, warm=0)
            how = f"shared by {group}" if shared else "apart"
            yield {
                "what": f"{rows} prompts of {length}, {how}",
                "value": tokens / spent,
                "unit": "computed tokens/s",
                "mfu": flops * tokens / spent / machine.flops,
                "peak_gb": machine.peak_gb(read) if machine.has_time(2 * spent) else None,
            }
            engine.release()
        rows, new, before = machine.sizes.later_turn
        engine = filled_engine(machine, policy, rows, before, 1)
        turn = [Request(row, [1 + row] * new) for row in range(rows)]
        spent = machine.seconds(lambda: engine.generate(turn), warm=0)
        yield {
            "what": f"later turn, {rows} rows of {new} after {before}",
            "value": rows * new / spent,
            "unit": "tokens/s",
            "mfu": flops * rows * new / spent / machine.flops,
            **machine.kernels(lambda: engine.generate(turn)),
        }
    yield from later_attention(machine)


def later_attention(machine: Machine) -> Figures:
    """Attention of a later turn's tokens: a mask as today, repeated heads, no mask at all."""
    rows, new, before = machine.sizes.later_turn
    heads, kept = machine.sizes.heads, machine.sizes.kv_heads
    width, keys = machine.sizes.hidden // heads, before + new
    queries = machine.randn(rows, heads, new, width)
    states = machine.randn(rows, kept, keys, width)
    mask = torch.zeros(rows, 1, new, keys, device=machine.device, dtype=queries.dtype)
    mask.masked_fill_(torch.ones_like(mask, dtype=torch.bool).triu(before + 1), float("-inf"))
    repeated = states.repeat_interleave(heads // kept, 1)
    gqa = {"enable_gqa": heads != kept}
    from torch.nn.attention.bias import causal_lower_right

    ways: dict[str, Callable[[], Tensor]] = {
        "mask, grouped heads": lambda: F.scaled_dot_product_attention(
            queries, states, states, attn_mask=mask, **gqa
        ),
        "mask, repeated heads": lambda: F.scaled_dot_product_attention(
            queries, repeated, repeated, attn_mask=mask
        ),
        "causal bias, repeated heads": lambda: F.scaled_dot_product_attention(
            queries, repeated, repeated, attn_mask=causal_lower_right(new, keys)
        ),
    }
    for name, way in ways.items():
        measure = lambda way=way: {  # noqa: E731
            "value": 1e3 * machine.seconds(way, times=5),
            "unit": "ms",
            "peak_gb": machine.peak_gb(way),
        }
        yield tried(f"attention of a later turn, {name}", measure)


def peers(machine: Machine) -> Figures:
    """Generation of transformers, and whether TRL is here."""
    model, steps = make_model(machine, torch.bfloat16), machine.sizes.steps
    for batch, context in machine.sizes.decodes[:2]:
        ids = torch.randint(100, machine.sizes.vocabulary, (batch, context), device=machine.device)

        def generate(new: int, ids: Tensor = ids) -> None:
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=new,
                min_new_tokens=new,
                do_sample=False,
                pad_token_id=0,
            )

        first = machine.seconds(lambda: generate(1))
        spent = machine.seconds(lambda: generate(steps + 1), warm=0) - first
        yield {
            "what": f"transformers' generate, batch {batch}, context {context}",
            "value": batch * steps / spent,
            "unit": "tokens/s",
        }
    if importlib.util.find_spec("trl") is None:
        yield {"what": "TRL", "value": None, "unit": "not measured: not installed"}
    if machine.device.type == "cuda" and machine.has_time(30) and hasattr(model, "generate_batch"):
        from transformers import GenerationConfig

        rows = [[100 + (row + place) % 900 for place in range(300)] for row in range(64)]
        settings = GenerationConfig(max_new_tokens=steps, do_sample=False, eos_token_id=None)
        spent = machine.seconds(
            lambda: model.generate_batch(inputs=rows, generation_config=settings), warm=0
        )
        yield {
            "what": "transformers' continuous batching, 64 rows of 300, prefill included",
            "value": 64 * steps / spent,
            "unit": "tokens/s",
        }
