"""The one parser and the one writer of the call forms in `call_forms`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.handlers.call_format import (
    NativeToolCallFormat,
    Record,
    calls_of_record,
    closing_bracket_end,
    parse_json,
    parse_json_at,
    skip_blanks,
    to_json,
)
from fctncalling.envs.handlers.call_forms import CallForm
from fctncalling.envs.handlers.call_marks import (
    NAME,
    WORD,
    form_at,
    is_opened,
    literal_end,
    opens_at,
)
from fctncalling.envs.handlers.handler import (
    DecodedAction,
    DecodeError,
    require_readable_text,
    require_shallow_nesting,
)
from fctncalling.envs.handlers.python_calls import PythonCalls, calls_of_expression
from fctncalling.envs.handlers.thoughts import split_thought
from fctncalling.envs.python_source.parse import parse_expression, require_small_source

_CDATA = re.compile(r"<!\[CDATA\[(.*)\]\]>", re.DOTALL)
_KEY = re.compile(r"(?<=[{,])\s*([^\s:{},\[\]][^:{},\[\]]*):")
_WHOLE = ("list", "lines", "python")  # holes that hold all calls
_BARE_CALL = re.compile(r"\s*+[\w.\-/]+\n\{")


class FormCalls(NativeToolCallFormat):
    """Calls in one form of the table: a handler. Thoughts and words around calls are ignored.

    A text without the form's mark holds no calls; one of several calls that breaks is an error.
    """

    def __init__(self, form: CallForm) -> None:
        self.form = form
        self.name = form.name
        self._mark = re.compile("|".join(re.escape(mark) for mark in form.marks if mark))
        self._arguments = _ArgumentReader(form) if form.argument else None

    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text: a call of the form opens in it."""
        return self._find(split_thought(text).rest, 0) is not None

    def decode_ast(self, text: str, functions: Sequence[FunctionDoc] = ()) -> Record:
        """Decode a text to the AST record of its calls; raises DecodeError."""
        require_readable_text(text)
        text = split_thought(text).rest
        properties = {
            doc.name.replace(".", "_"): doc.parameters.get("properties") or {} for doc in functions
        }
        record: Record = []
        start = self._find(text, 0)
        while start is not None:
            calls, end = self._calls_at(text, start, properties)
            record += calls
            start = self._find(text, end)
            if self._arguments is not None:
                self._arguments.require_no_closing(text[end:start])
        calls_of_record(record)
        return record

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once: record, calls and call strings."""
        return DecodedAction(self.decode_ast(text, functions), calls_of_record, self.call_strings)

    def _find(self, text: str, start: int) -> int | None:
        """Find the next call, whole or broken, behind the mark around them all."""
        if start == 0 and "" in self.form.marks and _BARE_CALL.match(text):
            return 0
        section = self.form.opens.strip()
        for found in self._mark.finditer(text, start):
            if found[0] != section and is_opened(text, found.start(), found[0]):
                form = form_at(text, found.start(), found[0])
                if form is None or form is self.form:
                    return found.start()
        return None

    def _calls_at(
        self, text: str, start: int, properties: Mapping[str, Mapping[str, Any]]
    ) -> tuple[Record, int]:
        """Return the calls that open at an index, and the index behind them."""
        ways = (way for way in self.form.ways if opens_at(self.form, way, text, start))
        way = next(ways, None)
        if way is None:
            raise DecodeError("syntax", f"expected a call at {text[start : start + 40]!r}")
        name, record, index = "", Record(), start
        for part, is_hole in zip(way, (False, True) * len(way), strict=False):
            if not is_hole:
                index = (
                    self._closed(part, text, index) if record else literal_end(part, text, index)
                )
                if index < 0:
                    raise DecodeError("syntax", f"expected {part.strip()}")
            elif part in ("name", "id", "number"):
                found = (NAME if part == "name" else WORD).match(text, index)
                if found is None:
                    raise DecodeError("shape", f"expected a name at {text[index : index + 40]!r}")
                name, index = (found[0] if part == "name" else name), found.end()
            elif part == "arguments":
                declared = properties.get(name.replace(".", "_"), {})
                arguments, index = self._arguments_at(text, index, declared, way[-1])
                record = [{name: arguments}]
            elif part == "python":
                end = closing_bracket_end(text, skip_blanks(text, index), "'\"")
                record, index = calls_of_expression(text[index:end].strip()), end
            else:
                record, index = self._objects_at(text, index)
        return record, index

    def _closed(self, literal: str, text: str, index: int) -> int:
        """Return the index behind a closing literal, of which the text's end may miss a part."""
        tokens = literal.split()
        for place, token in enumerate(tokens):
            if not text[index:].strip() and (place or self._arguments is None):
                return len(text)
            index = literal_end(token, text, index)
            if index < 0:
                break
        return index

    def _arguments_at(
        self, text: str, index: int, declared: Mapping[str, Any], closing: str
    ) -> tuple[Any, int]:
        if self._arguments is not None:
            return self._arguments.read(text, index, declared, closing)
        if not self.form.quote:
            value, end = parse_json_at(text, index)
            return _object(value), end
        value, end = _braces_at(text, index, self.form.quote)
        texts = self.form.quote == "<escape>"  # around any value
        return {
            key: typed_value(each, declared[key])
            if texts and isinstance(each, str) and key in declared
            else each
            for key, each in value.items()
        }, end

    def _objects_at(self, text: str, index: int) -> tuple[Record, int]:
        """Return the calls of a JSON list, or of objects one behind the other."""
        value, index = parse_json_at(text, index)
        values = value if isinstance(value, list) else [value]
        while not isinstance(value, list):
            behind = skip_blanks(text, index)
            if text[behind : behind + 1] in (",", ";"):
                behind = skip_blanks(text, behind + 1)
            if text[behind : behind + 1] != "{":
                break
            each, index = parse_json_at(text, behind)
            values.append(each)
        return [self._call_of(each) for each in values], index

    def _call_of(self, each: Any) -> dict[Any, Any]:
        if not isinstance(each, dict) or (not self.form.keys and len(each) != 1):
            raise DecodeError("shape", "expected each call as an object")
        if not self.form.keys:
            ((name, arguments),) = each.items()
        else:
            keys = (*self.form.keys[1:], "arguments", "parameters")
            name = each.get(self.form.keys[0])
            arguments = next((each[key] for key in keys if key in each), None)
        if not isinstance(name, str):
            raise DecodeError("shape", f'expected each call with a "{self.form.keys[0]}"')
        return {name: _object(arguments)}

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: the calls between the marks around them all."""
        if any(hole in _WHOLE for hole in self.form.ways[0][1::2]):
            written = [self._written(0, calls)] if calls else []
        else:
            written = [self._written(number, [call]) for number, call in enumerate(calls)]
        text = self.form.between.join(written)
        yield f"{self.form.opens}{text}{self.form.closes}" if calls else ""

    def _written(self, number: int, calls: Sequence[Call]) -> str:
        """Return one call in the form, or all of them where it writes them at once."""
        objects = [self._object_of(call) for call in calls]
        holes = {
            "name": lambda: calls[0].name,
            "number": lambda: str(number),
            "id": lambda: f"call{number:05}",
            "arguments": lambda: self._written_arguments(calls[0].arguments),
            "object": lambda: to_json(objects[0]),
            "list": lambda: to_json(objects),
            "lines": lambda: "\n".join(map(to_json, objects)),
            "python": lambda: PythonCalls().render(calls),
        }
        way = self.form.ways[0]
        return "".join(holes[part]() if place % 2 else part for place, part in enumerate(way))

    def _object_of(self, call: Call) -> dict[str, Any]:
        arguments = dict(call.arguments)
        return (
            dict(zip(self.form.keys, (call.name, arguments), strict=True))
            if self.form.keys
            else {call.name: arguments}
        )

    def _written_arguments(self, arguments: Mapping[str, Any]) -> str:
        if self._arguments is not None:
            return "".join(self._arguments.written(*item) for item in arguments.items())
        return (
            _in_braces(dict(arguments), self.form.quote)
            if self.form.quote
            else to_json(dict(arguments))
        )


class _ArgumentReader:
    """Reader and writer of arguments that stand between marks, a value each."""

    def __init__(self, form: CallForm) -> None:
        *before, closing = form.argument_parts
        self._form = form
        self._parts = before
        groups = {"key": r'(?P<key>[^<>"]+?)', "type": r'(?P<type>[^"<>]*)', "value": ""}
        pattern = "".join(
            groups[part] if place % 2 else _flexible(part) for place, part in enumerate(before)
        )
        self._opening = re.compile(rf"\s*,?\s*{pattern}" + r"\n?" * before[-2].endswith("\n"))
        self._next = _flexible(before[0])
        self._end = r"\n?" * closing.startswith("\n") + re.escape(closing.strip())
        self._closings = {closing.strip(), *form.ways[0][-1].split()}

    def read(
        self, text: str, index: int, declared: Mapping[str, Any], closing: str
    ) -> tuple[dict[str, Any], int]:
        """Read the arguments at an index; return them and the index behind them."""
        end = re.compile(
            rf"{self._end}(?=\s*,?\s*(?:{self._next}|{re.escape(closing.split()[0])}))"
        )
        arguments: dict[str, Any] = {}
        while opened := self._opening.match(text, index):
            closed = end.search(text, opened.end())
            if closed is None:
                raise DecodeError("syntax", f"expected {self._form.argument_parts[-1].strip()}")
            key, value = opened["key"].strip(), text[opened.end() : closed.start()]
            if key in arguments:
                raise DecodeError("shape", f"{key}: given twice")
            arguments[key] = self._value(value, declared.get(key), opened.groupdict().get("type"))
            index = closed.end()
        return arguments, index

    def _value(self, text: str, declared: Any, kind: str | None) -> Any:
        cdata = _CDATA.fullmatch(text) if self._form.cdata else None
        if cdata or (self._form.types and kind == self._form.types[0]):
            return cdata[1] if cdata else text
        return typed_value(text, {} if kind else declared)

    def require_no_closing(self, text: str) -> None:
        """Require that a text behind calls closes nothing: a value would have held the mark."""
        for each in self._closings:
            if each in text:
                raise DecodeError("syntax", f"{each} stands in a value, or closes nothing")

    def written(self, key: str, value: Any) -> str:
        """Return an argument as the form writes it."""
        is_text = isinstance(value, str)
        kind = (self._form.types or ("", ""))[0 if is_text else 1]
        holes = {"key": key, "type": kind, "value": value if is_text else to_json(value)}
        return "".join(
            holes[part] if place % 2 else part
            for place, part in enumerate(self._form.argument_parts)
        )


def _flexible(literal: str) -> str:
    """Return a pattern of a literal, with whatever blanks."""
    return r"\s*".join(map(re.escape, literal.split()))


def typed_value(text: str, declared: Any) -> Any:
    """Return a value written as bare text, by its schema: a text, else JSON or a Python literal.

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
        require_small_source(text)
        return ast.literal_eval(parse_expression(text))
    except Exception:  # whatever a text that is no literal raises
        return text


