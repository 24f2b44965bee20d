"""Scripted demonstrations for the tool presets."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.data.types import Call
from fctncalling.envs.handlers import TEXT_HANDLERS
from fctncalling.envs.tool_text.env import ToolTextEnv
from fctncalling.envs.tool_text.tasks import TextTask, TextTasks

NUM_ENVS = 16
_OPERATOR = re.compile(r" (\*\*|[-+*]) ")


class TextDemonstrator:
    """Demonstrator that calls one tool with a task's program, then repeats its result.

    `(task id, turn, step, info) -> text`.

    `careless`: the share of tasks in which the first call is wrong, where something is multiplied;
    half of it elsewhere. A quarter of those calls fails, the others have another operator.
    `stubborn`: the share of wrong or failed calls after which it answers all the same instead of
    calling again. A careful one (both 0) is always right.
    """

    def __init__(
        self,
        tasks: TextTasks,
        handler: str = "request_call",
        *,
        tool: str = "calculator",
        careless: float = 0.0,
        stubborn: float = 1.0,
        seed: int = 0,
    ) -> None:
        self._tasks = tasks
        self._syntax = TEXT_HANDLERS[handler]
        self._tool = tool
        self._careless = careless
        self._stubborn = stubborn
        self._seed = seed

    def __call__(self, task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        """Return the text up to the next pause."""
        task = self._tasks.by_id(task_id)
        generator = np.random.default_rng([self._seed, zlib.crc32(task_id.encode())])
        careless, breaks, stubborn = generator.random(3)
        slips = careless < self._careless * (1.0 if "*" in task.extra["code"] else 0.5)
        if step == 0:
            return self._call(_spoilt(task, breaks < 0.25) if slips else task.extra["code"])
        if step == 1 and slips and stubborn >= self._stubborn:
            return self._call(task.extra["code"])
        result = str(info["messages"][-1]["content"]).strip().rpartition("\n")[2]
        return f"Result={result}{self._syntax.submit}"

    def _call(self, code: str) -> str:
        argument = {"calculator": "query", "python_executor": "code"}.get(self._tool, "query")
        text = code.removeprefix("print(").removesuffix(")") if self._tool == "calculator" else code
        name, argument = self._tool, "query" if self._syntax.name == "request_call" else argument
        return self._syntax.render([Call(name, {argument: text})])


def text_demonstrations(
    make_env: Callable[[], ToolTextEnv],
    script: TextDemonstrator,
    template: ChatTemplate,
    task_ids: Sequence[str],
    *,
    max_episode_tokens: int = 1024,
) -> list[EpisodeRecord]:
    """Return the demonstrator's episodes, with the ids and masks that learning will see."""
    envs: list[Any] = [make_env() for _ in range(min(NUM_ENVS, len(task_ids)))]
    try:
        actor = ScriptedEngine(script, template.encode, template.end_of_turn_id)
        return collect(envs, actor, template, task_ids, max_episode_tokens=max_episode_tokens)
    finally:
        for env in envs:
            env.close()


def _spoilt(task: TextTask, fails: bool) -> str:
    """Return a task's program with its first operator changed.

    Or broken, so that running it fails.
    """
    code = str(task.extra["code"])
    operator = _OPERATOR.search(code)
    if fails or operator is None:
        return code.replace("(", "((", 1) if operator is None or "print" in code else f"{code} +"
    other = {"+": "-", "-": "+", "*": "+", "**": "*"}[operator[1]]
    return f"{code[: operator.start()]} {other} {code[operator.end() :]}"
