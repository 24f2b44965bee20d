"""Functions on offer, as logs list them: JSON Schema, Python-like types, or no types at all."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fctncalling.conversations.conversation import loaded
from fctncalling.data.types import FunctionDoc
from fctncalling.data.unsafe_text import encodable_value

MAX_DEPTH = 6
MAX_TRIED = 400  # places of a text at which a list of functions may begin
_LISTS = ("functionDeclarations", "function_declarations", "tools")
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "args_schema")
_TYPES = {
    kind: bfcl
    for bfcl, kinds in {
        "dict": "dict object map mapping",
        "array": "array list set sequence iterable",
        "tuple": "tuple",
        "string": "string str char text date datetime enum",
        "integer": "integer int long",
        "float": "float number double decimal",
        "boolean": "boolean bool",
    }.items()
    for kind in kinds.split()
}
_PYTHON_TYPE = re.compile(r"\s*(?:typing\.)?(\w+)\s*(?:\[(.*)\])?")
_NO_PARAMETERS = frozenset("type title description required additionalProperties $schema".split())
_KEPT = ("enum", "default", "format", "minimum", "maximum")
_TAGGED = re.compile(r"<tools>(.*?)</tools>", re.DOTALL)


def offered_functions(value: Any) -> list[FunctionDoc]:
    """Return the functions of a list of tools; what is no function (a server's search) is left out.

    Tools may be OpenAI's (both), Anthropic's, Gemini's, Bedrock's, MCP's, xLAM's or BFCL's, each or
    all as JSON text.
    """
    value = loaded(value)
    return [doc for each in (value if isinstance(value, list) else [value]) for doc in _docs(each)]


def functions_in_text(text: str) -> list[FunctionDoc]:
    """Return the functions that a system message lists as JSON, or as Python in <tools>."""
    for tagged in _TAGGED.findall(text):
        try:
            return offered_functions(ast.literal_eval(tagged.strip()))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    found, at = list[FunctionDoc](), 0
    decoder = json.JSONDecoder()
    for _ in range(MAX_TRIED):
        opening = re.compile(r"[\[{]").search(text, at)
        if opening is None:
            break
        try:
            value, at = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            at = opening.end()
        else:
            found += offered_functions(value)
    return found


def _docs(tool: Any) -> Iterator[FunctionDoc]:
    tool = loaded(tool)
    if not isinstance(tool, dict):
        return
    for key in _LISTS:
        if isinstance(tool.get(key), list):
            for each in tool[key]:
                yield from _docs(each)
            return
    inner = tool.get("function", tool.get("toolSpec", tool))
    if not isinstance(inner, dict) or not isinstance(name := inner.get("name"), str) or not name:
        return
    schema: Any = next((inner[key] for key in _SCHEMAS if inner.get(key) is not None), None)
    if schema is None and not isinstance(inner.get("description"), str):
        return
    schema = schema.get("json", schema) if isinstance(schema, dict) else {}
    schema = {"required": inner["required"], **schema} if inner.get("required") else schema
    description = str(inner.get("description") or "")
    yield FunctionDoc(name, description, _parameters(encodable_value(schema)))


def _parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a function, of JSON Schema or flat: {name: {type, description}}."""
    properties, needed = schema.get("properties"), schema.get("required")
    if isinstance(properties, dict):
        required = needed if isinstance(needed, list) else []
    else:
        properties = {
            name: {"type": each} if isinstance(each, str) else each
            for name, each in schema.items()
            if isinstance(each, dict) or (isinstance(each, str) and name not in _NO_PARAMETERS)
        }
        required = needed if isinstance(needed, list) else _demanded(properties)
    definitions = {
        f"#/{key}/{name}": inner
        for key in ("$defs", "definitions")
        if isinstance(schema.get(key), dict)
        for name, inner in schema[key].items()
    }
    read = {name: _parameter(each, definitions, MAX_DEPTH) for name, each in properties.items()}
    return {"type": "dict", "properties": read, "required": [e for e in read if e in required]}


def _demanded(properties: Mapping[str, Any]) -> list[str]:
    """Return the flat parameters without a default that are not called optional."""
    return [
        name
        for name, each in properties.items()
        if "default" not in each and "optional" not in str(each.get("type")).lower()
    ]


def _parameter(schema: Any, definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, dict) or depth == 0:
        return {"type": "any", "description": ""}
    if isinstance(reference := schema.get("$ref"), str):
        schema = {**_mapping(definitions.get(reference)), **schema}
    for key in ("anyOf", "oneOf", "allOf"):
        given = schema.get(key)
        choices = given if isinstance(given, list) else []
        choices = [each for each in choices if _mapping(each).get("type") != "null"]
        if len(choices) == 1:
            choice = _mapping(choices[0])
            schema = {**_mapping(definitions.get(str(choice.get("$ref")))), **choice, **schema}
    kind, item = _type(schema.get("type"))
    result: dict[str, Any] = {"type": kind, "description": str(schema.get("description") or "")}
    result |= {key: schema[key] for key in _KEPT if schema.get(key) is not None}
    if not isinstance(result.get("enum", []), list):
        del result["enum"]
    if isinstance(properties := schema.get("properties"), dict):
        read = {name: _parameter(each, definitions, depth - 1) for name, each in properties.items()}
        result |= {"type": "dict", "properties": read}
    if kind in ("array", "tuple"):
        items = schema.get("items", {"type": item})
        result["items"] = _parameter(items, definitions, depth - 1)
    return result


def _type(kind: Any) -> tuple[str, str]:
    """Return BFCL's type, and that of its items: of JSON Schema's and of Python's, as in
    "List[str], optional".
    """
    kinds = [each for each in kind if each != "null"] if isinstance(kind, list) else [kind]
    found = _PYTHON_TYPE.match(kinds[0]) if len(kinds) == 1 and isinstance(kinds[0], str) else None
    if found is None:
        return "any", "any"
    outer, inner = found[1].lower(), (found[2] or "any").strip()
    if outer in ("optional", "union", "annotated"):
        choices = [each.strip() for each in re.split(r",(?![^\[]*\])", inner)]
        choices = [each for each in choices if each != "None"]
        return _type(choices[0]) if len(choices) == 1 or outer == "annotated" else ("any", "any")
    return _TYPES.get(outer, "any"), inner.partition(",")[0] if outer == "dict" else inner


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
