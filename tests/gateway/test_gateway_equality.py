"""An agent over the gateway is `env.step`: the same tokens, log-probabilities and rewards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateways import MAX_NEW_TOKENS, GatewayClient, embedded_engine, running_gateway

from fctncalling import embedded_path, load_tasks
from fctncalling.algorithms.episodes import TokenRecord
from fctncalling.algorithms.rollout.collect import collect, episode_seeds
from fctncalling.algorithms.rollout.env_pool import TextEnv
from fctncalling.data.types import Call, Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers import get_handler

SEED = 7
MAX_TOKENS = 1024


def some_tasks(each: int) -> list[Task]:
    """Return the first tasks of each category."""
    by_category: dict[str, list[Task]] = {}
    for task in load_tasks(embedded_path("held_out")):
        by_category.setdefault(task.category, []).append(task)
    return [task for tasks in by_category.values() for task in tasks[:each]]


def play(client: GatewayClient, env: FunctionCallingEnv, task: str, form: str, seed: int) -> None:
    """Be an agent that has `env` for its tools."""
    _, info = env.reset(seed=seed, options={"task_id": task})
    messages, tools, done = list(info["messages"]), info["tools"], False
    choice = "none" if form == "text" else "auto"
    while not done:
        answer = client.chat(messages, tools=tools, tool_choice=choice)["message"]
        _, reward, terminated, truncated, info = env.step(as_action(answer))
        client.post("/reward", reward=reward)
        done = terminated or truncated
        messages += [answer, *info["messages"]]
    client.post("/end")


def as_action(answer: dict[str, Any]) -> str:
    """Return a message as the environment reads it."""
    if not answer.get("tool_calls"):
        return str(answer["content"])
    functions = [each["function"] for each in answer["tool_calls"]]
    calls = [Call(each["name"], json.loads(each["arguments"])) for each in functions]
    return get_handler("auto").render(calls)


def plain(rows: list[TokenRecord]) -> list[Any]:
    return [(row.ids, row.acted, row.ends_action, row.rewards) for row in rows]


@pytest.mark.parametrize("form", ["text", "tool_calls"])
def test_an_agent_over_the_gateway_is_the_policy_in_its_environment(form: str) -> None:
    tasks = some_tasks(3)
    assert len(tasks) >= 20
    ids = [task.id for task in tasks]
    engine, template = embedded_engine()
    env = FunctionCallingEnv(tasks=tasks)
    envs: list[TextEnv] = [FunctionCallingEnv(tasks=tasks) for _ in range(4)]
    direct = collect(envs, engine, template, ids, max_episode_tokens=MAX_TOKENS, seed=SEED)
    seeds = episode_seeds(SEED, range(len(ids)), 1)
    settings = {"max_episode_tokens": MAX_TOKENS, "fixed_temperature": True}
    with running_gateway(engine, template, **settings) as gateway:
        for task_id, (seed, env_seed) in zip(ids, seeds, strict=True):
            opened = gateway.client().post("/s", seed=seed, task=task_id)
            client = gateway.client(opened["session"], opened["key"])
            play(client, env, task_id, form, env_seed)
            client.close()
    assert len(gateway.ended) == len(direct)
    for session, expected in zip(gateway.ended, direct, strict=True):
        found = session.to_record()
        assert found.task_id == expected.task_id
        assert plain(found.rows) == plain(expected.rows), expected.task_id
        for row, other in zip(found.rows, expected.rows, strict=True):
            assert row.rollout_logprobs == pytest.approx(other.rollout_logprobs, abs=1e-5)
        assert found.episode_return == expected.episode_return
        assert found.num_words == expected.num_words
        assert found.cut_actions == expected.cut_actions
        assert not session.drift
    assert max(len(row.ids) for each in direct for row in each.rows) > 2 * MAX_NEW_TOKENS
    assert any(each.episode_return for each in direct)
