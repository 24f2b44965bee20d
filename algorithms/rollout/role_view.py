"""RoleView: what one role of an episode has read and written, as messages and as token rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fctncalling.algorithms.episodes import TokenRecord
from fctncalling.algorithms.generation.engine_api import Action
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.types import Message


@dataclass
class RoleView:
    """A growing conversation and its token rows.

    An episode has one for each `info["role"]`, or one alone where the environment names no roles.
    """

    template: ChatTemplate
    role: str = ""
    rows: list[TokenRecord] = field(default_factory=list)
    new_ids: list[int] = field(default_factory=list)  # context not yet sent to the engine
    history: list[Message] = field(default_factory=list)  # kept for templates that rewrite it
    # Indices of the history that the policy wrote.
    policy_messages: set[int] = field(default_factory=set)
    unfinished: str = ""  # an assistant message that the environment's text continues
    opening: tuple[Sequence[Any], str] = ((), "")  # tools, instructions
    last_action: TokenRecord | None = None  # row of the last action
    last_token: int = 0  # where in it that action ends

    def open(self, messages: Sequence[Message], tools: Sequence[Any], instructions: str) -> None:
        """Render the first prompt."""
        self.opening = (tools, instructions)
        self.history = list(messages)
        self.new_ids = self.template.render_prompt(self.history, *self.opening)
        self.rows.append(TokenRecord([], [], [], [], []))
        self.rows[-1].role = self.role

    def record(self, action: Action) -> None:
        """Append a sampled action to the current row."""
        row = self.rows[-1]
        row.ids += action.ids
        row.acted += action.acted
        row.ends_action += [False] * (len(action.ids) - 1) + [True]
        row.rollout_logprobs += action.logprobs
        row.rewards += [0.0] * len(action.ids)
        self.last_action = row
        self.last_token = len(row.ids) - 1

    def credit(self, reward: float) -> None:
        """Add a reward to the last action; a role that has not acted yet earned none of it."""
        if self.last_action is not None:
            self.last_action.rewards[self.last_token] += reward

    def speak(self, text: str) -> None:
        """Append the finished message of the policy to the history."""
        self.policy_messages.add(len(self.history))
        self.history.append({"role": "assistant", "content": self.unfinished + text})
        self.unfinished = ""

    def hear(self, messages: Sequence[Message]) -> None:
        """Append new messages to the history and render them as the next context."""
        self.history += messages
        if self.template.append_only:
            self.new_ids = self.template.render_delta(messages, self.rows[-1].ids[-1])
            return
        self.new_ids = self.template.render_full(
            self.history, *self.opening, trusted=sorted(self.policy_messages)
        )
        self.rows.append(TokenRecord([], [], [], [], []))
        self.rows[-1].role = self.role

    def go_on(self, text: str, observation: str, tags: Sequence[str]) -> None:
        """Let the environment's text continue the unfinished message of the policy."""
        self.unfinished += text + observation
        self.new_ids = self.template.encode_untrusted(observation, tags)

    def take_context(self, room: int | None = None) -> list[int]:
        """Move the new context to the current row, at most `room` tokens of it, and return it."""
        new_ids, self.new_ids = self.new_ids[:room], []
        row = self.rows[-1]
        row.ids += new_ids
        row.acted += [False] * len(new_ids)
        row.ends_action += [False] * len(new_ids)
        row.rollout_logprobs += [0.0] * len(new_ids)
        row.rewards += [0.0] * len(new_ids)
        return new_ids
