"""What breaks: infrastructure is told and never scored, hostile text ends a turn, errors name
culprit and cure.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from gymnasium.error import ResetNeeded
from players import DONE, Replay, Shop, shop_env, shop_task, simple_task, user

from fctncalling.data.types import Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging import judge
from fctncalling.envs.tool_text.env import ToolTextEnv
from fctncalling.envs.tools.box.callables import as_tool
from fctncalling.envs.tools.python_executor import PythonExecutor, SandboxUnavailable


@pytest.mark.parametrize("stage", ["call", "load", "truth", "user", "checker"])
def test_failed_infrastructure_is_told_and_never_scored(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> str:
        raise OSError("line is down")

    task = shop_task(["burn()"] if stage == "truth" else ["look()"], task_id="multi_turn_base_7")
    if stage == "load":
        task = shop_task(
            ["look()"], initial_config={"Shop": {"broken": True}}, task_id="multi_turn_base_7"
        )
    if stage == "checker":
        monkeypatch.setattr(judge, "judge_turns", broken)
    env = shop_env(task, user=broken if stage == "user" else None, reward="progress")
    played = Replay(env, ["[burn()]" if stage == "call" else "[look()]", DONE])
    observation, reward, terminated, truncated, info = played.steps[-1]
    assert (observation, reward, terminated, truncated) == ("", 0.0, False, True)
    assert info["invalid"] is True
    assert info["verdict"] is None
    assert ("jammed" in info["invalid_reason"]) == (stage == "load")
    assert info["invalid_reason"]
    assert (stage == "load") == ("invalid" in played.first[1])
    kept = env.episode
    assert (kept.invalid, kept.terminated, kept.truncated) == (True, False, True)
    with pytest.raises(ResetNeeded):
        env.step(DONE)
    healthy = shop_env(shop_task(["look()"]), task)
    assert Replay(healthy, ["[look()]", DONE], task_id="multi_turn_base_0").ended


def test_a_user_that_returns_no_text_makes_the_episode_invalid() -> None:
    played = Replay(shop_env(shop_task(["look()"]), user=lambda messages, about: 7), ["x"])
    info = played.steps[-1][4]
    assert (info["invalid"], info["verdict"]) == (True, None)
    assert "returned 7: expected a str, or None" in info["invalid_reason"]


def test_a_decoders_crash_is_the_models_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else a policy could learn to have its bad episodes dropped.
    env = shop_env(shop_task(["look()"]), handler="python_calls")

    def crash(text: str) -> list[str]:
        raise InfrastructureError("decoder")

    monkeypatch.setattr(type(env._runner.handler), "decode_action", lambda self, text: crash(text))
    played = Replay(env, ["[look()]"])
    assert "invalid" not in played.info
    assert played.info["error"] == "malformed"


@pytest.mark.parametrize(
    "text",
    ["(" * 10_000, "[" * 100_000, "\x00", "\ud83d(", "f(a=" + "9" * 5000 + ")", "x" * 300_000],
)
def test_hostile_text_ends_a_turn_and_nothing_more(text: str) -> None:
    played = Replay(shop_env(shop_task(["look()"], ["look()"])), [text, text])
    assert played.ended
    assert "invalid" not in played.info
    assert played.info["verdict"].error_type == "multi_turn:empty_turn_model_response"


def error_cases() -> list[tuple[str, type[Exception], list[str], Any]]:
    """Return (name, exception, words of its message, what raises it)."""
    task = simple_task()
    unknown_class = shop_task(["look()"], involved_classes=("Bazaar",))
    return [
        (
            "task_id",
            KeyError,
            ["simple_python_9", "simple_python_0"],
            lambda: shop_env(task).reset(options={"task_id": "simple_python_9"}),
        ),
        (
            "option",
            ValueError,
            ["taskid", "task_id"],
            lambda: shop_env(task).reset(options={"taskid": "x"}),
        ),
        (
            "handler",
            LookupError,
            ["klingon", "python_calls"],
            lambda: shop_env(task, handler="klingon"),
        ),
        (
            "reward",
            ValueError,
            ["luck", "success", "progress"],
            lambda: shop_env(task, reward="luck"),
        ),
        (
            "two sources",
            ValueError,
            ["x.json", "one of the two"],
            lambda: shop_env(task, dataset_path="x.json"),
        ),
        ("no task", ValueError, ["at least one"], lambda: shop_env()),
        (
            "no Task",
            TypeError,
            ["dict", "load_tasks"],
            lambda: FunctionCallingEnv(tasks=[{"id": 1}]),
        ),  # type: ignore[list-item]
        ("twice", ValueError, ["simple_python_0", "unique"], lambda: shop_env(task, task)),
        (
            "render_mode",
            ValueError,
            ["rgb_array", "ansi"],
            lambda: shop_env(task, render_mode="rgb_array"),
        ),
        (
            "limit",
            ValueError,
            ["max_steps_per_turn=0", "at least 1"],
            lambda: shop_env(task, max_steps_per_turn=0),
        ),
        ("before reset", ResetNeeded, ["reset() first"], lambda: shop_env(task).step("x")),
        (
            "after the end",
            ResetNeeded,
            ["simple_python_0", "reset()"],
            lambda: Replay(e := shop_env(task), ["x"]) and e.step("y"),
        ),
        ("action", TypeError, ["list", "str"], lambda: Replay(shop_env(task), [["x"]])),  # type: ignore[list-item]
        (
            "tool class",
            LookupError,
            ["Bazaar", "multi_turn_base_0", "Shop"],
            lambda: shop_env(unknown_class).reset(),
        ),
        (
            "user",
            ValueError,
            ["rul", "rule", "scripted", "openai:MODEL"],
            lambda: shop_env(task, user="rul"),
        ),
        (
            "retired category",
            ValueError,
            ["exec_simple"],
            lambda: shop_env(Task("exec_simple_0", "exec_simple", [user("?")])).reset(),
        ),
    ]


@pytest.mark.parametrize("case", error_cases(), ids=lambda case: case[0])
def test_errors_name_culprit_and_cure(case: tuple[str, type[Exception], list[str], Any]) -> None:
    _, kind, words, culprit = case
    with pytest.raises(kind) as caught:
        culprit()
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize("how", ["closed", "gone", "no process"])
def test_an_executor_that_fails_is_no_tool_text_and_no_reward(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **keywords: object) -> None:
        raise SandboxUnavailable("the executor's zygote did not start: out of order")

    def no_process(*args: object, **keywords: object) -> None:
        raise OSError("too many open files")

    # "no process": a tool with a time limit, for which no process can be started.
    executor = PythonExecutor(num_executors=1)
    tool = as_tool(str.upper, name="python_executor") if how == "no process" else executor
    parameter = "query" if how == "no process" else "code"
    shop = FunctionCallingEnv(tasks=[shop_task(["look()"])], tools=[Shop, tool])
    text = ToolTextEnv(tools=[tool], handler="request_call")
    with contextlib.closing(shop), contextlib.closing(text), contextlib.closing(executor):
        if how == "closed":
            executor.close()
        elif how == "gone":
            monkeypatch.setattr(executor._link, "start", refuse)
        else:
            monkeypatch.setattr("fctncalling.envs.tools.box.toolbox.ToolProcess", no_process)
        for env, message in (
            (shop, f"[python_executor({parameter}='print(1)')]"),
            (text, "<request><python_executor>print(1)<call>"),
        ):
            env.reset(seed=0)
            observation, reward, _, truncated, info = env.step(message)
            assert (observation, reward, truncated) == ("", 0.0, True)
            assert info["invalid"] is True
            assert "python_executor" in info["invalid_reason"]


def test_code_that_is_no_text_is_the_models_mistake() -> None:
    with PythonExecutor(num_executors=1) as executor:
        shop = FunctionCallingEnv(tasks=[shop_task(["look()"])], tools=[Shop, executor])
        shop.reset(seed=0)
        *_, info = shop.step("[python_executor(code=5)]")
    assert "Tool error: TypeError: code must be a text" in info["messages"][0]["content"]
