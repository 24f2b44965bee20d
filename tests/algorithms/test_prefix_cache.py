"""Groups of one prompt: said as if each slot had it alone, kept once, and given back."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from test_generation_engine import assert_greedy, model_of
from tiny_models import cache_bytes, pieces, tiny_model, uncached_logprobs
from torch.utils._python_dispatch import TorchDispatchMode

from fctncalling.algorithms.generation import kv_cache
from fctncalling.algorithms.generation.engine import GenerationEngine, Request
from fctncalling.algorithms.generation.prefix_cache import SharedPrefixKVCache

END = 2


class Player:
    """Slots that begin with one of a few prompts, go on for some steps, and begin again; all greedy
    actions checked.
    """

    def __init__(
        self,
        kind: str,
        num_slots: int,
        num_prompts: int,
        order: random.Random,
        shares: bool = True,
    ) -> None:
        self.model, self.order = model_of(kind), order
        self.engine = GenerationEngine(
            self.model,
            [END],
            temperature=0,
            max_new_tokens=5,
            max_prefill_tokens=60,
            share_prefixes=shares,
        )
        self.prompts = [next(pieces(50 + i, longest=40)) for i in range(num_prompts)]
        self.engine.allocate_slots(num_slots)
        self.free, self.running = list(range(num_slots)), dict[int, list[int]]()
        self.idle: dict[int, list[int]] = {}  # slots that wait with what they hold

    def submit(self, slot: int, held: list[int], news: list[int]) -> None:
        self.engine.submit(Request(slot, news))
        self.running[slot] = held + news

    def some(self, slots: list[int]) -> list[int]:
        return self.order.sample(slots, self.order.randint(0, len(slots)))

    def round(self, refill: bool) -> None:
        """Let some free slots begin, some that wait go on; take what is finished."""
        for slot in self.some(self.free) if refill else []:
            self.free.remove(slot)
            self.engine.begin_sequence(slot)
            self.submit(slot, [], self.order.choice(self.prompts))
        for slot in self.some([*self.idle]):
            news = [self.order.randrange(3, 259) for _ in range(self.order.randint(1, 9))]
            self.submit(slot, self.idle.pop(slot), news)
        for slot, action in self.engine.advance():
            ids = self.running.pop(slot)
            assert_greedy(self.model, ids, action.ids, action.logprobs)
            if self.order.random() < 0.6:
                self.idle[slot] = ids + action.ids
            else:
                self.engine.begin_sequence(slot)
                self.free.append(slot)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "gpt2"])
@hypothesis.settings(max_examples=8)
@hypothesis.given(
    order=st.randoms(use_true_random=False),
    num_slots=st.integers(2, 7),
    num_prompts=st.integers(1, 3),
)
def test_in_whatever_order_members_come_go_on_and_leave_each_says_what_it_would_say_alone(
    kind: str, order: random.Random, num_slots: int, num_prompts: int
) -> None:
    player = Player(kind, num_slots, num_prompts, order)
    for number in range(20):
        player.round(refill=number < 12)
    for slot in [*player.idle, *player.running]:
        player.engine.begin_sequence(slot)
    if kind != "gpt2":
        assert prompt_bytes(player.engine) == 0


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_the_same_is_said_where_scores_are_too_many_to_hold_at_once(
    kind: str, shares: bool
) -> None:
    with patch.object(kv_cache, "MAX_SCORES", 0):
        for seed in range(3):
            player = Player(kind, 5, 3, random.Random(seed), shares)
            for _ in range(20):
                player.round(refill=True)


def prompt_bytes(engine: GenerationEngine) -> int:
    prompts = engine._decoder.cache.prompts  # type: ignore[attr-defined]
    return int(prompts.keys.nbytes + prompts.values.nbytes)


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_greedy_members_say_what_generate_of_transformers_says(kind: str) -> None:
    model, prompt = tiny_model(kind), next(pieces(4, longest=60))
    engine = GenerationEngine(model, [END], temperature=0, max_new_tokens=12)
    engine.allocate_slots(5)
    expected = model.generate(
        torch.tensor([prompt]), do_sample=False, max_new_tokens=12, eos_token_id=END
    )
    for action in engine.generate([Request(slot, prompt) for slot in range(5)]):
        assert action.ids == expected[0, len(prompt) :].tolist()


def test_sampled_logprobs_of_groups_of_unequal_sizes_equal_one_uncached_forward() -> None:
    model, prompts = tiny_model(), [next(pieces(seed, longest=60)) for seed in range(3)]
    engine = GenerationEngine(model, [END], temperature=0.7, max_new_tokens=9)
    engine.allocate_slots(8)
    held: dict[int, list[int]] = {}
    for slot, prompt in enumerate([0, 1, 0, 0, 2, 1, 0, 2]):  # lie between each other
        engine.begin_sequence(slot, seed=slot)
        held[slot] = list(prompts[prompt])
    requests = [Request(slot, ids) for slot, ids in held.items()]
    for step in range(4):
        for request, action in zip(requests, engine.generate(requests), strict=True):
            expected = uncached_logprobs(
                model, [*(ids := held[request.slot]), *action.ids, 0], 0.7
            )[len(ids) - 1 :]
            for row, token, logprob in zip(expected, action.ids, action.logprobs, strict=False):
                assert logprob == pytest.approx(row[token].item(), abs=1e-5)
            ids += action.ids
        requests = [Request(slot, [5 + slot, 9]) for slot in held if (slot + step) % 3]
        for request in requests:
            held[request.slot] += request.new_ids


def test_a_group_keeps_its_prompt_once_and_gives_it_back_with_its_last_member() -> None:
    model, length, size = model_of("llama"), 801, 8
    engine = GenerationEngine(model, [], temperature=0, max_new_tokens=10)
    engine.allocate_slots(2 * size)
    token = (
        2 * 2 * 4 * model.config.hidden_size // 2
    )  # 2 layers, keys and values of half as many heads
    for group in range(2):
        engine.generate(
            [Request(size * group + member, [5 + group] * length) for member in range(size)]
        )
    own = 2 * size * 32 * token  # rows have room for 32 tokens at least
    assert cache_bytes(engine) == pytest.approx(2 * 800 * token + own, rel=0.02)
    for member in range(size - 1):
        engine.begin_sequence(member)
    assert prompt_bytes(engine) == 2 * 800 * token
    engine.begin_sequence(size - 1)
    assert prompt_bytes(engine) == 800 * token
    (later,) = engine.generate([Request(0, [6] * length)])  # joins the other group
    assert prompt_bytes(engine) == 800 * token
    assert_greedy(model, [6] * length, later.ids, later.logprobs)
    for slot in range(2 * size):
        engine.begin_sequence(slot)
    assert prompt_bytes(engine) == 0


def test_who_comes_later_shares_a_copy_of_what_the_first_has_read_for_itself() -> None:
    model, prompt = model_of("llama"), next(pieces(8, longest=60))
    engine = GenerationEngine(model, [], temperature=0, max_new_tokens=4)
    engine.allocate_slots(4)
    engine.generate([Request(0, prompt)])
    assert (engine.num_forward_tokens, prompt_bytes(engine)) == (len(prompt) + 3, 0)
    for slot in (1, 2, 3):
        (action,) = engine.generate([Request(slot, prompt)])
        assert_greedy(model, prompt, action.ids, action.logprobs)
        assert engine.num_forward_tokens == len(prompt) + 3 + slot * 4
    assert prompt_bytes(engine) > 0


class WriteCounter(TorchDispatchMode):
    """Counts the numbers that operations in place write."""

    written = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__.endswith("_"):
            self.written += args[0].numel()
        return func(*args, **(kwargs or {}))


def writes(num_groups: int) -> tuple[int, int]:
    """Return how many numbers are written as groups start with prompts of 400 tokens, and end."""
    cache = SharedPrefixKVCache(1, num_groups, 1, 2, torch.zeros(0))
    with torch.inference_mode(), WriteCounter() as starting:
        for row in range(num_groups):
            cache.start_rows([row], cache.add_prompt(400, (torch.ones(1, 1, 400, 2),) * 2))
    with WriteCounter() as ending:
        for row in random.Random(0).sample(range(num_groups), num_groups):
            cache.clear_row(row)
    return starting.written, ending.written


def test_prompts_start_and_end_in_time_linear_in_groups() -> None:
    for few, many in zip(writes(16), writes(64), strict=True):
        assert 3.0 < many / few < 5.0
