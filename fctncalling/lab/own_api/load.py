"""Reader of a SPEC: `module:Class`, an OpenAPI document, `mcp:COMMAND` or tool schemas."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.named_tools import add_working_folder_to_path, import_object
from fctncalling.envs.tools.box.callables import ToolDefinitionError, as_tool
from fctncalling.envs.tools.box.tool_server import is_mcp_address
from fctncalling.lab.mcp_client import McpServer
from fctncalling.lab.own_api.api import CollectedFunctions, OwnApi, SpecificationError, shown
from fctncalling.lab.own_api.document import SUFFIXES, ReferenceResolver, read_document
from fctncalling.lab.own_api.openapi import api_of_openapi_document
from fctncalling.lab.own_api.schema import SchemaReader, text_list

EXPECTED = (
    "expected module:Class, FILE.yaml or FILE.json (OpenAPI 3.0 or 3.1, or a list of tool "
    "schemas), mcp:COMMAND or mcp:URL"
)
_CLASS = re.compile(r"[\w.]+:[\w.]+")


def load_api(spec: str, *, scenarios: Path | None = None) -> OwnApi:
    """Return the API that a SPEC describes; SpecificationError, in one line, where none is."""
    try:
        return _loaded(spec, scenarios)
    except RecursionError:
        raise SpecificationError(f"{spec}: nests too deep") from None


def _loaded(spec: str, scenarios: Path | None) -> OwnApi:
    if is_mcp_address(spec):
        _refuse_scenarios(scenarios, "the state of an MCP server is its own")
        return api_of_mcp_server(spec)
    if "://" in spec:
        raise SpecificationError(f"{spec}: download the document, or write mcp:{spec}; {EXPECTED}")
    path = Path(spec)
    if path.suffix in SUFFIXES or path.is_file():
        _refuse_scenarios(scenarios, "a document has no state")
        return _of_document(read_document(path, spec), spec, path)
    if _CLASS.fullmatch(spec):
        return api_of_python_class(spec, scenarios)
    raise SpecificationError(f"{spec}: {EXPECTED}")


def _of_document(document: Any, spec: str, path: Path) -> OwnApi:
    tools = document
    if isinstance(document, dict):
        if "openapi" in document:
            return api_of_openapi_document(document, spec, path)
        if "swagger" in document:
            version = shown(document["swagger"], 20).strip("'")
            raise SpecificationError(
                f"{spec}: Swagger {version}: expected OpenAPI 3.0 or 3.1: convert it, for instance "
                "with npx swagger2openapi"
            )
        tools = next((document[key] for key in ("tools", "functions") if key in document), None)
        if tools is None and "name" in document:
            tools = [document]
    if isinstance(tools, list):
        return api_of_tool_list(tools, spec, path.stem)
    raise SpecificationError(f"{spec}: neither OpenAPI nor tool schemas: {EXPECTED}")


def _refuse_scenarios(scenarios: Path | None, why: str) -> None:
    if scenarios is not None:
        raise SpecificationError(f"--scenarios {scenarios}: {why}: expected none")


START_TIMEOUT_S = 30.0


def api_of_mcp_server(spec: str, server: McpServer | None = None) -> OwnApi:
    """Return the API of "mcp:COMMAND" or "mcp:URL"; SpecificationError where it cannot be had."""
    try:
        server = server or McpServer(spec, start_timeout_s=START_TIMEOUT_S)
    except (ToolDefinitionError, MissingExtra) as error:
        raise SpecificationError(" ".join(str(error).split())) from None
    try:
        collected = CollectedFunctions(spec)
        for listed, tool in zip(server.listed, server.tools, strict=True):
            where = f"tool {listed.name!r:.60}"
            add_tool(collected, tool.name, tool.doc.description, listed.input_schema, where)
        return collected.api(_name(spec))
    finally:
        server.close()


def _name(spec: str) -> str:
    words = spec.removeprefix("mcp:").split()
    return words[-1].rsplit("/", 1)[-1].removesuffix(".py") if words else spec


def api_of_python_class(spec: str, scenarios: Path | None = None) -> OwnApi:
    """Return the API of "module:Class"; SpecificationError where it cannot be had."""
    add_working_folder_to_path()
    try:
        tool = import_object(spec)
    except ImportError as error:
        raise SpecificationError(f"{spec}: cannot be imported: {error}") from None
    except SystemExit as error:
        raise SpecificationError(
            f"{spec}: cannot be imported: it ends the program (exit code {error}): put what runs "
            'under if __name__ == "__main__"'
        ) from None
    if not isinstance(tool, type):
        raise SpecificationError(f"{spec}: is {tool!r:.60}: expected a class")
    try:
        instance = tool()
    except (Exception, SystemExit) as error:  # whatever the class does when it is made
        raise SpecificationError(
            f"{spec}: cannot be made without arguments ({type(error).__name__}: {error}): give its "
            "__init__ defaults, and what varies in _load_scenario(scenario)"
        ) from None
    collected = CollectedFunctions(spec)
    for name in _methods(tool):
        try:
            doc = as_tool(getattr(instance, name), name=name, timeout_s=None).doc
        except ToolDefinitionError as error:
            raise SpecificationError(f"{spec}: {error}") from None
        add_tool(collected, name, doc.description, doc.parameters, f"{tool.__name__}.{name}")
    return collected.api(tool.__name__, tool_class=spec, scenarios=read_scenarios(scenarios, tool))


def read_scenarios(path: Path | None, tool: type) -> tuple[Mapping[str, Any], ...]:
    """Return the scenarios of a JSON file: an object of named ones, a list, or a single one.

    Without a file none: the class is as it is made.
    """
    if path is None:
        return ()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecificationError(f"--scenarios {path}: cannot be read: {error}") from None
    if not hasattr(tool, "_load_scenario"):
        raise SpecificationError(
            f"--scenarios {path}: {tool.__name__} has no method _load_scenario(scenario) to take "
            "them"
        )
    values = list(found.values()) if isinstance(found, dict) else found
    if isinstance(found, dict) and not all(isinstance(each, dict) and each for each in values):
        values = [found]  # one scenario, not an object of several
    if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
        raise SpecificationError(f"--scenarios {path}: expected objects, found {found!r:.40}")
    return tuple(values)


def _methods(tool: type) -> list[str]:
    """Return the names of the public methods in the order they are written."""
    found: dict[str, None] = {}
    for each in reversed(tool.__mro__):
        for name, value in vars(each).items():
            is_method = inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)
            if is_method and not name.startswith("_"):
                found[name] = None
    return list(found)


_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")  # OpenAI and BFCL, Anthropic, MCP
EXPECTED_TOOLS = (
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
            raise SpecificationError(f"{spec}: {where}: {EXPECTED_TOOLS}, found {shown(tool, 60)}")
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
            f"{shown(schema, 60)}"
        )
    reader = SchemaReader(ReferenceResolver(schema or {}, collected.spec), collected.spec)
    tree = reader.read(schema or {}, where)
    properties = tree.get("properties", {})
    needed = schema.get("required") if schema else None
    required = text_list(needed)
    collected.add(name, description, properties, required or tree.get("required", []), where)
    collected.notes.extend(reader.notes)
