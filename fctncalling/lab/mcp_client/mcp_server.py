"""Tools of a Model Context Protocol server, which is restarted if it fails.

A server's error about a call is a text for the model. A server that hangs, dies, breaks the
protocol or changes its tools is an InfrastructureError: the episode is invalid, and the next call
goes to a new connection.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from fctncalling.data.types import FunctionDoc
from fctncalling.data.unsafe_text import encodable_value
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.tools.box.callables import DEFAULT_OUTPUT_LENGTH, Tool, ToolDefinitionError
from fctncalling.envs.tools.box.toolbox import TIMEOUT_S, ToolBox, ToolServer
from fctncalling.lab.mcp_client.address import McpAddress
from fctncalling.lab.mcp_client.connection import (
    CLOSE_S,
    START_TIMEOUT_S,
    McpConnection,
    McpFailure,
    McpToolError,
)
from fctncalling.lab.mcp_client.tool_docs import ListedTool, McpFunction, mcp_functions

LONGEST_WAIT_S = 60.0  # between two attempts to restart
MAX_ARGUMENT_DEPTH = 64  # the SDK's writer of JSON ends its session at about 200
_OPEN: weakref.WeakSet[McpServer] = weakref.WeakSet()


class Connection(Protocol):
    """Interface of a server's connection: `McpConnection`, or a test's."""

    tools: list[ListedTool]

    def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> str: ...

    def close(self) -> None: ...


Connect = Callable[[], Connection]


class McpServer(ToolServer):
    """MCP server at an address, with its tools for a ToolBox or a list of tools.

    `address`: "mcp:COMMAND" or "mcp:URL"; "mcp:PREFIX=..." puts a prefix before the names of its
    tools. `timeout_s` bounds each call, `start_timeout_s` each start, `max_output_length` the
    characters of a result. `env`: variables for the command, which else sees little more than PATH
    and HOME. The server starts here, once for each process that uses it, and keeps what state it
    has from call to call, whichever episode makes them: `mcp_class` gives each episode its own.

    Raises ToolDefinitionError for a server that cannot be had, MissingExtra without the SDK.
    """

    _connection: Connection | None

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = TIMEOUT_S,
        start_timeout_s: float = START_TIMEOUT_S,
        max_output_length: int = DEFAULT_OUTPUT_LENGTH,
        env: Mapping[str, str] | None = None,
        connect: Connect | None = None,
    ) -> None:
        if not timeout_s > 0 or not start_timeout_s > 0:
            raise ToolDefinitionError(
                f"{address}: timeout_s={timeout_s!r}, start_timeout_s={start_timeout_s!r}: "
                "expected positive numbers of seconds"
            )
        self.address = McpAddress.parse(address)
        self._keywords: dict[str, Any] = {
            "timeout_s": timeout_s,
            "start_timeout_s": start_timeout_s,
            "max_output_length": max_output_length,
            "env": env,
            "connect": connect,
        }
        self._reset()
        try:
            self._connection = self._connect()
            self._offer(self._connection.tools)
        except McpFailure as error:
            raise ToolDefinitionError(f"{address}: cannot be started: {error}") from error
        except ToolDefinitionError:
            self.close()
            raise

    def _connect(self) -> Connection:
        connect: Connect | None = self._keywords["connect"]
        if connect is not None:
            return connect()
        start_timeout_s, env = self._keywords["start_timeout_s"], self._keywords["env"]
        return McpConnection(self.address, start_timeout_s=start_timeout_s, env=env)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._connection = None
        self._num_calls: Counter[Connection] = Counter()  # under way
        self._closing: list[threading.Thread] = []  # end connections that failed
        self._num_failures = 0  # starts that failed, one after the other
        self._not_before = 0.0  # when the next start is due
        self._closed = False
        _OPEN.add(self)

    def _offer(self, listed: Sequence[ListedTool]) -> None:
        self._listed = list(listed)
        functions = mcp_functions(self._listed, self.address.prefix, self.address.text)
        length = self._keywords["max_output_length"]
        self.tools = tuple(
            Tool(function.doc, RemoteFunction(self, function), None, length)
            for function in functions
        )

    @property
    def listed(self) -> tuple[ListedTool, ...]:
        """Tools as the server lists them, in the order of `tools`."""
        return tuple(self._listed)

    @property
    def is_running(self) -> bool:
        """Whether the server was sound at the last call."""
        return self._connection is not None

    def another(self) -> McpServer:
        """Return an equal server, which starts with its first call."""
        server = McpServer.__new__(McpServer)
        server.__setstate__(self.__getstate__())
        return server

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a function by the server's name; return the result text.

        Raises McpToolError for what the model did wrong, InfrastructureError where the server
        fails.
        """
        sound = _json_arguments(arguments)
        try:
            connection = self._taken()
        except McpFailure as error:
            raise InfrastructureError(f"{self.address.text}: {error}") from error
        try:
            return connection.call(name, sound, self._keywords["timeout_s"])
        except McpFailure as error:
            with self._lock:  # no further call on it
                if self._connection is connection:
                    self._connection = None
            raise InfrastructureError(f"{self.address.text}, tool {name}: {error}") from error
        finally:
            self._release(connection)

    def close(self) -> None:
        """End the server; a call after this is an InfrastructureError."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if self._owner != os.getpid():
            return
        if connection is not None:
            connection.close()
        for thread in self._closing:
            thread.join(CLOSE_S)

    def _taken(self) -> Connection:
        """Take the connection for one call, a new one if the last has failed.

        Raises McpFailure.
        """
        if self._owner != os.getpid():  # a fork: the connection is the parent's
            self._reset()
        with self._lock:
            if self._closed:
                raise McpFailure("the server is closed")
            if self._connection is None:
                self._connection = self._restarted()
            self._num_calls[self._connection] += 1
            return self._connection

    def _restarted(self) -> Connection:
        if time.monotonic() < self._not_before:
            raise McpFailure(f"failed to start {self._num_failures} times; tried again later")
        try:
            connection = self._connect()
            if connection.tools != self._listed:
                connection.close()
                raise McpFailure("restarted, it offers other tools than when it started")
        except McpFailure:
            self._num_failures += 1
            wait = min(LONGEST_WAIT_S, 2.0**self._num_failures)
            self._not_before = time.monotonic() + wait
            raise
        self._num_failures = 0
        return connection

    def _release(self, connection: Connection) -> None:
        """End a call; the last one of a retired connection closes it, in another thread.

        Closing may take seconds, and calls of other episodes that were under way have had their
        time.
        """
        with self._lock:
            self._num_calls[connection] -= 1
            if self._num_calls[connection] or self._connection is connection:
                return
            del self._num_calls[connection]
            self._closing = [thread for thread in self._closing if thread.is_alive()]
            self._closing.append(threading.Thread(target=connection.close, daemon=True))
            self._closing[-1].start()

    def __getstate__(self) -> tuple[McpAddress, dict[str, Any], list[ListedTool]]:
        return self.address, self._keywords, self._listed

    def __setstate__(self, state: tuple[McpAddress, dict[str, Any], list[ListedTool]]) -> None:
        """Take over an equal server's tools; this one starts with its first call."""
        self.address, self._keywords, listed = state
        self._reset()
        self._offer(listed)

    def __deepcopy__(self, memo: dict[int, Any]) -> McpServer:
        return self


