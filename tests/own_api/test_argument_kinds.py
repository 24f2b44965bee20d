"""Kinds of values: by the strongest evidence, drawn within it, accepted where they are right."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any

import pytest

from fctncalling.checkers import check
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.lab.forge.own_api.drawn_call import askable_api, draw_call
from fctncalling.lab.own_api.kinds import ArgumentKind, argument_kinds
from fctncalling.lab.own_api.kinds.evidence import infer_argument_kind
from fctncalling.lab.own_api.kinds.find import guessed_kind_notes
from fctncalling.lab.own_api.kinds.value_tables import value_table
from fctncalling.lab.own_api.load import api_of_tool_list
from fctncalling.lab.own_api.openapi import api_of_openapi_document
from fctncalling.specification.api import OwnApi, SpecificationError


def api_of(properties: dict[str, Any], required: list[str] | None = None) -> OwnApi:
    parameters = {"properties": properties, "required": required or []}
    return api_of_tool_list(
        [{"name": "f", "description": "Do it.", "parameters": parameters}], "s", "s"
    )


def draws(kind: ArgumentKind, number: int = 40) -> list[Any]:
    rng = random.Random(7)
    return [kind.draw(rng) for _ in range(number)]


@pytest.mark.parametrize(
    ("name", "schema", "kind", "evidence"),
    [
        ("date", {"type": "string", "enum": ["mon", "tue"], "format": "date"}, "enum", "enum"),
        ("code", {"type": "string", "examples": ["AB-12"]}, "identifier", "examples"),
        ("when", {"type": "string", "default": "2026-01-31"}, "date", "default"),
        ("title", {"type": "string", "pattern": "^[A-Z]{2}[0-9]{3}$"}, "identifier", "pattern"),
        ("title", {"type": "string", "format": "email"}, "email", "format"),
        ("x", {"type": "string", "description": "Day, YYYY-MM-DD."}, "date", "description"),
        ("x", {"type": "string", "description": "One of: red, blue."}, "enum", "description"),
        ("x", {"type": "integer", "description": "Degrees, 5 to 30."}, "integer", "description"),
        ("x", {"type": "string", "description": "Such as R-17."}, "identifier", "description"),
        ("contactEmail", {"type": "string"}, "email", "name"),
        ("guest_name", {"type": "string", "title": "The guest"}, "person_name", "description"),
        ("depth_cm", {"type": "number"}, "quantity_with_unit", "type"),
        ("loud", {"type": "boolean"}, "boolean", "type"),
        ("photo", {"type": "string", "format": "binary"}, "unknown", ""),
    ],
)  # fmt: skip
def test_strongest_evidence_decides(
    name: str, schema: dict[str, Any], kind: str, evidence: str
) -> None:
    found = infer_argument_kind(name, schema, required=True)
    assert found.kind == kind
    assert not evidence or found.evidence == evidence


def test_drawn_values_keep_to_bounds_patterns_and_forms() -> None:
    plain = infer_argument_kind(
        "x", {"type": "integer", "description": "From 5 to 30."}, required=True
    )
    assert {type(each) for each in draws(plain)} == {int}
    assert all(5 <= each <= 30 for each in draws(plain))
    above = infer_argument_kind(
        "w", {"type": "number", "exclusiveMinimum": 0, "maximum": 2.5}, required=True
    )
    assert all(0 < each <= 2.5 for each in draws(above))
    for pattern in (r"^LK-[0-9]{4}$", r"^(AB|CD)\d{2,3}[a-f]?$", r"^\+[0-9]{8,15}$"):
        kind = infer_argument_kind("locker", {"type": "string", "pattern": pattern}, required=True)
        assert all(re.fullmatch(pattern, each) for each in draws(kind)), pattern
    day = infer_argument_kind("d", {"type": "string", "description": "DD.MM.YYYY"}, required=True)
    assert all(re.fullmatch(r"\d\d\.\d\d\.\d{4}", each) for each in draws(day))
    shaped = infer_argument_kind(
        "x", {"type": "string", "description": "Such as MB-31."}, required=True
    )
    assert all(re.fullmatch(r"MB-\d\d", each) for each in draws(shaped))
    assert len(set(draws(shaped))) > 10


def test_example_is_no_closed_list() -> None:
    text = "Name of the room, such as Birch, Elm or Oak."
    assert (
        infer_argument_kind("room", {"type": "string", "description": text}, required=True).values
        == ()
    )


def test_kind_guessed_from_a_name_alone_is_told_and_another_function_cures_it() -> None:
    properties = {"contact": {"type": "string"}, "day": {"type": "string", "format": "date"}}
    told = guessed_kind_notes(argument_kinds(api_of(properties)))
    assert len(told) == 1
    assert "contact" in told[0]
    assert "--kinds" in told[0]
    tools = [
        {"name": "a", "description": "A.", "parameters": {"properties": {
            "code": {"type": "string"}}}},
        {"name": "b", "description": "B.", "parameters": {"properties": {
            "code": {"type": "string", "description": "Such as QX-77."}}}},
    ]  # fmt: skip
    kinds = argument_kinds(api_of_tool_list(tools, "s", "s"))
    assert kinds["a", "code"].examples == ("QX-77",)
    assert not guessed_kind_notes(kinds)


def api_of_lists() -> OwnApi:
    """Return an API of stations and of webhooks, neither of which its document names."""
    names = ("search", "page", "limit", "offset", "country")
    kinds = {name: {"type": "integer"} for name in ("page", "limit", "offset")}
    query = [{"name": n, "in": "query", "schema": kinds.get(n, {"type": "string"})} for n in names]
    body = {"schema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    paths = {
        "/stations": {"get": {"summary": "List stations.", "parameters": query,
                              "operationId": "find_stations"}},
        "/webhooks": {"post": {"summary": "Create a webhook.", "operationId": "add_webhook",
                               "requestBody": {"content": {"application/json": body}}}},
    }  # fmt: skip
    return api_of_openapi_document({"openapi": "3.1.0", "paths": paths}, "s")


def test_free_texts_are_names_of_things_or_made_of_the_nouns_of_the_document() -> None:
    kinds = argument_kinds(api_of_lists())
    search, name = kinds["find_stations", "search"], kinds["add_webhook", "name"]
    rng = random.Random(1)
    assert {search.draw(rng) for _ in range(300)} <= {*value_table("city")}
    texts = {name.draw(rng) for _ in range(300)}
    assert len(texts) > 20
    assert all(text.endswith(" webhook") for text in texts)
    assert any("nouns of the API; --kinds" in note for note in guessed_kind_notes(kinds))


def test_few_requests_for_a_list_say_which_page_of_it() -> None:
    api = api_of_lists()
    askable = askable_api(api, argument_kinds(api), {})
    rng = random.Random(1)
    calls = [draw_call(askable, "find_stations", rng).arguments for _ in range(600)]
    paged = sum(bool({"page", "limit", "offset"} & {*each}) for each in calls)
    assert 0 < paged <= 60
    assert sum("country" in each for each in calls) > 200


def test_scenarios_give_values_that_exist() -> None:
    api = api_of({"loan_id": {"type": "string", "description": "Such as L-301."}})
    scenario = {"loans": {"L-9": {"reader": "R-1"}}, "notes": ["see L-44"]}
    with_scenario = OwnApi(api.name, api.functions, "s", scenarios=(scenario,), schemas=api.schemas)
    assert argument_kinds(with_scenario)["f", "loan_id"].known == ("L-9",)


def test_file_of_kinds_has_the_last_word(tmp_path: Path) -> None:
    file = tmp_path / "kinds.toml"
    file.write_text('[f]\nsize = { values = ["S", "L"] }\n["*"]\nday = "date"\n')
    properties = {"size": {"type": "string"}, "day": {"type": "string"}}
    kinds = argument_kinds(api_of(properties), file)
    assert kinds["f", "size"].values == ("S", "L")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kinds["f", "day"].draw(random.Random(1)))
    for wrong in ('[f]\nsize = "quark"\n', '[f]\nsiz = "date"\n', "f = 1\n", "[f\n"):
        file.write_text(wrong)
        with pytest.raises(SpecificationError, match="--kinds"):
            argument_kinds(api_of(properties), file)


def is_right(api: OwnApi, kind: ArgumentKind, truth: Any, given: dict[str, Any]) -> bool:
    """Return BFCL's own verdict on a call of f, whose parameter p has this truth."""
    doc = FunctionDoc("f", "Do it.", api.functions[0].parameters)
    answer = kind.accepted_unsaid() if truth is None else kind.accepted(truth)
    task = Task("simple_python_0", "simple_python", [[]], (doc,), [{"f": {"p": answer}}])
    return check(task, [{"f": given}], task.ground_truth).valid


