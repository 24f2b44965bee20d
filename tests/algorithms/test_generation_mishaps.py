"""What goes wrong in one slot stays there: errors of callbacks, a budget passed, numbers that
overflow.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from test_generation_engine import assert_greedy
from tiny_models import tiny_model

from fctncalling.algorithms.generation.engine import CacheBudgetError, GenerationEngine, Request
from fctncalling.algorithms.generation.engine_api import Action

PROMPTS = [[5, 6, 7, 8, 9], [9, 8, 7, 6], [4] * 60]


def engine_of(model: Any, num_slots: int = 3, **settings: Any) -> GenerationEngine:
    engine = GenerationEngine(model, [], temperature=0, max_new_tokens=4, **settings)
    engine.allocate_slots(num_slots)
    return engine


def finished(engine: GenerationEngine, count: int) -> dict[int, Action]:
    actions: dict[int, Action] = {}
    while len(actions) < count:
        actions |= dict(engine.advance())
    return actions


@pytest.mark.parametrize("fails_at", [1, 3])
def test_an_error_of_a_callback_costs_its_own_slot_alone(fails_at: int) -> None:
    model, said = tiny_model("llama"), list[int]()

    def fail(token: int, logprob: float | None) -> None:
        said.append(token)
        if len(said) == fails_at:
            raise RuntimeError("a callback's own")

    engine = engine_of(model)
    for slot, prompt in enumerate(PROMPTS):
        limit = (
            3 if slot == 1 else None
        )  # ends in the pass of the later error, and must not be lost with it
        engine.submit(
            Request(slot, prompt, on_token=fail if slot == 0 else None, max_new_tokens=limit)
        )
    with pytest.raises(RuntimeError, match="a callback's own"):
        finished(engine, 3)
    engine.begin_sequence(0)
    engine.submit(Request(0, PROMPTS[0]))
    actions = finished(engine, 3)
    for slot, prompt in enumerate(PROMPTS):
        assert len(actions[slot].ids) == (3 if slot == 1 else 4)
        assert_greedy(model, prompt, actions[slot].ids, actions[slot].logprobs)


def test_who_drops_an_episode_that_does_not_fit_gets_the_others_answers() -> None:
    model = tiny_model("llama")
    engine = engine_of(model, max_cache_tokens=3 * 40)
    for slot, prompt in enumerate(PROMPTS):
        engine.submit(Request(slot, prompt))
    with pytest.raises(CacheBudgetError):
        engine.advance()
    engine.begin_sequence(2)
    for slot, action in finished(engine, 2).items():
        assert_greedy(model, PROMPTS[slot], action.ids, action.logprobs)


def test_what_overflowed_in_a_row_is_gone_when_the_row_begins_again() -> None:
    model = tiny_model("llama")
    engine = engine_of(model, 2)
    engine.generate([Request(0, list(range(3, 40))), Request(1, PROMPTS[0])])
    cache: Any = engine._decoder.cache
    length = cache.length(0)
    with torch.inference_mode():
        cache.keys[:, 0, ..., : length + 1] = float("nan")
        cache.values[:, 0, :, : length + 1] = float("inf")
    engine.begin_sequence(0)
    (action,) = engine.generate([Request(0, PROMPTS[1])])
    assert_greedy(model, PROMPTS[1], action.ids, action.logprobs)


@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize("is_disabled", [False, True])
def test_adapters_speak_where_the_model_lets_them(is_merged: bool, is_disabled: bool) -> None:
    model = tiny_model("llama")
    whole: Any = get_peft_model(
        model, LoraConfig(task_type="CAUSAL_LM", r=2, target_modules="all-linear")
    ).eval()
    with torch.no_grad():
        for name, weight in whole.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, 0.3)
    if is_merged:
        whole.merge_adapter()
    with whole.disable_adapter() if is_disabled else contextlib.nullcontext():
        (action,) = engine_of(model, 1).generate([Request(0, PROMPTS[0])])
        assert_greedy(model, PROMPTS[0], action.ids, action.logprobs)
