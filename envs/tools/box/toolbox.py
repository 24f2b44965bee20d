"""Box of user tools with limits; tool errors become text.

A tool's error, its time-out, a call it does not understand are texts for the model. A process that
dies under a tool is an InfrastructureError: the episode says nothing about the policy then.

The client of MCP servers ("mcp:COMMAND" or "mcp:URL") surrounds the environment: it is part of the
laboratory, and is reached by its name when an address is given.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any
from urllib.parse import quote

import cloudpickle  # type: ignore[import-untyped]  # comes with gymnasium

from fctncalling.data.timing import time_calls
from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.data.unsafe_text import TAGS, neutralise_marks, truncate_text, truncate_together
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.tools.box.calculator import DESCRIPTION, calculate
from fctncalling.envs.tools.box.callables import Tool, ToolDefinitionError, as_tool
from fctncalling.envs.tools.box.tool_process import (
    ToolProcess,
    ToolProcessError,
    ToolTimeoutError,
    result_text,
)
from fctncalling.envs.tools.python_executor import PythonExecutor, SandboxUnavailable

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


class ToolProcessPool:
    """Pool of idle tool processes, reused between calls."""

    def __init__(self, num_processes: int) -> None:
        self.owner = os.getpid()
        self.places = threading.BoundedSemaphore(num_processes)
        self.idle: list[ToolProcess] = []
        self._lock = threading.Lock()
        self._closed = False

    def acquire(self) -> ToolProcess | None:
        """Take an idle process from the pool; None if there is none."""
        with self._lock:
            if self._closed:
                raise InfrastructureError("this ToolBox is closed")
            return self.idle.pop() if self.idle else None

    def release(self, process: ToolProcess) -> None:
        """Release a process back to the pool."""
        with self._lock:
            if not self._closed:
                self.idle.append(process)
                return
        process.close()

    def close(self) -> None:
        """End the idle processes and accept no more."""
        with self._lock:
            self._closed = True
            idle, self.idle = self.idle, []
        for process in idle if self.owner == os.getpid() else ():
            process.close()


NUM_PROCESSES = 8
MAX_CALLS = 32  # calls of one assistant message that are run
MAX_MESSAGE_OUTPUT = 50_000  # characters of all results of one message together


class ToolBox:
    """Tools by name, with the processes of those that have a time limit.

    `max_calls` bounds how many calls of one assistant message are run (`max_tools_per_generation`
    of OpenRLHF's configuration), `num_processes` how many at once. Results are untrusted: the marks
    in TAGS are broken in them, then each is cut to its tool's length, then all of a message to
    MAX_MESSAGE_OUTPUT. Processes start when first needed; a fork or a pickled copy of the box has
    its own. Inline tools (`timeout_s=None`) are called from several threads. `mcp_timeout_s` bounds
    each call of the servers that are given by their addresses.
    """

    def __init__(
        self,
        tools: Iterable[Any],
        *,
        num_processes: int = NUM_PROCESSES,
        max_calls: int | None = MAX_CALLS,
        mcp_timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._mcp_timeout_s = mcp_timeout_s
        self._tools: dict[str, Tool] = {}
        self._servers: list[ToolServer] = []  # those that the box has started
        try:
            for source in tools:
                for tool in self._tools_of(source):
                    self._add(tool)
        except BaseException:
            self._close_servers()
            raise
        self._num_processes = num_processes
        self._max_calls = max_calls
        self._pickled = _pickled(
            {name: tool for name, tool in self._tools.items() if tool.timeout_s is not None}
        )
        self._crew = ToolProcessPool(num_processes)

    def _tools_of(self, source: Any) -> Sequence[Tool]:
        if is_mcp_address(source):
            source = start_mcp_server(source, self._mcp_timeout_s)
            self._servers.append(source)
        if isinstance(source, ToolServer):
            return source.tools
        return (python_tool(source) if isinstance(source, PythonExecutor) else as_tool(source),)

    def _add(self, tool: Tool) -> None:
        if tool.name in self._tools:
            raise ToolDefinitionError(
                f"two tools are called {tool.name!r}: pass as_tool(..., name=...) for one, or "
                "mcp:PREFIX=... for the tools of a server"
            )
        self._tools[tool.name] = tool

    @property
    def docs(self) -> tuple[FunctionDoc, ...]:
        """Function docs of all tools, as in tasks."""
        return tuple(tool.doc for tool in self._tools.values())

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools."""
        return tuple(self._tools.values())

    @property
    def mcp_addresses(self) -> dict[str, str]:
        """Address of the MCP server of each tool that has one."""
        return {
            name: address
            for name, tool in self._tools.items()
            if (address := getattr(tool.function, "address", None)) is not None
        }

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def parameters(self, name: str) -> tuple[str, ...]:
        """Return the names of a tool's parameters, in order."""
        return tuple(self._tools[name].doc.parameters["properties"])

    @time_calls("tools")
    def call(self, call: Call) -> str:
        """Call a tool and return its result text.

        Raises InfrastructureError where the tool's process died.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            return f"Tool error: unknown tool {call.name!r}; there are {', '.join(self._tools)}"
        if not all(isinstance(key, str) for key in call.arguments):
            return f"Tool error: {call.name}() takes its arguments by name"
        returned, text = (
            self._run_inline(tool, call)
            if tool.timeout_s is None
            else self._run_in_process(tool, call)
        )
        text = text if returned else f"Tool error: {text}"
        return truncate_text(
            neutralise_marks(text[: tool.max_output_length + 1], TAGS), tool.max_output_length
        )

    def call_all(self, calls: Sequence[Call]) -> list[str]:
        """Call all tools of one message; return the result texts in order.

        Independent calls run concurrently.
        """
        run, left = list(calls[: self._max_calls]), calls[len(calls[: self._max_calls]) :]
        if len(run) < 2:
            texts = [self.call(call) for call in run]
        else:
            with ThreadPoolExecutor(min(len(run), self._num_processes)) as threads:
                texts = list(threads.map(self.call, run))
        texts = truncate_together(texts, MAX_MESSAGE_OUTPUT)
        return texts + [
            f"Tool error: not run, at most {self._max_calls} calls of one message are" for _ in left
        ]

    def as_class(self, class_name: str = "Tools") -> type:
        """Return a stateless class with a method for each tool of the box.

        It is what `FunctionCallingEnv(tools={class_name: ...})` and `ToolSession(extra_tools=...)`
        take.
        """
        methods: dict[str, Any] = {
            name: _method(self, tool) for name, tool in self._tools.items() if "." not in name
        }
        return type(
            class_name,
            (),
            {"__doc__": f"Tools: {', '.join(methods)}.", "__module__": __name__, **methods},
        )

    def close(self) -> None:
        """End the box's processes; those in a call end after it.

        Of MCP servers those that were given by their address.
        """
        self._crew.close()
        self._close_servers()

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()

    def __enter__(self) -> ToolBox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (
            cloudpickle.dumps(list(self._tools.values())),
            self._num_processes,
            self._max_calls,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> ToolBox:
        return self  # it has no state of an episode: snapshots of an episode share it

    def _run_inline(self, tool: Tool, call: Call) -> tuple[bool, str]:
        try:
            return True, result_text(tool.function(**call.arguments))
        except InfrastructureError:
            raise
        except SandboxUnavailable as error:  # of an executor that a tool of the user's holds
            raise InfrastructureError(f"tool {tool.name}: {error}") from error
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"

    def _run_in_process(self, tool: Tool, call: Call) -> tuple[bool, str]:
        if self._crew.owner != os.getpid():  # a fork: the processes are the parent's
            self._crew = ToolProcessPool(self._num_processes)
        crew = self._crew
        assert tool.timeout_s is not None
        with crew.places:
            try:
                process = crew.acquire() or ToolProcess(self._pickled)
                outcome = process.call(
                    tool.name,
                    call.arguments,
                    timeout_s=tool.timeout_s,
                    max_characters=tool.max_output_length,
                )
            except ToolTimeoutError as error:
                return False, f"{tool.name} {error}"
            except (ToolProcessError, OSError) as error:  # OSError: no process can be started
                raise InfrastructureError(f"tool {tool.name}: {error}") from error
            crew.release(process)
            return outcome


def python_tool(executor: PythonExecutor) -> Tool:
    """Make the tool `python_executor(code)` of a confined executor.

    Its own limits hold, so it is called inline.
    """

    def python_executor(code: str) -> str:
        if not isinstance(code, str):  # the model's mistake; all that `run` raises is not
            raise TypeError(f"code must be a text, not {type(code).__name__}")
        try:
            result = executor.run(code)
        except Exception as error:  # closed, or its zygote cannot be had
            raise InfrastructureError(f"python_executor: {error}") from error
        if result.status == "setup_error":
            raise InfrastructureError(result.reason)
        return result.text_within(limit)

    limit = executor.config.max_output_length
    return as_tool(
        python_executor,
        description=executor.config.description,
        timeout_s=None,
        max_output_length=limit,
    )


def calculator_tool() -> Tool:
    """Make the tool `calculator(expression)`."""

    def calculator(expression: str) -> str:
        return calculate(expression)

    return as_tool(calculator, description=DESCRIPTION, timeout_s=None)


def _method(box: ToolBox, tool: Tool) -> Callable[..., str]:
    parameters = box.parameters(tool.name)

    def method(self: Any, *positional: Any, **keywords: Any) -> str:
        if len(positional) > len(parameters):
            raise TypeError(
                f"{tool.name}() takes {len(parameters)} arguments but {len(positional)} were given"
            )
        arguments = dict(zip(parameters, positional, strict=False))
        if twice := arguments.keys() & keywords.keys():
            raise TypeError(f"{tool.name}() got multiple values for argument {min(twice)!r}")
        return box.call(Call(tool.name, arguments | keywords))

    method.__name__ = tool.name
    method.__qualname__ = tool.name
    method.__doc__ = tool.doc.description
    names = ["self", *parameters]
    method.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return method


def _pickled(tools: dict[str, Tool]) -> bytes:
    for name, tool in tools.items():
        try:
            cloudpickle.dumps(tool.function)
        except Exception as error:
            raise ToolDefinitionError(
                f"tool {name} cannot be sent to a process ({type(error).__name__}: {error}): "
                "make what it holds when it is called, or pass timeout_s=None to run it inline "
                "without a limit"
            ) from error
    return bytes(cloudpickle.dumps({name: tool.function for name, tool in tools.items()}))


def _rebuilt(pickled_tools: bytes, num_processes: int, max_calls: int | None) -> ToolBox:
    return ToolBox(
        cloudpickle.loads(pickled_tools), num_processes=num_processes, max_calls=max_calls
    )
