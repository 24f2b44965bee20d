"""Address of an MCP server: a command or a URL."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from urllib.parse import urlsplit

from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.tool_server import SCHEME
from fctncalling.lab.mcp_client.server_folder import seeds_of

EXPECTED = f"expected {SCHEME}COMMAND or {SCHEME}URL, such as {SCHEME}mcp-server-time"
_PREFIX = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(?=\S)")


@dataclass(frozen=True)
class McpAddress:
    """Address of an MCP server.

    A command that talks over its standard streams, or a URL (streamable HTTP). `text` is what the
    user wrote, and names the server in messages.
    """

    text: str
    prefix: str  # put in front of the names of its tools, with an underscore; "": nothing
    command: tuple[str, ...] = ()
    url: str = ""

    @classmethod
    def parse(cls, text: str) -> McpAddress:
        """Parse "mcp:[PREFIX=]COMMAND" or "mcp:[PREFIX=]URL".

        "mcp:" may be left out. ToolDefinitionError for no command, a command that is not there, or
        another scheme.
        """
        rest = text.strip().removeprefix(SCHEME).strip()
        named = _PREFIX.match(rest)
        prefix = named[1] if named else ""
        rest = rest[named.end() :] if named else rest
        if "://" in rest.partition(" ")[0]:
            return cls(text, prefix, url=_sound_url(rest, text))
        try:
            command = tuple(shlex.split(rest))
        except ValueError as error:
            raise ToolDefinitionError(f"{text}: cannot be read as a command ({error})") from None
        if not command:
            raise ToolDefinitionError(f"{text}: names no server: {EXPECTED}")
        if shutil.which(command[0]) is None:
            raise ToolDefinitionError(f"{text}: no command is called {command[0]!r}: {EXPECTED}")
        seeds_of(command, text)
        return cls(text, prefix, command=command)


def _sound_url(url: str, text: str) -> str:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, brackets left open
        sound = False
    if not sound or " " in url:
        raise ToolDefinitionError(f"{text}: expected {SCHEME}http://HOST:PORT/mcp or https://...")
    return url
