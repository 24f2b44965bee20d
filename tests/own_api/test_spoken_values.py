"""Values: each is one that its own schema takes, and is said as that value and no other."""

from __future__ import annotations

import builtins
import ipaddress
import json
import os
import re
import zoneinfo
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import babel
import jsonschema
import pytest
from dateutil import parser as dates
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.cli.command import main
from fctncalling.lab.forge.own_api.drawn_call import askable_api
from fctncalling.lab.forge.own_api.own_single_turn import single_call_draft
from fctncalling.lab.own_api.kinds import ArgumentKind, argument_kinds
from fctncalling.lab.own_api.kinds.evidence import infer_argument_kind
from fctncalling.lab.own_api.kinds.value_tables import library
from fctncalling.lab.own_api.load import api_of_tool_list, load_api
from fctncalling.lab.own_api.words.spoken_values import spoken_value
from fctncalling.specification.api import SpecificationError

SHARED = Path(os.environ.get("FCTNCALLING_SHARED", "../shared"))
CASES = SHARED / "cases" / "apis_answers_logs.jsonl"
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()


def kind_of(name: str, **schema: Any) -> ArgumentKind:
    return infer_argument_kind(name, {"type": "string", **schema}, required=True)


def draws(kind: ArgumentKind, number: int = 60) -> list[Any]:
    rng = Random(7)
    return [kind.draw(rng) for _ in range(number)]


def shared_case(number: str) -> dict[str, Any]:
    """Return the input of one of the cases of real APIs."""
    if not CASES.is_file():
        pytest.skip(f"needs {CASES}: set FCTNCALLING_SHARED")
    lines = map(json.loads, CASES.read_text("utf-8").splitlines())
    return next(line["input"] for line in lines if line["id"] == number)


def drawn_of_case(number: str) -> list[Any]:
    case = shared_case(number)
    return draws(infer_argument_kind(case["name"], case, required=True))


def test_cases_of_real_apis_have_the_values_that_their_documents_mean() -> None:
    assert set(drawn_of_case("D13")) <= zoneinfo.available_timezones()
    for pair in drawn_of_case("D14"):
        latitude, longitude = map(float, pair.split(","))
        assert abs(latitude) <= 90 >= abs(longitude) / 2, pair
    assert all(re.fullmatch(r"\+\d{9,15}", each) for each in drawn_of_case("D15"))
    territories = babel.Locale("en").territories
    assert all(len(each) == 2 and each in territories for each in drawn_of_case("D16"))
    assert len(set(drawn_of_case("D16"))) > 20


@pytest.mark.parametrize("case", ["D06", "D07"])
def test_numbers_of_real_apis_below_zero_are_said_as_themselves(case: str) -> None:
    tool = shared_case(case)
    kinds = argument_kinds(api_of_tool_list([tool], "s", "s"))
    [kind] = kinds.values()
    for seed, value in enumerate(draws(kind, 200)):
        text = spoken_value(kind, value, Random(seed))
        assert value >= 0 or text.startswith("-"), (value, text)


def test_number_of_logprobs_is_no_limit() -> None:
    schema = {"type": "integer", "minimum": 0, "maximum": 20}
    tool = {"name": "score_text", "description": "Score a text.", "parameters": {
        "properties": {"top_logprobs": schema}, "required": ["top_logprobs"]}}  # fmt: skip
    api = api_of_tool_list([tool], "s", "s")
    askable = askable_api(api, argument_kinds(api), {})
    texts = [single_call_draft(askable, Random(n), "score_text").question for n in range(60)]
    assert not [each for each in texts if re.search(r"\bmost\b|more than|will do", each)]


