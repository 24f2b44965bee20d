"""An OpenAI-compatible endpoint on this machine that answers by a script, and fails as real ones
do.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[int, dict[str, Any]], Any]
"""(number of the request from 0, its body) -> a message, an HTTP status as int, a (status,
headers), "drop", or a function that is given the request's handler and answers by itself.
"""


def raw(status: int, data: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return an answer that sends these bytes; underscores of header names stand for dashes."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content_Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        with contextlib.suppress(OSError):  # who asked may have hung up
            handler.wfile.write(data)

    return answer


def error(status: int, text: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return an answer that is an error in OpenAI's form."""
    return raw(status, json.dumps({"error": {"message": text}}).encode())


class Stub:
    """What was asked so far."""

    def __init__(self, reply: Reply) -> None:
        self.reply, self.bodies, self.url = reply, list[dict[str, Any]](), ""
        self.keys: list[str | None] = []
        self._lock = threading.Lock()

    def take(self, body: dict[str, Any], key: str | None) -> int:
        with self._lock:
            self.bodies.append(body)
            self.keys.append(key)
            return len(self.bodies) - 1


@contextmanager
def endpoint(reply: Reply) -> Iterator[Stub]:
    """Serve a script on a free port of this machine."""
    stub = Stub(reply)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = stub.reply(stub.take(body, self.headers.get("Authorization")), body)
            if answer == "drop":
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if callable(answer):
                answer(self)
                return
            status, headers = (answer, {}) if isinstance(answer, int) else (200, {})
            if isinstance(answer, tuple):
                status, headers = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            choices = {"choices": [{"message": answer}]} if status == 200 else {"error": "scripted"}
            data = json.dumps(choices).encode()
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
