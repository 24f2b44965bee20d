"""OpenAI tool schemas of BFCL function docs.

Its types (dict, float, tuple, any, ...) become JSON Schema's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from fctncalling.data.types import FunctionDoc

JSON_TYPES: dict[str, str] = {
    "dict": "object",
    "object": "object",
    "HashMap": "object",
    "array": "array",
    "tuple": "array",
    "list": "array",
    "Array": "array",
    "ArrayList": "array",
    "string": "string",
    "String": "string",
    "str": "string",
    "char": "string",
    "integer": "integer",
    "int": "integer",
    "long": "integer",
    "short": "integer",
    "byte": "integer",
    "Bigint": "integer",
    "float": "number",
    "double": "number",
    "number": "number",
    "boolean": "boolean",
    "Boolean": "boolean",
    "bool": "boolean",
    "null": "null",
}
"""BFCL type -> JSON Schema type. A type that is not here ("any", "") leaves the value unrestricted.
"""

_KEPT = (
    "description",
    "enum",
    "default",
    "format",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
)


def openai_tool(doc: FunctionDoc) -> dict[str, Any]:
    """Return a function doc as a fresh OpenAI tool.

    Dots in its name stay (an API that forbids them renames).
    """
    parameters = json_schema(doc.parameters)
    parameters["type"] = (
        "object"  # the arguments themselves are one object, whatever a doc calls it
    )
    parameters.setdefault("properties", {})
    function = {"name": doc.name, "description": doc.description, "parameters": parameters}
    return {"type": "function", "function": function}


def json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a BFCL parameter description as a fresh JSON Schema, nested ones included.

    What JSON Schema does not know (`optional`, a `required` that is no list) is left out.
    """
    known = JSON_TYPES.get(str(schema.get("type", "")))
    result: dict[str, Any] = {} if known is None else {"type": known}
    result.update((key, copy.deepcopy(schema[key])) for key in _KEPT if key in schema)
    if isinstance(properties := schema.get("properties"), Mapping):
        result["properties"] = {
            name: json_schema(inner) if isinstance(inner, Mapping) else {}
            for name, inner in properties.items()
        }
    if isinstance(required := schema.get("required"), list | tuple):
        result["required"] = list(required)
    for key in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(key), Mapping):
            result[key] = json_schema(inner)
        elif isinstance(inner, bool):
            result[key] = inner
    return result
