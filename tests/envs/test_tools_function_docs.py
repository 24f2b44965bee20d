"""The function docs of four tools say what their methods take, with BFCL's names and types and
words of our own.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import fctncalling.data
from fctncalling.envs.tools import tool_class

FILES = {
    "gorilla_file_system": "GorillaFileSystem",
    "math_api": "MathAPI",
    "message_api": "MessageAPI",
    "posting_api": "TwitterAPI",
    "ticket_api": "TicketAPI",
    "vehicle_control": "VehicleControlAPI",
    "trading_bot": "TradingBot",
    "travel_booking": "TravelAPI",
}
FOLDER = Path(str(fctncalling.data.__file__)).parent / "embedded" / "multi_turn_func_doc"


def docs_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def without_words(schema: Any) -> Any:
    """Return a schema with its descriptions taken out (a parameter may itself be called
    description).
    """
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_words(value)
        for key, value in schema.items()
        if key != "description" or isinstance(value, dict)
    }


def words_of(schema: Any) -> list[str]:
    if not isinstance(schema, dict):
        return []
    own = [schema["description"]] if isinstance(schema.get("description"), str) else []
    return own + [word for value in schema.values() for word in words_of(value)]


@pytest.mark.parametrize(("noun", "name"), FILES.items())
def test_every_public_method_is_documented_with_the_parameters_it_takes(
    noun: str, name: str
) -> None:
    tool = tool_class(name)
    documented = {doc["name"]: doc["parameters"] for doc in docs_in(FOLDER / f"{noun}.json")}
    methods = {
        each: method
        for each, method in inspect.getmembers(tool, inspect.isfunction)
        if each[0] != "_"
    }
    assert set(documented) == set(methods)
    for method_name, method in methods.items():
        taken = list(inspect.signature(method).parameters.values())[1:]
        parameters = documented[method_name]
        assert set(parameters["properties"]) == {each.name for each in taken}
        assert set(parameters["required"]) == {
            each.name for each in taken if each.default is inspect.Parameter.empty
        }
        for each in taken:
            if each.default is not inspect.Parameter.empty:
                default = parameters["properties"][each.name]["default"]
                assert default == ("None" if each.default is None else each.default)


@pytest.mark.parametrize("noun", FILES)
def test_names_types_and_required_lists_are_bfcls_and_the_words_are_not(
    noun: str, shared: Path
) -> None:
    ours = docs_in(FOLDER / f"{noun}.json")
    official = docs_in(shared / "bfcl" / "data" / "multi_turn_func_doc" / f"{noun}.json")
    assert [doc["name"] for doc in ours] == [doc["name"] for doc in official]
    for own, theirs in zip(ours, official, strict=True):
        assert without_words(own["parameters"]) == without_words(theirs["parameters"])
        shared_words = {word.strip() for word in words_of(own)} & {
            word.strip() for word in words_of(theirs)
        }
        assert shared_words == set()


@pytest.mark.parametrize("noun", FILES)
def test_every_description_is_one_sentence(noun: str) -> None:
    for doc in docs_in(FOLDER / f"{noun}.json"):
        for words in words_of(doc):
            assert words.endswith(".")
            assert ". " not in words.replace("e.g. ", "")
