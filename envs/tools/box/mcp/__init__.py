"""McpServer: the tools of a Model Context Protocol server, for a ToolBox."""

from fctncalling.envs.tools.box.mcp.address import TIMEOUT_S, is_mcp_address, with_scheme
from fctncalling.envs.tools.box.mcp.mcp_server import McpServer, RemoteFunction

__all__ = ["TIMEOUT_S", "McpServer", "RemoteFunction", "is_mcp_address", "with_scheme"]
