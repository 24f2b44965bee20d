"""Function docs of a server's tools: callable names, and schemas as BFCL writes them.

What a server says is untrusted: names become identifiers, marks in descriptions are broken, long
ones cut, schemas read as those of any specification.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.data.unsafe_text import TAGS, encodable_text, neutralise_marks, truncate_text
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.specification.api import SpecificationError, parameter_doc
from fctncalling.specification.document import ReferenceResolver
from fctncalling.specification.schema import SchemaReader

MAX_TOOLS = 512
MAX_DESCRIPTION, MAX_NAME, MAX_ENUM = 4_000, 64, 100


@dataclass(frozen=True)
class ListedTool:
    """Tool as a server lists it."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    only_reads: bool | None = None  # as the server says of it (readOnlyHint)


@dataclass(frozen=True)
class McpFunction:
    """Tool as models see it, with the names that the server uses."""

    doc: FunctionDoc
    server_name: str
    server_parameters: Mapping[str, str]  # a parameter's name in the doc -> the server's name


def mcp_functions(tools: Sequence[ListedTool], prefix: str, place: str) -> list[McpFunction]:
    """Convert a server's tools to functions.

    ToolDefinitionError, naming `place`, for two that would have one name, for too many, and for
    none.
    """
    if not tools:
        raise ToolDefinitionError(f"{place}: the server offers no tool")
    if len(tools) > MAX_TOOLS:
        raise ToolDefinitionError(
            f"{place}: the server offers {len(tools)} tools: expected at most {MAX_TOOLS}"
        )
    functions: dict[str, McpFunction] = {}
    for tool in tools:
        function = _function(tool, prefix)
        if function.doc.name in functions:
            raise ToolDefinitionError(f"{place}: two of its tools are called {function.doc.name!r}")
        functions[function.doc.name] = function
    return list(functions.values())


def _function(tool: ListedTool, prefix: str) -> McpFunction:
    schema = tool.input_schema
    reader = SchemaReader(ReferenceResolver(schema, tool.name), tool.name, first_type=False)
    schemas = schema.get("properties")
    properties: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter, inner in schemas.items() if isinstance(schemas, Mapping) else ():
        name = _identifier(str(parameter))
        while name in names:
            name += "_"
        names[name] = str(parameter)
        tree: dict[str, Any] = {}
        with suppress(SpecificationError):
            tree = reader.read(inner, name) if isinstance(inner, Mapping) else {}
        properties[name] = _without_marks(parameter_doc(tree))
    listed = schema.get("required")
    needed = listed if isinstance(listed, list) else []
    required = [name for name, parameter in names.items() if parameter in needed]
    parameters = {"type": "dict", "properties": properties, "required": required}
    name = _identifier(f"{prefix}_{tool.name}" if prefix else tool.name)
    return McpFunction(FunctionDoc(name, _text(tool.description), parameters), tool.name, names)


def _identifier(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]", "_", name)[:MAX_NAME] or "_"
    return f"_{word}" if word[0].isdigit() else word


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return truncate_text(
        neutralise_marks(encodable_text(value[: MAX_DESCRIPTION + 1]), TAGS), MAX_DESCRIPTION
    )


def _without_marks(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Remove marks from a parameter's texts, nested ones included."""
    result = {key: doc[key] for key in ("type", "minimum", "maximum") if key in doc}
    result["description"] = _text(doc.get("description"))
    choices = doc.get("enum", [])
    if 0 < len(choices) <= MAX_ENUM and all(map(_is_short, choices)):
        result["enum"] = choices
    result |= {key: doc[key] for key in ("default", "format") if _is_short(doc.get(key, []))}
    if "properties" in doc:
        inner = {name: schema for name, schema in doc["properties"].items() if _is_short(name)}
        result["properties"] = {name: _without_marks(schema) for name, schema in inner.items()}
    if "items" in doc:
        result["items"] = _without_marks(doc["items"])
    return result


def _is_short(value: Any) -> bool:
    """Whether a value is short enough for a prompt."""
    if isinstance(value, str):
        return len(value) <= MAX_NAME * 4 and neutralise_marks(encodable_text(value), TAGS) == value
    return value is None or isinstance(value, int | float)
