"""The decode engine's promises: greedy equality in any order, each token read once, memory that is
given back.
"""

from __future__ import annotations

import copy
import random
from typing import Any
from unittest.mock import patch

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from tiny_models import cache_bytes, pieces, tiny_model, uncached_logprobs

from fctncalling.algorithms.generation import fused_linear
from fctncalling.algorithms.generation.engine import CacheBudgetError, GenerationEngine, Request

KINDS = ["qwen2", "qwen3", "llama", "gpt2"]
END = 2
MODELS: dict[str, Any] = {}


def model_of(kind: str) -> Any:
    return MODELS.setdefault(kind, tiny_model(kind))


@pytest.mark.parametrize("kind", KINDS)
@hypothesis.settings(max_examples=6)
@hypothesis.given(order=st.randoms(use_true_random=False), num_slots=st.integers(1, 4))
def test_greedy_and_its_logprobs_are_the_models_own_in_whatever_order_slots_are_refilled(
    kind: str, order: random.Random, num_slots: int
) -> None:
    model, waiting, running = model_of(kind), list(range(6)), dict[int, tuple[int, list[int]]]()
    engine = GenerationEngine(model, [END], temperature=0, max_new_tokens=6)
    assert engine.fast_path == (kind != "gpt2")
    engine.allocate_slots(num_slots)
    free, done = list(range(num_slots)), 0
    while waiting or running:
        order.shuffle(free)
        while free and waiting and (not running or order.random() < 0.7):
            slot, prompt = free.pop(), next(pieces(waiting.pop(order.randrange(len(waiting)))))
            engine.begin_sequence(slot)
            engine.submit(Request(slot, prompt))
            running[slot] = (0, prompt)
        for slot, action in engine.advance():
            step, ids = running.pop(slot)
            assert_greedy(model, ids, action.ids, action.logprobs)
            if step == 0 and order.random() < 0.5:  # the episode goes on with what it is answered
                news = [order.randrange(3, 259) for _ in range(order.randint(1, 9))]
                engine.submit(Request(slot, news))
                running[slot] = (1, [*ids, *action.ids, *news])
            else:
                free.append(slot)
                done += 1
    assert done == 6


def assert_greedy(model: Any, ids: list[int], written: list[int], logprobs: list[float]) -> None:
    """Compare with one plain forward over the whole sequence: each token is the likeliest, or 1e-4
    behind it.
    """
    said = uncached_logprobs(model, [*ids, *written, 0])[len(ids) - 1 :]
    for row, token, logprob in zip(said, written, logprobs, strict=False):
        assert row[token] >= row.max() - 1e-4
        assert logprob == pytest.approx(row[token].item(), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_sixteen_steps_forwards_its_new_ids_alone(kind: str) -> None:
    engine = GenerationEngine(model_of(kind), [], temperature=0, max_new_tokens=5)
    engine.allocate_slots(3)
    for step in range(16):
        before = engine.num_forward_tokens
        engine.generate([Request(slot, [7 + step] * (4 + slot)) for slot in range(3)])
        # Of what was sampled the last token is read with the next observation, if there is one.
        unread = 0 if step == 0 else 3
        assert engine.num_forward_tokens - before == unread + (4 + 5 + 6) + 3 * 4


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_groups_prompt_is_forwarded_once(kind: str) -> None:
    engine = GenerationEngine(model_of(kind), [], max_new_tokens=1)
    engine.allocate_slots(8)
    engine.generate([Request(slot, [5] * 100) for slot in range(8)])
    assert (
        engine.num_forward_tokens == 100 + 7
    )  # the others read the last token alone, to have something to say


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_kept_memory_is_linear_in_live_tokens_and_the_same_in_each_of_200_iterations(
    kind: str,
) -> None:
    engine = GenerationEngine(model_of(kind), [], temperature=0, max_new_tokens=1)

    def iteration(num_slots: int, length: int) -> int:
        engine.allocate_slots(num_slots)
        engine.generate([Request(slot, [5 + slot] * length) for slot in range(num_slots)])
        held = cache_bytes(engine)
        engine.release()
        assert cache_bytes(engine) == 0
        return held

    one = iteration(2, 400)
    assert iteration(4, 400) == 2 * one
    assert iteration(2, 1600) == pytest.approx(4 * one, rel=0.01)
    token = (
        2 * 2 * 4 * model_of(kind).config.hidden_size // (2 if kind == "llama" else 1)
    )  # 2 layers, keys and values
    assert one == pytest.approx(2 * 400 * token, rel=0.01)
    assert {iteration(3, 20) for _ in range(200)} == {iteration(3, 20)}


def test_a_cache_budget_that_is_passed_is_told_with_its_cures() -> None:
    engine = GenerationEngine(model_of("llama"), [], max_new_tokens=50, max_cache_tokens=100)
    engine.allocate_slots(2)
    with pytest.raises(CacheBudgetError, match=r"--max_cache_tokens 100.*--n_rollout_threads"):
        engine.generate([Request(slot, [5] * 30) for slot in range(2)])


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
def test_weights_read_where_they_lie_say_the_same_with_few_rows_and_with_many(kind: str) -> None:
    model = model_of(kind)
    with patch.object(fused_linear, "MAX_COPIED", 0):
        for num_slots in (1, 4):
            engine = GenerationEngine(model, [], temperature=0, max_new_tokens=4)
            engine.allocate_slots(num_slots)
            prompts = [[5 + slot, 6, 7, 9] for slot in range(num_slots)]
            actions = engine.generate([*map(Request, range(num_slots), prompts)])
            assert not engine._decoder._layers[0].qkv.is_copied  # type: ignore[attr-defined]
            for prompt, action in zip(prompts, actions, strict=True):
                assert_greedy(model, prompt, action.ids, action.logprobs)


def test_qwen3_takes_the_fast_path_and_its_own_forward_to_the_same_logits() -> None:
    model = model_of("qwen3")
    said = []
    for fast in (True, False):
        engine = GenerationEngine(model, [], temperature=0, max_new_tokens=4, fast_path=fast)
        engine.allocate_slots(1)
        said.append(engine.generate([Request(0, [5, 6, 7])])[0])
    assert said[0].ids == said[1].ids
    torch.testing.assert_close(
        torch.tensor(said[0].logprobs), torch.tensor(said[1].logprobs), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
def test_in_half_precision_logprobs_are_as_near_to_the_truth_as_the_models_own(kind: str) -> None:
    model, half = model_of(kind), copy.deepcopy(model_of(kind)).bfloat16()
    engine = GenerationEngine(half, [END], max_new_tokens=12)
    engine.allocate_slots(4)
    held, errors, own_errors = [list[int]() for _ in range(4)], [], []
    for step in range(5):
        news = [next(pieces(10 * step + slot, longest=40)) for slot in range(4)]
        for ids, new, action in zip(
            held, news, engine.generate([*map(Request, range(4), news)]), strict=True
        ):
            ids += new
            true, own = (
                uncached_logprobs(each, [*ids, *action.ids, 0])[len(ids) - 1 :]
                for each in (model, half)
            )
            for place, (token, logprob) in enumerate(zip(action.ids, action.logprobs, strict=True)):
                errors.append(abs(logprob - true[place, token].item()))
                own_errors.append(abs(own[place, token].item() - true[place, token].item()))
            ids += action.ids
    assert sum(errors) < 1.5 * sum(own_errors)
