"""GatewayServer: HTTP in front of a Gateway, independent of tokens."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import queue
import re
import secrets
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import urlsplit

from fctncalling.data.unsafe_text import encodable_value
from fctncalling.lab.gateway.completion_request import (
    CompletionRequest,
    GatewayError,
    chat_request,
    invalid_field,
    text_request,
)
from fctncalling.lab.gateway.gateway import DEFAULT_SESSION, Gateway
from fctncalling.lab.gateway.gateway_session import GatewaySession, SessionTask
from fctncalling.lab.gateway.openai_answers import (
    AnsweredRequest,
    TextStream,
    answer_body,
    final_chunks,
    models_answer,
    text_chunk,
)

MAX_BODY_BYTES = 8 << 20
LEAST_BODY_BYTES = 1 << 20  # that are read however short the context is
BYTES_A_TOKEN = 256  # of the context, beyond which a body is not read
MAX_CONNECTIONS = 512
RECEIVE_S = 120.0  # from a connection, or the answer before, until a request is whole
LINGER_S = 2.0  # that a client may go on sending what is refused
SESSION_HEADER = "X-Session"
_REQUESTS = {"/v1/chat/completions": chat_request, "/v1/completions": text_request}
_PATH = re.compile(r"(?:/s/(?P<session>[^/]+))?(?P<rest>/.*)?")
_CHUNKED = object()  # end of a stream's tokens


class GatewayServer(ThreadingHTTPServer):
    """One thread a connection, at most MAX_CONNECTIONS; `address`: its URL for agents.

    Half-open connections shut nobody out: each has RECEIVE_S for its request, and where there are
    too many the one that has taken longest makes room.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, gateway: Gateway, host: str = "127.0.0.1", port: int = 0) -> None:
        self.gateway = gateway
        self.is_local = ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
        if not self.is_local and not gateway.settings.token:
            raise ValueError(
                f"--host {host}: whoever reaches that address could sample; give --token, which "
                "opens sessions, or leave --host out"
            )
        context = BYTES_A_TOKEN * gateway.settings.max_episode_tokens
        self.max_body_bytes = min(MAX_BODY_BYTES, max(LEAST_BODY_BYTES, context))
        self._connections = threading.Semaphore(MAX_CONNECTIONS)
        self.receiving: dict[Any, float] = {}  # connections without a whole request, and until when
        super().__init__((host, port), GatewayHandler)

    @property
    def address(self) -> str:
        """Return the URL before the paths of sessions."""
        host, port = self.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread; refuse it if too many have requests."""
        has_room = self._connections.acquire(blocking=False)
        if not has_room and (oldest := next(iter(self.receiving), None)) is not None:
            self._hang_up(oldest)
            has_room = self._connections.acquire(timeout=1.0)
        if not has_room:
            with contextlib.suppress(OSError):
                request.sendall(
                    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
                    b"Connection: close\r\n\r\n"
                )
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection, and make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.receiving.pop(request, None)
            self._connections.release()

    def service_actions(self) -> None:
        """Hang up on clients that take too long to send their request."""
        while (oldest := next(iter(self.receiving.items()), None)) is not None:
            if time.monotonic() < oldest[1]:
                return
            self._hang_up(oldest[0])

    def _hang_up(self, connection: Any) -> None:
        self.receiving.pop(connection, None)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: a client that hangs up is no fault of ours."""


class GatewayHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = RECEIVE_S
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one packet
    _has_unread_body = False  # which would be read as the next request: the connection ends

    @property
    def _owner(self) -> GatewayServer:
        return cast(GatewayServer, self.server)

    def handle_one_request(self) -> None:
        """Receive a request and answer it."""
        self._owner.receiving[self.connection] = time.monotonic() + RECEIVE_S
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answered(self._get)

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answered(self._post)

    def handle_expect_100(self) -> bool:
        """Ask for a large body at once; other output waits for the answer."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse an invalid or unsupported HTTP request in OpenAI's form, too."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self._send(code, GatewayError(code, message or explain or "refused").body())

    def log_message(self, format: str, *args: Any) -> None:
        """Discard the log line."""

    def _answered(self, answer: Any) -> None:
        told = [self.headers.get(name, "0") for name in ("Content-Length", "Transfer-Encoding")]
        self._has_unread_body = told != ["0", "0"]
        try:
            self._require_own_host()
            body = self._body() if self.command == "POST" else {}
            self._owner.receiving.pop(self.connection, None)
            answer(body)
        except GatewayError as error:
            self._send(error.status, error.body())
        except (ConnectionError, TimeoutError):  # the client is gone
            self.close_connection = True
        except Exception as error:  # a fault of ours costs a request, never the server
            self._send(500, GatewayError(500, f"{type(error).__name__}: {error}").body())

    def _get(self, _: dict[str, Any]) -> None:
        session_id, rest = self._route()
        if rest == "/v1/models":
            self._send(200, models_answer(self._owner.gateway.settings.model))
        elif rest == "/health" and not self._has_session():
            self._send(200, {"status": "ok"})
        elif rest == "" and self._has_session():
            self._report(session_id)
        else:
            raise self._unknown_path()

    def _report(self, session_id: str) -> None:
        gateway = self._owner.gateway
        report = self._ended_report(session_id)
        self._send(200, report or gateway.session(session_id, self._key(), opens=False).report())

    def _ended_report(self, session_id: str) -> dict[str, Any] | None:
        """Return the report of this key's session; None if it is not over."""
        key, report = self._owner.gateway.ended.get(session_id, ("", None))
        return report if secrets.compare_digest(key.encode(), self._key().encode()) else None

    def _post(self, body: dict[str, Any]) -> None:
        session_id, rest = self._route()
        gateway = self._owner.gateway
        if read := _REQUESTS.get(rest):
            request = read(body)  # a session begins with a request that can be read
            self._complete(gateway.session(session_id, self._key()), request)
        elif rest == "/end" and self._has_session() and self._ended_report(session_id):
            self._report(session_id)  # asked once more: nothing changes
        elif rest in ("/reward", "/end") and self._has_session():
            session = gateway.session(session_id, self._key(), opens=False)
            if isinstance(body.get("success"), bool):  # what else nobody knows
                session.success = body["success"]
            if rest == "/reward" or body.get("reward") is not None:
                gateway.reward(session, body.get("reward"))
            if rest == "/end":
                self._send(200, gateway.end(session, str(body.get("invalid") or "")[:500]))
            else:
                self._send(
                    200, gateway.end(session) if body.get("end") is True else session.report()
                )
        elif self.path == "/s":
            self._open(body)
        else:
            raise self._unknown_path()

    def _open(self, body: dict[str, Any]) -> None:
        """Open a session with a new key."""
        seed, task = body.get("seed"), str(body.get("task") or "")[:200]
        if seed is not None and (type(seed) is not int or not 0 <= seed < 2**63):
            raise invalid_field("seed", f"got {seed!r:.60}, expected an integer")
        gateway = self._owner.gateway
        own_key = f"session-{secrets.token_hex(16)}"
        session = gateway.open(
            self._key(),
            str(body.get("id") or ""),
            own_key=own_key,
            seed=seed,
            task=SessionTask(task) if task else None,
        )
        base_url = f"{self._owner.address}/s/{session.id}/v1"
        self._send(200, {"session": session.id, "key": own_key, "base_url": base_url})

    def _complete(self, session: GatewaySession, request: CompletionRequest) -> None:
        gateway = self._owner.gateway
        if request.stream:
            self._stream(session, request)
            return
        self._send(200, answer_body(gateway.complete(session, request), gateway.template))

    def _stream(self, session: GatewaySession, request: CompletionRequest) -> None:
        """Send an answer as server-sent events, in one piece if calls are read in it."""
        gateway = self._owner.gateway
        tokens: queue.SimpleQueue[Any] = queue.SimpleQueue()
        by_token = not request.reads_calls and not request.logprobs
        texts = [TextStream(gateway.template, request.stop) for _ in range(request.n)]
        kind = "chat.completion.chunk" if request.is_chat else "text_completion"
        head = {"id": f"stream-{session.id}", "object": kind, "created": 0}
        head["model"] = gateway.settings.model
        begun = False

        def sampled() -> AnsweredRequest:
            try:
                push = (lambda *token: tokens.put(token)) if by_token else None
                return gateway.complete(session, request, push)
            finally:
                tokens.put(_CHUNKED)

        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(sampled)
            while (token := tokens.get()) is not _CHUNKED:
                choice, number, _ = token
                first = not texts[choice].sent
                if piece := texts[choice].push(number):
                    begun = begun or self._begin_stream()
                    self._event(text_chunk(head, choice, piece, first=first))
            error = answer.exception()
            if error is not None and not begun:
                raise error
            begun = begun or self._begin_stream()
            if isinstance(error, GatewayError):
                self._event(error.body())
            else:
                sent = [text.sent for text in texts]
                answered = answer.result()
                for chunk in final_chunks(answered, gateway.template, sent):
                    self._event({**chunk, "id": head["id"]})
        self._write_chunk(b"data: [DONE]\n\n")
        self._write_chunk(b"")

    def _begin_stream(self) -> bool:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        return True

    def _event(self, value: Any) -> None:
        self._write_chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self._has_unread_body or self.close_connection:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        if self._has_unread_body:
            self._discard()

    def _discard(self) -> None:
        """Read the rest of the client's request: a reset connection would lose the answer."""
        until = time.monotonic() + LINGER_S
        self.connection.settimeout(LINGER_S)
        self.connection.shutdown(socket.SHUT_WR)
        while time.monotonic() < until and self.connection.recv(1 << 16):
            pass

    def _body(self) -> dict[str, Any]:
        """Return the request's JSON object; its Content-Length must be given once, and bounded."""
        told = self.headers.get_all("Content-Length", [])
        if len(told) != 1 or not told[0].isdecimal() or "Transfer-Encoding" in self.headers:
            expected = "expected one number of bytes, and no Transfer-Encoding"
            raise GatewayError(411, f"Content-Length: {expected}")
        limit = self._owner.max_body_bytes
        if len(told[0]) > 18 or int(told[0]) > limit:
            raise GatewayError(
                413,
                f"the body has {told[0]:.40} bytes, of which at most {limit} are read: shorten "
                "it, or raise --max_episode_tokens",
            )
        data = self.rfile.read(int(told[0]))
        if len(data) < int(told[0]):
            raise ConnectionError("the client hung up within its body")
        self._has_unread_body = False
        try:
            body = encodable_value(json.loads(data or b"{}"))
        except (ValueError, RecursionError) as error:
            raise GatewayError(400, f"the body is no JSON: {error}") from None
        if not isinstance(body, dict):
            raise GatewayError(400, "the body: expected a JSON object")
        return body

    def _route(self) -> tuple[str, str]:
        """Return the session of a request, and the rest of its path."""
        found = _PATH.fullmatch(urlsplit(self.path).path)
        rest = (found["rest"] or "") if found else ""
        session = found["session"] if found else None
        return session or self.headers.get(SESSION_HEADER) or DEFAULT_SESSION, rest

    def _has_session(self) -> bool:
        return self.path.startswith("/s/")

    def _key(self) -> str:
        """Return the bearer token of the request; "" if it has none."""
        scheme, _, key = (self.headers.get("Authorization") or "").partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""

    def _require_own_host(self) -> None:
        """Refuse names that a page of another site could have given this machine."""
        if not self._owner.is_local:
            return
        for name in ("Host", "Origin"):
            value = self.headers.get(name)
            if value is not None and not _is_local(value if "//" in value else f"//{value}"):
                raise GatewayError(403, f"{name} {value!r:.80}: expected this machine's own")

    def _unknown_path(self) -> GatewayError:
        return GatewayError(
            404,
            f"{self.command} {self.path!r:.120}: expected /v1/chat/completions, /v1/completions or "
            "/v1/models, alone or behind /s/ID; or /s, /s/ID/reward, /s/ID/end (chat completions "
            "are served, no Responses API)",
        )


def _is_local(url: str) -> bool:
    try:
        host = (urlsplit(url).hostname or "").lower()
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
