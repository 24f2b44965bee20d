"""BFCL's return formats (format sensitivity): JSON, XML and tagged, decoded bug for bug.

BFCL first strips backticks, line breaks and blanks and puts "[" and "]" around the text, whatever
the format, and then looks for the tag (where one was asked for) and for the calls in it; hence text
around them does no harm. Its regular expressions are replaced by searches that find the same and
never take longer than the text is long.

XML is `<functions>` of `<function name="...">`. Entities cannot be declared: what is parsed begins
with <functions>, and behind the root's opening no document type may stand. An argument says its
type; array, tuple, object and dict are Python literals, parsed and never run.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call
from fctncalling.envs.handlers.handler import (
    FENCE,
    CallFormat,
    DecodeError,
    Handler,
    Record,
    bracketed,
    escape_in_json,
    require_shallow_nesting,
    to_json,
)
from fctncalling.envs.handlers.python_calls import (
    PythonCalls,
    calls_of_expression,
    failed_reading,
    multi_turn_call_strings,
)
from fctncalling.envs.python_source.call_source import (
    parse_expression,
    python_literal,
    require_small_source,
)

OPEN_TAG, CLOSE_TAG = "<TOOLCALL>", "</TOOLCALL>"
_OPENED_TAG = rf"{OPEN_TAG}\s*+(?>(?:```json)?)(?>(?:```xml)?)[{FENCE}]*+"


class CallText(NamedTuple):
    """How a return format writes calls, and how BFCL reads them."""

    beginning: str  # pattern of what stands behind the tag
    syntax: str  # pattern of a text with calls, from there on
    read: Callable[[str], Record]  # a text without its tag; raises DecodeError
    write: Callable[[Sequence[Call]], Iterable[str]]  # candidate texts, the canonical one first


class ReturnFormat(CallFormat):
    """Handler of one return format of BFCL's format sensitivity.

    `tagged` where calls must be inside <TOOLCALL> and </TOOLCALL>.
    """

    def __init__(self, form: str, *, tagged: bool) -> None:
        self.format = form  # BFCL's name of it
        self.tagged = tagged
        self._text = text = CALL_TEXTS[form]
        opening = f"{_OPENED_TAG}(?={text.beginning})" if tagged else ""
        self._calls = re.compile(f"{opening}(?s:{text.syntax})")
        self.name = f"bfcl_{form}{'_tagged' if tagged else ''}"

    def recognises(self, text: str) -> bool:
        """Whether the text, after a tag, opens calls of the format."""
        start = text.find(OPEN_TAG)
        if self.tagged:
            return self._calls.match(text, start) is not None
        return self._calls.match(text, 0, len(text) if start < 0 else start) is not None

    def decode_ast(self, text: str) -> Record:
        """Decode a text as BFCL's AST decoder does, to its record; raises DecodeError."""
        text = bracketed(text)
        return self._text.read(_between(text, OPEN_TAG, CLOSE_TAG).strip() if self.tagged else text)

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield candidate texts of calls, tagged if the variant is."""
        for text in self._text.write(calls):
            yield f"{OPEN_TAG}{text}{CLOSE_TAG}" if self.tagged else text

    def call_strings(self, calls: Sequence[Call]) -> list[str]:
        """Return the call strings, as BFCL executes them; raises DecodeError."""
        is_python = self.format == "python"
        return multi_turn_call_strings(calls) if is_python else super().call_strings(calls)


def _between(text: str, opening: str, closing: str) -> str:
    """Return the text between the first opening mark and the next closing one."""
    inside, mark, _ = text.partition(opening)[2].partition(closing)
    if not mark:
        raise DecodeError("shape", f"expected calls between {opening} and {closing}")
    return inside


def _python_texts(calls: Sequence[Call]) -> Iterable[str]:
    text = PythonCalls().render(calls)
    yield text
    yield text.replace("<", "\\x3c")  # in a string, where alone it can stand


_FIRST_OBJECT, _LAST_OBJECT = re.compile(r"\[\s*+\{"), re.compile(r"\}\s*+\]")


def _json_record(text: str) -> Record:
    """Decode the first bracketed part that could list objects.

    Malformed JSON holds no calls and is no error. A list in an argument whose last item is an
    object ends the calls for BFCL, so such calls cannot be written.
    """
    start, end = text.find("["), text.rfind("]")
    if 0 <= start < end:
        text = text[start : end + 1]
    try:
        listed = json.loads(first_list_of_objects(text))
    except json.JSONDecodeError:
        return []
    except (ValueError, RecursionError) as error:  # digits or depth without end
        raise DecodeError("size", f"more than is read: {error}") from None
    require_shallow_nesting(listed, text)
    if not isinstance(listed, list | dict | str):
        raise DecodeError("shape", "expected a list of calls")
    return [_function_call(item) for item in listed if isinstance(item, dict)]


def _json_texts(calls: Sequence[Call]) -> Iterable[str]:
    """Yield the fenced list, then the list with marks escaped."""
    text = to_json([{"function": call.name, "parameters": dict(call.arguments)} for call in calls])
    yield f"```json\n{text}\n```"
    yield f"```json\n{escape_in_json(text)}\n```"


def _function_call(item: dict[str, Any]) -> dict[Any, Any]:
    if "function" not in item or "parameters" not in item:
        raise DecodeError("shape", 'expected each call as {"function": ..., "parameters": ...}')
    if isinstance(item["function"], list | dict):
        raise DecodeError("shape", "expected the function's name as text")
    return {item["function"]: item["parameters"]}


def first_list_of_objects(text: str) -> str:
    r"""Return the first list of JSON objects in a text, else the whole text.

    BFCL's pattern is `\[\s*{.*?}\s*(?:,\s*{.*?}\s*)*\]`, where the dot matches all. Brackets and
    braces are not paired: from the first "[{" on, the list ends behind the first "}]".
    """
    if (opened := _FIRST_OBJECT.search(text)) and (end := _LAST_OBJECT.search(text, opened.end())):
        return text[opened.start() : end.end()]
    return text


_OPEN, _CLOSE = "<functions>", "</functions>"
_OPENED = r".*?<functions>\s*(?:<(?!/)|\Z)"  # rather than named
_CONTAINERS = {list: "array", tuple: "tuple", dict: "dict"}
_LITERAL_TYPES = ("array", "tuple", "object", "dict")
_ESCAPES = {'"': "&quot;", "\n": "&#10;"}
XmlArgument = tuple[str | None, str, str]  # name, text, type


def _xml_record(text: str, arguments_of: Callable[[Element], Iterable[XmlArgument]]) -> Record:
    """Decode the first closed <functions> element; raises DecodeError.

    `arguments_of`: yields a function's arguments; KeyError if an attribute is missing.
    """
    text = f"{_OPEN}{_between(text, _OPEN, _CLOSE)}{_CLOSE}"
    try:
        root = ElementTree.fromstring(text)
        functions = [
            (element.attrib["name"], list(arguments_of(element)))
            for element in root.findall("function")
        ]
        values = chain.from_iterable(arguments for _, arguments in functions)
        require_small_source(*(text for _, text, kind in values if kind in _LITERAL_TYPES))
        return [
            {name: {key: _READERS.get(kind, str)(text) for key, text, kind in arguments}}
            for name, arguments in functions
        ]
    except ElementTree.ParseError as error:
        raise DecodeError("syntax", f"not XML: {error}") from None
    except KeyError as error:
        raise DecodeError("shape", f"expected an attribute {error}") from None
    except Exception as error:  # a number or literal that is none; half a surrogate pair
        raise failed_reading(error) from None


def _xml_texts(calls: Sequence[Call], argument: str, arguments: str = "{}") -> Iterable[str]:
    """Yield the calls in XML; strings that XML would change become literals.

    `argument`: an argument as an element, with what is escaped for {name}, {text} and {kind};
    `arguments`: what stands around those of a function.
    """
    functions = ""
    for call in calls:
        inside = ""
        for name, value in call.arguments.items():
            text, kind = _typed(value)
            inside += argument.format(name=_escaped(name), text=_escaped(text), kind=kind)
        inside = arguments.format(inside)
        functions += f'<function name="{_escaped(call.name)}">{inside}</function>'
    yield f"{_OPEN}{functions}{_CLOSE}"


def _verbose_arguments(function: Element) -> Iterable[XmlArgument]:
    """Yield the arguments in <params>, or in the function; a value not given is empty."""
    params = function.find("params")
    for param in (function if params is None else params).findall("param"):
        get = param.attrib.get
        yield get("name"), get("value", ""), get("type", "string")


def _concise_arguments(function: Element) -> Iterable[XmlArgument]:
    """Yield the arguments directly below the function."""
    for param in function.findall("param"):
        attributes = param.attrib
        yield attributes["name"], (param.text or "").strip(), attributes.get("type", "string")


def _literal(text: str) -> Any:
    value = ast.literal_eval(parse_expression(text.lstrip(" \t")))
    require_shallow_nesting(value, text)
    return value


_READERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "float": float,
    "boolean": lambda text: text.lower() == "true",
    "null": lambda text: None,
    **dict.fromkeys(_LITERAL_TYPES, _literal),
}
"""Type -> what reads its value; another one's is text."""


