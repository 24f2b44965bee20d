"""Scripted agents: oracle, noop, random."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.evaluation.accepted_answers import accepted_answer
from fctncalling.evaluation.agents.agent import Player
from fctncalling.evaluation.canary_policies import DONE, placeholder

SCRIPTED = ("oracle", "noop", "random")


class ScriptedAgent:
    """`oracle` plays the ground truth, `noop` says nothing, `random` calls offered functions at
    random.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def player(self, task: Task, handler: str, seed: int) -> Player:
        """Return a player for an episode."""
        if self.name == "oracle":
            return _Oracle(task, handler)
        return _Random(handler, f"{seed} {task.id}") if self.name == "random" else _Noop()

    def close(self) -> None:
        """Do nothing: a script holds nothing open."""


class _Noop:
    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        return ""


class _Oracle:
    """Plays each turn's calls in its first message. Where none can be written, it gives up."""

    def __init__(self, task: Task, handler: str) -> None:
        self._texts = _truth_texts(task, handler)
        self._turn = -1

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        if info["turn"] == self._turn:
            return DONE
        self._turn = int(info["turn"])
        return self._texts[self._turn] if self._turn < len(self._texts) else DONE


def _truth_texts(task: Task, handler: str) -> list[str]:
    kind = task.kind
    if kind == "agentic":
        return [str(task.ground_truth[0])] if task.ground_truth else []
    form = "tool_call" if handler == "tool_calls" else "prompting"
    if (
        kind != "multi_turn"
        and handler == handler_for(task, form).name
        and "prompt_variant" not in task.extra
    ):
        accepted = accepted_answer(task, form) if task.ground_truth is not None else None
        if accepted is not None:
            return [accepted]
    texts = []
    try:
        for calls in oracle_calls(task):
            texts.append(get_handler(handler).render(calls) if calls else DONE)
    except ValueError:  # a truth that this form cannot say
        texts.append(DONE)
    return texts


class _Random:
    """Calls one offered function with placeholder arguments, or ends the turn, at even odds."""

    def __init__(self, handler: str, seed: str) -> None:
        self._handler = get_handler(handler)
        self._draw = random.Random(seed)

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        if not info["tools"] or self._draw.random() < 0.5:
            return DONE
        function = self._draw.choice(info["tools"])["function"]
        properties = function["parameters"].get("properties", {})
        required = function["parameters"].get("required", [])
        call = Call(
            function["name"], {key: placeholder(properties.get(key, {})) for key in required}
        )
        try:
            return self._handler.render([call])
        except ValueError:
            return DONE
