"""Calls found in a text, whatever form it is written in."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from fctncalling.data.types import Call
from fctncalling.envs.handlers.lenient import closing_index
from fctncalling.envs.python_source.parse import parse_expression

MAX_SCANNED_CHARS = 30_000
_CALL = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_][\w.]*)\(")
_OPENING = re.compile(r"[\[{]")
_NAME_KEYS = ("name", "function", "function_name", "tool_name", "tool", "action", "recipient_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "kwargs", "input", "params", "action_input")
_TAGS = ("functions", "TOOLCALL", "tool_call", "function_calls")
_NESTS = ("tool_calls", "function", "functions", "calls", "function_call", "tool_uses")


def call_spans(text: str, names: Collection[str] | None = None) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of calls written `f(...)` that stand in no other one.

    Of these names only, where given.
    """
    position = 0
    text = text[:MAX_SCANNED_CHARS]
    while found := _CALL.search(text, position):
        position = found.end()
        if text[: found.start()].endswith("def "):
            continue
        if names is not None and found["name"] not in names:
            continue
        end = closing_index(text, position - 1, "'\"")
        yield found.start(), end
        position = end


def is_cut(text: str) -> bool:
    """Whether a text ends inside a call, an object or a thought that it opened."""
    if text.count("<think>") > text.count("</think>"):
        return True
    for start, end in call_spans(text):
        if end >= len(text[:MAX_SCANNED_CHARS]) and not text.rstrip("`\n ]").endswith(")"):
            return text[start:].count("(") > text[start:].count(")")
    if any(f"<{tag}>" in text and f"</{tag}>" not in text for tag in _TAGS):
        return True
    opening = re.search(r"\{\s*\"", text)
    return (
        opening is not None
        and closing_index(text, opening.start(), '"') == len(text)
        and not text.rstrip("`\n ]").endswith("}")
    )


def json_calls(text: str, names: Collection[str]) -> list[Call]:
    """Return the calls that the JSON values (or Python dicts) of a text hold, in order.

    Read are {"name", "arguments"} under their usual other names, nested as APIs nest them, and
    {function: {arguments}} where the function is one of `names`.
    """
    return [call for value in _values(text[:MAX_SCANNED_CHARS]) for call in _calls(value, names)]


def _values(text: str) -> Iterator[Any]:
    """Yield every JSON object and list of a text, outermost ones only."""
    decoder, position = json.JSONDecoder(), 0
    while found := _OPENING.search(text, position):
        position = found.end()
        try:
            value, end = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            end = closing_index(text, found.start(), "'\"")
            try:
                value = ast.literal_eval(parse_expression(text[found.start() : end]))
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                continue
        yield value
        position = end


def _calls(value: Any, names: Collection[str], depth: int = 0) -> Iterator[Call]:
    if depth > 6:
        return
    if isinstance(value, list):
        for each in value:
            yield from _calls(each, names, depth + 1)
    if not isinstance(value, dict):
        return
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is not None:
        given: Any = next((value[key] for key in _ARGUMENT_KEYS if key in value), {})
        arguments = _object(given)
        if arguments is not None:
            yield Call(name.removeprefix("functions."), arguments)
        return
    for key, inner in value.items():
        if key in names and isinstance(inner, dict | str) and _object(inner) is not None:
            yield Call(key, _object(inner) or {})
        elif key in _NESTS:
            yield from _calls(inner, names, depth + 1)


def _object(given: Any) -> dict[str, Any] | None:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except (ValueError, RecursionError):
            return None
    return given if isinstance(given, dict) else None
