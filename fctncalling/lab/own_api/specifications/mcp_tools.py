"""MCP servers: the tools that a server lists, under the names that an environment gives them."""

from __future__ import annotations

from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.lab.mcp_client import McpServer
from fctncalling.lab.own_api.api import OwnApi, SpecificationError
from fctncalling.lab.own_api.specifications.collect import CollectedFunctions
from fctncalling.lab.own_api.specifications.tool_list import add_tool

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
            if tool.name != listed.name:
                collected.original_names[tool.name] = listed.name
        return collected.api(_name(spec), mcp=spec)
    finally:
        server.close()


def _name(spec: str) -> str:
    words = spec.removeprefix("mcp:").split()
    return words[-1].rsplit("/", 1)[-1].removesuffix(".py") if words else spec
