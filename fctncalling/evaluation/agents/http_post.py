"""HTTP POST with a deadline, a bound on the unpacked answer, and redaction of secrets."""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import threading
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

MAX_ANSWER_BYTES = 16 * 2**20  # a message of a model has some thousand
CONNECT_S = 10.0  # until a connection stands


class Reply(NamedTuple):
    """Complete reply to a request."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class RequestFailed(Exception):
    """Error of a request without a complete reply; `unreachable` if there was no connection."""

    def __init__(self, message: str, *, unreachable: bool = False, timed_out: bool = False) -> None:
        super().__init__(message)
        self.unreachable = unreachable
        self.timed_out = timed_out


class BadAddress(Exception):
    """Error of a URL that HTTP does not accept."""


class HttpPoster:
    """Thread-safe sender of JSON to one URL.

    httpx bounds the gap between two bytes, so an endpoint that drips would never end. Here a timer
    shuts the socket down when the time is up, wherever the request then stands.
    """

    def __init__(
        self,
        httpx: Any,
        url: str,
        headers: Mapping[str, str],
        timeout_s: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._httpx = httpx
        self._url = url
        self._headers = dict(headers)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._verify = httpx.create_ssl_context()  # read once: it costs 20 ms
        self._of_thread = threading.local()
        self._all: list[_Connection] = []

    def post(self, data: bytes) -> Reply:
        """Post data and return the reply; raises RequestFailed or BadAddress."""
        connection = self._connection()
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            connection.shut_down()

        timer = threading.Timer(self._timeout_s, expire)
        timer.daemon = True
        timer.start()
        try:
            with connection.client.stream(
                "POST", self._url, content=data, extensions={"trace": connection.note}
            ) as reply:
                return Reply(reply.status_code, reply.headers, self._read(reply, expired))
        except (self._httpx.UnsupportedProtocol, self._httpx.InvalidURL) as error:
            raise BadAddress(str(error)) from None
        except RequestFailed:
            raise
        except Exception as error:  # whatever httpx and its layers make of a broken connection
            if expired.is_set():
                raise self._late() from None
            refused = (self._httpx.ConnectError, self._httpx.ConnectTimeout)
            raise RequestFailed(
                f"{type(error).__name__}: {error}",
                unreachable=isinstance(error, refused),
                timed_out=isinstance(error, self._httpx.TimeoutException),
            ) from None
        finally:
            timer.cancel()

    def close(self) -> None:
        """Close the connections."""
        for connection in self._all:
            connection.client.close()

    def _read(self, reply: Any, expired: threading.Event) -> bytes:
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
            if expired.is_set():
                raise self._late()
        if expired.is_set():  # a socket that was shut down may read as the answer's end
            raise self._late()
        if unpack is not None and data and not unpack.eof:
            raise RequestFailed(f"the answer breaks off inside its {packing}")
        return bytes(data)

    def _late(self) -> RequestFailed:
        return RequestFailed(f"no whole answer within {self._timeout_s:g} s", timed_out=True)

    def _connection(self) -> _Connection:
        if not hasattr(self._of_thread, "connection"):
            timeout = self._httpx.Timeout(self._timeout_s, connect=min(CONNECT_S, self._timeout_s))
            client = self._httpx.Client(
                timeout=timeout,
                headers={**self._headers, "Accept-Encoding": "identity"},
                limits=self._httpx.Limits(max_connections=1),
                verify=self._verify,
            )
            self._of_thread.connection = _Connection(client)
            self._all.append(self._of_thread.connection)
        connection: _Connection = self._of_thread.connection
        return connection


class _Connection:
    """HTTP client of one thread and its current socket."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._socket: Any = None

    def note(self, _: str, info: Mapping[str, Any]) -> None:
        """Remember the newest socket; httpx calls this at each stage of a request."""
        stream = info.get("return_value")
        if stream is not None and hasattr(stream, "get_extra_info"):
            self._socket = stream.get_extra_info("socket") or self._socket

    def shut_down(self) -> None:
        """Shut down the socket, which wakes a waiting thread; `close` would not."""
        if self._socket is not None:
            with contextlib.suppress(OSError, ValueError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


REDACTED = "[redacted]"
_LEAST_IN_ERRORS, _LEAST_IN_ANSWERS = 4, 6
"""Shortest secret that is searched for: a placeholder such as "none" may be a word of an answer."""
_CREDENTIALS = re.compile(r"(?<=://)[^/\s?#\"'<>]+@")


class Redactor:
    """Redactor of secrets in texts, in every way an endpoint may escape them.

    API keys and URL credentials never reach results, logs or error messages.
    """

    def __init__(self, key: str, url: str) -> None:
        secrets = {key, *_credentials(url)} - {""}
        self._in_errors = _pattern(secrets, _LEAST_IN_ERRORS)
        self._in_answers = _pattern(secrets, _LEAST_IN_ANSWERS)

    def redact_text(self, text: str) -> str:
        """Redact secrets and the credentials of URLs in an error text."""
        return _CREDENTIALS.sub(f"{REDACTED}@", _replaced(self._in_errors, text))

    def redact_json(self, value: Any) -> Any:
        """Redact the secrets in a JSON value; RecursionError if it nests too deep."""
        if isinstance(value, str):
            return _replaced(self._in_answers, value)
        if isinstance(value, Mapping):
            return {self.redact_json(key): self.redact_json(item) for key, item in value.items()}
        return [self.redact_json(item) for item in value] if isinstance(value, list) else value


def without_credentials(url: str) -> str:
    """Return a URL without credentials: user, password and query."""
    return _CREDENTIALS.sub("", url).partition("?")[0]


def _credentials(url: str) -> set[str]:
    """Return a URL's password, and user and password together as HTTP sends them."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user and not password:
        return set()
    pair = f"{user}:{password}"
    own = {password, pair} if password else {user}  # a token alone
    return {*own, _base64(pair)}


def _pattern(secrets: set[str], least: int) -> re.Pattern[str] | None:
    long_enough = {secret for secret in secrets if len(secret) >= least}
    forms = {*long_enough, *map(_base64, long_enough)}
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(_however_written, longest_first))) if forms else None


def _base64(secret: str) -> str:
    return base64.b64encode(secret.encode()).decode().rstrip("=")


def _however_written(secret: str) -> str:
    r"""Return a pattern of a text with characters that may be escaped.

    By backslashes, as JSON in JSON has them, as \u005c, or as %5C.
    """
    return "".join(map(_character, secret))


def _character(char: str) -> str:
    plain = char if char.isalnum() else rf"\\*{re.escape(char)}"
    units = char.encode("utf-16-be").hex()
    escaped = "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))
    percent = "".join(f"%{byte:02x}" for byte in char.encode())
    return f"(?:{plain}|(?i:{escaped}|{percent}))"


def _replaced(pattern: re.Pattern[str] | None, text: str) -> str:
    return text if pattern is None else pattern.sub(REDACTED, text)
