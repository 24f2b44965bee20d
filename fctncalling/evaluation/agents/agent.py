"""Agent and Player protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fctncalling.data.types import Episode, FunctionDoc, Task

FORMS = ("prompting", "tool_call", "tools_text")
"""How an agent is asked; tools_text: schemas go to the server, calls are read from the text."""

CONTEXT_OVERFLOW = "context_overflow"
"""Why an episode failed whose conversation outgrew the model's context."""


class AgentUnavailable(Exception):
    """The agent could not answer through no fault of its own: the episode is invalid, never a
    failure.
    """


class EpisodeCut(Exception):
    """An outside budget ends the episode here: it is truncated, and valid as far as it goes."""


class ContextOverflow(Exception):
    """The conversation is longer than the model's context: the episode is a failure,
    not invalid.
    """


class AgentSetupError(Exception):
    """The agent cannot work at all (a refused key, a missing extra): the run ends, saying so."""


@dataclass
class PlayedEpisode:
    """One episode as an agent saw it."""

    episode: Episode
    observations: list[str] = field(default_factory=list)  # after each step
    reason: str = ""  # why it is invalid
    messages: list[list[Any]] = field(default_factory=list)
    """What the environment said, in OpenAI form: the opening messages, then those behind each step.
    """
    failure: str = ""  # why it failed beside its verdict: CONTEXT_OVERFLOW, or nothing


class Player(Protocol):
    """One episode's side of the agent; keeps its own conversation."""

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the next message, given what the environment just returned.

        Raises AgentUnavailable, ContextOverflow, EpisodeCut.
        """
        ...


class Agent(Protocol):
    """Makes a player for each episode. Players of one agent may answer in several threads
    at once.
    """

    name: str

    def player(self, task: Task, handler: str, seed: int) -> Player:
        """Return a player for an episode of a task whose calls are read by a handler."""
        ...

    def close(self) -> None:
        """Let go of connections."""


def task_for_form(task: Task, form: str) -> Task:
    """Return the task as it is put to an agent: as tool calls, names of single-turn tasks have no
    dots.

    Interfaces for tool calls forbid dots, so BFCL sends underscores and expects them back.
    """
    if form not in ("tool_call", "tools_text") or task.executes_calls:
        return task
    truth = task.ground_truth
    if truth is not None:
        truth = [
            {_dots_to_underscores(name): given for name, given in each.items()} for each in truth
        ]
    docs = [
        FunctionDoc(_dots_to_underscores(doc.name), doc.description, doc.parameters, doc.response)
        for doc in task.functions
    ]
    return replace(task, functions=docs, ground_truth=truth)


def _dots_to_underscores(name: str) -> str:
    return name.replace(".", "_")
