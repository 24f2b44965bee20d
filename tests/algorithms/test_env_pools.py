"""Environments beside the rollout: slow ones hold up nobody, failed ones cost their episode, the
order is kept.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tiny_models import tiny_model, tiny_tokenizer
from waiting_envs import Gate, TwoStepEnv

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine, ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout import env_pool
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.rollout.env_pool import EnvPool, ThreadEnvPool, num_parallel_episodes

TASKS = [f"t{i}" for i in range(12)]
TEMPLATE = ChatTemplate(tiny_tokenizer())


def threads(make_env: Callable[[], Any], count: int, *, in_order: bool = True) -> ThreadEnvPool:
    envs = ThreadEnvPool(make_env, count)
    envs.in_order = in_order
    return envs


def played(envs: list[Any] | EnvPool, **keywords: Any) -> list[EpisodeRecord]:
    engine = GenerationEngine(tiny_model(), TEMPLATE.stop_ids, max_new_tokens=8)
    return collect(envs, engine, TEMPLATE, TASKS, max_episode_tokens=500, seed=3, **keywords)


def scripted(envs: EnvPool, **keywords: Any) -> list[EpisodeRecord]:
    def script(task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        return "a"

    actor = ScriptedEngine(script, TEMPLATE.encode, TEMPLATE.end_of_turn_id)
    return collect(envs, actor, TEMPLATE, TASKS, max_episode_tokens=500, **keywords)


def rows(records: list[EpisodeRecord]) -> list[Any]:
    return [record.rows for record in records]


class Clock:
    """Stands still, until an environment moves it."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic  # of the seconds that calls take

    def jump(self) -> None:
        self.now += 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(env_pool, "time", stopped)
    monkeypatch.setattr(env_pool, "_LONGEST_WAIT_S", 0.05)  # after which the clock is read again
    return stopped


def test_threads_that_are_waited_for_play_bit_for_bit_what_one_thread_plays() -> None:
    assert rows(played(threads(TwoStepEnv, 5))) == rows(played([TwoStepEnv() for _ in range(5)]))


class GlobalDraws(TwoStepEnv):
    """Draws from the stream that all environments share."""

    def reset(self, **keywords: Any) -> tuple[str, dict[str, Any]]:
        random.random()
        return super().reset(**keywords)


def test_a_reset_that_draws_from_the_global_random_stream_is_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_pool, "_drawn", threading.Event())
    played(threads(TwoStepEnv, 3))
    assert not caplog.messages
    played(threads(GlobalDraws, 3))
    (message,) = caplog.messages
    assert message.startswith("GlobalDraws.reset draws from Python's global random stream")


@pytest.mark.parametrize("in_order", [False, True])
def test_a_slow_tool_holds_up_nobody(in_order: bool, caplog: pytest.LogCaptureFixture) -> None:
    # It comes to its end only once all other episodes have. In order, patience with it has to run
    # out.
    caplog.set_level(logging.INFO, "fctncalling")
    slow = Gate(len(TASKS) - 1)
    envs = threads(lambda: TwoStepEnv({"t1": slow}), 3, in_order=in_order)
    records = scripted(envs, on_episode=slow.count)
    assert all(record.terminated and record.num_steps == 2 for record in records)
    assert ("keeps the others waiting" in caplog.text) == in_order
    assert not envs.in_order


def test_environments_declared_quick_are_always_waited_for() -> None:
    def quick() -> TwoStepEnv:
        env = TwoStepEnv()
        env.metadata = {"in_process_tools": True}
        return env

    assert threads(quick, 2).patience_s == float("inf")
    assert threads(TwoStepEnv, 2).patience_s < 1


def test_a_tool_that_hangs_costs_its_episode_and_no_other(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    others, forever = Gate(len(TASKS) - 1), Gate(1)

    def hang() -> None:
        others()  # now nobody else is at work who could be late
        clock.jump()
        forever()

    envs = threads(lambda: TwoStepEnv({"t2": hang}), 3, in_order=False)
    records = scripted(envs, deadline_s=500.0, on_episode=others.count)
    forever.open()
    assert [record.task_id for record in records if record.invalid] == ["t2"]
    assert not records[2].success
    assert all(record.success for record in records if not record.invalid)
    assert "task t2: no answer in the " in caplog.text


def test_a_hanging_environment_is_replaced_by_one_that_plays_on(clock: Clock) -> None:
    forever = Gate(1)

    def hang() -> None:
        clock.jump()
        forever()

    records = scripted(threads(lambda: TwoStepEnv({"t2": hang}), 1), deadline_s=500.0)
    forever.open()
    assert [record.task_id for record in records if record.invalid] == ["t2"]
    assert [record.num_steps for record in records] == [2, 2, 0, *[2] * 9]


@pytest.mark.parametrize(
    ("attribute", "told"), [([["f()"]], [["f()"]]), (None, None), (lambda task_id: "f()", None)]
)
def test_reset_tells_the_trainer_the_attribute_ground_truth(attribute: Any, told: Any) -> None:
    env: Any = TwoStepEnv()
    env.ground_truth = attribute
    _, info = env_pool.call_env(0, env, env_pool.EnvRequest("t1", 0)).result
    assert info.get("ground_truth") == told


def test_an_environment_that_raises_in_its_thread_costs_its_episode(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = scripted(threads(lambda: TwoStepEnv({"t5": "raise"}), 3))
    assert [record.task_id for record in records if record.invalid] == ["t5"]
    assert "task t5: the environment raised OSError: the disk is gone" in caplog.text


def test_an_interrupt_in_an_environments_thread_ends_the_rollout_and_leaves_nothing_behind() -> (
    None
):
    envs = threads(lambda: TwoStepEnv({"t4": "interrupt"}), 4)
    with pytest.raises(KeyboardInterrupt):
        played(envs)
    envs = threads(TwoStepEnv, 4)
    envs.send(1, env_pool.EnvRequest("t9", 0), 60.0)  # of a rollout that was given up
    assert rows(played(envs)) == rows(played([TwoStepEnv() for _ in range(4)]))


def test_as_many_episodes_run_side_by_side_as_the_cache_budget_surely_holds() -> None:
    config = TrainConfig(
        n_rollout_threads=16, max_episode_tokens=100, max_new_tokens=20, max_cache_tokens=750
    )
    assert num_parallel_episodes(config) == 7
    assert num_parallel_episodes(config, share=4) == 4
    with pytest.raises(
        SettingError,
        match=r"--max_cache_tokens: got 99.*one episode of --max_episode_tokens \(100\)",
    ):
        TrainConfig(max_episode_tokens=100, max_new_tokens=20, max_cache_tokens=99)
