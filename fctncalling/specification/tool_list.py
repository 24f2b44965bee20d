"""Lists of tools as chat APIs, MCP and data sets write them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fctncalling.data.unsafe_text import encodable_value
from fctncalling.specification.api import CollectedFunctions, OwnApi, SpecificationError, shown
from fctncalling.specification.document import ReferenceResolver
from fctncalling.specification.schema import SchemaReader, text_list, text_of
from fctncalling.specification.type_text import is_optional_type

_LISTS = ("tools", "functions", "functionDeclarations", "function_declarations")
_AROUND_LISTS = ("toolConfig", "result")  # Bedrock's request, MCP's answer
_AROUND_TOOL = ("function", "toolSpec")  # OpenAI's chat, Bedrock
_SCHEMAS = (
    "parameters",  # OpenAI, BFCL, Gemini, xLAM
    "input_schema",  # Anthropic
    "inputSchema",  # MCP, Bedrock
    "parametersJsonSchema",  # Gemini
    "parameter_definitions",  # Cohere
    "inputs",  # smolagents
    "args",  # LangChain
    "arguments",  # NESTful
)
_OF_A_SCHEMA = frozenset(
    "$ref $defs definitions allOf oneOf anyOf not additionalProperties patternProperties items "
    "$schema".split()
)
EXPECTED_TOOLS = (
    "expected a list of tools, each with name, description and parameters (OpenAI, BFCL, xLAM), "
    "input_schema (Anthropic), inputSchema (MCP, Bedrock) or functionDeclarations (Gemini)"
)
_CURE = "expected JSON Schema with properties, or an object of name: {type, description}"


def tools_of_document(document: Any) -> list[Any] | None:
    """Return the tools that a document lists, None where it lists none."""
    if isinstance(document, list):
        return document
    if not isinstance(document, Mapping):
        return None
    for key in _AROUND_LISTS:
        if isinstance(document.get(key), Mapping):
            return tools_of_document(document[key])
    found = next((document[key] for key in _LISTS if isinstance(document.get(key), list)), None)
    return [document] if found is None and "name" in document else found


def api_of_tool_list(tools: Sequence[Any], spec: str, name: str) -> OwnApi:
    """Return the API of a list of tool schemas; SpecificationError where one is none."""
    collected = CollectedFunctions(spec)
    for where, given in _tools(tools, "tool"):
        _collect(collected, given, where)
    return collected.api(name)


def offered_functions(*lists: Any) -> OwnApi:
    """Return the readable functions of a log's tool lists, which may be JSON text.

    What is no function is left out, and none may be left. A value of several types may be any.
    """
    collected, names = CollectedFunctions("tools", first_type=False), set[Any]()
    for each in lists:
        for where, given in _tools(tools_of_document(_loaded(each)) or [], "tool"):
            tool = _unwrapped(encodable_value(_loaded(given)))[0]
            if isinstance(tool, Mapping) and (name := tool.get("name")) not in names:
                with suppress(SpecificationError, RecursionError):
                    _collect(collected, tool, where)
                    names.add(name)
    return collected.api("tools", may_be_empty=True)


def _unwrapped(given: Any) -> tuple[Any, bool]:
    """Return a tool, and whether it stood in an object around it."""
    around = next((each for each in _AROUND_TOOL if _is_object(given, each)), None)
    return (given, False) if around is None else (given[around], True)


def _loaded(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def _collect(collected: CollectedFunctions, given: Any, where: str) -> None:
    """Add a tool of a list; raises SpecificationError if it is not a tool."""
    spec = collected.spec
    tool, around = _unwrapped(given)
    if not isinstance(tool, Mapping):
        raise SpecificationError(f"{spec}: {where}: {EXPECTED_TOOLS}, found {shown(tool, 60)}")
    schema: Any = next((tool[key] for key in _SCHEMAS if key in tool), None)
    kind = text_of(tool.get("type"))
    if not around and schema is None and kind not in ("", "function"):
        collected.notes.leave_out("tools that a provider runs or reads itself", where)
        return
    if not isinstance(tool.get("name"), str):
        raise SpecificationError(f"{spec}: {where}: {EXPECTED_TOOLS}, found {shown(tool, 60)}")
    where = f"{where} ({tool['name']:.60})"
    if schema is None:
        collected.notes.add(f"{where}: says no parameters: called without arguments")
    elif _is_object(schema, "json"):  # Bedrock
        schema = schema["json"]
    description, needed = str(tool.get("description") or ""), text_list(tool.get("required"))
    add_tool(collected, tool["name"], description, schema, where, needed=needed)


def _is_object(value: Any, key: str) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get(key), Mapping)


def _tools(tools: Sequence[Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yield (place, tool), those of Gemini's groups too."""
    for number, given in enumerate(tools, 1):
        place = f"{where} {number}"
        keys = _LISTS[2:] if isinstance(given, Mapping) else ()
        inner = next((given[key] for key in keys if isinstance(given.get(key), list)), None)
        if inner is None:
            yield place, given
        else:
            yield from _tools(inner, f"{place}, function")


