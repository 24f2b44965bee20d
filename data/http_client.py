"""HTTP client: requests with deadlines, bounded answers and retries."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from fctncalling.data.unsafe_text import encodable_text

MAX_ANSWER_BYTES = 16 * 2**20  # a message of a model has some thousand
MAX_WAIT_S = 60.0  # before a repetition
CONNECT_S = 10.0  # until a connection stands
TRANSIENT = (408, 409, 425, 429)

Result = TypeVar("Result")


class Reply(NamedTuple):
    """Reply to a request, whole."""

    url: str
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def text(self) -> str:
        """Data as a text."""
        return self.data.decode("utf-8", "replace")

    @property
    def is_temporary(self) -> bool:
        """Whether the status is that of a failure which may pass."""
        return self.status in TRANSIENT or self.status >= 500

    def json(self) -> Any:
        """Return the JSON value; raises ValueError or RecursionError for invalid data."""
        return json.loads(self.data)


class RequestFailed(Exception):
    """Failed request, without a whole reply; `unreachable` if there was no connection.

    `wait_s`: how long to wait at least before it is repeated.
    """

    def __init__(
        self,
        message: str,
        *,
        unreachable: bool = False,
        timed_out: bool = False,
        wait_s: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.unreachable = unreachable
        self.timed_out = timed_out
        self.wait_s = wait_s


class BadAddress(RequestFailed):
    """Bad address: a URL that HTTP does not know."""


class HttpClient:
    """HTTP client with a key and headers for all its requests, for any number of threads.

    httpx bounds the gap between two bytes, so a server that drips would never end. Here a timer
    shuts the socket down when the time is up, wherever the request then stands. OSError or
    ValueError for certificates that cannot be read.
    """

    def __init__(
        self,
        *,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        bearer = {"Authorization": f"Bearer {key}"} if key else {}
        given = {"Accept-Encoding": "identity", **bearer, **(headers or {})}
        self._headers = {name: value.encode() for name, value in given.items()}
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._verify = _certificates()
        self.closed = threading.Event()
        self._connections: list[_Connection] = []
        self._idle: list[_Connection] = []

    def request(
        self, method: str, url: str, body: Any = None, *, timeout_s: float | None = None
    ) -> Reply:
        """Send one request and return its reply; raises RequestFailed or BadAddress.

        `body`: bytes, or what is sent as JSON; surrogates, which UTF-8 cannot say, are joined or
        replaced.
        """
        import httpx

        headers = {}
        if not isinstance(body, bytes | None):
            body = encodable_text(json.dumps(body, ensure_ascii=False)).encode()
            headers["Content-Type"] = "application/json"
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        connection = self._connection()
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            connection.shut_down()

        timer = threading.Timer(limit_s, expire)
        timer.daemon = True
        timer.start()
        try:
            with connection.client.stream(
                method,
                url,
                content=body,
                headers=headers,
                timeout=httpx.Timeout(limit_s, connect=min(CONNECT_S, limit_s)),
                extensions={"trace": connection.note},
            ) as reply:
                answer = self._read(reply)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise BadAddress(str(error)) from None
        except Exception as error:  # whatever httpx and its layers make of a broken connection
            self._check_open(limit_s, expired)
            if isinstance(error, RequestFailed):
                raise
            raise RequestFailed(
                f"{type(error).__name__}: {error}",
                unreachable=isinstance(error, httpx.ConnectError | httpx.ConnectTimeout),
                timed_out=isinstance(error, httpx.TimeoutException),
            ) from None
        finally:
            timer.cancel()
            self._idle.append(connection)
        self._check_open(limit_s, expired)  # a socket shut down may read as an answer's end
        return Reply(url, reply.status_code, reply.headers, answer)

    def retry(
        self,
        attempt: Callable[[], Result],
        *,
        retries: int,
        first_wait_s: float,
        on_failure: Callable[[RequestFailed, int, float], None] = lambda *_: None,
    ) -> Result:
        """Return the result of an attempt; one that raises RequestFailed is repeated.

        Waits double, with jitter to spread threads, and are no shorter than the failure's
        `wait_s`. `on_failure` is called before each with the failure, the repetition's number and
        the wait; it may raise. The last failure is raised.
        """
        for number in range(1, retries + 1):
            try:
                return attempt()
            except RequestFailed as failure:
                grown_s = first_wait_s * 2.0 ** (number - 1) * random.uniform(0.75, 1.25)
                wait_s = min(MAX_WAIT_S, max(failure.wait_s, grown_s))
                on_failure(failure, number, wait_s)
                if self.closed.wait(wait_s):
                    raise
        return attempt()

    def close(self) -> None:
        """Close the connections; requests under way fail, and nobody waits to repeat one."""
        self.closed.set()
        for connection in list(self._connections):
            connection.shut_down()
            connection.client.close()

    def _check_open(self, limit_s: float, expired: threading.Event) -> None:
        """Raise RequestFailed where the time was up or the client was closed during a request."""
        if expired.is_set():
            raise RequestFailed(f"no whole answer within {limit_s:g} s", timed_out=True) from None
        if self.closed.is_set():
            raise RequestFailed("the connection was closed") from None

    def _read(self, reply: Any) -> bytes:
        packing = str(reply.headers.get("content-encoding", "identity")).strip().lower()
        if packing not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise RequestFailed(
                f"the answer is packed as {packing[:40]!r}, which was not asked for"
            )
        unpack = None if packing in ("", "identity") else zlib.decompressobj(zlib.MAX_WBITS | 32)
        data, received = bytearray(), 0
        for chunk in reply.iter_raw():
            received += len(chunk)
            try:
                room = self._max_bytes + 1 - len(data)
                data += chunk if unpack is None else unpack.decompress(chunk, room)
            except zlib.error as error:
                raise RequestFailed(f"the answer is no {packing}: {error}") from None
            if max(received, len(data)) > self._max_bytes:
                raise RequestFailed(f"the answer has more than {self._max_bytes:,} bytes")
        if unpack is not None and data and not unpack.eof:
            raise RequestFailed(f"the answer breaks off inside its {packing}")
        return bytes(data)

    def _connection(self) -> _Connection:
        """Return a connection that no other thread uses."""
        if self.closed.is_set():
            raise RequestFailed("the connection was closed")
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        connection = _Connection(self._headers, self._verify, self.closed)
        self._connections.append(connection)
        return connection


class _Connection:
    """Client of one request at a time, and the socket it speaks through."""

    def __init__(self, headers: Mapping[str, Any], verify: Any, closed: threading.Event) -> None:
        import httpx

        limits = httpx.Limits(max_connections=1)
        self.client = httpx.Client(headers=headers, limits=limits, verify=verify)
        self._closed = closed
        self._socket: socket.socket | None = None

    def note(self, _: str, info: Mapping[str, Any]) -> None:
        """Remember the newest socket; called by httpx at each stage of a request."""
        stream = info.get("return_value")
        if stream is not None and hasattr(stream, "get_extra_info"):
            self._socket = stream.get_extra_info("socket") or self._socket
            if self._closed.is_set():  # before there was a socket to shut down
                self.shut_down()

    def shut_down(self) -> None:
        """End whatever waits on the socket; `close` would not wake a thread that waits."""
        if self._socket is not None:
            with contextlib.suppress(OSError, ValueError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


@cache
def _certificates() -> Any:
    """Read the certificates of authorities, once: it costs 20 ms."""
    import httpx

    return httpx.create_ssl_context()
