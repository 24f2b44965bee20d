"""CallFormat, the base class of most handlers, and strict JSON helpers."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.handlers.handler import (
    DecodedAction,
    DecodeError,
    Handler,
    bfcl_call_strings,
    require_shallow_nesting,
)

Record = list[dict[Any, Any]]
"""BFCL's decoded form: [{function name: {parameter: value}}]."""

_DECODER = json.JSONDecoder()
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKET = r"|[()\[\]{}]"
IN_JSON = re.compile(r'"(?>(?:[^"\\]|\\.)*)"?' + _BRACKET, re.DOTALL)
IN_PYTHON = re.compile(rf"{IN_JSON.pattern}|'(?>(?:[^'\\]|\\.)*)'?", re.DOTALL)
"""Strings, with or without an end, and brackets."""


class CallFormat(Handler):
    """Call format: base class of those whose subclasses define only how to decode and to write.

    `decode_ast`, `candidate_texts`.
    """

    @abstractmethod
    def decode_ast(self, text: str) -> Record:
        """Decode a text as BFCL's AST decoder does, to its record; raises DecodeError."""

    @abstractmethod
    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield candidate texts of calls, the canonical one first.

        ValueError or TypeError for what has no text.
        """

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once: record, calls and call strings.

        Its calls raise DecodeError also where the record is no list of named calls.
        """
        return DecodedAction(self.decode_ast(text), calls_of_record, self.call_strings)

    def call_strings(self, calls: Sequence[Call]) -> list[str]:
        """Return the call strings `name(k=repr(v), ...)`, in order; raises DecodeError."""
        return bfcl_call_strings(calls)

    def render(self, calls: Sequence[Call]) -> str:
        """Render calls as their canonical text; ValueError for what the form cannot say."""
        expected = repr([Call(call.name, dict(call.arguments)) for call in calls])
        fault: object = "they would not read back: a tuple, a mark or a surrogate pair, perhaps"
        try:
            for text in self.candidate_texts(calls):
                with suppress(DecodeError):
                    if repr(self.decode(text, docs_of_calls(calls))) == expected:
                        return text
        except (TypeError, RecursionError) as error:
            fault = error
        raise ValueError(f"the form {self.name} cannot write the calls {expected[:200]}: {fault}")


def docs_of_calls(calls: Sequence[Call]) -> list[FunctionDoc]:
    """Return docs of functions that take what calls give them: texts, or anything else."""
    docs: dict[str, dict[str, Any]] = {}
    for call in calls:
        properties = docs.setdefault(call.name, {})
        for key, value in call.arguments.items():
            schema = {"type": "string" if isinstance(value, str) else "any"}
            # without a type where some values are texts and some are not
            properties[key] = schema if properties.get(key, schema) == schema else {}
    return [FunctionDoc(name, "", {"properties": each}) for name, each in docs.items()]


class NativeToolCallFormat(CallFormat):
    """Native tool-call format: base class of those of models with tools in their template.

    Their call strings have no blanks, as BFCL executes those.
    """

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once; raises DecodeError. Values in JSON all have a text."""
        return DecodedAction(self.decode_ast(text), named_calls, self.call_strings)

    def call_strings(self, calls: Sequence[Call]) -> list[str]:
        """Return the call strings `name(k=repr(v),...)`, in order."""
        return [
            f"{call.name}({','.join(f'{key}={value!r}' for key, value in call.arguments.items())})"
            for call in calls
        ]


def named_calls(record: Any) -> list[Call]:
    """Return the calls of a record, [{name: arguments}].

    Raises DecodeError for a bad name or bad arguments.
    """
    calls = []
    for each in record:
        name, arguments = next(iter(each.items()))
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise DecodeError("shape", "expected each call as a name and an object of arguments")
        calls.append(Call(name, arguments))
    return calls


def calls_of_record(record: Any) -> list[Call]:
    """Return the calls of a record with values in Python: DecodeError also for one without text."""
    calls = named_calls(record)
    try:
        repr([call.arguments for call in calls])
    except (ValueError, RecursionError) as error:  # integers over the interpreter's limit of digits
        raise DecodeError("value", f"an argument has no text: {error}") from None
    return calls


def parse_json(text: str) -> Any:
    """Parse a JSON text; raises DecodeError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError("syntax", f"not JSON: {error}") from None
    require_shallow_nesting(value, text)
    return value


def parse_json_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value that begins at an index of a text; return it and its end.

    Raises DecodeError.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise DecodeError("syntax", f"not JSON: {error}") from None
    require_shallow_nesting(value, text)
    return value, end


def skip_blanks(text: str, start: int) -> int:
    """Skip blanks (white space) of a text from `start` on: return the index behind them."""
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def closing_bracket_end(text: str, start: int, tokens: re.Pattern[str] = IN_PYTHON) -> int:
    """Return the closing index of the bracket at `start`: just behind the one that closes it.

    The text's end where there is none. `tokens`: brackets, and strings, which hide theirs.
    """
    depth = 0
    for token in tokens.finditer(text, start):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth == 0:
            return token.end()
    return len(text)


def parse_call_object(each: Any, *keys: str, name: str = "name") -> dict[Any, Any]:
    """Parse a call object, {"name": ..., <one of keys>: {...}}, to {name: arguments}.

    `name`: the key of the name, where it is another; "name" may stand for it. Raises DecodeError.
    """
    called = each.get(name, each.get("name")) if isinstance(each, dict) else None
    if not isinstance(called, str):
        raise DecodeError("shape", f'expected each call as an object with a "{name}"')
    present = [key for key in keys if key in each]
    if len(present) != 1 or not isinstance(each[present[0]], dict):
        raise DecodeError("shape", f"{called}: expected an object under {' or '.join(keys)}")
    return {called: each[present[0]]}


def to_json(value: Any) -> str:
    """Convert a value to JSON on one line.

    Characters beyond ASCII unescaped, lone surrogates escaped.
    """
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def escape_in_json(text: str, characters: str = "<}[") -> str:
    """Escape characters in the strings of a JSON text.

    The same value, without any mark.
    """
    table = str.maketrans({character: f"\\u{ord(character):04x}" for character in characters})
    return _JSON_STRING.sub(lambda string: string[0].translate(table), text)