def _typed(value: Any) -> tuple[str, str]:
    """Return a value's text and the type that it is read back with."""
    match value:
        case None:
            return "", "null"
        case bool():
            return str(value).lower(), "boolean"
        case int():
            return str(value), "integer"
        case float():
            return repr(value), "float"
        case str() if value == value.strip() and value.replace("\n", "").isprintable():
            return value, "string"
        case list() | tuple() | dict():
            return python_literal(value), _CONTAINERS[type(value)]
    return python_literal(value), "object"


def _escaped(text: str) -> str:
    return escape(text, _ESCAPES)


CALL_TEXTS = {
    "python": CallText(r"(?!<|\[?\s*\{)", r".*?\w\(", calls_of_expression, _python_texts),
    "json": CallText(
        r"\[?\s*\{",
        r'(?=.*"parameters").*"function"\s*:\s*"',
        _json_record,
        _json_texts,
    ),
    "concise_xml": CallText(
        "<",
        rf"(?=(?>(?:[^< ]++|<(?!params)| (?!value=))*)\Z){_OPENED}",
        partial(_xml_record, arguments_of=_concise_arguments),
        partial(_xml_texts, argument='<param name="{name}" type="{kind}">{text}</param>'),
    ),
    "verbose_xml": CallText(
        "<",
        _OPENED,  # the other one is asked first
        partial(_xml_record, arguments_of=_verbose_arguments),
        partial(
            _xml_texts,
            argument='<param name="{name}" value="{text}" type="{kind}"/>',
            arguments="<params>{}</params>",
        ),
    ),
}
"""BFCL's return format -> how calls are written in it."""

RETURN_HANDLERS: dict[tuple[str, bool], Handler] = {
    (form, tagged): ReturnFormat(form, tagged=tagged)
    for form in CALL_TEXTS
    for tagged in (False, True)
}
RETURN_HANDLERS["python", False] = PythonCalls()
"""(BFCL's return format, whether it is tagged) -> the handler that reads and writes it."""


def variant_handler(variant: PromptVariant) -> Handler:
    """Return the handler of a variant's return format, tagged or not.

    Its name is the variant's, which words the instructions.
    """
    handler = copy(RETURN_HANDLERS[variant.return_format, variant.tagged])
    handler.name = str(variant)
    handler.variant = variant
    return handler
