"""The text space holds every str and passes through Gymnasium's vector environments unchanged."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Box, Dict, Tuple
from gymnasium.spaces.utils import flatten_space
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.utils import (
    batch_space,
    create_shared_memory,
    iterate,
    read_from_shared_memory,
    write_to_shared_memory,
)

from fctncalling.data.unsafe_text import cut_text
from fctncalling.envs.spaces import UnicodeText

HARD_TEXTS = [
    "",
    "\x00",
    json.dumps({"a": ["ü", "\n", None]}),
    "日本語 😀 ελ",
    "\ud83d",  # half of a surrogate pair
    "\ude00\ud83d",
    "\u202e\ufeff",
    "x" * 5000,
    "😀" * 1000,
]


class Echo(gym.Env[str, str]):
    """Observation = the action before it; the smallest environment of texts."""

    def __init__(self) -> None:
        self.observation_space = UnicodeText(8192)
        self.action_space = UnicodeText()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "start", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return action, 0.0, False, False, {}


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_every_str_is_in_the_unbounded_space(text: str) -> None:
    assert text in UnicodeText()


@pytest.mark.parametrize("thing", [None, 1, b"bytes", ["list"], np.zeros(2)])
def test_nothing_but_str_is_in_the_space(thing: object) -> None:
    assert thing not in UnicodeText()


@pytest.mark.parametrize("text", HARD_TEXTS[1:])
def test_bound_counts_utf8_bytes(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    assert text in UnicodeText(size)
    if size > 1:
        assert text not in UnicodeText(size - 1)


@pytest.mark.parametrize("text", HARD_TEXTS)
@pytest.mark.parametrize("bound", [1, 2, 3, 4, 5, 4999, 10**6])
def test_cut_text_is_the_longest_beginning_that_fits(text: str, bound: int) -> None:
    kept, cut = cut_text(text, bound)
    size = len(text.encode("utf-8", "surrogatepass"))
    assert text.startswith(kept)
    assert len(kept.encode("utf-8", "surrogatepass")) + cut == size
    assert kept in UnicodeText(bound)
    assert kept == text or text[: len(kept) + 1] not in UnicodeText(bound)


def test_samples_are_printable_seeded_and_not_all_ascii() -> None:
    first, second = UnicodeText(seed=7), UnicodeText(seed=7)
    texts = [first.sample() for _ in range(200)]
    assert texts == [second.sample() for _ in range(200)]
    assert all(text.isprintable() and text in first for text in texts)
    assert any(not text.isascii() for text in texts)
    assert len(set(texts)) > 150
    assert all(UnicodeText(8, seed=i).sample() in UnicodeText(8) for i in range(50))


def test_seed_restarts_the_samples() -> None:
    space = UnicodeText()
    space.seed(3)
    text = space.sample()
    space.seed(3)
    assert space.sample() == text


def test_space_equals_its_copies_only_with_the_same_bound() -> None:
    assert UnicodeText(9) == deepcopy(UnicodeText(9)) == pickle.loads(pickle.dumps(UnicodeText(9)))
    assert UnicodeText(9) != UnicodeText(10)
    assert UnicodeText(9) != gym.spaces.Text(9)


def test_batched_space_samples_differ_and_do_not_touch_the_single_space() -> None:
    single, untouched = UnicodeText(seed=1), UnicodeText(seed=1)
    batch = batch_space(single, 4)
    assert len(set(batch.sample())) == 4
    assert single.sample() == untouched.sample()
    again = batch_space(UnicodeText(seed=1), 4)
    assert batch_space(UnicodeText(seed=1), 4).sample() == again.sample()


def test_iterate_gives_texts_not_characters() -> None:
    assert list(iterate(batch_space(UnicodeText(), 2), ("ab", "cd"))) == ["ab", "cd"]


def test_shared_memory_is_a_view_and_its_deep_copy_a_tuple() -> None:
    space = UnicodeText(8192)
    memory = create_shared_memory(space, n=3, ctx=multiprocessing)
    texts: Any = read_from_shared_memory(space, memory, n=3)
    assert tuple(texts) == ("", "", "")
    for text in HARD_TEXTS:
        write_to_shared_memory(space, 1, text, memory)
        assert deepcopy(texts) == ("", text, "")
        assert texts[-2] == text
    with pytest.raises(IndexError, match="3 of 3"):
        texts[3]


def test_too_long_a_text_is_refused_with_its_size() -> None:
    space = UnicodeText(4)
    memory = create_shared_memory(space, n=2, ctx=multiprocessing)
    with pytest.raises(ValueError, match="5 bytes does not fit the 4 bytes"):
        write_to_shared_memory(space, 0, "12345", memory)


def test_unbounded_space_says_why_it_cannot_be_shared() -> None:
    with pytest.raises(CustomSpaceError, match="no bound"):
        create_shared_memory(UnicodeText(), n=2, ctx=multiprocessing)


@pytest.mark.parametrize("mode", ["sync", "async", "async_pipe", "async_view"])
def test_texts_pass_through_vector_environments_unchanged(mode: str) -> None:
    makers = [Echo, Echo]
    envs: SyncVectorEnv | AsyncVectorEnv
    if mode == "sync":
        envs = SyncVectorEnv(makers)
    else:
        envs = AsyncVectorEnv(makers, shared_memory=mode != "async_pipe", copy=mode != "async_view")
    try:
        observations, _ = envs.reset(seed=1)
        assert tuple(observations) == ("start", "start")
        for one, other in zip(HARD_TEXTS, reversed(HARD_TEXTS), strict=True):
            observations = envs.step((one, other))[0]
            assert tuple(observations) == (one, other)
            assert observations in envs.observation_space
    finally:
        envs.close()


def test_text_can_stand_inside_composite_spaces() -> None:
    space = Dict({"text": UnicodeText(64), "number": Box(0, 1, (2,))})
    memory = create_shared_memory(space, n=2, ctx=multiprocessing)
    batch: Any = read_from_shared_memory(space, memory, n=2)
    item = {"text": "ü", "number": np.ones(2, np.float32)}
    write_to_shared_memory(space, 1, item, memory)
    assert deepcopy(batch)["text"] == ("", "ü")
    samples = batch_space(space, 2).sample()
    assert [set(one) for one in iterate(batch_space(space, 2), samples)] == [{"text", "number"}] * 2
    assert flatten_space(UnicodeText(3)) == UnicodeText(3)
    assert Tuple([UnicodeText(), UnicodeText()]).contains(("a", "b"))
