"""Connection to one running MCP server: its session, in a thread with an event loop.

The only file that uses the official SDK (mcp 1.24 and later, or 2), which is imported when a
connection is made. Leaving the loop ends the session and the server's process group: SDK's order,
all waits bounded. What a server sends is checked before the SDK reads it (`_fault`, `_HttpCheck`):
the SDK drops what it cannot read and reports a broken HTTP answer like an error of the tool.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

from fctncalling.envs.errors import MissingExtra, import_extra
from fctncalling.lab.mcp_client.address import McpAddress, ServerFolder
from fctncalling.lab.mcp_client.guard import (
    ERROR_BYTES,
    MAX_LINE_BYTES,
    TOO_LONG,
    weighted_message_bytes,
)
from fctncalling.lab.mcp_client.tool_docs import ListedTool

START_TIMEOUT_S = 120.0
CLOSE_S = 10.0  # the SDK's own waits for a process to end come to six
MAX_PAGES = 100
MAX_PARTS = 10_000  # of a result, or tools of a page: the SDK makes 3 kB of objects of each
BROKEN = (-32700, -32600, -32601, -32000)
"""Codes of JSON-RPC that no argument of a model causes: parse error, invalid request, method not
found, connection closed. The SDK gives them too where an answer over HTTP is none.
"""
GUARD = str(Path(__file__).with_name("guard.py"))


class McpToolError(Exception):
    """Error that a server reports about a call; the message is for the model."""


class McpFailure(Exception):
    """Error of a server that did not start, died, hung, or broke the protocol."""


class McpConnection:
    """Session with a server, from its start to `close()`.

    Raises McpFailure where there is none after `start_timeout_s`, MissingExtra where the SDK is
    missing. For several threads at once.
    """

    def __init__(
        self, address: McpAddress, *, start_timeout_s: float, env: Mapping[str, str] | None = None
    ) -> None:
        self._sdk = _sdk()
        self._error: Any = getattr(self._sdk, "MCPError", None) or self._sdk.McpError
        self._address = address
        env = env or {}
        self._folder = ServerFolder([*address.command, *env.values()], address.text)
        self._env = self._folder.filled(env)
        self._loop = asyncio.new_event_loop()
        self._closing = False
        self._scope: Any = None  # cancelled to end the handshake
        self._over: Any = None  # set to end the session
        self._client: Any = None
        self._reason = ""  # what broke the session, where that is known better than the SDK says
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
            raise McpFailure(f"{self._reason or _cause(error)}{self._last_words()}") from error

    def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> str:
        """Return a call's result text; raises McpToolError and McpFailure."""
        calling = self._call(name, self._folder.filled(arguments), timeout_s)
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
            raise McpFailure(f"{self._reason or _cause(error)}{self._last_words()}") from error

    def close(self) -> None:
        """End the session and the server's processes."""
        self._closing = True
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._cancel)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_S)

    def _cancel(self) -> None:
        """End the session in order, or the handshake by force."""
        if self.is_ready:
            self._over.set()
        elif self._scope is not None:
            self._scope.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._reason = self._reason or _cause(error)
            if not self._tools.done():
                self._tools.set_exception(error)
        finally:
            with suppress(Exception):
                _finish_tasks(self._loop)
            self._loop.close()
            self._folder.remove()

    async def _serve(self) -> None:
        anyio = import_extra("anyio", "mcp", "an MCP server")
        self._over = anyio.Event()
        with anyio.CancelScope() as self._scope:
            if self._closing:
                self._scope.cancel()
            async with self._session() as client:
                self._tools.set_result(await self._listed(client))
                self._client = client
                await self._over.wait()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        if hasattr(self._sdk, "Client"):  # mcp 2
            async with self._sdk.Client(self._transport(), cache=None) as client:
                yield client
            return
        async with self._transport() as streams, self._sdk.ClientSession(*streams) as session:
            await session.initialize()
            yield session

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the streams of a session; incoming messages are checked."""
        anyio = import_extra("anyio", "mcp", "an MCP server")
        async with AsyncExitStack() as stack:
            streams = self._http(stack) if self._address.url else self._stdio()
            read, write, *_ = await stack.enter_async_context(await streams)
            group = await stack.enter_async_context(anyio.create_task_group())
            sound, passed_on = anyio.create_memory_object_stream(0)
            group.start_soon(self._pass_on, read, sound)
            yield passed_on, write
            group.cancel_scope.cancel()

    async def _http(self, stack: AsyncExitStack) -> Any:
        http = import_extra("mcp.client.streamable_http", "mcp", "an MCP server")
        client = http.create_mcp_http_client(headers={"Accept-Encoding": "identity"})
        library = http.httpx2 if hasattr(http, "httpx2") else http.httpx
        client.event_hooks = {"response": [_HttpCheck(self, library.AsyncByteStream)]}
        await stack.enter_async_context(client)
        # mcp 2 bounds events at 1 MB unless told; ours bounds those of mcp 1 too
        options = {"max_sse_event_size": None} if hasattr(self._sdk, "Client") else {}
        return http.streamable_http_client(self._address.url, http_client=client, **options)

    async def _stdio(self) -> Any:
        stdio = import_extra("mcp.client.stdio", "mcp", "an MCP server")
        command = list(self._folder.filled(self._address.command))
        if sys.platform != "win32":  # there the SDK's job object does what the guard does
            command = [sys.executable, "-I", "-S", GUARD, str(os.getpid()), *command]
        parameters = self._sdk.StdioServerParameters(
            command=command[0], args=command[1:], env=self._env or None
        )
        return stdio.stdio_client(parameters, errlog=self._errors)

    async def _pass_on(self, messages: Any, sound: Any) -> None:
        async with sound:
            async for message in messages:
                if fault := _fault(message):
                    raise self.abort(fault)
                await sound.send(message)

    @property
    def is_ready(self) -> bool:
        """Whether the handshake is over: before, servers may refuse unknown requests."""
        return self._client is not None

    def abort(self, fault: str) -> McpFailure:
        """End the session for a reason; return the exception, to be raised too."""
        self._reason = self._reason or fault
        if not self._tools.done():
            self._tools.set_exception(McpFailure(fault))
        self._cancel()
        return McpFailure(fault)

    async def _call(self, name: str, arguments: dict[str, Any], timeout_s: float) -> str:
        async with asyncio.timeout(timeout_s):
            try:
                answer = await self._client.call_tool(name, arguments)
            except self._error as error:
                if self._reason or error.error.code in BROKEN:
                    raise McpFailure(self._reason or error.error.message) from error
                await self._require_same_tools()
                raise McpToolError(self._folder.masked(str(error))) from error
            result = answer.model_dump(by_alias=True, mode="json")
            text = self._folder.masked(_result_text(result))
            if result.get("isError"):
                await self._require_same_tools()
                raise McpToolError(text)
            return text

    async def _require_same_tools(self) -> None:
        """Raise McpFailure if, after an error, the server has ended or offers other tools."""
        if await self._listed(self._client) != self.tools:
            raise McpFailure("the server offers other tools than when it started")

    async def _listed(self, client: Any) -> list[ListedTool]:
        tools: list[ListedTool] = []
        cursor = None
        for _ in range(MAX_PAGES):
            page = (await client.list_tools(cursor=cursor)).model_dump(by_alias=True)
            tools += [
                ListedTool(
                    tool["name"],
                    self._folder.masked(tool.get("description") or ""),
                    tool["inputSchema"],
                    (tool.get("annotations") or {}).get("readOnlyHint"),
                )
                for tool in page["tools"]
            ]
            cursor = page.get("nextCursor")
            if not cursor:
                return tools
        raise McpFailure(f"its list of tools has more than {MAX_PAGES} pages")

    def _last_words(self) -> str:
        with suppress(OSError, ValueError):
            self._errors.seek(0)
            text = self._errors.read()[-ERROR_BYTES:].strip()
            lines = [line for line in text.splitlines() if not line.startswith("npm notice")]
            return f"; it wrote: {lines[-1][:300]}" if lines else ""
        return ""


def _sdk() -> Any:
    sdk = import_extra("mcp", "mcp", "an MCP server")
    http = import_extra("mcp.client.streamable_http", "mcp", "an MCP server")
    if not hasattr(http, "streamable_http_client"):
        raise MissingExtra(
            "an MCP server needs the library mcp in version 1.24 or later, and an older one is "
            "installed. Install it with `pip install 'fctncalling[mcp]'`."
        )
    logger = logging.getLogger("mcp")
    if logger.level == logging.NOTSET:  # it logs a traceback for each line that is no message
        logger.setLevel(logging.CRITICAL)
    return sdk


def _result_text(result: Mapping[str, Any]) -> str:
    """Join the texts of a result; other parts are described by kind and size."""
    parts = [_content_text(block) for block in result["content"]]
    if not parts and result.get("structuredContent") is not None:
        from fctncalling.envs.tools.box.tool_process import result_text

        return result_text(result["structuredContent"])
    return "\n".join(parts)


def _content_text(block: Mapping[str, Any]) -> str:
    if block["type"] == "text":
        return str(block["text"])
    resource = block.get("resource") or {}
    if isinstance(text := resource.get("text"), str):
        return text
    if block["type"] == "resource_link":
        return str(block["uri"])
    data = block.get("data") or resource.get("blob") or ""
    return f"[{block['type']} {block.get('mimeType') or ''}: {len(data)} characters]"


def _fault(message: Any) -> str:
    """Return why a transport message ends the session; "" for a sound one.

    A line that the SDK could not read arrives as its error: a note that a server prints is let
    pass, a message that JSON readers refuse (surrogates, 300 levels, a number of 10 000 digits) is
    not, for the call that it answers would wait until its time is over.
    """
    if isinstance(message, Exception):
        listed = getattr(message, "errors", None)  # pydantic's
        errors = listed() if listed else [{"msg": str(message)}]
        is_message = "jsonrpc" in str(errors[0].get("input", "jsonrpc"))
        return f"it sent what cannot be read: {errors[0]['msg'][:200]}" if is_message else ""
    inner = getattr(message, "message", None)
    result = getattr(getattr(inner, "root", inner), "result", None)
    for name, parts in result.items() if isinstance(result, dict) else ():
        if isinstance(parts, list) and len(parts) > MAX_PARTS:
            return f"it sent {len(parts)} parts as {name}: at most {MAX_PARTS} are taken"
    return ""


class _HttpCheck:
    """Hook on the HTTP client's responses: bounds them, and ends the session on invalid ones."""

    def __init__(self, connection: McpConnection, byte_stream: type[Any]) -> None:
        self._connection = connection
        self._byte_stream = byte_stream  # what the HTTP library takes as a body

    async def __call__(self, response: Any) -> None:
        kind = response.headers.get("content-type", "").lower()
        response.stream = self._bounded(response.stream, kind.startswith("text/event-stream"))
        if "content-encoding" in response.headers:  # not asked for, and unbounded when unpacked
            raise self._connection.abort("it packed an answer, which was not asked for")
        status = response.status_code
        if status < 400 or response.request.method != "POST" or not self._connection.is_ready:
            return
        is_json = status in (400, 404) and kind.startswith("application/json")
        if not (is_json and _is_rpc_error(await response.aread())):
            raise self._connection.abort(f"it answered HTTP {status}")

    def _bounded(self, stream: Any, is_events: bool) -> Any:
        """Return a response body that fails if it, or one event of it, is too long."""
        connection = self._connection

        class Bounded(self._byte_stream):  # type: ignore[misc, name-defined]
            async def __aiter__(self) -> AsyncIterator[bytes]:
                size, last = 0, b""
                async for chunk in stream:
                    seen = last + chunk.replace(b"\r\n", b"\n")
                    event_end = seen.rfind(b"\n\n") if is_events else -1
                    rest = weighted_message_bytes(
                        seen[event_end + 2 :] if event_end >= 0 else chunk
                    )
                    size = rest if event_end >= 0 else size + rest
                    last = seen[-1:]
                    if size > MAX_LINE_BYTES:
                        raise connection.abort(TOO_LONG)
                    yield chunk

            async def aclose(self) -> None:
                await stream.aclose()

        return Bounded()


def _is_rpc_error(body: bytes) -> bool:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and isinstance(answer.get("error"), dict)


def _cause(error: BaseException) -> str:
    """Return the text of the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, McpFailure):
        return str(error)
    if isinstance(error, FutureCancelled | asyncio.CancelledError):
        return "the connection was closed"
    return f"{type(error).__name__}: {' '.join(str(error)[:500].split())}".rstrip(": ")


def _finish_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Notify pending calls that the session is over."""
    pending: Sequence[asyncio.Task[Any]] = list(asyncio.all_tasks(loop))
    for task in pending:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
