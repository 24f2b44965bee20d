"""Lists of tool schemas: OpenAI's, Anthropic's, MCP's or BFCL's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.lab.own_api.api import OwnApi, SpecificationError
from fctncalling.lab.own_api.specifications.collect import CollectedFunctions
from fctncalling.lab.own_api.specifications.references import ReferenceResolver
from fctncalling.lab.own_api.specifications.schema import SchemaReader

_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")  # OpenAI and BFCL, Anthropic, MCP
EXPECTED = (
    "expected a list of tools, each with name, description and parameters (OpenAI, BFCL), "
    "input_schema (Anthropic) or inputSchema (MCP)"
)


def api_of_tool_list(tools: Sequence[Any], spec: str, name: str) -> OwnApi:
    """Return the API of a list of tool schemas; SpecificationError where one is none."""
    collected = CollectedFunctions(spec)
    for number, given in enumerate(tools, 1):
        where = f"tool {number}"
        tool = given.get("function", given) if isinstance(given, Mapping) else given
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            raise SpecificationError(f"{spec}: {where}: {EXPECTED}, found {tool!r:.60}")
        where = f"{where} ({tool['name']:.60})"
        schema: Any = next((tool[key] for key in _SCHEMA_KEYS if key in tool), {})
        add_tool(collected, tool["name"], str(tool.get("description") or ""), schema, where)
    return collected.api(name)


def add_tool(
    collected: CollectedFunctions, name: str, description: str, schema: Any, where: str
) -> None:
    """Add one tool by the schema of its arguments."""
    if schema is not None and not isinstance(schema, Mapping):
        raise SpecificationError(
            f"{collected.spec}: {where}: expected a JSON Schema of its arguments, found "
            f"{schema!r:.60}"
        )
    reader = SchemaReader(ReferenceResolver(schema or {}, collected.spec), collected.spec)
    tree = reader.read(schema or {}, where)
    properties = tree.get("properties", {})
    needed = schema.get("required") if schema else None
    required = (
        [each for each in needed if isinstance(each, str)] if isinstance(needed, list) else []
    )
    collected.add(name, description, properties, required or tree.get("required", []), where)
    collected.notes.extend(reader.notes)
