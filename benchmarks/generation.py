"""How much kept caches bring: episodes of several steps, with ours and with a re-prefilling `model.generate`.

`python benchmarks/generation.py` runs both in turn on the same prompts and prints ratios of CPU time; absolute
times on a shared machine say little.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from fctncalling.algorithms.generation import GenerationEngine, Request

NEVER = 1  # an end token that is never likely enough to be sampled: all actions have the same length


def build(hidden: int, layers: int, vocabulary: int) -> Any:
    """Return a random model of the embedded model's kind."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=int(2.5 * hidden),
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=NEVER,
        pad_token_id=0,
    )
    model: Any = LlamaForCausalLM(config)
    model.eval().generation_config.eos_token_id = NEVER
    return model


def contexts(batch: int, steps: int, prompt: int, observation: int, vocabulary: int) -> list[torch.Tensor]:
    """Return what each step reads first, (batch, tokens)."""
    generator = torch.Generator().manual_seed(1)
    sizes = [prompt] + [observation] * (steps - 1)
    return [torch.randint(2, vocabulary, (batch, size), generator=generator) for size in sizes]


def kept(model: Any, texts: list[torch.Tensor], new: int) -> list[list[int]]:
    """Return every slot's tokens, greedy, each token read once."""
    engine = GenerationEngine(model, [NEVER], temperature=0.0, max_new_tokens=new)
    batch = len(texts[0])
    engine.start(batch)
    rows: list[list[int]] = [[] for _ in range(batch)]
    for text in texts:
        requests = [Request(slot, text[slot].tolist()) for slot in range(batch)]
        for request, action in zip(requests, engine.generate(requests), strict=True):
            rows[request.slot] += request.new_ids + action.ids
    return rows


def prefilled_again(model: Any, texts: list[torch.Tensor], new: int) -> list[list[int]]:
    """Return the same tokens by `model.generate`, which reads the whole episode again for each step."""
    ids = texts[0][:, :0]
    for text in texts:
        ids = torch.cat([ids, text], dim=1)
        ids = model.generate(ids, do_sample=False, min_new_tokens=new, max_new_tokens=new)
    rows: list[list[int]] = ids.tolist()
    return rows


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Print one line a batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("hidden", 96), ("layers", 3), ("vocabulary", 1600), ("steps", 4), ("prompt", 192)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--new", type=int, default=24, help="tokens an action")
    parser.add_argument("--observation", type=int, default=16, help="tokens between two actions")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = build(options.hidden, options.layers, options.vocabulary)
    for batch in options.batches:
        texts = contexts(batch, options.steps, options.prompt, options.observation, options.vocabulary)
        same = kept(model, texts, options.new) == prefilled_again(model, texts, options.new)
        ways = [partial(way, model, texts, options.new) for way in (kept, prefilled_again)]
        pairs = [[cpu_seconds(way) for way in ways] for _ in range(options.repeats)]
        tokens = batch * options.steps * options.new
        print(
            f"batch {batch:3d}: kept caches {tokens / min(ours for ours, _ in pairs):6.0f} tokens a CPU second, "
            f"x{median(theirs / ours for ours, theirs in pairs):.2f} of generate; same tokens: {same}",
            flush=True,
        )


if __name__ == "__main__":
    main()
