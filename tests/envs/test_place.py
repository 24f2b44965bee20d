"""info["place"]: turn, calls of the truth still to come, and whether its path is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from players import doc, shop_env, shop_task, simple_task, user

from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv

CALLS = ["sell(item='apple', price=1)", "sell(item='apple', price=2)", "look()", "shout(text='a')"]
turns_of_calls = st.lists(st.lists(st.sampled_from(CALLS), max_size=4), min_size=1, max_size=3)


def places(env: FunctionCallingEnv, *texts: str) -> list[Any]:
    """Return the place before each message and behind the last, None where there is none."""
    found = [env.reset(seed=1)[1].get("place")]
    return found + [env.step(text)[4].get("place") for text in texts]


@settings(max_examples=20)
@given(turns_of_calls, st.data())
def test_the_truths_own_rollout_is_on_the_path_and_a_call_leaves_one_less(
    truth: list[list[str]], data: st.DataObject
) -> None:
    """However its calls are shared out over messages, and whatever else is read in between."""
    env = shop_env(shop_task(*truth), reward="success")
    left = sum(map(len, truth))
    _, info = env.reset(seed=1)
    assert info["place"] == (0, left, True)
    for turn, calls in enumerate(truth):
        while calls:
            count = data.draw(st.integers(1, len(calls)))
            said, calls, left = calls[:count], calls[count:], left - count
            info = env.step(f"[{', '.join([*said, *data.draw(reads)])}]")[4]
            assert info["place"] == (turn, left, True)
        _, reward, ended, _, info = env.step("Done.")
        assert (reward, ended) == ((1.0, True) if turn + 1 == len(truth) else (0.0, False))
        assert ended or info["place"] == (turn + 1, left, True)


reads = st.lists(st.just("shout(text='what is not asked')"), max_size=1)


@settings(max_examples=20)
@given(turns_of_calls, st.data())
def test_a_wrong_call_leaves_the_path_for_good_where_nothing_takes_it_back(
    truth: list[list[str]], data: st.DataObject
) -> None:
    """The till keeps its log: oracle is the verdict of the episode's end."""
    calls = [(turn, text) for turn, texts in enumerate(truth) for text in [*texts, "Done."]]
    at = data.draw(st.integers(0, len(calls) - 1))
    env = shop_env(shop_task(*truth), reward="success")
    env.reset(seed=1)
    info, ended = {}, False
    for number, (_, text) in enumerate(calls):
        if number == at:
            assert env.step("[sell(item='apple', price=7)]")[4]["place"][2] is False
        _, _, ended, _, info = env.step(text if text == "Done." else f"[{text}]")
        assert ended or info["place"][2] is (number < at)
    wrong_counts = any(truth[turn] for turn in range(calls[at][0], len(truth)))
    assert ended
    assert info["verdict"].valid is not wrong_counts


WRITE, COPY = "echo(content='x', file_name='f')", "cp(source='f', destination='g')"
FILES = Task(
    id="multi_turn_base_9",
    category="multi_turn_base",
    question=[user("Write x to f, copy it to g, say where you are."), user("List all.")],
    functions=(),
    ground_truth=[[WRITE, COPY, "pwd()"], ["ls()"]],
    involved_classes=("GorillaFileSystem",),
)


def test_the_order_of_calls_counts_and_a_mended_mistake_leads_back() -> None:
    env = FunctionCallingEnv(tasks=[FILES])
    right = places(env, f"[{WRITE}]", f"[{COPY}, pwd()]", "Done.", "[ls()]")
    assert right == [(0, 4, True), (0, 3, True), (0, 1, True), (1, 1, True), (1, 0, True)]
    early = places(env, f"[touch(file_name='f'), {COPY}, {WRITE}]")
    assert [each[2] for each in early] == [True, False]
    mended = places(
        env, f"[{WRITE}, mkdir(dir_name='d')]", "[rm(file_name='d')]", f"[{COPY}, pwd()]"
    )
    assert mended == [(0, 4, True), (0, 3, False), (0, 3, True), (0, 1, True)]
    # What a turn ended with is checked: nothing mends it later, and no result of it is forgotten.
    too_late = places(env, f"[{WRITE}, pwd()]", "Done.", f"[{COPY}]")
    assert [each[2] for each in too_late] == [True, True, False, False]
    unread = places(env, f"[{WRITE}, {COPY}]", "Done.", "[pwd()]", "[ls()]")
    assert [each[2] for each in unread] == [True, True, False, False, False]


def test_a_place_goes_with_the_state_and_counts_what_a_strict_reward_forgives() -> None:
    task = shop_task(["sell(item='apple', price=1)"], ["look()"])
    env = shop_env(task, reward="strict")
    env.reset(seed=1)
    env.step("[sell(item='apple', price=1)]")
    state = env.get_state()
    behind = env.step("Done.")[4]["place"]
    env.set_state(state)
    assert env.step("Done.")[4]["place"] == behind == (1, 1, True)
    assert places(env, "[sell(item=apple, price=1)]")[-1] == (0, 1, False)
    assert places(shop_env(task), "[sell(item=apple, price=1)]")[-1] == (0, 1, True)


class Locked:
    """A tool that holds what cannot be read."""

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        self._lock = __import__("threading").Lock()

    def tell(self) -> str:
        return "nothing"


@pytest.mark.parametrize(
    ("tasks", "tools"),
    [
        ([simple_task()], {}),
        ([shop_task(["look()"], ground_truth=None)], None),
        ([shop_task(["burn()"])], None),  # the truth's replay breaks; told at the end
        (
            [shop_task(["tell()"], functions=(doc("tell"),), involved_classes=("Locked",))],
            {"Locked": Locked},
        ),
    ],
)
def test_there_is_no_place_where_no_truth_can_be_followed(
    tasks: list[Task], tools: dict[str, type] | None
) -> None:
    env = shop_env(*tasks) if tools is None else FunctionCallingEnv(tasks=tasks, tools=tools)
    assert places(env, "[look()]") == [None, None]
