"""McpConnection: one running server and the session with it, in a thread with an event loop.

The only file that uses the official SDK, which is imported when a connection is made. Leaving the
loop ends the session and the server's process group: SDK's order, all waits bounded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from fctncalling.envs.errors import MissingExtra, extra_module
from fctncalling.envs.tools.box.mcp.address import McpAddress
from fctncalling.envs.tools.box.mcp.guard import ERROR_BYTES, MAX_LINE_BYTES
from fctncalling.envs.tools.box.mcp.tool_docs import ListedTool

CLOSE_S = 10.0  # the SDK's own waits for a process to end come to six
MAX_PAGES = 100
GUARD = str(Path(__file__).with_name("guard.py"))


class McpToolError(Exception):
    """Error that a server reports about a call; the message is for the model."""


class McpFailure(Exception):
    """Server that did not start, died, hung, or broke the protocol; the connection is over."""


class McpConnection:
    """A session with a server, from its start to `close()`; raises McpFailure where there is none
    after `start_timeout_s`, MissingExtra where the SDK is missing. For several threads at once.
    """

    def __init__(
        self, address: McpAddress, *, start_timeout_s: float, env: Mapping[str, str] | None = None
    ) -> None:
        self._sdk = _sdk()
        self._address = address
        self._env = dict(env or {})
        self._loop = asyncio.new_event_loop()
        self._closing = False
        self._scope: Any = None  # cancelled to end the session
        self._client: Any = None
        self._errors: IO[str] = tempfile.TemporaryFile("a+", errors="replace")  # noqa: SIM115
        self._tools: Future[list[ListedTool]] = Future()
        self._thread = threading.Thread(target=self._run, name=address.text[:40], daemon=True)
        self._thread.start()
        try:
            self.tools = self._tools.result(start_timeout_s)
        except FutureTimeout:
            self.close()
            raise McpFailure(f"not ready after {start_timeout_s:g} s{self._last_words()}") from None
        except Exception as error:
            self.close()
            raise McpFailure(f"{_cause(error)}{self._last_words()}") from error

    def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> str:
        """Return a call's result text; raises McpToolError and McpFailure."""
        calling = self._call(name, dict(arguments), timeout_s)
        try:
            future = asyncio.run_coroutine_threadsafe(calling, self._loop)
        except RuntimeError:
            calling.close()
            raise McpFailure(f"the connection is closed{self._last_words()}") from None
        try:
            return future.result(timeout_s + CLOSE_S)
        except McpToolError:
            raise
        except TimeoutError:
            future.cancel()
            raise McpFailure(f"no answer within {timeout_s:g} s") from None
        except BaseException as error:  # a cancelled future is no Exception
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise McpFailure(f"{_cause(error)}{self._last_words()}") from error

    def close(self) -> None:
        """End the session and the server's processes."""
        self._closing = True
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._cancel)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_S)

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            if not self._tools.done():
                self._tools.set_exception(error)
        finally:
            with suppress(Exception):
                _finish_tasks(self._loop)
            self._loop.close()

    async def _serve(self) -> None:
        anyio = extra_module("anyio", "mcp", "an MCP server")
        with anyio.CancelScope() as self._scope:
            if self._closing:
                self._scope.cancel()
            async with self._sdk.Client(self._transport(), cache=None) as client:
                self._client = client
                self._tools.set_result(await _listed(client))
                await anyio.sleep_forever()

    def _transport(self) -> Any:
        if self._address.url:
            http = extra_module("mcp.client.streamable_http", "mcp", "an MCP server")
            return http.streamable_http_client(self._address.url, max_sse_event_size=MAX_LINE_BYTES)
        stdio = extra_module("mcp.client.stdio", "mcp", "an MCP server")
        command = list(self._address.command)
        if sys.platform != "win32":  # there the SDK's job object does what the guard does
            command = [sys.executable, "-I", "-S", GUARD, str(os.getpid()), *command]
        parameters = self._sdk.StdioServerParameters(
            command=command[0], args=command[1:], env=self._env or None
        )
        return stdio.stdio_client(parameters, errlog=self._errors)

    async def _call(self, name: str, arguments: dict[str, Any], timeout_s: float) -> str:
        async with asyncio.timeout(timeout_s):
            try:
                result = await self._client.call_tool(name, arguments)
            except self._sdk.MCPError as error:
                await self._require_same_tools()
                raise McpToolError(str(error)) from error
            text = _result_text(result)
            if result.is_error:
                await self._require_same_tools()
                raise McpToolError(text)
            return text

    async def _require_same_tools(self) -> None:
        """After an error: raise McpFailure where the server is gone or offers other tools now."""
        if await _listed(self._client) != self.tools:
            raise McpFailure("the server offers other tools than when it started")

    def _last_words(self) -> str:
        with suppress(OSError, ValueError):
            self._errors.seek(0)
            lines = self._errors.read()[-ERROR_BYTES:].strip().splitlines()
            return f"; it wrote: {lines[-1][:300]}" if lines else ""
        return ""


def _sdk() -> Any:
    sdk = extra_module("mcp", "mcp", "an MCP server")
    if not hasattr(sdk, "Client"):
        raise MissingExtra(
            "an MCP server needs version 2 of the library mcp, and an older one is installed. "
            "Install it with `pip install 'fctncalling[mcp]'`."
        )
    logger = logging.getLogger("mcp")
    if logger.level == logging.NOTSET:  # it logs a traceback for each line that is no message
        logger.setLevel(logging.CRITICAL)
    return sdk


async def _listed(client: Any) -> list[ListedTool]:
    tools: list[ListedTool] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += [
            ListedTool(tool.name, tool.description or "", tool.input_schema) for tool in page.tools
        ]
        cursor = page.next_cursor
        if not cursor:
            return tools
    raise McpFailure(f"its list of tools has more than {MAX_PAGES} pages")


def _result_text(result: Any) -> str:
    """Return the texts of a result; of what is no text, its kind and size."""
    parts = [_content_text(block) for block in result.content]
    if not parts and result.structured_content is not None:
        from fctncalling.envs.tools.box.tool_process import result_text

        return result_text(result.structured_content)
    return "\n".join(parts)


def _content_text(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource" and isinstance(text := getattr(block.resource, "text", None), str):
        return text
    if block.type == "resource_link":
        return str(block.uri)
    data: Any = getattr(block, "data", None) or getattr(
        getattr(block, "resource", None), "blob", ""
    )
    return f"[{block.type} {getattr(block, 'mime_type', None) or ''}: {len(data)} characters]"


def _cause(error: BaseException) -> str:
    """Return the first error of a group, as text."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, McpFailure):
        return str(error)
    if isinstance(error, FutureCancelled | asyncio.CancelledError):
        return "the connection was closed"
    return f"{type(error).__name__}: {' '.join(str(error)[:500].split())}".rstrip(": ")


def _finish_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Let the calls that are under way learn that the session is over."""
    pending: Sequence[asyncio.Task[Any]] = list(asyncio.all_tasks(loop))
    for task in pending:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
