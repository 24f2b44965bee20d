"""Connections to MCP servers that are none: what they answer, and how they fail, is written down
here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from fctncalling.lab.mcp_client import McpServer
from fctncalling.lab.mcp_client.connection import McpFailure, McpToolError
from fctncalling.lab.mcp_client.tool_docs import ListedTool

ADD = ListedTool(
    "add-numbers",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "to b": {"type": ["number", "null"]}},
        "required": ["a"],
    },
)
ECHO = ListedTool("echo", "Repeat.", {"type": "object", "properties": {"text": {}}})


class FakeMcp:
    """A server: `connect()` gives connections to it, one after the other; `script` says what the
    next calls do ("die", "hang", "refuse", a text, or nothing: the arguments).
    """

    def __init__(self, *tools: ListedTool) -> None:
        self.tools = list(tools or (ADD, ECHO))
        self.script: list[str] = []
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.connections: list[FakeConnection] = []
        self.does_start = True

    def connect(self) -> FakeConnection:
        if not self.does_start:
            raise McpFailure("it does not start")
        self.connections.append(FakeConnection(self, list(self.tools)))
        return self.connections[-1]

    def server(self, address: str = "mcp:true", **keywords: Any) -> McpServer:
        return McpServer(address, connect=self.connect, **keywords)


class FakeConnection:
    """A connection to a FakeMcp."""

    def __init__(self, fake: FakeMcp, tools: list[ListedTool]) -> None:
        self.tools = tools
        self.closed = threading.Event()
        self._fake = fake

    def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> str:
        self._fake.calls.append((name, arguments))
        script = self._fake.script
        answer = script.pop(0) if script else repr(dict(arguments))
        if answer == "die":
            raise McpFailure("connection closed")
        if answer == "hang":
            time.sleep(timeout_s)
            raise McpFailure(f"no answer within {timeout_s:g} s")
        if answer == "refuse":
            raise McpToolError("no such file")
        return answer

    def close(self) -> None:
        self.closed.set()
