"""Parser and writer of all call forms in `call_forms`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.handlers.call_forms import CallForm
from fctncalling.envs.handlers.call_marks import Way, flexible, is_opened, ways_of
from fctncalling.envs.handlers.handler import (
    CallFormat,
    DecodedAction,
    DecodeError,
    Handler,
    Record,
    calls_of_record,
    closing_bracket_end,
    escape_in_json,
    named_calls,
    parse_call_object,
    parse_json,
    parse_json_at,
    require_readable_text,
    require_shallow_nesting,
    to_json,
    without_thought,
)
from fctncalling.envs.handlers.python_calls import (
    PythonCalls,
    calls_of_expression,
    multi_turn_call_strings,
)
from fctncalling.envs.python_source.call_source import parse_expression

_CDATA = re.compile(r"<!\[CDATA\[(.*)\]\]>", re.DOTALL)
_KEY_OR_TEXT = re.compile(r'("(?:[^"\\]|\\.)*")(:?)')
_WHOLE = ("list", "lines", "python")  # holes that hold all calls
_BETWEEN_OBJECTS = re.compile(r"\s*+(?:[,;]\s*+)?(?:<\|python_tag\|>\s*+)?(?=\{)")


Opening = tuple[Way, re.Match[str]]


class FormCalls(CallFormat):
    """Handler of calls in one form of the table; text around calls is ignored.

    A text without the form's mark holds no calls; one of several calls that breaks is an error.
    """

    def __init__(self, form: CallForm) -> None:
        self.form = form
        self.name = form.name
        self._ways = ways_of(form)
        marks = form.marks if not form.alone else ()
        self._mark = re.compile("|".join(map(re.escape, marks))) if marks else None
        self._arguments = _ArgumentReader(form) if form.argument else None
        self.is_native = form.ways[0][1] != "python"

    def recognises(self, text: str) -> bool:
        """Whether a call of the form opens in the text."""
        try:
            return self._next(without_thought(text), 0) is not None
        except DecodeError:
            return True

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode a text to its calls; raises DecodeError."""
        require_readable_text(text)
        text = without_thought(text)
        return self.decode_from(text, self._next(text, 0), functions)

    decode_ast = Handler.decode_ast

    def decode_from(
        self, text: str, opened: Opening | None, functions: Sequence[FunctionDoc]
    ) -> DecodedAction:
        """Decode a text without thoughts from its first opening on; raises DecodeError."""
        record: Record = []
        end, alone = 0, self.form.alone
        while opened is not None:
            calls, end = self._calls_at(text, *opened, functions)
            record += calls
            opened = None if alone or end == len(text) else self._next(text, end)
            if self._arguments is not None:
                behind = text[end : opened[1].start() if opened else None]
                self._arguments.require_no_closing(behind)
        if alone and (end == 0 or text[end:].strip()):
            raise DecodeError("syntax", f"expected nothing but calls: {text[end : end + 40]!r}")
        calls_of = named_calls if self.is_native else calls_of_record
        return DecodedAction(record, calls_of, self.call_strings)

    def call_strings(self, calls: Sequence[Call]) -> list[str]:
        """Return the call strings as BFCL executes them; raises DecodeError."""
        return super().call_strings(calls) if self.is_native else multi_turn_call_strings(calls)

    def _next(self, text: str, index: int) -> Opening | None:
        """Find the next opening of a call; None if there is none.

        Raises DecodeError for a broken call.
        """
        if (opened := self.opening_at(text, index)) or self._mark is None:
            return opened
        for mark in self._mark.finditer(text, index):
            if opened := self.opening_at(text, mark.start()):
                return opened
            if mark[0] != self.form.opens.strip() and is_opened(text, mark):
                raise DecodeError("syntax", f"not a call: {text[mark.start() :][:80]!r}")
        return None

    def opening_at(self, text: str, index: int) -> Opening | None:
        """Match the opening of a call at an index, up to the beginning of its body."""
        for way in self._ways:
            if opened := way.opening.match(text, index):
                return way, opened
        return None

    def _calls_at(
        self, text: str, way: Way, opened: re.Match[str], functions: Sequence[FunctionDoc]
    ) -> tuple[Record, int]:
        """Parse the calls of an opened body; return them and the index after them."""
        index = opened.end()
        if way.body == "arguments":
            name = opened["name"]
            arguments, index = self._arguments_at(text, index, _properties(functions, name))
            record: Record = [{name: arguments}]
        elif way.body == "python":
            alone = self.form.alone  # nothing stands behind the list
            end = text.rfind("]") + 1 if alone else closing_bracket_end(text, index)
            record, index = calls_of_expression(text[index:end]), end
        else:
            record, index = self._objects_at(text, index)
        if not way.closing:
            return record, index
        closed = way.close.match(text, index)
        if closed is None:
            raise DecodeError("syntax", f"expected {way.closing[0]} at {text[index:][:40]!r}")
        return record, closed.end()

    def _arguments_at(
        self, text: str, index: int, declared: Mapping[str, Any]
    ) -> tuple[dict[str, Any], int]:
        if self._arguments is not None:
            pairs, index = self._arguments.pairs_at(text, index, declared)
            return _with_keys(pairs), index
        if not self.form.quote:
            return parse_json_at(text, index)  # an object, by its first character
        value, end = _braces_at(text, index, self.form.quote)
        if self.form.quote == "<escape>":  # around any value
            for key in set(value) & set(declared):
                if isinstance(value[key], str):
                    value[key] = typed_value(value[key], declared[key])
        return value, end

    def _objects_at(self, text: str, index: int) -> tuple[Record, int]:
        """Parse the calls of a JSON list, or of consecutive objects."""
        value, index = parse_json_at(text, index)
        values = value if isinstance(value, list) else [value]
        while isinstance(value, dict) and (behind := _BETWEEN_OBJECTS.match(text, index)):
            value, index = parse_json_at(text, behind.end())
            values.append(value)
        return [self._call_of(value) for value in values], index

    def _call_of(self, value: Any) -> dict[Any, Any]:
        if self.form.keys:
            return parse_call_object(value, "arguments", "parameters", name=self.form.keys[0])
        if not isinstance(value, dict) or len(value) != 1:
            raise DecodeError("shape", "expected each call as {name: arguments}")
        return value

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the calls between the marks around them all."""
        form = self.form
        groups = [[call] for call in calls]
        if form.ways[0][1] in _WHOLE:
            groups = [list(calls)]
        written = form.between.join(map(self._written, range(len(groups)), groups))
        text = form.around.replace("{calls}", written) if groups else "[]" * form.alone
        yield text
        yield escape_in_json(text)  # for parsers that look for marks in texts too

    def _written(self, number: int, calls: Sequence[Call]) -> str:
        """Write one call in the form, or all of them if the form has one list."""
        keys, pairs = self.form.keys, [(call.name, dict(call.arguments)) for call in calls]
        objects = [dict(zip(keys, pair, strict=True)) if keys else dict([pair]) for pair in pairs]
        holes: dict[str, Callable[[], str]] = {
            "name": lambda: calls[0].name,
            "number": lambda: str(number),
            "id": lambda: f"call{number:05}",
            "arguments": lambda: self._written_arguments(calls[0].arguments),
            "object": lambda: to_json(objects[0]),
            "list": lambda: to_json(objects),
            "lines": lambda: "\n".join(map(to_json, objects)),
            "python": lambda: PythonCalls().render(calls),
        }
        return _filled(self.form.ways[0], lambda hole: holes[hole]())

    def _written_arguments(self, arguments: Mapping[str, Any]) -> str:
        if self._arguments is not None:
            return "".join(self._arguments.written(*item) for item in arguments.items())
        if self.form.quote:
            return _in_braces(dict(arguments), self.form.quote)
        return to_json(dict(arguments))


def _properties(functions: Sequence[FunctionDoc], name: str) -> Mapping[str, Any]:
    """Return the schemas of a function's parameters; {} if it is not offered."""
    for doc in functions:
        if doc.name.replace(".", "_") == name.replace(".", "_"):
            return doc.parameters.get("properties") or {}
    return {}


