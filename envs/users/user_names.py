"""Users by name: "scripted", "rule", "rule:curt", "openai:MODEL@URL"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fctncalling.data.types import Message
from fctncalling.envs.users.endpoint_completion import EndpointCompletion
from fctncalling.envs.users.language_model_user import LanguageModelUser
from fctncalling.envs.users.rule_user import MIXED, REGISTERS, RuleUser
from fctncalling.envs.users.scripted_user import scripted_user

User = Callable[[list[Message], Mapping[str, Any]], str | None]
"""(conversation, {"task_id", "category", "turn", "task"}) -> an answer within the turn, or None
for the task's next turn.
"""
NAMES = f"scripted, rule, rule:REGISTER ({', '.join((*REGISTERS, MIXED))}), openai:MODEL[@URL]"


def make_user(name: str, *, seed: int = 0) -> User:
    """Return the user of a name; ValueError, naming those there are, for an unknown one."""
    kind, _, rest = name.partition(":")
    if name == "scripted":
        return scripted_user
    if kind == "rule":
        return RuleUser(rest or MIXED, seed=seed)
    if kind == "openai" and rest:
        model, _, url = rest.partition("@")
        return LanguageModelUser(EndpointCompletion(model, url, seed=seed), name=f"openai:{model}")
    raise ValueError(f'user "{name}": expected one of {NAMES}')


def may_wait(user: User | str | None) -> bool:
    """Whether a user may take its time: all but those whose answers are computed here at once."""
    if isinstance(user, str):
        return not user.startswith(("rule", "scripted"))
    return not (user is None or user is scripted_user or isinstance(user, RuleUser))
