"""Calls that stand in an assistant's text, in any form that the handlers read."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence

from fctncalling.conversations.conversation import Unreadable, loaded
from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.handlers import bears_call, get_handler
from fctncalling.envs.handlers.handler import MAX_TEXT_CHARS, DecodeError

_OBJECT = re.compile(
    r"<(?:tool_call|functioncall)>\s*(\{.*?\})\s*(?:</\w+>|<\|endoftext\|>|\Z)", re.DOTALL
)
_QUOTED = re.compile(r"""("arguments"\s*:\s*)'(.*)'(?=\s*\}\s*\Z)""", re.DOTALL)  # glaive's
_NO_IDENTIFIER = re.compile(r"\W")


def calls_in_text(text: str, functions: Sequence[FunctionDoc]) -> list[Call]:
    """Return the calls in a text; none of a text in words.

    functions: those on offer; their schemas give types to values in XML, and their names may have
    blanks (ToolACE's have). Unreadable for a text with the mark of a call that cannot be read.
    """
    if len(text) > MAX_TEXT_CHARS:
        return []
    spoken = {}
    for name in sorted((each.name for each in functions), key=len, reverse=True):
        if (plain := _NO_IDENTIFIER.sub("_", name)) != name and f"{name}(" in text:
            spoken[plain] = name
            text = text.replace(f"{name}(", f"{plain}(")
    text = _OBJECT.sub(_as_json, text)
    try:
        calls = get_handler("auto").decode(text, functions)
    except DecodeError as error:
        if bears_call(text) and not text.lstrip().startswith(("{", "`")):  # JSON may be an answer
            raise Unreadable(f"calls as text that cannot be read ({error.kind})") from None
        return []
    return [Call(spoken.get(each.name, each.name), each.arguments) for each in calls]


def _as_json(found: re.Match[str]) -> str:
    """Return a call in its tags as JSON, that may have been written as a literal of Python."""
    text = _QUOTED.sub(r"\1\2", found[1])
    try:
        value = loaded(text)
        value = ast.literal_eval(text) if isinstance(value, str) else value
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        text = found[1]  # the handler says what is wrong with it
    return f"<tool_call>\n{text}\n</tool_call>"