def _filled(parts: Sequence[str], fill: Callable[[str], str]) -> str:
    """Fill the holes of a form's parts (literal, hole, literal, ...)."""
    return "".join(fill(part) if place % 2 else part for place, part in enumerate(parts))


class _ArgumentReader:
    """Reader and writer of arguments that are written between marks."""

    def __init__(self, form: CallForm) -> None:
        self._form = form
        self._parts = form.argument_parts
        groups = {"key": r'(?P<key>[^<>"]+?)', "type": r'(?P<type>[^"<>]*)', "value": "(.*?)"}
        pattern = ""
        for place, part in enumerate(self._parts):
            if place % 2:
                pattern += groups.pop(part, f"(?P={part})")
            else:  # a line break between a mark and the value is the mark's
                is_last = place + 1 == len(self._parts)
                behind = r"\n?" * (part.endswith("\n") and not is_last)
                pattern += r"\n?" * part.startswith("\n") + flexible(part) + behind
        end = form.ways[0][-1].split()
        follows = "|".join((flexible(self._parts[0]), re.escape(end[0]), r"\Z"))
        self._argument = re.compile(rf"\s*,?\s*{pattern}(?=\s*,?\s*(?:{follows}))", re.DOTALL)
        closing = "".join(self._parts[self._parts.index("value") + 1 :])
        self._closings = (closing.strip(), *end)

    def pairs_at(
        self, text: str, index: int, declared: Mapping[str, Any]
    ) -> tuple[list[tuple[str, Any]], int]:
        """Parse the (key, value) pairs of arguments at an index; return them and their end."""
        pairs = []
        while match := self._argument.match(text, index):
            key, kind = match["key"].strip(), match.groupdict().get("type")
            pairs.append((key, self._value(match[match.lastindex or 0], declared.get(key), kind)))
            index = match.end()
        return pairs, index

    def _value(self, text: str, declared: Any, kind: str | None) -> Any:
        if self._form.nested and text.startswith(self._parts[0]):
            return self._nested_value(text, declared)
        cdata = _CDATA.fullmatch(text) if self._form.cdata else None
        if cdata or (self._form.types and kind == self._form.types[0]):
            return cdata[1] if cdata else text
        return typed_value(text, {} if kind else declared)

    def _nested_value(self, text: str, declared: Any) -> Any:
        """Parse arguments within an argument to an object, or to a list of items."""
        schema = declared if isinstance(declared, Mapping) else {}
        inside = schema.get("properties") or {"item": schema.get("items")}
        try:
            pairs, end = self.pairs_at(text, 0, inside)
        except RecursionError:
            raise DecodeError("size", "nested deeper than is read") from None
        if end < len(text):
            raise DecodeError("syntax", f"not closed: {text[end:][:80]!r}")
        is_list = {key for key, _ in pairs} == {"item"}
        return [value for _, value in pairs] if is_list else _with_keys(pairs)

    def require_no_closing(self, text: str) -> None:
        """Raise DecodeError if text after calls has a closing mark: a value contained it."""
        for mark in self._closings:
            if mark in text:
                raise DecodeError("syntax", f"{mark} stands in a value, or closes nothing")

    def written(self, key: str, value: Any) -> str:
        """Write an argument in the form."""
        kind = (self._form.types or ("", ""))[0 if isinstance(value, str) else 1]
        holes = {"key": key, "type": kind, "value": self._text(value)}
        return _filled(self._parts, holes.__getitem__)

    def _text(self, value: Any) -> str:
        if self._form.nested and isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else (("item", v) for v in value)
            with suppress(DecodeError):  # such as lists in lists; JSON says any value
                text = "".join(self.written(*item) for item in items)
                if to_json(self._value(text, None, None)) == to_json(value):
                    return text
        return value if isinstance(value, str) else to_json(value)


