"""Equal state hashes, equal futures: pairs of states that are built and played on.

A pair is two ways to a state that may be one: other words, other messages, another order, calls
once more, detours, limits that come near. The oracle is the environment itself: from two states of
one hash the same messages bring the same answers and rewards.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from players import DONE, PROMPTING, shop_env, shop_task

import fctncalling
from fctncalling.data.types import Call, Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.judging.strict import MAX_CALLS, MAX_TRIES
from fctncalling.envs.rewards import REWARDS, STRICT_REWARDS

Texts = list[str]


def message(*calls: Call) -> str:
    return PROMPTING.render(calls)


def bogus(calls: Sequence[Call], number: int) -> str:
    """Return a message that tries one of the calls with an argument that it does not have."""
    return message(Call(calls[0].name, {**calls[0].arguments, f"x{number}": number}))


def truth_texts(turns: Sequence[Sequence[Call]], turn: int, done: int) -> Texts:
    """Return a perfect model's messages, one a call, from the calls of a turn that are done."""
    texts = []
    for number in range(turn, len(turns)):
        texts += [message(call) for call in turns[number][done if number == turn else 0 :]]
        texts.append(DONE)
    return texts


def two_ways(task: Task, draw: random.Random) -> tuple[Texts, Texts, list[Texts]]:
    """Return two ways to states of a task that may be one, and what to play from there."""
    turns = oracle_calls(task)
    turn = draw.choice([number for number, calls in enumerate(turns) if calls])
    calls = turns[turn]
    done = draw.randint(0, len(calls))
    before = [text for each in range(turn) for text in (*map(message, turns[each]), DONE)]
    here = list(map(message, calls[:done]))
    again = here[-1:] or [bogus(calls, 0)]
    many = draw.choice([2, draw.randint(2, 18), MAX_CALLS[0] + MAX_CALLS[1] * len(calls) - done])
    tried = [bogus(calls, number) for number in range(draw.randint(1, MAX_TRIES + 1))]
    some = draw.sample(range(len(tried)), draw.randint(1, len(tried)))
    shuffled = draw.sample(here, len(here))
    ways = {
        "other words": ([*before, *here], [text.replace("'", '"') for text in (*before, *here)]),
        "one message": ([*before, *here], [*before, *([message(*calls[:done])] if done else [])]),
        "another order": ([*before, *here, *again], [*before, *shuffled, *again]),
        "once more": ([*before, *here, *again], [*before, *here, *again * many]),
        "tries": ([*before, *tried, *here], [*before, *(tried[each] for each in some), *here]),
        "tries again": ([*before, *tried, *here], [*before, *tried[:1], *tried, *here]),
        "dropped": ([*before, *here], [*before, *here[:-1], *again[:0]]),
        "changed past": ([*before, *here], [*before[:-2], *before[-1:], *here]),
        "many at once": (
            [*before, *here, *again],
            [*before, *here, message(*[(calls[done - 1 :] or calls)[0]] * many), *again],
        ),
    }
    one, other = ways[draw.choice(list(ways))]
    rest = truth_texts(turns, turn, done)
    whole = [message(*calls[done:]), *rest[len(calls) - done :]] if done < len(calls) else rest
    onward = [rest, whole, [*again, *rest], [*again * 2, *rest], [DONE] * len(turns)]
    onward.append([bogus(calls, 0), bogus(calls, 7), *rest])
    return one, other, onward


