"""An MCP server as a stateful tool class: a process, or a session, for each instance."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from fctncalling.data.types import FunctionDoc
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.toolbox import ToolBox
from fctncalling.lab.mcp_client.mcp_server import McpServer


class McpInstance:
    """The tools of a server that nobody else talks to: its state begins and ends with this object.

    The server starts with the first call. A copy starts one of its own, and makes the calls so far
    again: what a server answers must depend on its calls alone.
    """

    _docs: ClassVar[tuple[FunctionDoc, ...]]
    _server: ClassVar[McpServer]  # what its own are made after
    _reset: ClassVar[str]
    _idle: ClassVar[list[McpServer]]  # to be used again, where there is a tool to reset them

    def __init__(self) -> None:
        self._calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def _call(self, name: str, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        tools = _TOOLS.get(self) or self._started()
        self._calls.append((name, positional, keywords))
        return getattr(tools, name)(*positional, **keywords)

    def _started(self) -> Any:
        server = self._idle.pop() if self._idle else self._server.another()
        weakref.finalize(self, _end, server, self._idle if self._reset else None)
        if self._reset:
            server.call(self._reset, {})
        tools = _TOOLS[self] = ToolBox([server]).as_class()()
        for name, positional, keywords in self._calls:
            getattr(tools, name)(*positional, **keywords)
        return tools


# Of each instance the tools of its server. Its own attributes are its state, and can be copied.
_TOOLS: weakref.WeakKeyDictionary[McpInstance, Any] = weakref.WeakKeyDictionary()


def _end(server: McpServer, idle: list[McpServer] | None) -> None:
    """Keep an instance's server for the next one, or end it: in a thread, for it takes seconds."""
    if idle is not None and server.is_running:
        idle.append(server)
    else:
        threading.Thread(target=server.close, daemon=True).start()


@functools.cache
def mcp_class(address: str, *, reset: str = "", **keywords: Any) -> type[McpInstance]:
    """Return the class of the tools at an address: "mcp:COMMAND" or "mcp:URL".

    `reset` names a tool without arguments that brings the server to its first state, and that no
    model is offered: processes are then used again, and what is behind a URL, by one episode after
    the other. `keywords` are those of McpServer.

    Raises ToolDefinitionError for a server that cannot be had, or without such a tool.
    """
    server = McpServer(address, **keywords)
    server.close()
    named = {listed.name: tool for listed, tool in zip(server.listed, server.tools, strict=True)}
    if reset and reset not in named:
        raise ToolDefinitionError(f"{address}: there is no tool {reset}: it has {', '.join(named)}")
    offered = [tool for name, tool in named.items() if name != reset]
    boxed = ToolBox([server]).as_class()
    made = {
        "_docs": tuple(tool.doc for tool in offered),
        "_server": server,
        "_reset": reset,
        "_idle": [],
        "__doc__": f"Tools of {address}.",
        "__module__": __name__,
        **{tool.name: _method(tool.name, getattr(boxed, tool.name)) for tool in offered},
    }
    return type("McpTools", (McpInstance,), made)


def _method(name: str, method: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(method)
    def called(self: McpInstance, *positional: Any, **keywords: Any) -> Any:
        return self._call(name, positional, keywords)

    return called
