"""An MCP server of a few lines over streamable HTTP, faulty as its argument says when it is called.

Its tool `add` takes a text. "sound", "refuses" (a JSON-RPC error about the argument), "unknown" (a
JSON-RPC error about the request), "500", "500_rpc" (with a JSON-RPC error), "400_rpc", "html",
"redirect", "moved" (to the same host, kept), "event:N" and "json:N" (N characters), "packed", "cut"
(an event stream without an answer).
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ADD = {
    "name": "add",
    "description": "Add.",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
}


@contextmanager
def mcp_http(mode: str) -> Iterator[str]:
    """Serve until the block ends; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if mode == "moved" and self.path == "/mcp":
                self._send(307, b"", Location="/mcp/")
            elif "id" not in request:
                self._send(202, b"")
            elif request["method"] == "tools/call":
                self._answer_call(request["id"])
            else:
                self._send_rpc(200, request["id"], **handshake(request))

        def do_GET(self) -> None:
            self._send(405, b"")

        do_DELETE = do_GET

        def _answer_call(self, number: int) -> None:
            kind, _, size = mode.partition(":")
            content = {"content": [{"type": "text", "text": "x" * int(size) if size else "3"}]}
            message = {"jsonrpc": "2.0", "id": number, "result": content}
            refusals = {"refuses": (200, -32602), "unknown": (200, -32601)}
            refusals |= {"500_rpc": (500, -32603), "400_rpc": (400, -32602)}
            if kind in refusals:
                status, code = refusals[kind]
                self._send_rpc(status, number, error={"code": code, "message": "a: no such file"})
            elif kind == "500":
                self._send(500, b"oh")
            elif kind == "html":
                self._send(200, b"<html>Sign in</html>", Content_Type="text/html")
            elif kind == "redirect":
                self._send(302, b"", Location="http://example.org/mcp")
            elif kind in ("event", "cut"):
                data = b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"
                body = b": wait\r\n\r\n" + (data if kind == "event" else b"")
                self._send(200, body, Content_Type="text/event-stream")
            elif kind == "packed":
                body = gzip.compress(json.dumps(message).encode())
                self._send(200, body, Content_Type="application/json", Content_Encoding="gzip")
            else:
                self._send_rpc(200, number, result=content)

        def _send_rpc(self, status: int, number: int, **fields: Any) -> None:
            body = json.dumps({"jsonrpc": "2.0", "id": number, **fields}).encode()
            self._send(status, body, Content_Type="application/json")

        def _send(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:  # the client has had enough
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that left
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


def handshake(request: dict[str, Any]) -> dict[str, Any]:
    """Return result or error of what is no call of a tool."""
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        about = {"serverInfo": {"name": "fake", "version": "1"}, "capabilities": {"tools": {}}}
        return {"result": {"protocolVersion": version, **about}}
    if request["method"] == "tools/list":
        return {"result": {"tools": [ADD]}}
    return {"error": {"code": -32601, "message": "Method not found"}}