class RemoteFunction:
    """Function of a remote tool; takes the arguments of its doc by name."""

    def __init__(self, server: McpServer, function: McpFunction) -> None:
        self._server = server
        self._function = function

    @property
    def address(self) -> str:
        """Address of the server, as it was given."""
        return self._server.address.text

    def __call__(self, /, **arguments: Any) -> str:
        names = self._function.server_parameters
        return self._server.call(
            self._function.server_name,
            {names.get(name, name): value for name, value in arguments.items()},
        )


def _json_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Check that arguments can be written as JSON; McpToolError otherwise."""
    try:
        text = json.dumps(encodable_value(dict(arguments)), allow_nan=False)
        parsed: dict[str, Any] = json.loads(text)
        deep = _depth(parsed, MAX_ARGUMENT_DEPTH)
    except (TypeError, ValueError, RecursionError) as error:
        raise McpToolError(f"arguments must be JSON values: {error}") from None
    if deep:
        raise McpToolError(f"arguments nest deeper than {MAX_ARGUMENT_DEPTH}")
    return parsed


def _depth(value: Any, left: int) -> bool:
    """Whether a value nests deeper than `left`."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return left == 0 or any(_depth(item, left - 1) for item in inner)


def _close_all() -> None:
    """Close the remaining servers at interpreter exit, concurrently."""
    threads = [threading.Thread(target=server.close, daemon=True) for server in list(_OPEN)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * CLOSE_S)


atexit.register(_close_all)


class McpInstance:
    """Tools of a private server, with state that begins and ends with this object.

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
    """Keep an instance's server for the next one, or end it in a thread, as that takes seconds."""
    if idle is not None and server.is_running:
        idle.append(server)
    else:
        threading.Thread(target=server.close, daemon=True).start()


@functools.cache
def mcp_class(address: str, *, reset: str = "", **keywords: Any) -> type[McpInstance]:
    """Make the tool class of an address: "mcp:COMMAND" or "mcp:URL".

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
