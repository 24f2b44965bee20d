"""Address of an MCP server, a command or a URL, and the folder of a process with {tmp} in it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.toolbox import SCHEME

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


_PLACE = re.compile(r"\{tmp(?::([^{}]*))?\}")


def seeds_of(texts: Iterable[str], place: str) -> list[Path]:
    """Return the folders that {tmp:FOLDER} names; ToolDefinitionError for a missing one."""
    named = {unquote(name) for text in texts for name in _PLACE.findall(text) if name}
    for folder in map(Path, named):
        if not folder.is_dir():
            raise ToolDefinitionError(f"{place}: {folder}: expected a folder to copy into {{tmp}}")
    return [Path(name) for name in sorted(named)]


class ServerFolder:
    """Private folder of one server process, which is removed after it.

    Where `texts`, the command and the values of its environment, say {tmp} or {tmp:SEED}, it is
    made, SEED's files are copied in, and its path stands for {tmp} in them and in arguments.
    Results say {tmp} for its path, so that two processes answer alike.
    """

    def __init__(self, texts: Iterable[str], place: str) -> None:
        texts = list(texts)
        self._path = ""
        if not any(map(_PLACE.search, texts)):
            return
        seeds = seeds_of(texts, place)
        self._path = os.path.realpath(tempfile.mkdtemp(prefix="fctncalling_"))
        for seed in seeds:
            shutil.copytree(seed, self._path, symlinks=True, dirs_exist_ok=True)

    def filled(self, value: Any) -> Any:
        """Replace {tmp} in a text, list or object by the folder's path."""
        if not self._path:
            return value
        if isinstance(value, str):
            return _PLACE.sub(lambda _: self._path, value)
        if isinstance(value, Mapping):
            return {self.filled(key): self.filled(item) for key, item in value.items()}
        return [self.filled(item) for item in value] if isinstance(value, list | tuple) else value

    def masked(self, text: str) -> str:
        """Replace the folder's path in a server's text by {tmp}."""
        return text.replace(self._path, "{tmp}") if self._path else text

    def remove(self) -> None:
        """Remove the folder after its process has ended."""
        if self._path:
            shutil.rmtree(self._path, ignore_errors=True)
