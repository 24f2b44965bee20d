"""Agent and Player protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fctncalling.data.types import Episode, Task

CONTEXT_OVERFLOW = "context_overflow"
"""Why an episode failed whose conversation outgrew the model's context."""


class AgentUnavailable(Exception):
    """The agent could not answer through no fault of its own.

    The episode is invalid, never a failure.
    """


class EpisodeCut(Exception):
    """An outside budget ends the episode here: it is truncated, and valid as far as it goes."""


class ContextOverflow(Exception):
    """The conversation is longer than the model's context.

    The episode is a failure, not invalid.
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
    """Makes a player for each episode.

    Players of one agent may answer in several threads at once.
    """

    name: str

    def player(self, task: Task, handler: str, seed: int) -> Player:
        """Return a player for an episode of a task whose calls are read by a handler."""
        ...

    def close(self) -> None:
        """Let go of connections."""
