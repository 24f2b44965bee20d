"""Simulated users by name: "scripted", "rule", "rule:curt", "openai:MODEL@URL"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fctncalling.data.types import Message
from fctncalling.envs.users.language_model_user import EndpointChatModel, LanguageModelUser
from fctncalling.envs.users.rule_user import MIXED, REGISTERS, RuleUser


def scripted_user(conversation: list[Message], about: Mapping[str, Any]) -> str | None:
    """Return None, so that the task's next turn follows."""
    return None


class LoggedUser:
    """User that repeats the answers of a logged episode in order.

    None stands for the script's next turn. Raises LookupError where the episode asks once more
    than the log did.
    """

    def __init__(self, replies: Iterable[str | None]) -> None:
        self._replies = list(replies)
        self._count = 0

    def __call__(self, conversation: list[Message], about: Mapping[str, Any]) -> str | None:
        """Return the next logged answer."""
        if self._count >= len(self._replies):
            raise LookupError(f"the log has {self._count} answers of the user, and one more is due")
        self._count += 1
        return self._replies[self._count - 1]


User = Callable[[list[Message], Mapping[str, Any]], str | None]
"""(conversation, {"task_id", "category", "turn", "task"}) -> an answer within the turn, or None
for the task's next turn.
"""
NAMES = f"scripted, rule, rule:REGISTER ({', '.join((*REGISTERS, MIXED))}), openai:MODEL[@URL]"


def make_user(name: str, *, seed: int = 0) -> User:
    """Make a user by its name; ValueError, with the possible names, for an unknown one."""
    kind, _, rest = name.partition(":")
    if name == "scripted":
        return scripted_user
    if kind == "rule":
        return RuleUser(rest or MIXED, seed=seed)
    if kind == "openai" and rest:
        model, _, url = rest.partition("@")
        return LanguageModelUser(EndpointChatModel(model, url, seed=seed), name=f"openai:{model}")
    raise ValueError(f'user "{name}": expected one of {NAMES}')


def may_answer_slowly(user: User | str | None) -> bool:
    """Whether a user may be slow: all but those computed in this process."""
    if isinstance(user, str):
        return not user.startswith(("rule", "scripted"))
    return not (user is None or user is scripted_user or isinstance(user, RuleUser))
