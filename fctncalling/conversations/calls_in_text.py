"""Calls that stand in an assistant's text, in any form that the handlers read."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace

from fctncalling.conversations.conversation import Unreadable, loaded
from fctncalling.data.types import Call
from fctncalling.envs.handlers import bears_call, get_handler
from fctncalling.envs.handlers.handler import MAX_TEXT_CHARS, DecodeError
from fctncalling.specification.api import OwnApi

_OBJECT = re.compile(
    r"<(?:tool_call|functioncall)>\s*(\{.*?\})\s*(?:</\w+>|<\|endoftext\|>|\Z)", re.DOTALL
)
_QUOTED = re.compile(r"""("arguments"\s*:\s*)'(.*)'(?=\s*\}\s*\Z)""", re.DOTALL)  # glaive's


def calls_in_text(text: str, api: OwnApi) -> list[Call]:
    """Return the calls in a text; none of a text in words.

    api: the functions on offer; their schemas give types to values in XML, and their own names may
    have blanks (ToolACE's have). Unreadable for the mark of a call that cannot be read.
    """
    if len(text) > MAX_TEXT_CHARS:
        return []
    functions = list(api.functions)
    for doc in api.functions:
        if doc.name in api.origins and (logged := api.origins[doc.name]["name"]) != doc.name:
            functions.append(replace(doc, name=logged))
            text = re.sub(rf"(?<!\w){re.escape(logged)}(?=\()", doc.name, text)
    text = _OBJECT.sub(_as_json, text)
    try:
        return get_handler("auto").decode(text, functions)
    except DecodeError as error:
        if bears_call(text) and not text.lstrip().startswith(("{", "`")):  # JSON may be an answer
            raise Unreadable(f"calls as text that cannot be read ({error.kind})") from None
        return []


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