def add_tool(
    collected: CollectedFunctions,
    name: str,
    description: str,
    schema: Any,
    where: str,
    origin: Mapping[str, Any] | None = None,
    needed: Sequence[str] = (),
) -> None:
    """Add one tool by the schema of its arguments.

    origin: how it is called; needed: demanded arguments where they stand beside the schema.
    """
    schema = {} if schema is None else _whole_schema(schema)
    if schema is None:
        raise SpecificationError(f"{collected.spec}: {where}: parameters: {_CURE}")
    resolver = ReferenceResolver(schema, collected.spec)
    reader = SchemaReader(resolver, collected.spec, first_type=collected.first_type)
    tree = reader.read(schema, where)
    needed = needed or text_list(schema.get("required")) or tree.get("required", [])
    collected.add(name, description, tree.get("properties", {}), list(needed), where, origin=origin)
    collected.notes.extend(reader.notes)


def _whole_schema(given: Any) -> Mapping[str, Any] | None:
    """Return the schema of all arguments, None where it is none.

    Data sets (xLAM, APIGen, NESTful) write the arguments alone: an object of name to {type,
    description}, or a list of them; those are demanded that have no default and are not optional.
    """
    if isinstance(given, list) and all(_is_named(each) for each in given):
        given = {each["name"]: each for each in given}
    if not isinstance(given, Mapping):
        return None
    if not given or _is_json_schema(given):
        return given
    arguments = {
        str(name): {"type": each} if isinstance(each, str) else each
        for name, each in given.items()
        if name != "required" or not isinstance(each, list)
    }
    if not all(isinstance(each, Mapping) and _is_argument(each) for each in arguments.values()):
        return None
    needed = text_list(given.get("required"))
    needed = needed or [name for name, each in arguments.items() if _is_needed(each)]
    return {"type": "object", "properties": arguments, "required": needed}


def _is_named(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("name"), str)


def _is_json_schema(given: Mapping[str, Any]) -> bool:
    """Whether an object is a schema, and not arguments of which one may be called "properties"."""
    properties = given.get("properties")
    is_argument = isinstance(properties, Mapping) and any(
        isinstance(properties.get(key), str) for key in ("type", "description")
    )
    has_properties = "properties" in given and not is_argument
    return (
        has_properties
        or bool(_OF_A_SCHEMA & given.keys())
        or isinstance(given.get("type"), str | list)
    )


def _is_argument(value: Mapping[str, Any]) -> bool:
    return not value or "type" in value or "description" in value or "default" in value


def _is_needed(argument: Mapping[str, Any]) -> bool:
    if isinstance(required := argument.get("required"), bool):
        return required
    return "default" not in argument and not is_optional_type(argument.get("type"))
