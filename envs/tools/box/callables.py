"""Wrap functions, callables and smolagents/transformers tools.

`as_tool` takes a Python function (its schema is read from the signature and a Google-style
docstring), any callable from text to text, or an object in the form of smolagents' and
transformers' `Tool` (name, description, inputs). How a tool is run, with its time limit, is
`toolbox.py`'s.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

from fctncalling.data.types import FunctionDoc

DEFAULT_TIMEOUT_S, DEFAULT_OUTPUT_LENGTH = 30.0, 10_000
_SIMPLE = {
    str: "string",
    int: "integer",
    float: "float",
    bool: "boolean",
    dict: "dict",
    list: "array",
    tuple: "tuple",
}
_SEQUENCES = (
    list,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
)
_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Returns|Return|Raises|Yields|Examples?|Notes?)\s*:\s*$"
)
_ARGUMENTS = ("Args", "Arguments", "Parameters")
_FIELD = re.compile(r"^:(?:(?:param|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)|\w+[^:]*)\s*:\s*(.*)$")
_RULE = re.compile(r"^-{3,}\s*$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


class ToolDefinitionError(TypeError):
    """Error of an object that cannot be a tool; the message names what is missing."""


@dataclass(frozen=True)
class Tool:
    """Callable with its documentation and limits."""

    doc: FunctionDoc
    function: Callable[..., Any]
    # Wall seconds, after which the process that runs it is killed; None: inline, no limit.
    timeout_s: float | None
    max_output_length: int = DEFAULT_OUTPUT_LENGTH  # characters of its result that are kept

    @property
    def name(self) -> str:
        """Name by which a model calls the tool."""
        return self.doc.name


def as_tool(
    source: Any,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    max_output_length: int = DEFAULT_OUTPUT_LENGTH,
) -> Tool:
    """Wrap a function, a callable object, or a smolagents/transformers Tool as a tool.

    With a `timeout_s` it runs in a process of its own, which gets a copy of it: what it changes in
    memory stays there. With None it runs inline, for what is quick and trusted; nothing can stop it
    then.
    """
    if isinstance(source, Tool):
        return source
    if _is_tool_object(source):
        doc, function = _doc_of_tool_object(source, name, description)
    elif callable(source) and not isinstance(source, type):
        doc, function = _doc_of_callable(source, name, description), _called_by_name(source)
    else:
        raise ToolDefinitionError(
            f"{source!r:.100} is no tool: expected a callable, or an object with name, description "
            "and inputs"
        )
    if not _NAME.fullmatch(doc.name):
        raise ToolDefinitionError(f"{doc.name!r} is no name a model could call: pass name=...")
    if timeout_s is not None and not timeout_s > 0:
        raise ToolDefinitionError(
            f"tool {doc.name}: timeout_s is {timeout_s!r}; expected a positive number or None"
        )
    return Tool(doc, function, timeout_s, max_output_length)


# --- smolagents and transformers
# ------------------------------------------------------------------------------------


def _is_tool_object(source: Any) -> bool:
    return isinstance(getattr(source, "inputs", None), Mapping) and isinstance(
        getattr(source, "name", None), str
    )


def _doc_of_tool_object(
    source: Any, name: str | None, description: str | None
) -> tuple[FunctionDoc, Callable[..., Any]]:
    inputs, own_name = source.inputs, source.name
    function = source if callable(source) else getattr(source, "forward", None)
    if function is None:
        raise ToolDefinitionError(f"tool object {own_name!r} is not callable and has no forward()")
    properties: dict[str, Any] = {}
    for parameter, described in inputs.items():
        kind = described.get("type", "any")
        if isinstance(kind, list):  # of several types, in smolagents
            others = [other for other in kind if other != "null"]
            kind = others[0] if len(others) == 1 else "any"
        kind = {"number": "float", "object": "dict"}.get(kind, kind)
        properties[parameter] = {"type": kind, "description": described.get("description", "")}
    required = [
        parameter for parameter, described in inputs.items() if not described.get("nullable")
    ]
    text = description or str(getattr(source, "description", ""))
    return FunctionDoc(name or own_name, text, _parameters(properties, required)), function


# --- functions
# --------------------------------------------------------------------------------------------------


def _doc_of_callable(
    function: Callable[..., Any], name: str | None, description: str | None
) -> FunctionDoc:
    name = name or str(getattr(function, "__name__", type(function).__name__))
    documented: Any = function if inspect.isroutine(function) else type(function).__call__
    summary, described = parse_docstring(
        inspect.getdoc(function) if inspect.isroutine(function) else _doc_of_object(function)
    )
    signature = _signature(function)
    hints = _hints(documented)
    properties: dict[str, Any] = {}
    required: list[str] = []
    parameters = list(signature.parameters.values())
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ToolDefinitionError(
                f"tool {name}: *{parameter.name} cannot be described to a model; name its "
                "parameters"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY and len(parameters) > 1:
            raise ToolDefinitionError(
                f"tool {name}: {parameter.name} is positional-only; models call by keyword"
            )
        # A lone parameter without a type is the classic tool from text to text.
        lone_text = len(parameters) == 1 and parameter.name not in hints
        schema: dict[str, Any] = (
            {"type": "string"} if lone_text else type_schema(hints.get(parameter.name, Any))
        )
        schema["description"] = described.get(parameter.name, "")
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif isinstance(parameter.default, str | int | float | bool | list | dict):
            schema["default"] = parameter.default
        properties[parameter.name] = schema
    return FunctionDoc(name, description or summary, _parameters(properties, required))


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        # written in C and silent about it: taken for a tool from text to text
        return inspect.Signature([inspect.Parameter("query", inspect.Parameter.POSITIONAL_ONLY)])


class _ByPosition:
    """Caller by name of a function with one positional-only parameter, such as `str.upper`."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, **keywords: Any) -> Any:
        return self.function(*keywords.values())


