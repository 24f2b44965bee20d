"""JSON formats of calls: plain JSON, BFCL's, Llama 3, OpenAI messages.

Where BFCL has a decoder of the form, what differs from it is said at the class. Names are left as
they came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from fctncalling.data.types import Call, FunctionDoc, tool_call
from fctncalling.envs.handlers.call_format import (
    CallFormat,
    NativeToolCallFormat,
    Record,
    parse_call_object,
    parse_json,
    parse_json_at,
    skip_blanks,
    to_json,
    tool_call_strings,
)
from fctncalling.envs.handlers.handler import (
    DecodedAction,
    DecodeError,
    Handler,
    require_readable_text,
)
from fctncalling.envs.handlers.python_calls import (
    PythonCalls,
    calls_of_expression,
    multi_turn_call_strings,
)

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
OPENING = re.compile(
    r'\s*+(?>(?:```(?:json)?\s*+)?)\[?+\s*+\{(?:\s*+"((?>(?:[^"\\]|\\.)*))"\s*+:)?'
)
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
        text = pythonic_source(text)
        if not (text.startswith("[") and text.endswith("]")):
            raise DecodeError("shape", "expected a list of calls in brackets")
        return calls_of_expression(text)

    def call_strings(self, calls: Sequence[Call]) -> list[str]:
        """Return the call strings, as BFCL executes them; raises DecodeError."""
        return multi_turn_call_strings(calls)

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: the bare list."""
        yield PythonCalls().render(calls)


def pythonic_source(text: str) -> str:
    """Return the source of pythonic calls: the text without the tags around it."""
    return _without_tag(text).rstrip().removesuffix(_PYTHON_END).rstrip()


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


class BfclFunctionCalls(Handler):
    """BFCL function calls, its function-calling form: a handler of [{name: arguments}] in JSON.

    Dots in names were sent as underscores; decoding leaves names as they came.
    """

    name = "tool_calls"

    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text: a JSON list of objects opens it."""
        return text.lstrip().removeprefix("[").lstrip().startswith("{")

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once: record, calls and call strings.

        Its calls raise DecodeError also where arguments are no JSON object.
        """
        return DecodedAction(self.decode_ast(text), _calls_of, _call_strings)

    def decode_ast(self, text: str) -> list[dict[str, Any]]:
        """Decode as BFCL's AST decoder does: [{name: arguments}]; the arguments may be any JSON.

        Raises DecodeError.
        """
        listed = _parse(text)
        if not isinstance(listed, list):
            # BFCL walks over whatever it gets, so an empty object or string holds no calls, and no
            # error either.
            if listed in ({}, ""):
                return []
            raise DecodeError(
                "shape", f"expected a JSON list of calls, got {type(listed).__name__}"
            )
        return [_official_call(each) for each in listed]

    def render(self, calls: Sequence[Call]) -> str:
        """Render calls as their canonical text; ValueError for values JSON cannot say."""
        for call in calls:
            if not all(isinstance(key, str) for key in call.arguments) or not _is_json(
                dict(call.arguments)
            ):
                raise ValueError(
                    f"call {call.name!r}: its arguments are not JSON: {call.arguments!r}"
                )
        text = json.dumps([{call.name: json.dumps(dict(call.arguments))} for call in calls])
        # JSON cannot tell the two halves of a surrogate pair from the character that they spell.
        if "\\ud" in text and repr(self.decode(text)) != repr(
            [Call(call.name, dict(call.arguments)) for call in calls]
        ):
            raise ValueError(
                f"{self.name}: surrogate pairs would read back as characters: {text[:200]}"
            )
        return text


def _calls_of(record: list[dict[str, Any]]) -> list[Call]:
    calls = []
    for each in record:
        name, arguments = next(iter(each.items()))
        if not isinstance(arguments, dict):
            raise DecodeError("shape", f"{name}: expected the arguments as a JSON object")
        calls.append(Call(name, arguments))
    return calls


def _call_strings(calls: Sequence[Call]) -> list[str]:
    try:
        return tool_call_strings(calls)
    except (ValueError, RecursionError) as error:
        raise DecodeError("value", f"an argument has no text: {error}") from None


def _official_call(each: Any) -> dict[str, Any]:
    if not isinstance(each, dict) or not each:
        raise DecodeError("shape", "expected each call as {name: arguments}")
    name, arguments = next(iter(each.items()))  # BFCL reads the first key and no other
    if not isinstance(arguments, str):
        raise DecodeError("shape", f"{name}: expected the arguments as JSON text")
    return {name: _parse(arguments)}


def _parse(text: str) -> Any:
    require_readable_text(text)
    return parse_json(text)


def _is_json(value: Any) -> bool:
    match value:
        case None | bool() | int() | float() | str():
            return True
        case list():
            return all(map(_is_json, value))
        case dict():
            return all(isinstance(key, str) for key in value) and all(map(_is_json, value.values()))
    return False
