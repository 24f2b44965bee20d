"""Calls of a shipped model reach the API as its document says; the oracle is what a server gets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from test_awkward_specifications import body, document, loaded, operation

from fctncalling.lab.adapt.shipped_model import CLIENT, functions_with_origins
from fctncalling.lab.own_api.sender import SendError, run_call

PARAMETERS = [
    {"in": "path", "name": "bed-id", "schema": {"type": "string"}},
    {"in": "query", "name": "tag", "schema": {"type": "array", "items": {"type": "string"}}},
    {"in": "query", "name": "ids", "explode": False, "schema": {"type": "array", "items": {}}},
    {"in": "query", "name": "at", "style": "deepObject", "schema": {"type": "object"}},
    {"in": "query", "name": "as", "content": {"application/json": {"schema": {"type": "object"}}}},
    {
        "in": "header",
        "name": "X-Trace",
        "required": True,
        "schema": {"type": "integer", "default": 7},
    },
]
COLOUR = {"type": "object", "properties": {"bed.colour": {"type": "string"}, "soft": {}}}
SCHEMES = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "loginToken": {"type": "oauth2", "flows": {}},
    "basic": {"type": "http", "scheme": "basic"},
}


def form(kind: str) -> dict[str, Any]:
    return {"content": {kind: {"schema": {"type": "object", "properties": {"a": {}, "b": {}}}}}}


PATHS = {
    "/beds/{bed-id}": {
        "put": operation(
            operationId="paint-bed",
            parameters=PARAMETERS,
            requestBody=body(COLOUR),
            security=[{"apiKey": [], "basic": []}, {"loginToken": []}],
        )
    },
    "/form": {
        "post": operation(operationId="fill", requestBody=form("application/x-www-form-urlencoded"))
    },
    "/parts": {
        "post": operation(operationId="send_parts", requestBody=form("multipart/form-data"))
    },
    "/list": {
        "post": operation(operationId="send_list", requestBody=body({"type": "array", "items": {}}))
    },
    "/gone": {"get": operation(operationId="look")},
}


@contextmanager
def server() -> Iterator[tuple[str, list[Any]]]:
    """Serve, and keep (method, path, headers, body) of each request; /gone leads elsewhere."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            got.append((self.command, self.path, self.headers, data))
            self.send_response(302 if self.path == "/v1/gone" else 200)
            self.send_header("Location", "/v1/elsewhere")
            self.end_headers()
            self.wfile.write(b"done")

        do_GET = do_PUT = do_POST = answer

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as here:
        thread = threading.Thread(target=here.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{here.server_port}", got
        finally:
            here.shutdown()
            thread.join()


def origins(folder: Path, address: str) -> dict[str, Any]:
    servers = [{"url": f"{address}/{{version}}", "variables": {"version": {"default": "v1"}}}]
    more = {"servers": servers, "components": {"securitySchemes": SCHEMES}}
    functions = functions_with_origins(loaded(folder, document(PATHS, **more)))
    return {each["name"]: each["origin"] for each in json.loads(json.dumps(functions))}


def test_each_argument_stands_where_the_document_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "bed_id": "a/b c",
        "tag": ["x", "y"],
        "ids": [1, 2],
        "at": {"day": 3},
        "as_": {"k": True},
        "bed_colour": "dark red",
        "soft": None,
    }
    with server() as (address, got):
        known = origins(tmp_path, address)
        assert known["paint_bed"]["name"] == "paint-bed"
        with pytest.raises(SendError, match="API_KEY and BASIC or LOGIN_TOKEN"):
            run_call(known["paint_bed"], given)
        unsent = run_call(known["paint_bed"], given, send=False)
        monkeypatch.setenv("LOGIN_TOKEN", "secret")
        assert run_call(known["paint_bed"], given) == "done"
        monkeypatch.setenv("API_KEY", "k")
        monkeypatch.setenv("BASIC", "u:p")
        run_call(known["paint_bed"], given)
        run_call(known["fill"], {"a": "1 2", "b": {"c": ["d"]}})
        run_call(known["send_parts"], {"a": "one"})
        run_call(known["send_list"], {"body": [1, "two"]})
        assert run_call(known["look"], {}).startswith("HTTP 302")
    path = "/v1/beds/a%2Fb%20c?tag=x&tag=y&ids=1%2C2&at%5Bday%5D=3&as=%7B%22k%22%3A+true%7D"
    first, second, filled, parts, listed, gone = got
    assert (first[0], first[1]) == ("PUT", path)
    assert json.loads(first[3]) == {"bed.colour": "dark red", "soft": None}
    assert first[2]["X-Trace"] == "7"
    assert first[2]["Authorization"] == "Bearer secret"
    assert (second[2]["X-Key"], second[2]["Authorization"]) == ("k", "Basic dTpw")
    assert filled[3] == b"a=1+2&b%5Bc%5D%5B0%5D=d"
    assert b'name="a"\r\n\r\none\r\n' in parts[3]
    assert json.loads(listed[3]) == [1, "two"]
    assert gone[1] == "/v1/gone"  # no further one: keys go to no other address
    assert unsent.splitlines()[0] == f"PUT {address}{path}"
    assert "$API_KEY" in unsent


