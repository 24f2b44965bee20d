"""info["state_hash"]: equal where the same actions have the same future, on every machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from own_states import KINDS
from players import doc, shop_env, shop_task

import fctncalling
from fctncalling.data.types import Task
from fctncalling.envs import function_calling
from fctncalling.envs.episode.state import UnreadableStateError, content_hash
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.tools.bfcl.memory_vector import MemoryAPI_vector

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
    assert content_hash({"b": [1, None], "a": {"x", "y"}}) == "3db5147344668c0c"


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
    found = content_hash(session.hashed_state())
    twin = ToolSession(["GorillaFileSystem"], {})
    twin.set_state(session.get_state())
    assert content_hash(twin.hashed_state()) == found
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


SECOND = [False]  # what `put` makes: two calls look the same


class Keeper:
    """A user's tool that holds a value of any kind, and tells of it when it is asked."""

    def put(self, kind: str) -> None:
        self.kind = kind
        self.value = KINDS[kind].make(SECOND[0])

    def tell(self) -> str:
        return repr(KINDS[self.kind].tell(self.value))


KEEPER = Task(
    id="multi_turn_base_7",
    category="multi_turn_base",
    question=[[{"role": "user", "content": "Tell me."}]],
    functions=(doc("put", ["kind"], kind="string"), doc("tell")),
    ground_truth=[["tell()"]],
    involved_classes=("Keeper",),
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_tool_holds_is_in_the_hash_or_there_is_none(kind: str) -> None:
    """Two values look alike until the tool is asked: the observations before are the same."""

    def played(second: bool) -> tuple[str, str | None, str]:
        env = FunctionCallingEnv(tasks=[KEEPER], tools={"Keeper": Keeper})
        env.reset(seed=1)
        SECOND[0] = second
        observation, _, _, _, info = env.step(f"[put(kind={kind!r})]")
        return observation, info.get("state_hash"), env.step("[tell()]")[0]

    one, again, other = played(False), played(False), played(True)
    assert one[0] == other[0]
    assert one[2] != other[2]
    if KINDS[kind].readable:
        assert one[1] == again[1] is not None
        assert one[2] == again[2]
        assert one[1] != other[1]
    else:
        assert one[1] is other[1] is None


def test_what_cannot_be_read_is_named_once_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    env = FunctionCallingEnv(tasks=[KEEPER], tools={"Keeper": Keeper})
    function_calling.say_unreadable.cache_clear()
    for _ in range(2):
        assert "state_hash" in env.reset(seed=1)[1]
        assert "state_hash" not in env.step("[put(kind='lock')]")[4]
        assert "state_hash" not in env.step("[put(kind='date')]")[4]  # the past is
    (line,) = caplog.messages
    assert "Keeper holds _thread.lock, " in line
    assert "\n" not in line


class Cached:
    """A tool with what cannot be read, that says what counts."""

    def __init__(self) -> None:
        self.lock, self.till = threading.Lock(), 0

    def _hashed_state(self) -> int:
        return self.till


def test_a_tool_may_say_itself_what_its_state_is() -> None:
    one, other = Cached(), Cached()
    assert content_hash(one) == content_hash(other)
    other.till = 1
    assert content_hash(one) != content_hash(other)


@pytest.mark.parametrize(
    ("limit", "make"),
    [
        ("MAX_PARTS", lambda size: [()] * (size - 1)),
        ("MAX_BYTES", lambda size: np.ones(size, np.uint8)),
    ],
)
def test_what_is_larger_than_a_limit_has_no_hash(
    limit: str, make: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"fctncalling.envs.episode.state.{limit}", 10)
    assert content_hash(make(10)) != content_hash(make(9))
    with pytest.raises(UnreadableStateError, match="more than can be read"):
        content_hash(make(11))


def test_embeddings_are_no_state_of_a_memory_of_texts() -> None:
    """Their last digits depend on machine and batch, and they follow from the texts."""

    class Memory(MemoryAPI_vector):
        _encoder = staticmethod(lambda texts: np.ones((len(texts), 3)))

    def hash_of(searches: int, text: str = "a") -> str:
        memory = Memory()
        memory._load_scenario({})
        memory.archival_memory_add(text)
        for _ in range(searches):
            memory.archival_memory_retrieve("x")
        return content_hash(memory)

    assert hash_of(0) == hash_of(1) != hash_of(0, "b")


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
