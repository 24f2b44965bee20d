"""ToolServer: tools that come together from one address, "mcp:COMMAND" or "mcp:URL".

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
    """A server of tools (MCP); the function of each has its `address`."""

    tools: tuple[Tool, ...]

    def close(self) -> None:
        """Close the server: end its process."""


def start_mcp_server(address: str, timeout_s: float) -> ToolServer:
    """Start the MCP server at an address; raises ToolDefinitionError, MissingExtra."""
    server: ToolServer = import_module(_CLIENT).McpServer(address, timeout_s=timeout_s)
    return server


def server_isolation_notes(classes: Mapping[str, Any], tasks: Iterable[Task]) -> list[str]:
    """Return what episodes with servers of --tools would share, and what changes by itself.

    A line each; see `fctncalling.lab.mcp_client.isolation`, which is imported for servers alone.
    """
    servers = {name: each for name, each in classes.items() if is_mcp_address(each)}
    if not servers:
        return []
    notes: list[str] = import_module(f"{_CLIENT}.isolation").isolation_notes(servers, tasks)
    return notes


def with_seed(address: str, folder: str | None) -> str:
    """Return an MCP address whose {tmp} is filled with a folder's files; others as they are."""
    if folder is None or not is_mcp_address(address):
        return address
    return address.replace("{tmp}", f"{{tmp:{quote(os.path.abspath(folder))}}}")


def with_mcp_scheme(address: str) -> str:
    """Return an MCP address with its scheme "mcp:", which may be left out on the command line."""
    return address if address.startswith(SCHEME) else f"{SCHEME}{address}"


def is_mcp_address(source: object) -> bool:
    """Whether a tool is an MCP address, that of a server."""
    return isinstance(source, str) and source.startswith(SCHEME)
