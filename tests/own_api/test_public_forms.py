"""Forms of public APIs and tool lists: nothing of them is lost without a count."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from test_awkward_specifications import body, document, loaded, operation, refused

from fctncalling.cli.command import main
from fctncalling.lab.own_api.kinds import argument_kinds
from fctncalling.lab.own_api.words.spoken_values import spoken_value
from fctncalling.specification import document as documents
from fctncalling.specification.type_text import is_optional_type, schema_of_type


def test_operation_and_its_parameters_behind_references_of_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is relative to the file that it stands in, and each file is read once."""
    sort = {"in": "query", "name": "sort", "schema": {"$ref": "../models/sort.json#/by~1name"}}
    bed = {"schema": {"type": "object", "properties": {"size": {"$ref": "../spec.json#/x-size"}}}}
    files = {
        "ops/list.json": operation(
            operationId="list_beds", parameters={"$ref": "shared.json#/all"}
        ),
        "ops/item.json": {"post": operation(operationId="add_bed", requestBody={"$ref": "b.json"})},
        "ops/b.json": {"content": {"application/json": bed}},
        "ops/shared.json": {"all": [{"$ref": "#/sort"}, {"$ref": "#/sort2"}], "sort": sort}
        | {"sort2": {**sort, "name": "then"}},
        "models/sort.json": {"by/name": {"enum": ["size", "name"]}},
    }
    for name, contents in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(contents))
    paths = {"/beds": {"get": {"$ref": "./ops/list.json"}}, "/bed": {"$ref": "ops/item.json"}}
    reads: Counter[str] = Counter()
    read = documents.read_document

    def counted(path: Path, *more: Any) -> Any:
        reads[path.name] += 1
        return read(path, *more)

    monkeypatch.setattr(documents, "read_document", counted)
    size: dict[str, Any] = {"x-size": {"enum": ["small", "large"]}}
    api = loaded(tmp_path, document(paths, **size))
    given = {each.name: each.parameters["properties"] for each in api.functions}
    assert {name: list(each) for name, each in given.items()} == {
        "list_beds": ["sort", "then"],
        "add_bed": ["size"],
    }
    assert given["list_beds"]["then"]["enum"] == ["size", "name"]
    assert given["add_bed"]["size"]["enum"] == ["small", "large"]
    assert reads == Counter([Path(name).name for name in files])


def test_what_makes_no_function_is_counted_by_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = {"in": "header", "name": "X-Key", "schema": {"type": "string"}}
    old = {"in": "query", "name": "old", "deprecated": True, "schema": {"type": "string"}}
    item = {
        "get": operation(parameters=[secret, old, {"in": "cookie", "name": "session"}]),
        "put": operation(operationId="old", deprecated=True),
        "head": operation(operationId="look"),
        "post": [],
        "additionalOperations": {"PURGE": operation(operationId="purge")},
        "x-note": "of no method",
    }
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "x-key"}}
    more: dict[str, Any] = {"webhooks": {"called": {}}, "components": {"securitySchemes": schemes}}
    api = loaded(tmp_path, document({"/a": item, "x-b": "of no path"}, "3.2.0", **more))
    assert [(each.name, each.parameters["properties"]) for each in api.functions] == [
        ("act", {}),
        ("purge", {}),
    ]
    assert api.left_out == {
        "webhooks, which the API calls": 1,
        "deprecated": 1,
        "HEAD, which answers nothing": 1,
        "no operation but []": 1,
        "parameters: deprecated": 1,
        "parameters: a client sets it": 1,
        "parameters: the key of a security scheme": 1,
    }
    assert "2 functions; left out: 1 HEAD, which answers nothing, 1 deprecated" in api.summary()
    assert any("3.2.0': read as 3.1" in note for note in api.notes)
    words = ["forge", "--api", str(tmp_path / "spec.json"), "--num_tasks", "2", "--category"]
    assert main([*words, "irrelevance", "--output", str(tmp_path / "o.jsonl")]) == 0
    assert "2 functions; left out: 1 HEAD" in capsys.readouterr().out
    refused(tmp_path, document({}, webhooks={"called": {}}), "paths", "1 webhooks")
    refused(tmp_path, document({"/a": {"put": item["put"]}}), "no function", "1 deprecated")


def test_dots_in_the_names_of_arguments_become_underscores(tmp_path: Path) -> None:
    dotted = {"type": "object", "properties": {"bed.colour": {"enum": ["red", "blue"]}}}
    paths = {"/beds": {"post": operation(requestBody=body(dotted))}}
    tools = [{"name": "beds.add", "description": "Add.", "parameters": dotted}]
    for specification, name in ((document(paths), "act"), (tools, "beds.add")):
        api = loaded(tmp_path, specification)
        assert list(api.function(name).parameters["properties"]) == ["bed_colour"]
        assert any("'bed.colour' is called bed_colour" in note for note in api.notes)
        assert api.own_call(name, {"bed.colour": "red"}) == (name, {"bed_colour": "red"})


