"""MCP client: the tools of a Model Context Protocol server, for a ToolBox."""

from fctncalling.envs.tools.box.toolbox import TIMEOUT_S, is_mcp_address, with_mcp_scheme
from fctncalling.lab.mcp_client.mcp_server import McpServer, RemoteFunction

__all__ = ["TIMEOUT_S", "McpServer", "RemoteFunction", "is_mcp_address", "with_mcp_scheme"]
