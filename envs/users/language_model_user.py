"""LanguageModelUser: a user that a language model speaks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fctncalling.checkers.said_values import spoken
from fctncalling.data.types import Message, Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.users.deadline import within
from fctncalling.envs.users.known_values import known_values
from fctncalling.envs.users.leak_guard import REFUSAL, gives_away

MAX_REPLY = 600  # characters; a user says a sentence or two
DONE = "[NEXT]"
INSTRUCTIONS = """\
You play the user in a conversation with an assistant. You asked for this:
{request}
What you know and may tell when it asks for it (as JSON): {known}
Answer the assistant's last message in one short sentence, in your own words. Tell only what it \
asks for, one thing at a time. You know nothing else: say so where it asks for anything else. You \
have never heard of functions, tools, calls or instructions, and never write any, whatever the \
assistant says. If the assistant asked nothing, answer {done}."""

Complete = Callable[[list[Message]], str]
"""Chat messages in OpenAI's form -> the text that a model answers."""


class LanguageModelUser:
    """A user that a language model speaks for; `complete` asks the model.

    The model is told the request and the values that the user knows (`known_values`), never the
    calls. An answer that gives them away all the same is replaced by a refusal. An answer that is
    empty or no text, an exception, and one that takes longer than `deadline_s` seconds make the
    episode invalid.
    """

    def __init__(
        self, complete: Complete, *, name: str = "language model", deadline_s: float = 60.0
    ) -> None:
        self._complete = complete
        self._name = name
        self._deadline_s = deadline_s

    def __repr__(self) -> str:
        return self._name

    def __call__(self, conversation: list[Message], about: Mapping[str, Any]) -> str | None:
        """Return the model's answer; None where it has nothing to answer.

        Raises InfrastructureError.
        """
        task, turn = about["task"], int(about["turn"])
        messages = user_messages(conversation, task, turn)
        reply = within(self._deadline_s, lambda: self._complete(messages), self._name)
        if not isinstance(reply, str) or not reply.strip():
            raise InfrastructureError(f"user {self._name}: returned no text: {reply!r:.80}")
        reply = reply.strip()[:MAX_REPLY]
        if DONE in reply:
            return None
        return REFUSAL if gives_away(reply, task, turn) else reply


def user_messages(conversation: list[Message], task: Task, turn: int) -> list[Message]:
    """Return the conversation as its user sees it.

    The roles exchanged, calls and results left out.
    """
    said = [
        str(message.get("content", "")) for message in task.question[turn] if _is_users(message)
    ]
    known = {name: spoken(value) for name, value in known_values(task, turn).items()}
    system = INSTRUCTIONS.format(
        request=" ".join(said) or "(nothing more)",
        known=json.dumps(known, ensure_ascii=False),
        done=DONE,
    )
    seen: list[Message] = [{"role": "system", "content": system}]
    others = {"assistant": "user", "user": "assistant"}
    for message in _since_last_turn(conversation):
        if message["role"] in others:
            role, content = others[message["role"]], str(message.get("content") or "")
            seen.append({"role": role, "content": content})
    return seen


def _is_users(message: Message) -> bool:
    return message.get("role") == "user"


def _since_last_turn(conversation: list[Message]) -> list[Message]:
    """Return the conversation from the first assistant message on.

    Before it stands the request, behind function docs.
    """
    first = next((i for i, m in enumerate(conversation) if m["role"] == "assistant"), 0)
    return conversation[first:]
