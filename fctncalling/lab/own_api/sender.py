"""Sender of calls: an operation's HTTP request, a tool of an MCP server, a method of a class.

`origin` is what `OwnApi.origins` and a shipped model's `functions.json` say of a function. Keys
come from the environment, by the variables that it names; API_URL replaces its server.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fctncalling.data.http_client import HttpClient, RequestFailed
from fctncalling.envs.named_tools import add_working_folder_to_path, import_object
from fctncalling.lab.mcp_client import McpServer

TIMEOUT_S = 60.0
MAX_ANSWER = 1_000_000  # bytes
_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}


class SendError(ValueError):
    """Call that cannot be sent; the message says in one line why, and the cure."""


def senders(functions: Iterable[Mapping[str, Any]], *, send: bool) -> dict[str, Callable[..., str]]:
    """Return a sender for each function of a `functions.json`; errors are answers."""

    def sender(origin: Mapping[str, Any]) -> Callable[..., str]:
        def called(**arguments: Any) -> str:
            try:
                return run_call(origin, arguments, send=send)
            except SendError as error:
                return f"not sent: {error}"

        return called

    return {each["name"]: sender(each["origin"]) for each in functions}


def run_call(origin: Mapping[str, Any], arguments: Mapping[str, Any], *, send: bool = True) -> str:
    """Return the answer to a call by this API's names, or, unsent, the request.

    SendError where there is nothing to send it to, or a key is missing.
    """
    names = origin.get("parameters", {})
    if unknown := [each for each in arguments if each not in names]:
        raise SendError(f"{origin.get('name')}: takes no {unknown[0]}: it takes {', '.join(names)}")
    own = {names[key]["name"]: value for key, value in arguments.items()}
    server, target = str(origin.get("server", "")), origin.get("class")
    if "method" in origin:
        environment = os.environ if send else None
        return (_answer if send else _shown)(http_request(origin, arguments, environment))
    if not server and not target:
        raise SendError(f"{origin.get('name')}: no address is known: give what runs it yourself")
    if not send:
        return f"{server or target} {origin['name']} {json.dumps(own, ensure_ascii=False)}"
    if server:
        return _server(server).call(origin["name"], own)
    return str(getattr(_instance(str(target)), origin["name"])(**own))


@cache
def _server(address: str) -> McpServer:
    return McpServer(address)


@cache
def _instance(target: str) -> Any:
    add_working_folder_to_path()
    return import_object(target)()


class OperationRequest(NamedTuple):
    """HTTP request of an operation."""

    method: str
    url: str
    headers: Mapping[str, str]
    data: bytes | None


def http_request(
    origin: Mapping[str, Any],
    arguments: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> OperationRequest:
    """Return the request of an operation; SendError if it cannot be made.

    `environment` has the keys; without one their names stand in their places.
    """
    path, body = str(origin["path"]), dict[str, Any]()
    query, headers = list[tuple[str, str]](), dict[str, str]()
    whole: Any = None
    for key, value in arguments.items():
        place = origin["parameters"][key]
        name, where = place["name"], place["in"]
        if where == "path":
            path = path.replace(f"{{{name}}}", quote(_joined(value), safe=""))
        elif where == "query":
            query += _pairs(place, value)
        elif where == "header":
            headers[name] = _joined(value)
        elif where == "body":
            body[name] = value
        else:
            whole = value
    if "{" in path:
        raise SendError(f"{origin['name']}: {path}: a value of its path is missing")
    data = None
    if body or whole is not None:
        kind, data = _body(origin, whole if whole is not None else body)
        headers["Content-Type"] = kind
    _add_keys(origin, environment, query, headers)
    _add_client_headers(origin, environment, headers)
    server = (environment or {}).get("API_URL") or origin.get("server", "")
    if not str(server).startswith(("http://", "https://")):
        raise SendError(f"{origin['name']}: server {server!r}: set API_URL to an http(s) address")
    address = f"{server.rstrip('/')}{path}" + (f"?{urlencode(query)}" if query else "")
    return OperationRequest(str(origin["method"]), address, headers, data)


def _add_keys(
    origin: Mapping[str, Any],
    environment: Mapping[str, str] | None,
    query: list[tuple[str, str]],
    headers: dict[str, str],
) -> None:
    """Add the keys of the first alternative of security schemes that the environment has."""
    alternatives = origin.get("security", [])
    if not alternatives:
        return
    for schemes in alternatives:
        variables = [each["variable"] for each in schemes]
        if environment is None or all(each in environment for each in variables):
            break
    else:
        needed = " or ".join(" and ".join(e["variable"] for e in each) for each in alternatives)
        raise SendError(f"{origin['name']}: a key is missing: set {needed} in the environment")
    for scheme in schemes:
        name, kind = scheme["variable"], scheme["type"]
        key = f"${name}" if environment is None else environment[name]
        if kind == "bearer":
            headers["Authorization"] = f"Bearer {key}"
        elif kind == "basic":  # the key is user:password
            word = key if environment is None else base64.b64encode(key.encode()).decode()
            headers["Authorization"] = f"Basic {word}"
        elif kind == "apiKey" and scheme["in"] == "query":
            query.append((scheme["name"], key))
        elif kind == "apiKey":
            is_cookie = scheme["in"] == "cookie"
            headers["Cookie" if is_cookie else scheme["name"]] = (
                f"{scheme['name']}={key}" if is_cookie else key
            )
        else:
            raise SendError(f"{origin['name']}: security scheme {kind}: send it yourself")


def _add_client_headers(
    origin: Mapping[str, Any], environment: Mapping[str, str] | None, headers: dict[str, str]
) -> None:
    """Add client headers from environment variables, else their documented values."""
    for header in origin.get("headers", []):
        name, variable = header["name"], header["variable"]
        value = (environment or {}).get(variable) or header["value"]
        if header["required"] and not value and environment is not None:
            raise SendError(f"{origin['name']}: {name} is missing: set {variable}")
        if header["required"] or (environment or {}).get(variable):
            headers[name] = value or f"${variable}"


def _pairs(place: Mapping[str, Any], value: Any) -> Iterator[tuple[str, str]]:
    """Yield a query parameter as its style writes it: by default each item of a list apart."""
    name, style = place["name"], place.get("style", "form")
    explode = place.get("explode", style == "form")
    if place.get("json"):
        yield name, json.dumps(value)
    elif isinstance(value, dict) and style == "deepObject":
        yield from _deep_pairs(name, value)
    elif isinstance(value, dict) and explode:
        yield from ((key, _text(each)) for key, each in value.items())
    elif isinstance(value, list) and explode:
        yield from ((name, _text(each)) for each in value)
    else:
        yield name, _joined(value, _SEPARATORS.get(style, ","))


def _deep_pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield a value of a form as name[key][0]=text."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        if isinstance(each, dict | list):
            yield from _deep_pairs(f"{name}[{key}]", each)
        else:
            yield f"{name}[{key}]", _text(each)


def _joined(value: Any, mark: str = ",") -> str:
    if isinstance(value, dict):
        value = [each for pair in value.items() for each in pair]
    return mark.join(map(_text, value)) if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _body(origin: Mapping[str, Any], value: Any) -> tuple[str, bytes]:
    """Return media type and bytes of a body."""
    kind = str(origin.get("body", "application/json"))
    if "json" in kind:
        return kind, json.dumps(value, ensure_ascii=False).encode()
    if kind.startswith("text/") and isinstance(value, str):
        return kind, value.encode()
    if "form" in kind and isinstance(value, dict):
        pairs = [
            pair
            for name, each in value.items()
            for pair in (
                _deep_pairs(name, each) if isinstance(each, dict | list) else [(name, _text(each))]
            )
        ]
        if "urlencoded" in kind:
            return kind, urlencode(pairs).encode()
        mark = secrets.token_hex(16)
        parts = [
            f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
            for name, text in pairs
        ]
        return f"multipart/form-data; boundary={mark}", f"{''.join(parts)}--{mark}--\r\n".encode()
    raise SendError(f"{origin['name']}: a body of {kind}: send it yourself")


def _answer(request: OperationRequest) -> str:
    """Return the text of an answer; a redirect is one, too: keys go to no other host."""
    method, url, headers, data = request
    client = HttpClient(headers=headers, timeout_s=TIMEOUT_S, max_bytes=MAX_ANSWER)
    with closing(client):
        try:
            reply = client.request(method, url, data)
        except RequestFailed as error:
            raise SendError(f"{method} {url}: {error}") from None
    return reply.text if reply.status < 300 else f"HTTP {reply.status}: {reply.text}"


def _shown(request: OperationRequest) -> str:
    """Return a request as it would be sent, a line a header."""
    lines = [f"{request.method} {request.url}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if request.data is not None:
        lines.append(request.data.decode("utf-8", "replace"))
    return "\n".join(lines)
