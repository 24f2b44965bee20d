"""Prefix tree of token blocks: slots say what they say without it, and read less."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from test_generation_engine import assert_greedy, model_of
from tiny_models import tiny_model, uncached_logprobs

from fctncalling.algorithms.generation import slot_prefixes
from fctncalling.algorithms.generation.engine import GenerationEngine, Request
from fctncalling.algorithms.generation.slot_prefixes import BLOCK, BlockTree
from fctncalling.algorithms.policy.actor_critic import ActorCritic

KINDS = ["qwen2", "qwen3", "llama", "gpt2"]
END = 2


@pytest.fixture(autouse=True, scope="module")
def any_model_shares() -> Iterator[None]:
    """Tiny models share too: the saving that is asked for is none."""
    with patch.object(slot_prefixes, "MIN_SAVED_FLOPS", 0):
        yield


def tokens(seed: int, count: int) -> list[int]:
    order = random.Random(seed)
    return [order.randrange(3, 259) for _ in range(count)]


def prompts_of(seed: int, count: int) -> list[list[int]]:
    """Prompts that begin with some of a few runs of tokens, one behind the other."""
    order = random.Random(seed)
    runs = [tokens(number, length) for number, length in enumerate((40, 24, 16, 33))]
    return [
        [
            *(token for run in order.sample(runs, order.randint(0, 3)) for token in run),
            *tokens(order.randrange(9**9), order.randint(1, 40)),
        ]
        for _ in range(count)
    ]


class Slots:
    """An engine whose slots play prompts in any order, each for one to three steps."""

    def __init__(self, model: Any, num_slots: int, **settings: Any) -> None:
        self.engine = GenerationEngine(model, [END], max_new_tokens=5, **settings)
        self.engine.allocate_slots(num_slots)
        self.num_slots = num_slots

    def play(self, prompts: Sequence[list[int]], order: random.Random) -> dict[int, list[Any]]:
        """Return of each prompt's actions what they answered, their ids and log-probabilities."""
        waiting, free = list(enumerate(prompts)), list(range(self.num_slots))
        running, said = dict[int, tuple[int, list[int]]](), dict[int, list[Any]]()
        while waiting or running:
            while free and waiting and (not running or order.random() < 0.8):
                slot, (number, prompt) = free.pop(), waiting.pop(0)
                self.engine.begin_sequence(slot, seed=number)
                self.engine.submit(Request(slot, prompt))
                running[slot] = (number, prompt)
            for slot, action in self.engine.advance():
                number, ids = running.pop(slot)
                said.setdefault(number, []).append((ids, action.ids, action.logprobs))
                new = tokens(number, 1 + number % 5)
                if len(said[number]) <= number % 3:
                    if number % 2:
                        self.engine.submit(Request(slot, new))
                    else:  # as where a template writes the history anew
                        self.engine.restart_sequence(slot)
                        self.engine.submit(Request(slot, ids + action.ids + new))
                    running[slot] = (number, ids + action.ids + new)
                else:
                    free.append(slot)
        return said