def test_what_is_as_right_is_accepted_by_the_official_checker_and_nothing_else() -> None:
    listed = api_of({"p": {"type": "array", "items": {"type": "string"}}}, ["p"])
    kind = argument_kinds(listed)["f", "p"]
    for order in itertools.permutations(["a", "b", "c"]):
        assert is_right(listed, kind, ["a", "b", "c"], {"p": list(order)})
    assert not is_right(listed, kind, ["a", "b", "c"], {"p": ["a", "b"]})
    numbers = api_of({"p": {"type": "integer", "default": 3}})
    kind = argument_kinds(numbers)["f", "p"]
    assert is_right(numbers, kind, 3, {})
    assert is_right(numbers, kind, None, {"p": 3})
    assert not is_right(numbers, kind, 4, {})
    assert not is_right(numbers, kind, None, {"p": 4})


def test_objects_within_objects_and_their_defaults_are_accepted() -> None:
    inner = {"type": "object", "required": ["zip"], "properties": {"zip": {"type": "string"}}}
    whole = {
        "type": "object",
        "required": ["who", "where"],
        "properties": {
            "who": {"type": "string"},
            "where": inner,
            "fast": {"type": "boolean", "default": False},
        },
    }
    api = api_of({"p": whole}, ["p"])
    kind = argument_kinds(api)["f", "p"]
    value = {"who": "Ana Berg", "where": {"zip": "10115"}}
    assert is_right(api, kind, value, {"p": value})
    assert is_right(api, kind, value, {"p": {**value, "fast": False}})
    assert not is_right(api, kind, value, {"p": {**value, "fast": True}})
    assert not is_right(api, kind, value, {"p": {**value, "where": {"zip": "10117"}}})


def test_one_of_two_forms_is_drawn_and_accepted_whole() -> None:
    forms = [
        {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
        {"type": "object", "required": ["locker"], "properties": {
            "locker": {"type": "string", "pattern": "^LK-[0-9]{4}$"}}},
    ]  # fmt: skip
    api = api_of({"p": {"oneOf": forms}}, ["p"])
    kind = argument_kinds(api)["f", "p"]
    drawn = draws(kind)
    assert {tuple(each) for each in drawn} == {("city",), ("locker",)}
    assert all(is_right(api, kind, each, {"p": each}) for each in drawn)