def _object(value: Any) -> Any:
    """Return arguments as an object, also where they are JSON text once more."""
    value = parse_json(value) if isinstance(value, str) else value
    if not isinstance(value, dict):
        raise DecodeError("shape", "expected the arguments as an object")
    return value


def _braces_at(text: str, index: int, quote: str) -> tuple[dict[str, Any], int]:
    """Return an object of bare keys, with texts between quotes of a form's own, and its end."""
    parts, depth, index = list[str](), 0, skip_blanks(text, index)
    while index < len(text):
        if text.startswith(quote, index):
            end = text.find(quote, index + len(quote))
            if end < 0:
                break
            parts.append(json.dumps(text[index + len(quote) : end]))
            index = end + len(quote)
            continue
        key = _KEY.match(text, index)
        if key:
            parts.append(json.dumps(key[1]) + ":")
            index = key.end()
            continue
        depth += (text[index] in "[{") - (text[index] in "]}")
        parts.append(text[index])
        index += 1
        if depth == 0:
            value = parse_json("".join(parts))
            return _object(value), index
    raise DecodeError("syntax", "expected } behind the arguments")


def _in_braces(value: Any, quote: str) -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            return (
                f"{{{','.join(f'{key}:{_in_braces(each, quote)}' for key, each in value.items())}}}"
            )
        case list() | tuple():
            return f"[{','.join(_in_braces(each, quote) for each in value)}]"
    return to_json(value)