@pytest.mark.parametrize(
    ("name", "schema", "reads"),
    [
        ("start_timestamp", {"examples": ["2024-01-31T10:00:00", "now"]}, datetime.fromisoformat),
        ("created_after", {"format": "date-time"}, datetime.fromisoformat),
        ("ip_address", {}, ipaddress.IPv4Address),
        ("allowed", {"examples": ["10.0.0.0/8"], "description": "CIDR block."}, str),
        ("currency", {"description": "ISO 4217 code."}, lambda v: babel.Locale("en").currencies[v]),
        ("lang", {}, lambda v: babel.Locale("en").languages[v]),
        ("locale", {"examples": ["en-US"]}, lambda v: babel.Locale.parse(v, sep="-")),
        ("color", {"examples": ["#FFAA00"]}, lambda v: int(re.fullmatch("#(.{6})", v)[1], 16)),  # type: ignore[index]
        ("commit_sha", {}, lambda v: int(re.fullmatch("[0-9a-f]{40}", v)[0], 16)),  # type: ignore[index]
        ("version", {"examples": ["1.2.3"]}, lambda v: [int(each) for each in v.split(".")]),
    ],
)  # fmt: skip
def test_values_of_standards_are_read_by_other_libraries(
    name: str, schema: dict[str, Any], reads: Any
) -> None:
    for value in draws(kind_of(name, **schema)):
        reads(value)


def test_listed_words_and_what_has_no_values_of_its_own() -> None:
    text = "Sort direction. Possible values include `name`, `size`."
    assert kind_of("sort", description=text).values == ("name", "size")
    alike = kind_of("state", enum=["in_progress", "in-progress", "done"])
    assert spoken_value(alike, "in-progress", Random(1)) == "in-progress"
    languages = kind_of("language", enum=["fa", "ml", "ta"])
    assert {spoken_value(languages, "fa", Random(n)) for n in range(9)} == {"fa", "Persian"}
    optional = {"type": "string", "description": "Something."}
    assert not infer_argument_kind("wobble", optional, required=False).can_be_asked
    searched = kind_of("q", examples=["remaster%20track:Doxy"], description="Use `tag` or `year`.")
    assert not [each for each in draws(searched) if re.search("%|tag|year", each)]
    assert all(
        abs(float(each.split(",")[1])) <= 180 for each in draws(kind_of("at", examples=["40,-110"]))
    )
    count = infer_argument_kind("tail", {"type": "number"}, required=True)
    assert all(value == int(value) for value in draws(count))


@pytest.mark.parametrize(
    "name",
    "cursor page_token next_token starting_after_cursor idempotency_key api_key apiVersion "
    "user_agent accept authorization request_id etag".split(),
)
def test_what_a_client_sets_is_in_no_request(name: str) -> None:
    found = infer_argument_kind(name, {"type": "string"}, required=False)
    assert (found.kind, found.can_be_asked) == ("client", False)


SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "pattern": st.sampled_from(
            [r"^[A-Z]{2}\d{3}$", r"^(?![0-9]+$)[a-z0-9_\-]+$", "^(0|[1-9][0-9]*)$", "^x", r"\d$"]
        ),
        "minLength": st.integers(0, 12),
        "maxLength": st.integers(1, 40),
        "format": st.sampled_from(["date", "date-time", "email", "uuid", "ipv4", "uri", "time"]),
        "examples": st.lists(
            st.sampled_from(["AB-12", "Ada Brook", "2024-01-31", "fast", "10.0.0.1"]), min_size=1
        ),
        "description": st.sampled_from(
            ["Name of the city.", "ISO 3166 country code.", "A 5-digit code."]
        ),
    },
)  # fmt: skip
NAMES = st.sampled_from("name title country city code phone email color id day status note".split())


@given(NAMES, SCHEMAS, st.integers(0, 10_000))
def test_a_text_that_is_drawn_is_one_that_its_schema_takes(
    name: str, schema: dict[str, Any], seed: int
) -> None:
    """The oracle is jsonschema, for what its own checker knows of formats."""
    kind = infer_argument_kind(name, schema, required=True)
    if kind.can_be_asked:
        checked = {k: schema[k] for k in schema if k != "format" or schema[k] in ("date", "ipv4")}
        checker = jsonschema.FormatChecker(["date", "ipv4"])
        value = kind.draw(Random(seed))
        jsonschema.validate(value, checked, format_checker=checker)
        assert kind.takes_single(value)


