"""info["state_hash"]: equal where the same actions have the same future, on every machine."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from players import shop_env, shop_task

import fctncalling
from fctncalling.data.types import Task
from fctncalling.envs.episode.state import canonical_json, content_hash
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers.execution import ToolSession

TASK = Task(
    id="multi_turn_base_9",
    category="multi_turn_base",
    question=[
        [{"role": "user", "content": "Make a folder called a."}],
        [{"role": "user", "content": "List it."}],
    ],
    functions=(),
    ground_truth=[["mkdir(dir_name='a')"], ["ls()"]],
    involved_classes=("GorillaFileSystem",),
)


def hashes(*texts: str) -> list[str]:
    env = FunctionCallingEnv(tasks=[TASK])
    found = [env.reset(seed=1)[1]["state_hash"]]
    for text in texts:
        info = env.step(text)[4]
        found.append(info.get("state_hash", "ended"))
    return found


def test_another_wording_of_the_same_calls_leads_to_the_same_state() -> None:
    plain = hashes("[mkdir(dir_name='a')]", "done")
    worded = hashes('[mkdir(dir_name="a")]', "That was it.")
    assert plain == worded
    assert len(set(plain)) == 3


def test_other_files_another_turn_or_another_past_are_other_states() -> None:
    assert hashes("[mkdir(dir_name='a')]")[1] != hashes("[mkdir(dir_name='b')]")[1]
    assert hashes("done")[1] != hashes("[mkdir(dir_name='a')]", "done")[2]
    # The same files and the same turn, but the first turn's check saw another result.
    detour = hashes("[mkdir(dir_name='b')]", "[rm(file_name='b')]", "[mkdir(dir_name='a')]", "done")
    assert detour[-1] != hashes("[mkdir(dir_name='a')]", "done")[-1]


@pytest.mark.parametrize("reward", ["strict", "strict_progress"])
def test_under_a_strict_reward_what_had_to_be_forgiven_is_another_state(reward: str) -> None:
    """Its turn pays no more: else the credit of matched states would pass over the call."""
    task = shop_task(["sell(item='apple', price=1)"], ["sell(item='fig', price=2)"])

    def played(item: str, paid: str) -> list[str]:
        env = shop_env(task, reward=paid)
        found = [env.reset(seed=1)[1]]
        found += [env.step(text)[4] for text in (f"[sell(item={item}, price=1)]", "done")]
        return [info["state_hash"] for info in found]

    exact, forgiven = played("'apple'", reward), played("apple", reward)
    assert exact[0] == forgiven[0]
    assert len({exact[1], forgiven[1], exact[2], forgiven[2]}) == 4
    assert exact == played("'apple'", "success") == played("apple", "success")


def test_a_state_that_was_set_has_its_hash_and_the_end_has_none() -> None:
    env = FunctionCallingEnv(tasks=[TASK])
    env.reset(seed=1)
    before = env.step("[mkdir(dir_name='a')]")[4]["state_hash"]
    state = env.get_state()
    after = env.step("done")[4]["state_hash"]
    env.set_state(state)
    assert env.step("done")[4]["state_hash"] == after != before
    assert "state_hash" not in env.step("no call")[4]


def test_the_hash_is_the_same_in_every_process() -> None:
    assert content_hash({"b": [1, None], "a": {"x", "y"}}) == "9a41e5fc044ef52d"
    assert canonical_json({"b": 1, "a": [None, 2.5]}) == [["a", [None, 2.5]], ["b", 1]]
    assert content_hash(random.Random(1)) != content_hash(random.Random(2))
    mixed = {1: {"a"}, "b": 2.5}  # keys that JSON cannot sort
    assert content_hash(mixed) == content_hash(dict(reversed(mixed.items()))) != content_hash({})


def test_the_embedded_tasks_offer_it() -> None:
    env = FunctionCallingEnv()
    task = fctncalling.load_tasks(fctncalling.embedded_path("train"))[0]
    info = env.reset(options={"task_id": task.id})[1]
    assert len(info["state_hash"]) == 16


def hash_of_files(*calls: str) -> str:
    """Return the hash of a file system after calls, none of which fails; as copied alike."""
    session = ToolSession(["GorillaFileSystem"], {})
    results = [session.execute(call) for call in calls]
    assert not any("rror" in result for result in results), results
    found = content_hash(session.live_state())
    twin = ToolSession(["GorillaFileSystem"], {})
    twin.set_state(session.get_state())
    assert content_hash(twin.live_state()) == found
    return found


FOLDER_AND_FILE = ("mkdir('d')", "touch('f')")
IN_D = ("cd('d')", "touch('g')", "cd('..')")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["echo('x', 'f')"], ["echo('y', 'f')"]),  # both say None
        ([], ["cd('d')"]),
        ([*IN_D], ["cd('d')", "touch('h')", "cd('..')"]),
        (["touch('a')", "touch('b')"], ["touch('b')", "touch('a')"]),  # as `ls` tells them
        # a file that two folders share, and a copy of it
        ([*IN_D, "cp('d', 'e')"], [*IN_D, "mkdir('e')", "cd('e')", "touch('g')", "cd('..')"]),
    ],
)
def test_texts_entries_their_order_and_the_current_folder_are_the_state(
    one: list[str], other: list[str]
) -> None:
    def after(calls: list[str]) -> str:
        return hash_of_files(*FOLDER_AND_FILE, *calls)

    assert after(one) == after(one) != after(other)


def test_another_way_to_the_same_files_is_no_other_state() -> None:
    assert hash_of_files(*FOLDER_AND_FILE) == hash_of_files(
        "mkdir('d')", "cd('d')", "cd('..')", "touch('e')", "mv('e', 'f')", "ls()"
    )


class Slotted:
    __slots__ = ("inner", "name")

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.parametrize(
    ("make", "one", "other"),
    [
        (Slotted, "a", "b"),
        (date.fromisoformat, "2024-01-02", "2024-01-03"),
        (Decimal, "1.5", "2.5"),
        (str.encode, "a", "b"),
        (deque, "ab", "ba"),
        (lambda text: np.int64(text), "1", "2"),
        (lambda text: {1: "a", "1": ["b", text]}, "1", "2"),
    ],
)
def test_what_an_object_holds_is_in_its_hash(
    make: Callable[[str], Any], one: str, other: str
) -> None:
    assert content_hash([make(one)]) == content_hash([make(one)]) != content_hash([make(other)])


def test_the_last_digits_of_an_embedding_make_no_other_state() -> None:
    assert content_hash({"text": np.ones(3)}) == content_hash({"text": np.ones(3) * (1 + 1e-12)})


def test_a_number_of_too_many_digits_in_a_tool_is_a_state_like_any_other() -> None:
    task = Task(
        id="multi_turn_base_8",
        category="multi_turn_base",
        question=[[{"role": "user", "content": "Open a ticket."}]],
        functions=(),
        ground_truth=[["logout()"]],
        involved_classes=("TicketAPI", "MathAPI"),
    )

    def hash_after(exponent: int) -> str:
        env = FunctionCallingEnv(tasks=[task])
        env.reset()
        env.step("[ticket_login(username='a', password='b')]")
        env.step(f"[create_ticket(title=power(base=10, exponent={exponent}))]")
        info = env.step("[logout()]")[4]
        return str(info["state_hash"])

    assert hash_after(5000) == hash_after(5000) != hash_after(5001)


def test_another_number_of_questions_is_another_state() -> None:
    env = FunctionCallingEnv(
        dataset_path=fctncalling.embedded_path("clarify_train"), user=lambda _, __: "No."
    )
    env.reset(seed=1)
    hashes = [env.step("Which one?")[4]["state_hash"] for _ in range(2)]
    assert hashes[0] != hashes[1]