def _called_by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = list(_signature(function).parameters.values())
    lone = len(parameters) == 1 and parameters[0].kind is inspect.Parameter.POSITIONAL_ONLY
    return _ByPosition(function) if lone else function


def _doc_of_object(source: Any) -> str | None:
    return inspect.getdoc(type(source).__call__) or inspect.getdoc(type(source))


def _hints(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # a name that exists only for type checkers: the types stay open
        return {}


def _parameters(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "dict", "properties": properties, "required": required}


def type_schema(annotation: Any) -> dict[str, Any]:
    """Return BFCL's schema of a parameter with a type annotation.

    {"type": "any"} for what a model need not know.
    """
    if annotation in _SIMPLE:
        return {"type": _SIMPLE[annotation]}
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        return type_schema(inner[0]) if len(inner) == 1 else {"type": "any"}
    if origin is Literal:
        kinds = {type(value) for value in arguments}
        return {
            "type": _SIMPLE.get(kinds.pop(), "any") if len(kinds) == 1 else "any",
            "enum": list(arguments),
        }
    if origin is typing.Annotated:
        return type_schema(arguments[0])
    if origin is dict or origin is collections.abc.Mapping:
        return {"type": "dict"}
    if origin is tuple or origin in _SEQUENCES:
        items = {"items": type_schema(arguments[0])} if arguments else {}
        return {"type": "tuple" if origin is tuple else "array", **items}
    return {"type": "any"}


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Parse a docstring (Google, reST, NumPy) to its text and {parameter: description}."""
    summary: list[str] = []
    described: dict[str, str] = {}
    section, argument, before = "", "", ""
    for line in (text or "").splitlines():
        stripped = line.strip()
        if field := _FIELD.match(line):
            section, argument = "field", field[1] or ""
        elif heading := _SECTION.match(line):
            section, argument = heading[1], ""
        elif _RULE.match(line) and (heading := _SECTION.match(f"{before}:")):
            described.pop(before, None)
            summary = summary if section else summary[:-1]
            section, argument = "numpy" if heading[1] in _ARGUMENTS else "other", ""
        elif not section:
            summary.append(stripped)
        elif section in _ARGUMENTS and (match := _ARGUMENT.match(stripped)) and _indent(line) <= 4:
            argument, described[match[1]] = match[1], match[2]
        elif section == "numpy" and stripped and not _indent(line):
            argument = stripped.partition(":")[0].strip()
            described[argument] = ""
        elif argument and stripped:
            described[argument] = f"{described[argument]} {stripped}".strip()
        if field and argument:
            described[argument] = field[2]
        before = stripped
    return " ".join(part for part in summary if part), described


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
