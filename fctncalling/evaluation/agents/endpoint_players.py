"""Player of an endpoint: one conversation, continued by requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fctncalling.data.types import Message
from fctncalling.envs.dialogue.conversations import (
    CONVERSATIONS,
    content_of,
    holds_calls,
)


class Endpoint(Protocol):
    """Interface of an endpoint for players."""

    def complete(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> dict[str, Any]:
        """Return the model's message."""
        ...

    def print_once(self, text: str) -> None:
        """Tell the user something, once."""
        ...


class EndpointPlayer:
    """One episode's conversation with an endpoint, in one of the forms of dialogue."""

    def __init__(self, endpoint: Endpoint, form: str) -> None:
        self._endpoint = endpoint
        self._form = form
        self._conversation = CONVERSATIONS[form]()

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the next message as an action."""
        conversation = self._conversation
        conversation.observe(observation, info)
        tools = info["tools"] if conversation.sends_tools else ()
        message = self._endpoint.complete(conversation.messages, tools)
        if self._form == "tool_call" and not message.get("tool_calls"):
            self._note_calls_in_text(content_of(message), tools)
        return conversation.action(message)

    def _note_calls_in_text(self, text: str, tools: Sequence[Any]) -> None:
        if holds_calls(text, tools):
            self._endpoint.print_once(
                "the endpoint returns calls as text, which --form tool_call takes for chat: with "
                "--form tools_text they are read (or start the server with a tool-call parser)"
            )
