"""Interfaces of agents and players, and agents that play by a script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fctncalling.data.types import Call, Episode, Task
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.registry import resolve_handler
from fctncalling.evaluation.scripted_policies import (
    DONE,
    Policy,
    PolicyInput,
    RandomCalls,
    noop,
    oracle,
)

CONTEXT_OVERFLOW = "context_overflow"
"""Why an episode failed whose conversation outgrew the model's context."""
INFERENCE_ERROR = "Error during inference: "
"""How BFCL begins an answer in place of which the model's server failed."""


class AgentUnavailable(Exception):
    """Error of an agent that cannot be reached, which the agent did not cause.

    The episode is invalid, never a failure.
    """


class EpisodeCut(Exception):
    """Signal that a budget cut the episode: it is truncated, and valid so far."""


class ContextOverflow(Exception):
    """Signal that a conversation exceeds the model's context.

    The episode is a failure, not invalid.
    """


class AgentSetupError(Exception):
    """Error in an agent's setup (a refused key, a missing extra), which ends the run."""


@dataclass
class PlayedEpisode:
    """Episode as an agent played it."""

    episode: Episode
    observations: list[str] = field(default_factory=list)  # after each step
    reason: str = ""  # why it is invalid
    messages: list[list[Any]] = field(default_factory=list)
    """What the environment said, in OpenAI form: the opening messages, then those behind each step.
    """
    failure: str = ""  # why it failed beside its verdict: CONTEXT_OVERFLOW, or nothing
    cut_steps: list[int] = field(default_factory=list)  # whose message the limit of tokens cut
    thoughts: dict[int, str] = field(default_factory=dict)  # step -> what a server set apart


class Player(Protocol):
    """Interface of a player of one episode, with its conversation."""

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        """Answer an observation: return the agent's next message.

        Raises AgentUnavailable, ContextOverflow, EpisodeCut.
        """
        ...


def as_tool_calls(response: Any, calls: Mapping[str, tuple[Call, ...]]) -> Any:
    """Convert an answer to BFCL's form of tool calls."""
    if isinstance(response, list):
        return [as_tool_calls(turn, calls) for turn in response]
    if not (read := calls.get(response, ())):
        return json.dumps(response) if response.lstrip().startswith("[") else response
    try:
        return get_handler("tool_calls").render(read)
    except ValueError:  # a tuple, say, which JSON cannot say
        return json.dumps(
            [{call.name: json.dumps(dict(call.arguments), default=str)} for call in read]
        )


SCRIPTED = ("oracle", "noop", "random")


class ScriptedAgent:
    """Agent with a scripted policy: `oracle`, `noop` or `random`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def make_player(self, task: Task, handler: str, seed: int) -> Player:
        """Make a player for an episode."""
        policies: dict[str, Policy] = {
            "oracle": oracle,
            "noop": noop,
            "random": RandomCalls(f"{seed} {task.id}"),
        }
        return ScriptedPlayer(policies[self.name], task, handler, fallback=DONE)

    def close(self) -> None:
        """Return: a script has no connections."""


class ScriptedPlayer:
    """Player with a scripted policy, for one episode.

    Where the policy's calls cannot be written, it says `fallback` from then on; without one the
    episode is cut there, and `error` tells why.
    """

    def __init__(
        self, policy: Policy, task: Task, handler: str = "", fallback: str | None = None
    ) -> None:
        self.error = ""
        self._policy = policy
        self._fallback = fallback
        own = resolve_handler(get_handler(handler or "auto"), task)
        written = handler if own.name == handler != "auto" else ""  # else as the task's language
        self._situation = PolicyInput(task, -1, 0, "", (), "", written)

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        """Answer an observation with the policy's message."""
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
    """Return the policy's view; user text and step are reset in every turn."""
    turn, tools = int(info.get("turn", 0)), info.get("tools", ())
    new = [str(message.get("content") or "") for message in info.get("messages", ())]
    before = before._replace(heard="\n".join((before.heard, *new)))
    if turn == before.turn:
        return before._replace(step_in_turn=before.step_in_turn + 1, tools=tools)
    said = [
        str(message.get("content") or "")
        for message in info.get("messages", ())
        if message["role"] == "user"
    ]
    is_first = before.turn < 0
    return before._replace(
        turn=turn,
        step_in_turn=0,
        user_text=said[-1] if said else "",
        tools=tools,
        instructions=str(info.get("instructions", "")) if is_first else before.instructions,
    )
