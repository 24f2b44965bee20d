"""Reader of a SPEC: `module:Class`, an OpenAPI document, `mcp:COMMAND` or tool schemas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fctncalling.envs.tools.box.tool_server import is_mcp_address
from fctncalling.lab.own_api.api import OwnApi, SpecificationError
from fctncalling.lab.own_api.specifications.document import SUFFIXES, read_document
from fctncalling.lab.own_api.specifications.mcp_tools import api_of_mcp_server
from fctncalling.lab.own_api.specifications.openapi import api_of_openapi_document
from fctncalling.lab.own_api.specifications.python_class import api_of_python_class
from fctncalling.lab.own_api.specifications.tool_list import api_of_tool_list

EXPECTED = (
    "expected module:Class, FILE.yaml or FILE.json (OpenAPI 3.0 or 3.1, or a list of tool "
    "schemas), mcp:COMMAND or mcp:URL"
)
_CLASS = re.compile(r"[\w.]+:[\w.]+")


def load_api(spec: str, *, scenarios: Path | None = None) -> OwnApi:
    """Return the API that a SPEC describes; SpecificationError, in one line, where none is."""
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
    if isinstance(document, dict):
        if "openapi" in document:
            return api_of_openapi_document(document, spec, path)
        if "swagger" in document:
            raise SpecificationError(
                f"{spec}: Swagger {document['swagger']}: expected OpenAPI 3.0 or 3.1: convert it, "
                "for instance with npx swagger2openapi"
            )
        tools = next((document[key] for key in ("tools", "functions") if key in document), None)
        if tools is None and "name" in document:
            tools = [document]
        if isinstance(tools, list):
            return api_of_tool_list(tools, spec, path.stem)
    if isinstance(document, list):
        return api_of_tool_list(document, spec, path.stem)
    raise SpecificationError(f"{spec}: neither OpenAPI nor tool schemas: {EXPECTED}")


def _refuse_scenarios(scenarios: Path | None, why: str) -> None:
    if scenarios is not None:
        raise SpecificationError(f"--scenarios {scenarios}: {why}: expected none")