def test_document_of_openapi_2_is_read_as_the_same_in_openapi_3(tmp_path: Path) -> None:
    colour = {"type": "string", "enum": ["red", "blue"], "description": "Its colour."}
    tags = {"type": "array", "items": {"type": "string"}}
    bed = {"type": "object", "properties": {"colour": colour}, "required": ["colour"]}
    shared = {"in": "path", "name": "id", "required": True}
    query = {"in": "query", "name": "tags"}
    filled = {"type": "object", "properties": {"colour": colour, "tags": tags}}
    key = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    security = {"security": [{"key": []}]}
    old = {
        "swagger": "2.0",
        "host": "beds.example",
        "basePath": "/v1",
        "securityDefinitions": key,
        "parameters": {"bed": {"in": "body", "name": "any", "schema": bed}},
        "paths": {
            "/beds/{id}": {
                "parameters": [{**shared, "type": "integer"}],
                "put": operation(
                    parameters=[
                        {**query, **tags, "collectionFormat": "multi"},
                        {"$ref": "#/parameters/bed"},
                    ]
                ),
            },
            "/fill": {
                "post": operation(
                    operationId="fill",
                    parameters=[
                        {"in": "formData", "name": "colour", **colour},
                        {"in": "formData", "name": "tags", **tags},
                    ],
                )
            },
        },
    }
    paths = {
        "/beds/{id}": {
            "parameters": [{**shared, "schema": {"type": "integer"}}],
            "put": operation(parameters=[{**query, "schema": tags}], requestBody=body(bed)),
        },
        "/fill": {
            "post": operation(
                operationId="fill",
                requestBody={"content": {"application/x-www-form-urlencoded": {"schema": filled}}},
            )
        },
    }
    components = {
        "components": {"securitySchemes": key},
        "servers": [{"url": "https://beds.example/v1"}],
    }
    read = [loaded(tmp_path, {**each, **security}) for each in (old, document(paths, **components))]
    assert [each.parameters for each in read[0].functions] == [
        each.parameters for each in read[1].functions
    ]
    given = {"act": {"id": 3, "tags": ["a", "b"], "colour": "red"}, "fill": {"colour": "blue"}}
    for name, arguments in given.items():
        one, other = (run_call(each.origins[name], arguments, send=False) for each in read)
        assert one == other


def test_call_that_cannot_be_sent_says_why(tmp_path: Path) -> None:
    known = origins(tmp_path, "ftp://somewhere")
    for name, given, word in (
        ("look", {"much": 1}, "takes no much"),
        ("paint_bed", {"tag": ["x"]}, "value of its path"),
        ("look", {}, "API_URL"),
    ):
        with pytest.raises(SendError, match=word):
            run_call(known[name], given)
    with pytest.raises(SendError, match="no address"):
        run_call({"name": "act", "parameters": {}}, {})


def test_calls_of_a_class_reach_it_under_its_own_names() -> None:
    origin = {"name": "upper", "class": "builtins:str", "parameters": {}}
    assert run_call(origin, {}) == ""
    assert "builtins:str upper {}" in run_call(origin, {}, send=False)


@pytest.mark.parametrize("flags", [["--send"], []])
def test_shipped_client_sends_what_the_model_calls(
    flags: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = {"function": {"name": "look_up", "arguments": '{"bed_id": "3"}'}}
    answer = json.dumps({"choices": [{"message": {"tool_calls": [call]}}]})
    model = CLIENT.replace("http://localhost:8000/v1/chat/completions", f"data:,{quote(answer)}")
    monkeypatch.setattr("sys.argv", ["client.py", *flags, "Look it up."])
    with server() as (address, got):
        paths = {"/beds/{bed-id}": {"get": operation(operationId="look-up")}}
        given = document(paths, servers=[{"url": address}])
        functions = functions_with_origins(loaded(tmp_path, given))
        (tmp_path / "functions.json").write_text(json.dumps(functions))
        (tmp_path / "request.json").write_text(json.dumps({"messages": []}))
        exec(model, {"__file__": str(tmp_path / "client.py"), "__name__": "__main__"})
    sent = [(method, path) for method, path, *_ in got]
    assert sent == ([("GET", "/beds/3")] if flags else [])
    assert capsys.readouterr().out == ("done\n" if flags else f"GET {address}/beds/3\n")
    assert len(CLIENT.splitlines()) <= 45
