"""Server of tools at an address, "mcp:COMMAND" or "mcp:URL".

The client of MCP servers surrounds the environment: it is part of the laboratory, and is reached by
its name when an address is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import quote

from fctncalling.data.types import Task
from fctncalling.envs.tools.box.callables import Tool

SCHEME = "mcp:"
TIMEOUT_S = 30.0  # of a call
_CLIENT = "fctncalling.lab.mcp_client"


class ToolServer:
    """Server of tools (MCP); each of its functions has its `address`."""

    tools: tuple[Tool, ...]

    def close(self) -> None:
        """End the server's process."""


def start_mcp_server(address: str, timeout_s: float) -> ToolServer:
    """Start the MCP server of an address; raises ToolDefinitionError, MissingExtra."""
    server: ToolServer = import_module(_CLIENT).McpServer(address, timeout_s=timeout_s)
    return server


def server_isolation_notes(classes: Mapping[str, Any], tasks: Iterable[Task]) -> list[str]:
    """Describe what episodes share through the servers of --tools.

    A line each; see `fctncalling.lab.mcp_client.isolation`, which is imported for servers alone.
    """
    servers = {name: cls for name, cls in classes.items() if is_mcp_address(cls)}
    if not servers:
        return []
    notes: list[str] = import_module(f"{_CLIENT}.isolation").isolation_notes(servers, tasks)
    return notes


def with_seed(address: str, folder: str | None) -> str:
    """Fill {tmp} in an MCP address with a folder's files; return others unchanged."""
    if folder is None or not is_mcp_address(address):
        return address
    return address.replace("{tmp}", f"{{tmp:{quote(os.path.abspath(folder))}}}")


def with_mcp_scheme(address: str) -> str:
    """Add the scheme "mcp:" to an MCP address if it is missing."""
    return address if address.startswith(SCHEME) else f"{SCHEME}{address}"


def is_mcp_address(source: object) -> bool:
    """Whether a tool is the address of an MCP server."""
    return isinstance(source, str) and source.startswith(SCHEME)
