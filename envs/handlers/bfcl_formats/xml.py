"""BFCL's two XML return formats, `<functions>` of `<function name="...">`, bug for bug.

Entities cannot be declared: what is parsed begins with <functions>, and behind the root's opening
no document type may stand. An argument says its type; array, tuple, object and dict are Python
literals, parsed and never run.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from fctncalling.data.types import Call
from fctncalling.envs.handlers.bfcl_formats.json_and_tagged import ReturnFormat
from fctncalling.envs.handlers.call_format import Record
from fctncalling.envs.handlers.handler import DecodeError, require_shallow_nesting
from fctncalling.envs.python_source.parse import (
    SourceTooLarge,
    parse_expression,
    require_small_source,
)
from fctncalling.envs.python_source.render import python_literal

_OPEN, _CLOSE = "<functions>", "</functions>"
_CONTAINERS = {list: "array", tuple: "tuple", dict: "dict"}
_LITERAL_TYPES = ("array", "tuple", "object", "dict")
_ESCAPES = {'"': "&quot;", "\n": "&#10;"}


class XmlReturn(ReturnFormat):
    """XML return: base class of the two formats."""

    def has_call_syntax(self, text: str) -> bool:
        """Whether the text has call syntax: the root element and arguments."""
        return _OPEN in text and self.has_arguments(text)

    def begins_like_calls(self, text: str) -> bool:
        """Whether the text begins like XML calls: with an element."""
        return text.startswith("<")

    @abstractmethod
    def has_arguments(self, text: str) -> bool:
        """Whether the text has arguments as this format writes them."""

    @abstractmethod
    def parse_arguments(self, function: Element) -> Iterable[tuple[str | None, str, str]]:
        """Parse the arguments: (name, text, type) each; KeyError where BFCL misses an attribute."""

    @abstractmethod
    def write_argument(self, name: str, text: str, kind: str) -> str:
        """Write one argument as an XML element, from texts that are escaped."""

    @abstractmethod
    def wrap_arguments(self, arguments: str) -> str:
        """Wrap the arguments of a function in the element around them, if there is one."""

    def decode_untagged(self, text: str) -> Record:
        """Decode untagged: the first closed <functions>; raises DecodeError."""
        start = text.find(_OPEN)
        end = text.find(_CLOSE, start + len(_OPEN))
        if start < 0 or end < 0:
            raise DecodeError("shape", f"expected calls between {_OPEN} and {_CLOSE}")
        try:
            root = ElementTree.fromstring(text[start : end + len(_CLOSE)])
            functions = [
                (each.attrib["name"], list(self.parse_arguments(each)))
                for each in root.findall("function")
            ]
            require_small_source(
                *(
                    text
                    for _, given in functions
                    for _, text, kind in given
                    if kind in _LITERAL_TYPES
                )
            )
            return [
                {name: {key: _value(text, kind) for key, text, kind in given}}
                for name, given in functions
            ]
        except DecodeError:
            raise
        except ElementTree.ParseError as error:
            raise DecodeError("syntax", f"not XML: {error}") from None
        except KeyError as error:
            raise DecodeError("shape", f"expected an attribute {error}") from None
        except (RecursionError, MemoryError):
            raise DecodeError("size", "nested deeper than is read") from None
        except SourceTooLarge as error:
            raise DecodeError("size", str(error)) from None
        except Exception as error:  # a number or literal that is none; half a surrogate pair
            raise DecodeError("value", f"an argument cannot be read: {error}") from None

    def untagged_candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one untagged candidate text; strings that XML would not keep are literals."""
        functions = (
            f'<function name="{_escaped(call.name)}">'
            + self.wrap_arguments(
                "".join(self._argument(key, value) for key, value in call.arguments.items())
            )
            + "</function>"
            for call in calls
        )
        yield f"{_OPEN}{''.join(functions)}{_CLOSE}"

    def _argument(self, key: str, value: Any) -> str:
        text, kind = _typed(value)
        return self.write_argument(_escaped(key), _escaped(text), kind)


class VerboseXml(XmlReturn):
    """Verbose XML, a format: `<params><param name="a" value="1" type="integer"/></params>`."""

    format = "verbose_xml"

    def has_arguments(self, text: str) -> bool:
        """Whether the text has arguments in verbose XML: values in attributes."""
        return "<params" in text or " value=" in text or "<param" not in text

    def parse_arguments(self, function: Element) -> Iterable[tuple[str | None, str, str]]:
        """Parse the arguments inside <params>, or of the function: yield (name, text, type).

        A value not given is empty.
        """
        params = function.find("params")
        for param in (function if params is None else params).findall("param"):
            yield (
                param.attrib.get("name"),
                param.attrib.get("value", ""),
                param.attrib.get("type", "string"),
            )

    def write_argument(self, name: str, text: str, kind: str) -> str:
        """Write one argument as a <param/> element."""
        return f'<param name="{name}" value="{text}" type="{kind}"/>'

    def wrap_arguments(self, arguments: str) -> str:
        """Wrap the arguments in <params>."""
        return f"<params>{arguments}</params>"


class ConciseXml(XmlReturn):
    """Concise XML, a format: `<param name="a" type="integer">1</param>`."""

    format = "concise_xml"

    def has_arguments(self, text: str) -> bool:
        """Whether the text has arguments in concise XML: values between tags."""
        return "<params" not in text and " value=" not in text

    def parse_arguments(self, function: Element) -> Iterable[tuple[str | None, str, str]]:
        """Parse the arguments directly below the function: yield (name, text, type)."""
        for param in function.findall("param"):
            yield (
                param.attrib["name"],
                (param.text or "").strip(),
                param.attrib.get("type", "string"),
            )

    def write_argument(self, name: str, text: str, kind: str) -> str:
        """Write one argument as a <param> element."""
        return f'<param name="{name}" type="{kind}">{text}</param>'

    def wrap_arguments(self, arguments: str) -> str:
        """Wrap the arguments in nothing: this format has no element around them."""
        return arguments


def _value(text: str, kind: str) -> Any:
    match kind:
        case "integer":
            return int(text)
        case "float":
            return float(text)
        case "boolean":
            return text.lower() == "true"
        case "null":
            return None
        case _ if kind in _LITERAL_TYPES:
            value = ast.literal_eval(parse_expression(text.lstrip(" \t")))
            require_shallow_nesting(value, text)
            return value
    return text


def _typed(value: Any) -> tuple[str, str]:
    """Return the text of a value and the type that reads it back."""
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
