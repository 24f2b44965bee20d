"""Twenty awkward specifications: each is made, or refused in one line that names place and cure."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fctncalling.lab.mcp_client.connection import McpFailure
from fctncalling.lab.mcp_client.mcp_server import McpServer
from fctncalling.lab.mcp_client.tool_docs import ListedTool
from fctncalling.lab.own_api.kinds import argument_kinds
from fctncalling.lab.own_api.load import api_of_mcp_server, load_api
from fctncalling.specification.api import OwnApi, SpecificationError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def operation(**more: Any) -> dict[str, Any]:
    return {"operationId": "act", "summary": "Do it.", "responses": {}, **more}


def document(paths: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    return {
        "openapi": version,
        "info": {"title": "Awkward", "version": "1"},
        "paths": paths,
        **more,
    }


def body(schema: Any) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def loaded(folder: Path, specification: Any, name: str = "spec.json") -> OwnApi:
    file = folder / name
    text = specification if isinstance(specification, str) else json.dumps(specification)
    file.write_text(text, encoding="utf-8")
    return checked(load_api(str(file)))


def checked(api: OwnApi) -> OwnApi:
    """Return an API after the promises that hold for every one of them were looked at."""
    names = [each.name for each in api.functions]
    assert len(set(names)) == len(names)
    assert all(map(NAME.fullmatch, names))
    kinds = argument_kinds(api)
    for (function, name), kind in kinds.items():
        assert NAME.fullmatch(name)
        doc = api.function(function).parameters
        assert set(doc["required"]) <= set(doc["properties"])
        if kind.can_be_asked:
            value = kind.draw(random.Random(name))
            json.dumps(value)
            assert kind.accepted(value)
    return api


def refused(folder: Path, specification: Any, *words: str, name: str = "spec.json") -> None:
    with pytest.raises(SpecificationError) as caught:
        loaded(folder, specification, name)
    line = str(caught.value)
    assert "\n" not in line
    assert all(word in line for word in words), line


def test_circular_references_end_and_are_told(tmp_path: Path) -> None:
    node = {
        "type": "object",
        "required": ["label"],
        "properties": {
            "label": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
        },
    }
    paths = {"/t": {"post": operation(requestBody=body({"$ref": "#/components/schemas/Node"}))}}
    api = loaded(tmp_path, document(paths, components={"schemas": {"Node": node}}))
    assert set(api.function("act").parameters["properties"]) == {"label", "children"}
    assert any("holds itself" in note for note in api.notes)


def test_reference_that_only_leads_to_itself(tmp_path: Path) -> None:
    schemas = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    paths = {"/t": {"post": operation(requestBody=body({"$ref": "#/components/schemas/A"}))}}
    api = loaded(tmp_path, document(paths, components={"schemas": schemas}))
    assert any("refers to itself" in note for note in api.notes)


def test_allof_that_holds_itself(tmp_path: Path) -> None:
    schemas = {
        "A": {
            "allOf": [
                {"$ref": "#/components/schemas/A"},
                {"properties": {"x": {"type": "integer"}}},
            ]
        }
    }
    paths = {"/t": {"post": operation(requestBody=body({"$ref": "#/components/schemas/A"}))}}
    api = loaded(tmp_path, document(paths, components={"schemas": schemas}))
    assert list(api.function("act").parameters["properties"]) == ["x"]


def test_reference_to_nothing_names_place(tmp_path: Path) -> None:
    paths = {"/t": {"post": operation(requestBody=body({"$ref": "#/components/schemas/Gone"}))}}
    refused(tmp_path, document(paths), "POST /t", "#/components/schemas/Gone", "no such place")


def test_references_that_unfold_without_end_are_cut(tmp_path: Path) -> None:
    """Each schema holds the next one ten times: 10^8 nodes if all were unfolded."""
    schemas = {
        f"S{level}": {
            "type": "object",
            "properties": {
                f"p{each}": {"$ref": f"#/components/schemas/S{level + 1}"} for each in range(10)
            },
        }
        for level in range(8)
    }
    schemas["S8"] = {"type": "string"}
    paths = {"/t": {"post": operation(requestBody=body({"$ref": "#/components/schemas/S0"}))}}
    api = loaded(tmp_path, document(paths, components={"schemas": schemas}))
    assert any("nests too deep" in note for note in api.notes)


def test_no_operation_id_makes_names_of_method_and_path(tmp_path: Path) -> None:
    get = {"summary": "Show a pet's visits.", "responses": {}}
    api = loaded(tmp_path, document({"/pets/{pet-id}/visits": {"get": get}}))
    assert [each.name for each in api.functions] == ["get_pets_pet_id_visits"]
    assert api.functions[0].parameters["required"] == ["pet_id"]  # told by the path alone
    assert any("parameter 'pet-id' is called pet_id" in note for note in api.notes)


def test_same_name_twice_is_told_apart(tmp_path: Path) -> None:
    api = loaded(tmp_path, document({"/a": {"get": operation()}, "/b": {"get": operation()}}))
    assert [each.name for each in api.functions] == ["act", "act_2"]
    assert "GET /b: 'act' is there twice: called act_2" in api.notes


def test_three_hundred_operations(tmp_path: Path) -> None:
    paths = {
        f"/things{number}/{{id}}": {"get": {**operation(), "operationId": f"show{number}"}}
        for number in range(300)
    }
    assert len(loaded(tmp_path, document(paths)).functions) == 300


def test_no_descriptions_are_told(tmp_path: Path) -> None:
    tools = [{"name": "f", "parameters": {"properties": {"x": {}, "count": {"type": "integer"}}}}]
    api = loaded(tmp_path, tools)
    assert any("no description" in note for note in api.notes)
    assert argument_kinds(api)["f", "count"].kind == "integer"


def test_names_in_other_scripts_become_callable(tmp_path: Path) -> None:
    tools = [
        {
            "name": "予約する",
            "description": "Book.",
            "parameters": {"properties": {"日付": {"type": "string"}}},
        },
        {"name": "Größe-ändern", "description": "Change a size.", "parameters": {}},
        {"name": "取り消す", "description": "Cancel.", "parameters": {}},
    ]
    api = loaded(tmp_path, tools)
    assert [each.name for each in api.functions] == ["function_1", "Groe_andern", "function_3"]
    assert any("'予約する' is no name for a call: called function_1" in note for note in api.notes)
    assert any("parameter '日付' is called argument_1" in note for note in api.notes)


def test_names_that_are_words_of_python(tmp_path: Path) -> None:
    parameters = {"properties": {"from": {"type": "string"}, "class": {"type": "string"}}}
    api = loaded(tmp_path, [{"name": "import", "description": "Import.", "parameters": parameters}])
    assert api.functions[0].name == "import_"
    assert list(api.functions[0].parameters["properties"]) == ["from_", "class_"]


def test_arrays_of_objects_of_arrays(tmp_path: Path) -> None:
    line = {
        "type": "object",
        "required": ["sku", "sizes"],
        "properties": {
            "sku": {"type": "string", "example": "SK-100"},
            "sizes": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 9}},
        },
    }
    schema = {"type": "object", "properties": {"lines": {"type": "array", "items": line}}}
    api = loaded(tmp_path, document({"/o": {"post": operation(requestBody=body(schema))}}))
    kind = argument_kinds(api)["act", "lines"]
    value = [{"sku": "SK-200", "sizes": [3]}, {"sku": "SK-300", "sizes": [4]}]
    accepted = kind.accepted(value)
    assert accepted != [[{"sku": ["SK-200"], "sizes": [[3]]}, {"sku": ["SK-300"], "sizes": [[4]]}]]
    assert len(accepted) == 2  # both orders of the lines


def test_parameter_and_body_of_one_name(tmp_path: Path) -> None:
    given = operation(
        parameters=[{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        requestBody=body({"type": "object", "properties": {"id": {"type": "integer"}}}),
    )
    api = loaded(tmp_path, document({"/x/{id}": {"put": given}}))
    assert list(api.function("act").parameters["properties"]) == ["id", "body_id"]


def test_contradictions_are_told_and_not_followed(tmp_path: Path) -> None:
    properties = {
        "low": {"type": "integer", "minimum": 9, "maximum": 3},
        "choice": {"type": "string", "enum": ["a", "b"], "default": "z"},
        "odd": {"type": "quaternion"},
        "broken": {"type": "string", "pattern": "([a-z"},
    }
    tool = {
        "name": "f",
        "description": "Do.",
        "input_schema": {"properties": properties, "required": ["gone"]},
    }
    api = loaded(tmp_path, [tool])
    told = " ".join(api.notes)
    assert all(word in told for word in ("no value", "not in its enum", "quaternion", "gone"))
    assert api.functions[0].parameters["required"] == []


def test_openapi_30_in_yaml_keeps_texts_as_texts(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    text = """
openapi: 3.0.3
info: {title: T, version: 1.0}
paths:
  /w:
    get:
      operationId: weather
      summary: Tell the weather.
      parameters:
        - {name: day, in: query, schema: {type: string, nullable: true, example: 2026-11-23}}
        - {name: land, in: query, schema: {type: string, enum: [no, on, de]}}
        - {name: size, in: query, schema: {type: number, minimum: 0, exclusiveMinimum: true}}
      responses: {200: {description: ok}}
