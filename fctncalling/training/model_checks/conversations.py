"""Conversations rendered by a chat template: whole, and grown message by message as in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.types import FunctionDoc, Message
from fctncalling.envs.prompting.tool_schemas import openai_tool

ANSWER = "fctnprobe Answer 1"
UNENDED = -1  # stands for an action's last id that is no end of turn: its closing is rendered too
PROBE_DOC = FunctionDoc(
    "fctnprobe.tool",
    "fctnprobedescription of a tool.",
    {
        "type": "dict",
        "properties": {
            "fctnprobetext": {"type": "string", "enum": ["fctnprobeenum", "b"]},
            "fctnproberate": {"type": "float"},
            "fctnprobepair": {"type": "tuple", "items": {"type": "integer"}},
            "fctnprobenest": {
                "type": "dict",
                "properties": {"fctnprobeinner": {"type": "boolean"}},
            },
        },
        "required": ["fctnprobetext"],
    },
)


def probe_tools() -> list[Any]:
    """Return one tool with every kind of BFCL type."""
    return [openai_tool(PROBE_DOC)]


def user_message(content: str) -> Message:
    """Return a user message."""
    return {"role": "user", "content": content}


def assistant_message(content: str) -> Message:
    """Return an assistant message."""
    return {"role": "assistant", "content": content}


def tool_message(content: str) -> Message:
    """Return a tool result."""
    return {"role": "tool", "name": "f(a='x')", "content": content}


def grown_text(
    template: ChatTemplate, exchanges: Sequence[tuple[str, Sequence[Message]]]
) -> tuple[str, str]:
    """Return a conversation as training grows it, and as the template writes it whole.

    exchanges: (what the policy answers, the messages behind it).
    """
    opening = ([user_message("fctnprobequestion")], probe_tools(), "instructions")
    ids = template.render_prompt(*opening)
    history, written = [*opening[0]], list[int]()
    for answer, messages in exchanges:
        ids = [*ids, *template.encode(answer), *template.render_delta(messages, UNENDED)]
        written.append(len(history))
        history += [assistant_message(answer), *messages]
    whole = template.render_full(history, opening[1], opening[2], trusted=written)
    return template.spell(ids), template.spell(whole)


def first_difference(one: str, other: str, width: int = 24) -> str:
    """Return what two texts hold where they part, each cut to `width` characters."""
    at = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    return f"{one[at : at + width]!r} became {other[at : at + width]!r}"