def _with_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise DecodeError("shape", f"a key is given twice: {[key for key, _ in pairs]}"[:200])
    return values


def typed_value(text: str, declared: Any) -> Any:
    """Parse a value written as bare text by its schema: a text, else JSON or a Python literal.

    Without a schema, what is neither JSON nor a literal of several parts is a text.
    """
    kinds = declared.get("type") if isinstance(declared, Mapping) else None
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds or "char" in kinds:
        return None if "null" in kinds and text == "null" else text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _literal(text.strip())
        if kinds == [None] and isinstance(value, int | float) and not isinstance(value, bool):
            return text
    require_shallow_nesting(value, text)
    return text if isinstance(value, str) and kinds == [None] else value


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(parse_expression(text))
        repr(value)  # which integers of too many digits have none of
        return value
    except Exception:  # whatever a text that is no literal raises
        return text


def _braces_at(text: str, index: int, quote: str) -> tuple[dict[str, Any], int]:
    """Parse an object of bare keys and specially quoted texts; return it and its end."""
    parts, depth = list[str](), 0
    for token in _brace_tokens(quote).finditer(text, index):
        string, key, mark = token.groups()
        if mark is None:
            parts.append(json.dumps(string) if key is None else f"{json.dumps(key)}:")
            continue
        parts.append(mark)
        depth += (mark in "[{") - (mark in "]}")
        if depth == 0:
            return parse_json("".join(parts)), token.end()
    raise DecodeError("syntax", "expected } behind the arguments")


@cache
def _brace_tokens(quote: str) -> re.Pattern[str]:
    """Return the pattern of a quoted text, a key after { or a comma, or any character."""
    key = r"(?<=[{,])\s*([^\s:{},\[\]][^:{},\[\]]*):"
    return re.compile(rf"{re.escape(quote)}(.*?){re.escape(quote)}|{key}|(.)", re.DOTALL)


def _in_braces(value: Any, quote: str) -> str:
    """Write a value as JSON with bare keys and specially quoted texts."""

    def unquoted(token: re.Match[str]) -> str:
        text = json.loads(token[1])
        return f"{text}:" if token[2] else f"{quote}{text}{quote}"

    return _KEY_OR_TEXT.sub(unquoted, json.dumps(value, separators=(",", ":")))
