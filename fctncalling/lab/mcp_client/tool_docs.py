"""Function docs of a server's tools: names a model can call, schemas as BFCL writes them.

What a server says is untrusted: names become identifiers, marks in descriptions are broken, long
ones cut, schemas reduced to what a prompt shows, references resolved to a bounded depth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.data.unsafe_text import TAGS, encodable_text, neutralise_marks, truncate_text
from fctncalling.envs.tools.box.callables import ToolDefinitionError

MAX_TOOLS = 512
MAX_DESCRIPTION, MAX_NAME, MAX_ENUM, MAX_DEPTH = 4_000, 64, 100, 6
_TYPES = {
    **{name: name for name in ("string", "integer", "boolean", "array")},
    "object": "dict",
    "number": "float",
}
_NUMBERS = ("minimum", "maximum", "minItems", "maxItems", "minLength")


@dataclass(frozen=True)
class ListedTool:
    """A tool as a server lists it."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    only_reads: bool | None = None  # as the server says of it (readOnlyHint)


@dataclass(frozen=True)
class McpFunction:
    """A tool as a model is shown it, and the names that the server knows it by."""

    doc: FunctionDoc
    server_name: str
    server_parameters: Mapping[str, str]  # a parameter's name in the doc -> the server's name


def mcp_functions(tools: Sequence[ListedTool], prefix: str, place: str) -> list[McpFunction]:
    """Return the functions of a server's tools.

    ToolDefinitionError, naming `place`, for two that would have one name, for too many, and for
    none.
    """
    if not tools:
        raise ToolDefinitionError(f"{place}: the server offers no tool")
    if len(tools) > MAX_TOOLS:
        raise ToolDefinitionError(
            f"{place}: the server offers {len(tools)} tools: expected at most {MAX_TOOLS}"
        )
    found: dict[str, McpFunction] = {}
    for tool in tools:
        function = _function(tool, prefix)
        if function.doc.name in found:
            raise ToolDefinitionError(f"{place}: two of its tools are called {function.doc.name!r}")
        found[function.doc.name] = function
    return list(found.values())


def _function(tool: ListedTool, prefix: str) -> McpFunction:
    schema = tool.input_schema
    definitions = {
        f"#/{key}/{name}": inner
        for key in ("$defs", "definitions")
        if isinstance(schema.get(key), Mapping)
        for name, inner in schema[key].items()
    }
    given = schema.get("properties")
    properties: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter, inner in given.items() if isinstance(given, Mapping) else ():
        name = _free_name(_identifier(str(parameter)), names)
        names[name] = str(parameter)
        properties[name] = _parameter(inner, definitions, MAX_DEPTH)
    listed = schema.get("required")
    needed = listed if isinstance(listed, list) else []
    required = [name for name, parameter in names.items() if parameter in needed]
    parameters = {"type": "dict", "properties": properties, "required": required}
    name = _identifier(f"{prefix}_{tool.name}" if prefix else tool.name)
    return McpFunction(FunctionDoc(name, _text(tool.description), parameters), tool.name, names)


def _identifier(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]", "_", name)[:MAX_NAME] or "_"
    return f"_{word}" if word[0].isdigit() else word


def _free_name(name: str, taken: Mapping[str, str]) -> str:
    while name in taken:
        name += "_"
    return name


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return truncate_text(
        neutralise_marks(encodable_text(value[: MAX_DESCRIPTION + 1]), TAGS), MAX_DESCRIPTION
    )


def _parameter(schema: Any, definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Return a JSON Schema as a BFCL parameter; {"type": "any"} for what has no single type."""
    if not isinstance(schema, Mapping) or depth == 0:
        return {"type": "any", "description": ""}
    description = _text(schema.get("description"))
    inner = _single(schema, definitions)
    if inner is not schema:
        found = _parameter(inner, definitions, depth - 1)
        return {**found, "description": description or found["description"]}
    kind = schema.get("type")
    if isinstance(kind, list):  # ["string", "null"]
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    result: dict[str, Any] = {
        "type": _TYPES.get(kind, "any") if isinstance(kind, str) else "any",
        "description": description,
    }
    result |= {key: schema[key] for key in _NUMBERS if isinstance(schema.get(key), int | float)}
    choices = schema.get("enum")
    if isinstance(choices, list) and len(choices) <= MAX_ENUM and all(map(_is_short, choices)):
        result["enum"] = list(choices)
    if _is_short(schema.get("default", [])):
        result["default"] = schema["default"]
    if isinstance(properties := schema.get("properties"), Mapping):
        result["properties"] = {
            str(name): _parameter(each, definitions, depth - 1)
            for name, each in properties.items()
            if _is_short(name)
        }
    if kind == "array":
        result["items"] = _parameter(schema.get("items"), definitions, depth - 1)
    return result


def _single(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    """Return what a schema stands for: a reference's definition, or the one choice besides null."""
    if isinstance(reference := schema.get("$ref"), str):
        return definitions.get(reference, {})
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(choices := schema.get(key), list):
            others = [each for each in choices if not _is_null(each)]
            return others[0] if len(others) == 1 else {}
    return schema


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def _is_short(value: Any) -> bool:
    """Whether a value can stand in a prompt as it is."""
    if isinstance(value, str):
        return len(value) <= MAX_NAME * 4 and neutralise_marks(encodable_text(value), TAGS) == value
    return value is None or isinstance(value, int | float)