@given(st.integers(-500, 500), st.integers(0, 500), st.integers(0, 10_000), st.booleans())
def test_a_number_is_said_as_itself(low: int, span: int, seed: int, whole: bool) -> None:
    bounds = {"type": "integer" if whole else "number", "minimum": low, "maximum": low + span}
    unit = ("", " in kg", " in EUR", " in minutes", " in percent")[seed % 5]
    kind = infer_argument_kind("size", {**bounds, "description": f"Size{unit}."}, required=True)
    value = kind.draw(Random(seed))
    text = spoken_value(kind, value, Random(seed))
    assert number_in(text) in (value, round(value * 1000, 6)), (text, value)


def number_in(text: str) -> float:
    """Return the number that a text says, by a reader of its own."""
    shortened = {"half an hour": 30, "an hour and a half": 90, "an hour": 60, "half a kilo": 0.5}
    if text in shortened or text in ("a minute", "one minute"):
        return shortened.get(text, 1)
    words = text.split()
    if words[0] in NUMBERS:
        return NUMBERS.index(words[0]) + (0.5 if "and a half" in text else 0)
    found = re.search(r"-?\d[\d, ]*(\.\d+)?", text)
    assert found is not None, text
    return float(re.sub(r"[, ]", "", found[0]))


@given(st.sampled_from(["date", "date-time"]), st.integers(0, 100_000))
def test_a_day_is_said_as_itself(form: str, seed: int) -> None:
    """The oracle is dateutil, told which of two numbers of a day such as 13.2.2026 is the day."""
    kind = kind_of("day", format=form)
    value = kind.draw(Random(seed))
    text = spoken_value(kind, value, Random(seed))
    plain = re.sub(r"\b(?:the|of|on)\b", " ", text)
    for number, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth".split(), 1
    ):
        plain = plain.replace(f" {word} ", f" {number} ")
    if form == "date":
        assert f"{dates.parse(plain, dayfirst='-' not in plain):%Y-%m-%d}" == value, text
    else:
        assert value[:4] in text


def test_without_its_libraries_forge_says_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "faker":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(SpecificationError, match=r"pip install 'fctncalling\[api\]'"):
        library("faker")


def test_versions_of_the_libraries_stand_in_the_head_of_a_ledger(tmp_path: Path) -> None:
    parameters = {"properties": {"guest_name": {}, "ip": {}}, "required": ["guest_name"]}
    tool = {"name": "find_guest", "description": "Find a guest.", "parameters": parameters}
    (tmp_path / "api.json").write_text(json.dumps([tool]))
    words = ["forge", "--api", str(tmp_path / "api.json"), "--num_tasks", "20"]
    assert main([*words, "--category", "multiple", "--output", str(tmp_path / "one.jsonl")]) == 0
    [ledger] = tmp_path.glob("one.jsonl*ledger*")
    head = json.loads(ledger.read_text().splitlines()[0])
    assert {"Faker", "babel", "tzdata", "regex"} <= head["libraries"].keys()


def test_headers_of_a_client_are_no_arguments_and_are_sent_as_documented(tmp_path: Path) -> None:
    version = {
        "name": "Box-Version",
        "in": "header",
        "required": True,
        "schema": {"enum": ["2025.0"]},
    }
    key = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}
    shelf = {"name": "shelf", "in": "query", "schema": {"type": "string"}}
    operation = {"operationId": "list_books", "parameters": [version, key, shelf]}
    document = {"openapi": "3.1.0", "paths": {"/books": {"get": operation}}}
    (tmp_path / "api.json").write_text(json.dumps(document))
    api = load_api(str(tmp_path / "api.json"))
    assert [*api.function("list_books").parameters["properties"]] == ["shelf"]
    assert [(h["name"], h["value"]) for h in api.origins["list_books"]["headers"]] == [
        ("Box-Version", "2025.0"), ("Idempotency-Key", "")]  # fmt: skip
    assert api.left_out["parameters: a client sets it"] == 2