"""
    api = loaded(tmp_path, text, "spec.yaml")
    kinds = argument_kinds(api)
    assert kinds["weather", "day"].kind == "date"
    assert kinds["weather", "land"].values == ("no", "on", "de")
    assert kinds["weather", "size"].draw(random.Random(1)) > 0


def test_broken_yaml_and_json_name_their_line(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    refused(tmp_path, "openapi: 3.1.0\npaths: [", "line", name="broken.yaml")
    refused(tmp_path, '{"openapi":\n "3.1.0",,', "line 2")


def test_other_versions_and_no_specification_at_all(tmp_path: Path) -> None:
    refused(tmp_path, {"swagger": "1.2", "paths": {}}, "1.2", "convert")
    refused(tmp_path, document({}, "4.0.0"), "3.0, 3.1 or 3.2")
    refused(tmp_path, document({}), "paths", "none")
    refused(tmp_path, {"hello": 1}, "neither OpenAPI")
    refused(tmp_path, [], "no function")
    refused(tmp_path, [{"name": 3}], "tool 1", "expected")
    for spec in ("nothing", "https://x.example/openapi.json", "gone.yaml", "gone_module:Class"):
        with pytest.raises(SpecificationError):
            load_api(spec)


def test_class_that_cannot_be_made_says_how_it_could(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "awkward_desk.py").write_text(
        "class Desk:\n    def __init__(self, key): ...\n"
        "class Loose:\n    def act(self, *things): ...\n"
        "raise_later = 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for spec, word in (
        ("awkward_desk:Desk", "defaults"),
        ("awkward_desk:Loose", "things"),
        ("awkward_desk:raise_later", "expected a class"),
        ("awkward_desk:Dosk", "no Dosk"),
    ):
        with pytest.raises(SpecificationError, match=word):
            load_api(spec)
    sys.modules.pop("awkward_desk", None)


class _Server:
    """Connection of a server that lists what it is told to list."""

    def __init__(self, tools: list[ListedTool]) -> None:
        self.tools = tools

    def call(self, name: str, arguments: Any, timeout_s: float) -> str:
        raise McpFailure("gone")

    def close(self) -> None:
        """Nothing to end."""


def served(tools: list[ListedTool]) -> OwnApi:
    server = McpServer(f"mcp:{sys.executable}", connect=lambda: _Server(tools))
    return checked(api_of_mcp_server("mcp:desk", server))


def test_server_that_lies_about_its_schemas() -> None:
    lies = {"properties": {"a": 7, "b": {"type": ["string", "null"]}}, "required": ["zzz", "b"]}
    api = served(
        [ListedTool("act-now", "Act.", lies), ListedTool("rest", "Rest.", {"properties": []})]
    )
    assert [each.name for each in api.functions] == ["act_now", "rest"]
    assert api.function("act_now").parameters["required"] == ["b"]
    assert any("zzz" in note for note in api.notes)


def test_server_that_dies_floods_or_offers_nothing() -> None:
    def dead() -> Any:
        raise McpFailure("exit code 1: no\nsuch module")

    with pytest.raises(Exception, match="cannot be started"):
        McpServer(f"mcp:{sys.executable}", connect=dead)
    with pytest.raises(SpecificationError, match="no command is called"):
        load_api("mcp:no-such-server-anywhere")
    for tools in ([], [ListedTool(f"t{number}", "T.") for number in range(600)]):
        with pytest.raises(Exception, match="offers"):
            McpServer(f"mcp:{sys.executable}", connect=lambda tools=tools: _Server(tools))
    long = served([ListedTool("act", "word " * 100_000)])
    assert len(long.functions[0].description) < 5_000
