"""Reader of a SPEC: `module:Class`, an OpenAPI document, `mcp:COMMAND` or tool schemas."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.named_tools import add_working_folder_to_path, import_object
from fctncalling.envs.tools.box.callables import ToolDefinitionError, as_tool
from fctncalling.envs.tools.box.toolbox import is_mcp_address
from fctncalling.lab.mcp_client import McpServer
from fctncalling.lab.own_api.openapi import api_of_openapi_document
from fctncalling.specification.api import CollectedFunctions, OwnApi, SpecificationError
from fctncalling.specification.document import SUFFIXES, read_document
from fctncalling.specification.tool_list import add_tool, api_of_tool_list, tools_of_document

EXPECTED = (
    "expected module:Class, FILE.yaml or FILE.json (OpenAPI 3, or a list of tool "
    "schemas), mcp:COMMAND or mcp:URL"
)
_CLASS = re.compile(r"[\w.]+:[\w.]+")


def load_api(spec: str, *, scenarios: Path | None = None) -> OwnApi:
    """Return the API that a SPEC describes; SpecificationError, in one line, on failure."""
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
    if isinstance(document, dict) and not document.keys().isdisjoint(("openapi", "swagger")):
        return api_of_openapi_document(document, spec, path)
    tools = tools_of_document(document)
    if tools is not None:
        return api_of_tool_list(tools, spec, path.stem)
    raise SpecificationError(f"{spec}: neither OpenAPI nor tool schemas: {EXPECTED}")


def _refuse_scenarios(scenarios: Path | None, why: str) -> None:
    if scenarios is not None:
        raise SpecificationError(f"--scenarios {scenarios}: {why}: expected none")


START_TIMEOUT_S = 30.0


def api_of_mcp_server(spec: str, server: McpServer | None = None) -> OwnApi:
    """Return the API of "mcp:COMMAND" or "mcp:URL"; SpecificationError on failure."""
    try:
        server = server or McpServer(spec, start_timeout_s=START_TIMEOUT_S)
    except (ToolDefinitionError, MissingExtra) as error:
        raise SpecificationError(" ".join(str(error).split())) from None
    try:
        collected = CollectedFunctions(spec)
        for listed, tool in zip(server.listed, server.tools, strict=True):
            where = f"tool {listed.name!r:.60}"
            origin = {"name": listed.name, "server": spec}
            add_tool(collected, tool.name, tool.doc.description, listed.input_schema, where, origin)
        return collected.api(_name(spec))
    finally:
        server.close()


def _name(spec: str) -> str:
    words = spec.removeprefix("mcp:").split()
    return words[-1].rsplit("/", 1)[-1].removesuffix(".py") if words else spec


def api_of_python_class(spec: str, scenarios: Path | None = None) -> OwnApi:
    """Return the API of "module:Class"; SpecificationError on failure."""
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
        where = f"{tool.__name__}.{name}"
        add_tool(collected, name, doc.description, doc.parameters, where, {"class": spec})
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