class Player:
    """Plays ways to a state, and on from it, in an environment of one reward."""

    def __init__(self, env: FunctionCallingEnv) -> None:
        self.env = env

    def reach(self, task: Task, texts: Sequence[str]) -> tuple[str, Any] | None:
        """Return hash and state behind messages; None where the episode ended before."""
        info = self.env.reset(seed=1, options={"task_id": task.id})[1]
        for text in texts:
            _, _, terminated, truncated, info = self.env.step(text)
            if terminated or truncated:
                return None
        return info["state_hash"], self.env.get_state()

    def future(self, state: Any, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Return answers and rewards of messages from a state on."""
        self.env.set_state(state)
        told = []
        for text in texts:
            observation, reward, terminated, truncated, _ = self.env.step(text)
            told.append((observation, reward))
            if terminated or truncated:
                break
        return told


def play_pairs(
    tasks: Sequence[Task], number: int, *, num_onward: int = 6, **keywords: Any
) -> float:
    """Check pairs under all rewards; return the share that had one hash under each."""
    players = [
        Player(FunctionCallingEnv(tasks=tasks, reward=reward, **keywords)) for reward in REWARDS
    ]
    draw, alike, checked = random.Random(51), 0, 0
    while checked < number:
        task = draw.choice(tasks)
        one, other, onward = two_ways(task, draw)
        ends = [(player, player.reach(task, one), player.reach(task, other)) for player in players]
        if any(first is None or second is None for _, first, second in ends):
            continue  # a way went over the limit of steps
        matched = [(player, *each) for player, *each in ends if each[0][0] == each[1][0]]
        for player, (_, state), (_, twin) in matched:
            for texts in draw.sample(onward, num_onward):
                same = player.future(state, texts) == player.future(twin, texts)
                assert same, (task.id, one, other, texts)
        alike += len(matched) == len(players)
        checked += 1
    return alike / number


def multi_turn(path: str | Path) -> list[Task]:
    return [task for task in fctncalling.load_tasks(path) if task.is_multi_turn]


def test_equal_hashes_have_equal_futures_under_every_reward() -> None:
    tasks = multi_turn(fctncalling.embedded_path("held_out"))[::4]
    # what is one state has mostly one hash
    assert 0.3 < play_pairs(tasks, 16, num_onward=1) < 0.9


@pytest.mark.prove
@pytest.mark.parametrize("name", ["base", "miss_func", "miss_param", "long_context"])
def test_equal_hashes_have_equal_futures_in_official_tasks(
    name: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared / "bfcl" / "data"
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(folder / "long_context.json"))
    assert 0.3 < play_pairs(multi_turn(folder / f"BFCL_v4_multi_turn_{name}.json"), 250) < 0.9


@pytest.mark.prove
def test_a_thousand_pairs_of_embedded_tasks_have_equal_futures() -> None:
    tasks = multi_turn(fctncalling.embedded_path("held_out"))
    assert 0.3 < play_pairs(tasks, 750) < 0.9
    assert 0.3 < play_pairs(tasks, 250, max_steps_per_turn=8) < 0.9


LOOK = "[look()]"
SELL = "[sell(item='apple', price=1)]"


def end_of(reward: str, *texts: str) -> tuple[str, float]:
    """Return the hash behind messages, and the return of the right rest from there."""
    task = shop_task(["sell(item='apple', price=1)"], ["look()"])
    env = shop_env(task, reward=reward)
    info = env.reset(seed=1)[1]
    paid = 0.0
    for text in texts:
        _, reward_, _, _, info = env.step(text)
        paid += reward_
    for text in (SELL, DONE, LOOK, DONE):
        _, reward_, ended, _, _ = env.step(text)
        paid += reward_
        if ended:
            break
    return info["state_hash"], paid


@pytest.mark.parametrize("reward", REWARDS)
def test_steps_left_are_state_where_the_limit_is_near(reward: str) -> None:
    far, farther, near = (end_of(reward, *[LOOK] * times) for times in (1, 3, 20))
    assert far == farther == (far[0], 1.0)
    assert near[0] != far[0]
    assert near[1] < 1.0


@pytest.mark.parametrize("reward", REWARDS)
def test_calls_left_are_state_where_a_strict_limit_is_near(reward: str) -> None:
    most = sum(MAX_CALLS)
    one, some, many = (
        end_of(reward, LOOK, f"[{', '.join(['look()'] * times)}]", LOOK)
        for times in (1, 2, most - 2)
    )
    assert one == some
    assert (one[0] != many[0], one[1] != many[1]) == (reward in STRICT_REWARDS,) * 2


@pytest.mark.parametrize("reward", REWARDS)
def test_tries_are_state_where_a_strict_limit_is_near(reward: str) -> None:
    """The results are the same, but another argument is another try."""

    def tries(*items: str) -> tuple[str, float]:
        return end_of(reward, *(f"[sell(item='fig', price={item})]" for item in items), LOOK)

    again, new = tries(*"2223"), tries(*"2345")
    assert (again[0] != new[0], again[1] != new[1]) == (reward in STRICT_REWARDS,) * 2
    assert tries(*"2345") == tries(*"5432")


def test_results_count_as_often_as_the_truth_needs_them() -> None:
    """Shouting leaves no trace but its results, of which a truth of two wants two."""

    def hashes(*truth: str) -> list[str]:
        env = shop_env(shop_task([*truth]), reward="progress")
        env.reset(seed=1)
        return [env.step("[shout(text='a')]")[4]["state_hash"] for _ in range(3)]

    one, two, three = hashes("shout(text='a')", "shout(text='a')")
    assert one != two == three
    one, two, three = hashes("shout(text='a')", "look()")
    assert one == two == three