@pytest.mark.parametrize("kind", KINDS)
@hypothesis.settings(max_examples=2)
@hypothesis.given(seed=st.integers(0, 9**9), num_slots=st.integers(1, 7))
def test_slots_say_the_same_with_and_without_the_tree(kind: str, seed: int, num_slots: int) -> None:
    prompts, read = prompts_of(seed, 6), []
    said = []
    for shares in (True, False):
        slots = Slots(model_of(kind), num_slots, temperature=0.8, share_prefixes=shares)
        said.append(slots.play(prompts, random.Random(seed)))
        read.append(slots.engine.num_forward_tokens)
    assert read[0] <= read[1]
    for number, actions in said[1].items():
        for (ids, written, logprobs), (_, others, their) in zip(
            said[0][number], actions, strict=True
        ):
            assert written == others
            expected = uncached_logprobs(model_of(kind), [*ids, *written, 0], 0.8)[len(ids) - 1 :]
            for row, token, logprob, other in zip(expected, written, logprobs, their, strict=False):
                assert logprob == pytest.approx(other, abs=1e-5)
                assert logprob == pytest.approx(row[token].item(), abs=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_tokens_that_tasks_have_in_common_pass_once(kind: str) -> None:
    tools, tails = tokens(1, 100), [tokens(10 + number, 20) for number in range(6)]
    engine = GenerationEngine(model_of(kind), [], max_new_tokens=1)
    engine.allocate_slots(6)
    engine.generate([Request(slot, tools + tail) for slot, tail in enumerate(tails)])
    common = 100 // BLOCK * BLOCK
    assert engine.num_forward_tokens == common + 6 * (120 - common)
    assert engine.num_prompt_tokens == 6 * 120
    assert engine.num_shared_tokens == 5 * common
    engine.begin_sequence(0)
    engine.generate([Request(0, tools + tails[3])])  # another slot still holds the whole prompt
    assert engine.num_shared_tokens == 5 * common + 119
    for slot in range(6):
        engine.begin_sequence(slot)
    engine.generate([Request(0, tools + tails[4] + [7] * 20)])  # nobody does, but it is kept
    assert engine.num_shared_tokens == 5 * common + 119 + 120 // BLOCK * BLOCK
    engine.allocate_slots(6)
    engine.generate([Request(0, tools + tails[4])])  # the weights may be others now
    assert engine.num_shared_tokens == 5 * common + 119 + 120 // BLOCK * BLOCK


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_groups_of_different_tasks_read_their_tools_once(kind: str) -> None:
    tools, questions = tokens(1, 64), [tokens(10 + number, 20) for number in range(3)]
    engine = GenerationEngine(model_of(kind), [], max_new_tokens=1)
    engine.allocate_slots(12)
    engine.generate([Request(slot, tools + questions[slot // 4]) for slot in range(12)])
    # of each group the prompt once, but for the last token, which each slot reads
    assert engine.num_forward_tokens == 64 + 3 * 19 + 12


@hypothesis.given(
    sequences=st.lists(
        st.lists(st.integers(0, 1), min_size=0, max_size=5), min_size=1, max_size=25
    ),
    limits=st.lists(st.integers(0, 9 * BLOCK), min_size=1, max_size=25),
)
def test_a_tree_keeps_what_was_used_last_and_never_more_than_its_limit(
    sequences: list[list[int]], limits: list[int]
) -> None:
    """Against a list of all prefixes in order of their last use, the shorter ones later."""
    tree, used = BlockTree(), list[tuple[int, ...]]()
    for number, sequence in enumerate(sequences):
        limit = limits[number % len(limits)]
        tree.set_limit(limit)
        used = used[len(used) - limit // BLOCK :] if limit // BLOCK < len(used) else used
        ids = [token for token in sequence for _ in range(BLOCK)] + [9] * 3
        tree.add(ids, lambda start, end, of=ids: (torch.tensor(of[start:end]).view(1, -1, 1),))
        path = [tuple(sequence[:end]) for end in range(1, len(sequence) + 1)]
        path = path[: limit // BLOCK]
        used = [prefix for prefix in used if prefix not in path] + path[::-1]
        used = used[max(0, len(used) - limit // BLOCK) :]
        assert tree.num_tokens == len(used) * BLOCK <= limit
        for end in range(len(path) + 1):
            assert end == len(tree.find(ids[: end * BLOCK]))
        for block, token in zip(tree.find(ids), sequence, strict=False):
            assert block.states[0].flatten().tolist() == [token] * BLOCK


@hypothesis.settings(max_examples=3)
@hypothesis.given(seed=st.integers(0, 9**9), room=st.integers(0, 400))
def test_slots_and_kept_blocks_never_pass_the_limit(seed: int, room: int) -> None:
    limit = 3 * 220 + room
    slots = Slots(model_of("llama"), 3, temperature=0, max_cache_tokens=limit)
    advance, most = slots.engine.advance, 0

    def watched() -> Any:
        nonlocal most
        done = advance()
        tree, longest = slots.engine._prefixes.tree, slots.engine._longest
        most = max(most, tree.num_tokens)
        assert tree.num_tokens + 3 * longest <= limit
        return done

    slots.engine.advance = watched  # type: ignore[method-assign]
    for actions in slots.play(prompts_of(seed, 6), random.Random(seed)).values():
        for ids, written, logprobs in actions:
            assert_greedy(model_of("llama"), ids, written, logprobs)
    assert most > 0


@pytest.mark.parametrize("adapters", [False, True])
def test_new_weights_are_used_from_the_next_start_on(adapters: bool) -> None:
    policy = ActorCritic(tiny_model("llama"), critic_head="linear")
    if adapters:
        policy.add_lora(r=2, alpha=4.0)
    model = policy.model.eval()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    slots = Slots(model, 3, temperature=0)
    for iteration in range(3):
        slots.engine.allocate_slots(3)
        for actions in slots.play(prompts_of(5, 4), random.Random(iteration)).values():
            for ids, written, logprobs in actions:
                assert_greedy(model, ids, written, logprobs)
        with torch.no_grad():
            for weight in trained:
                weight += 0.05 * torch.randn(weight.shape)
    assert slots.engine.num_shared_tokens > 0


def test_a_small_model_shares_nothing_that_saves_too_little() -> None:
    with patch.object(slot_prefixes, "MIN_SAVED_FLOPS", 1e9):
        engine = GenerationEngine(model_of("llama"), [], max_new_tokens=1)
        engine.allocate_slots(2)
        engine.generate([Request(slot, [*tokens(1, 64), slot]) for slot in (0, 1)])
    assert (engine.num_shared_tokens, engine.num_forward_tokens) == (0, 130)