def test_halves_are_said_as_what_they_are_below_zero_too(tmp_path: Path) -> None:
    latitude = {"type": "number", "minimum": -90, "maximum": 90}
    schema = {"type": "object", "properties": {"lat": latitude}, "required": ["lat"]}
    api = loaded(tmp_path, [{"name": "find", "description": "Find.", "parameters": schema}])
    kind = argument_kinds(api)["find", "lat"]
    halves = {-89.5: "-89.5", -2.5: "-2.5", 2.5: "two and a half"}
    for value, words in halves.items():
        said = {spoken_value(kind, value, Random(seed)) for seed in range(60)}
        assert any(words in each for each in said)
        assert not any("half" in each for each in said if value < 0)


@pytest.mark.parametrize(
    ("text", "schema", "is_optional"),
    [
        ("str, optional", {"type": "string"}, True),
        ("Optional[int]", {"type": "integer"}, True),
        (
            "List[List[int]]",
            {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            False,
        ),
        ("Union[int, Dict[str, Any]]", {"anyOf": [{"type": "integer"}, {"type": "object"}]}, False),
        ("float | None", {"type": "number"}, True),
        ("Literal['a', 'b']", {"enum": ["a", "b"]}, False),
        ("STRING", {"type": "string"}, False),
        ("string[]", {"type": "array", "items": {"type": "string"}}, False),
        ("list of strings", {"type": "array", "items": {"type": "string"}}, False),
        ("integer (1-10)", {"type": "integer"}, False),
        ("Callable[[int], int]", None, False),
        ("List[" * 200, None, False),
    ],
)
def test_types_of_python_and_prose(text: str, schema: Any, is_optional: bool) -> None:
    assert schema_of_type(text) == schema
    assert is_optional_type(text) is is_optional


ARGUMENTS: dict[str, dict[str, Any]] = {
    "guests": {"type": "int", "description": "How many."},
    "properties": {"type": "List[str], optional", "description": "Wishes."},
    "smoking": {"type": "bool", "default": False},
}
SCHEMA = {"type": "object", "properties": {"guests": {"type": "INTEGER"}}, "required": ["guests"]}


@pytest.mark.parametrize(
    ("tools", "names", "required"),
    [
        ([{"name": "book", "parameters": ARGUMENTS}], [*ARGUMENTS], ["guests"]),  # xLAM
        ([{"name": "book", "parameters": {"guests": "int"}}], ["guests"], ["guests"]),
        (
            [{"name": "book", "parameters": [{"name": "guests", **ARGUMENTS["guests"]}]}],
            ["guests"],
            ["guests"],
        ),
        (
            [
                {
                    "name": "book",
                    "parameter_definitions": {"guests": {"type": "int", "required": False}},
                }
            ],
            ["guests"],
            [],
        ),
        (
            {"tools": [{"functionDeclarations": [{"name": "book", "parameters": SCHEMA}]}]},
            ["guests"],
            ["guests"],
        ),
        (
            {
                "toolConfig": {
                    "tools": [{"toolSpec": {"name": "book", "inputSchema": {"json": SCHEMA}}}]
                }
            },
            ["guests"],
            ["guests"],
        ),
        ({"result": {"tools": [{"name": "book", "inputSchema": SCHEMA}]}}, ["guests"], ["guests"]),
        ([{"name": "book", "parameters": {"additionalProperties": False}}], [], []),
    ],
)
def test_forms_of_tool_lists(
    tmp_path: Path, tools: Any, names: list[str], required: list[str]
) -> None:
    parameters = loaded(tmp_path, tools).function("book").parameters
    assert (list(parameters["properties"]), parameters["required"]) == (names, required)
    if "guests" in names:
        assert parameters["properties"]["guests"]["type"] == "integer"


def test_tools_of_a_provider_are_left_out_and_arguments_of_no_form_refused(tmp_path: Path) -> None:
    book = {"type": "custom", "name": "book", "input_schema": SCHEMA}
    hosted = [{"type": "web_search_20250305", "name": "web_search"}, {"type": "file_search"}]
    api = loaded(tmp_path, {"tools": [book, *hosted]})
    assert [each.name for each in api.functions] == ["book"]
    assert api.left_out == {"tools that a provider runs or reads itself": 2}
    assert any("rest" in each for each in loaded(tmp_path, [book, {"name": "rest"}]).notes)
    refused(tmp_path, [{"name": "book", "parameters": {"guests": 4}}], "tool 1 (book)", "expected")
    refused(tmp_path, [{"name": "book", "parameters": ["guests"]}], "tool 1 (book)", "expected")


def test_logs_match_by_the_names_of_the_specification(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"bed.no": {"type": "integer"}}}
    tools = [{"name": "get-bed", "description": "Get a bed.", "parameters": schema}]
    (tmp_path / "api.json").write_text(json.dumps(tools))
    call = {"function": {"name": "get-bed", "arguments": '{"bed.no": 4}'}}
    talk = [{"role": "user", "content": "Bed 4?"}, {"role": "assistant", "tool_calls": [call]}]
    (tmp_path / "log").write_text(json.dumps({"messages": talk}))
    words = ["forge", "--api", str(tmp_path / "api.json"), "--from_logs", str(tmp_path / "log")]
    words += ["--num_tasks", "1", "--category", "multiple", "--output", str(tmp_path / "o")]
    assert main(words) == 0
    [truth] = json.loads((tmp_path / "o.from_logs.jsonl").read_text())["ground_truth"]
    assert truth == {"get_bed": {"bed_no": [4]}}
