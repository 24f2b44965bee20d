"""JSON formats of calls: plain JSON, Hermes and Qwen, Llama 3, and OpenAI messages.

Where BFCL has a decoder of the form, what differs from it is said at the class. Names are left as
they came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from fctncalling.data.types import Call, tool_call
from fctncalling.envs.handlers.call_format import (
    CallFormat,
    NativeToolCallFormat,
    Record,
    escape_in_json,
    parse_call_object,
    parse_json,
    parse_json_at,
    skip_blanks,
    to_json,
)
from fctncalling.envs.handlers.handler import DecodeError, require_readable_text
from fctncalling.envs.handlers.python_calls import (
    PythonCalls,
    calls_of_expression,
    multi_turn_call_strings,
)

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
OPENING = re.compile(r'\s*+(?:```(?:json)?\s*+)?+\[?+\s*+\{(?:\s*+"((?:[^"\\]|\\.)*+)"\s*+:)?')
_CALL_KEYS = ("name", "arguments", "parameters", "type", "id")
_TOOL_CALL_KEYS = ("id", "type", "function", "index")
_FUNCTION_OBJECT = re.compile(r'"function"\s*:\s*\{')
_PYTHON_TAGS = ("<|python_tag|>", "<|python_start|>")
_PYTHON_END = "<|python_end|>"


def call_to_json(call: Call, key: str) -> dict[str, Any]:
    """Return a call as a JSON object, {"name": ..., key: arguments}."""
    return {"name": call.name, key: dict(call.arguments)}


def first_key(text: str) -> str | None:
    """Return the first key of the JSON object that opens a text, else None.

    It tells the formats apart.
    """
    opening = OPENING.match(text)
    return opening[1] if opening else None


class JsonCalls(NativeToolCallFormat):
    """JSON calls, bare: a handler of {"name", "arguments"} or {"name", "parameters"}.

    Fenced or bare.
    """

    name = "json_calls"

    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text: objects open it, and both keys are there."""
        keys = '"arguments"' in text or '"parameters"' in text
        return first_key(text) in _CALL_KEYS and '"name"' in text and keys

    def decode_ast(self, text: str) -> Record:
        """Decode a text, nothing but JSON, to the AST record of its calls; raises DecodeError."""
        require_readable_text(text)
        text = text.strip()
        fenced = _FENCED.fullmatch(text)
        value = parse_json(fenced[1] if fenced else text)
        listed = [value] if isinstance(value, dict) else value
        if not isinstance(listed, list):
            raise DecodeError("shape", "expected a list of calls")
        return [parse_call_object(each, "arguments", "parameters") for each in listed]

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: the bare list."""
        yield to_json([call_to_json(call, "arguments") for call in calls])


class HermesCalls(NativeToolCallFormat):
    """Hermes calls, and Qwen's: a handler of {"name", "arguments"} between <tool_call> tags.

    Other text is ignored.

    As in BFCL's handler of Qwen: what stands before the last </think> does not count, a block that
    is no JSON is skipped in silence, and a block that is no call spoils them all.
    """

    name = "hermes_calls"
    _open, _close = "<tool_call>\n", "\n</tool_call>"

    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text: a tag opens, and it is no list or object."""
        return "<tool_call>" in text and not text.lstrip("`\n ").startswith(("[", "{"))

    def decode_ast(self, text: str) -> Record:
        """Decode a text to the AST record of the calls between tags. Raises DecodeError."""
        require_readable_text(text)
        text = text.rpartition("</think>")[2]
        record = []
        for block in self._blocks(text):
            try:
                value = parse_json(block)
            except DecodeError:
                continue
            record.append(parse_call_object(value, "arguments"))
        return record

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield candidate texts: a tagged object a call, then with marks in strings escaped."""
        for write in (to_json, lambda value: escape_in_json(to_json(value))):
            yield "\n".join(
                f"{self._open}{write(call_to_json(call, 'arguments'))}{self._close}"
                for call in calls
            )

    def _blocks(self, text: str) -> Iterable[str]:
        start = text.find(self._open)
        while start >= 0:
            end = text.find(self._close, start + len(self._open))
            if end < 0:
                return
            yield text[start + len(self._open) : end]
            start = text.find(self._open, end + len(self._close))


class LlamaJsonCalls(NativeToolCallFormat):
    """Llama JSON calls: a handler of {"name", "parameters"}, behind <|python_tag|> or not.

    Several are parted by ";" or ",".
    """

    name = "llama_json_calls"

    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text: an object behind the tag."""
        rest = _without_tag(text)
        tagged = len(rest) < len(text.lstrip())
        keys = first_key(text) in _CALL_KEYS and '"name"' in text and '"parameters"' in text
        return rest.startswith("{") and (tagged or keys)

    def decode_ast(self, text: str) -> Record:
        """Decode a text to the AST record of its calls; raises DecodeError."""
        require_readable_text(text)
        text = _without_tag(text).rstrip()
        if text.startswith("["):
            return [parse_call_object(each, "parameters", "arguments") for each in parse_json(text)]
        record, end = [], 0
        while True:
            value, end = parse_json_at(text, end)
            record.append(parse_call_object(value, "parameters", "arguments"))
            end = skip_blanks(text, end)
            if end == len(text):
                return record
            if text[end] not in ";,":
                raise DecodeError("syntax", f'expected ";" between calls at character {end}')
            end = skip_blanks(text, end + 1)
            end += len(_PYTHON_TAGS[0]) if text.startswith(_PYTHON_TAGS[0], end) else 0

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: the objects with "; " between them."""
        yield (
            "; ".join(to_json(call_to_json(call, "parameters")) for call in calls)
            if calls
            else "[]"
        )


class LlamaPythonicCalls(CallFormat):
    """Llama pythonic calls, 3.2's and 4's: a handler, with or without <|python_start|>.

    Values are read as in BFCL's prompting form; brackets must be there.
    """

    name = "llama_pythonic_calls"

    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text: a list opens it, behind a tag perhaps."""
        return _without_tag(text).startswith("[")

    def decode_ast(self, text: str) -> Record:
        """Decode a text to the AST record of its list's calls; raises DecodeError."""
        require_readable_text(text)
        text = _without_tag(text).rstrip().removesuffix(_PYTHON_END).rstrip()
        if not (text.startswith("[") and text.endswith("]")):
            raise DecodeError("shape", "expected a list of calls in brackets")
        return calls_of_expression(text)

    def call_strings(self, calls: Sequence[Call]) -> list[str]:
        """Return the call strings, as BFCL executes them; raises DecodeError."""
        return multi_turn_call_strings(calls)

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: the bare list."""
        yield PythonCalls().render(calls)


def _without_tag(text: str) -> str:
    text = text.lstrip()
    for tag in _PYTHON_TAGS:
        text = text.removeprefix(tag)
    return text.lstrip()


class OpenAIMessages(NativeToolCallFormat):
    """OpenAI messages of an assistant with `tool_calls`, or that list alone: a handler.

    Arguments are JSON text there; an object, as chat templates want it, is read too. A message
    without calls is content, hence holds none.
    """

    name = "openai_messages"

    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text: a message with `tool_calls`, or their list."""
        key = first_key(text)
        if key in _TOOL_CALL_KEYS:
            return _FUNCTION_OBJECT.search(text) is not None
        return key in ("role", "content", "tool_calls") and '"tool_calls"' in text

    def decode_ast(self, text: str) -> Record:
        """Decode a message to the AST record of its calls; raises DecodeError."""
        require_readable_text(text)
        value = parse_json(text)
        if isinstance(value, dict):
            if "tool_calls" not in value and not ("role" in value and "content" in value):
                raise DecodeError("shape", 'expected a message with "tool_calls"')
            value = value.get("tool_calls") or []
        if not isinstance(value, list):
            raise DecodeError("shape", "expected a list of tool calls")
        return [_function_call(each) for each in value]

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: a message without content."""
        tool_calls = [
            tool_call(f"call_{number}", call.name, to_json(dict(call.arguments)))
            for number, call in enumerate(calls)
        ]
        yield to_json({"role": "assistant", "content": None, "tool_calls": tool_calls})


def _function_call(each: Any) -> dict[Any, Any]:
    if not isinstance(each, dict) or each.get("type", "function") != "function":
        raise DecodeError("shape", 'expected tool calls of type "function"')
    function = each.get("function")
    if not isinstance(function, dict):
        raise DecodeError("shape", 'expected each tool call with a "function"')
    arguments = function.get("arguments")
    parsed = parse_json(arguments) if isinstance(arguments, str) else arguments
    return parse_call_object({**function, "arguments": parsed}, "arguments")
