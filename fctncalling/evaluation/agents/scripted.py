"""Scripted agents: oracle, noop, random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fctncalling.data.types import Task
from fctncalling.evaluation.agents.agent import EpisodeCut, Player
from fctncalling.evaluation.canary_policies import (
    DONE,
    Policy,
    PolicyInput,
    RandomCalls,
    noop,
    oracle,
)

SCRIPTED = ("oracle", "noop", "random")


class ScriptedAgent:
    """Scripted agents: `oracle` plays the truth, `noop` says nothing, `random` calls at random."""

    def __init__(self, name: str) -> None:
        self.name = name

    def player(self, task: Task, handler: str, seed: int) -> Player:
        """Return a player for an episode."""
        policies: dict[str, Policy] = {
            "oracle": oracle,
            "noop": noop,
            "random": RandomCalls(f"{seed} {task.id}"),
        }
        return PolicyPlayer(policies[self.name], task, handler, fallback=DONE)

    def close(self) -> None:
        """Do nothing: a script holds nothing open."""


class PolicyPlayer:
    """A scripted policy as the player of one episode.

    Where the policy's calls cannot be written, it says `fallback` from then on; without one the
    episode is cut there, and `error` tells why.
    """

    def __init__(
        self, policy: Policy, task: Task, handler: str = "", fallback: str | None = None
    ) -> None:
        self.error = ""
        self._policy = policy
        self._fallback = fallback
        self._situation = PolicyInput(task, -1, 0, "", (), "", handler)

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the policy's message."""
        self._situation = _next_situation(self._situation, info)
        if not self.error:
            try:
                return self._policy(self._situation)
            except ValueError as error:  # a ground truth that cannot be written as calls
                self.error = str(error)
        if self._fallback is None:
            raise EpisodeCut
        return self._fallback


def _next_situation(before: PolicyInput, info: Mapping[str, Any]) -> PolicyInput:
    """Return what the policy sees now; user text and step are counted anew in every turn."""
    turn, tools = int(info.get("turn", 0)), info.get("tools", ())
    if turn == before.turn:
        return before._replace(step_in_turn=before.step_in_turn + 1, tools=tools)
    is_first = before.turn < 0
    return before._replace(
        turn=turn,
        step_in_turn=0,
        user_text=_user_text(info),
        tools=tools,
        instructions=str(info.get("instructions", "")) if is_first else before.instructions,
    )


def _user_text(info: Mapping[str, Any]) -> str:
    texts = [
        str(message.get("content") or "")
        for message in info.get("messages", ())
        if message["role"] == "user"
    ]
    return texts[-1] if texts else ""
