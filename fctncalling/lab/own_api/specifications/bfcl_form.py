"""Function docs with BFCL's types from plain schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.data.unsafe_text import encodable_text

MAX_DESCRIPTION = 2_000
TYPES = {"object": "dict", "number": "float"}
_KEPT = ("enum", "default", "format", "minimum", "maximum")
MAX_ENUM = 200


def function_doc(
    name: str, description: str, properties: Mapping[str, Mapping[str, Any]], required: list[str]
) -> FunctionDoc:
    """Return a function's doc from the plain schemas of its parameters."""
    parameters = {
        "type": "dict",
        "properties": {each: parameter_doc(schema) for each, schema in properties.items()},
        "required": [each for each in properties if each in required],
    }
    return FunctionDoc(name, shorten_description(description), parameters)


def parameter_doc(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain schema as BFCL writes parameters."""
    kind = schema.get("type", "any")
    result: dict[str, Any] = {
        "type": TYPES.get(kind, kind),
        "description": shorten_description(_described(schema)),
    }
    result |= {key: schema[key] for key in _KEPT if key in schema}
    if len(result.get("enum", ())) > MAX_ENUM:
        del result["enum"]
    if "properties" in schema:
        result["properties"] = {
            name: _without_empty_description(parameter_doc(each))
            for name, each in schema["properties"].items()
        }
        if schema.get("required"):
            result["required"] = list(schema["required"])
    if "items" in schema:
        result["items"] = _without_empty_description(parameter_doc(schema["items"]))
    return result


def _without_empty_description(doc: dict[str, Any]) -> dict[str, Any]:
    return doc if doc["description"] else {key: doc[key] for key in doc if key != "description"}


def shorten_description(text: str) -> str:
    """Return a description on one line, cut where it is long."""
    line = " ".join(encodable_text(text[: 4 * MAX_DESCRIPTION]).split())
    return line if len(line) <= MAX_DESCRIPTION else f"{line[: MAX_DESCRIPTION - 4]} ..."


def _described(schema: Mapping[str, Any]) -> str:
    text = schema.get("description") or ""
    alternatives = schema.get("oneOf", ())
    if not alternatives:
        return text
    told = "; or ".join(
        " ".join(
            [
                shorten_description(each.get("description", "")).rstrip("."),
                f"(keys {', '.join(each['properties'])})",
            ]
        ).strip()
        for each in alternatives
    )
    return f"{text} One of: {told}.".strip()
