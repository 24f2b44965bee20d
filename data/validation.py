"""Validate entries: fast check, JSON Schema for the explanation.

The fast check runs on every entry and only says yes or no. `task.schema.json` states the same rules
in words; it (and jsonschema) is read only when an entry was refused, to name the field and what was
expected there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).with_name("task.schema.json")
ROLES = frozenset({"system", "user", "assistant", "tool"})
_TURN_INDEX = re.compile(r"[0-9]{1,9}")
_SHOWN_CHARS = 60


def is_task(entry: Any) -> bool:
    """Whether the value is an entry of any category, as far as its fields tell."""
    return (
        isinstance(entry, dict)
        and _is_name(entry.get("id"))
        and _is_name(entry.get("category", "none"))
        and _is_question(entry.get("question"))
        and _all(
            entry.get("function", []), lambda item: isinstance(item, str) or is_function_doc(item)
        )
        and isinstance(entry.get("ground_truth", []), list | None)
        and isinstance(entry.get("initial_config", {}), dict)
        and all(
            _is_strings(entry.get(field, [])) for field in ("involved_classes", "invoked_classes")
        )
        and _is_missed_function(entry.get("missed_function", {}))
        and _is_difficulty(entry.get("difficulty"))
    )


def is_function_doc(doc: Any) -> bool:
    """Whether the value is a documented function as BFCL writes it."""
    return (
        isinstance(doc, dict)
        and _is_name(doc.get("name"))
        and isinstance(doc.get("description"), str)
        and isinstance(parameters := doc.get("parameters"), dict)
        and _all_values(parameters.get("properties", {}), _is_parameter)
        and _is_strings(parameters.get("required", []))
        and isinstance(doc.get("response", {}), dict)
    )


def _is_parameter(parameter: Any) -> bool:
    return (
        isinstance(parameter, dict)
        and isinstance(parameter.get("type", ""), str)
        and isinstance(parameter.get("description", ""), str)
        and isinstance(parameter.get("enum", []), list)
    )


def is_answer(answer: Any) -> bool:
    """Whether the value is an entry of a possible-answer file."""
    return (
        isinstance(answer, dict)
        and _is_name(answer.get("id"))
        and isinstance(answer.get("ground_truth"), list)
    )


def explain(value: Any, kind: str) -> str:
    """Return `field: expected ..., found ...` for a value that the fast check refused.

    `kind` is a definition of the schema: task, single_turn, tools, answer or function_doc.
    """
    import jsonschema  # a tenth of a second that only a refused entry has to pay

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["$ref"] = f"#/$defs/{kind}"
    faults = jsonschema.Draft202012Validator(schema).iter_errors(value)
    fault = min(faults, key=lambda fault: [str(step) for step in fault.absolute_path], default=None)
    if fault is None:
        raise AssertionError(
            f"task.schema.json accepts as {kind} what the fast check refuses: {_shown(value)}"
        )
    if fault.validator == "required":
        missing = next(field for field in fault.validator_value if field not in fault.instance)
        path, found = [*fault.absolute_path, missing], "nothing"
        expected = _expected(schema, kind, missing, fault.schema)
    else:
        path, found = list(fault.absolute_path), _shown(fault.instance)
        expected = fault.schema.get("description", fault.message)
    return f"{_field(path) or 'entry'}: expected {expected}, found {found}"


def _expected(schema: Mapping[str, Any], kind: str, field: str, place: Mapping[str, Any]) -> str:
    known = place.get("properties") or schema["$defs"]["task"]["properties"]
    described = known.get(field, {})
    while "$ref" in described:
        described = _at(schema, described["$ref"])
    return str(described.get("description", f"a field that every {kind} has"))


def _at(schema: Any, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        schema = schema[step]
    return schema


def _field(path: list[str | int]) -> str:
    """Return a JSON path as one would write it: `question[0][1].content`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_question(value: Any) -> bool:
    return bool(value) and _all(value, lambda turn: _all(turn, _is_message))


def _is_message(message: Any) -> bool:
    # A role may be any JSON value, also one that cannot be hashed.
    return (
        isinstance(message, dict)
        and isinstance(role := message.get("role"), str)
        and role in ROLES
        and isinstance(message.get("content"), str)
    )


def _is_strings(value: Any) -> bool:
    return _all(value, lambda item: isinstance(item, str))


def _is_missed_function(value: Any) -> bool:
    return _all_values(value, _is_strings) and all(_TURN_INDEX.fullmatch(turn) for turn in value)


def _is_difficulty(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value <= 1)


def _all(value: Any, accepts: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(accepts(item) for item in value)


def _all_values(value: Any, accepts: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(accepts(item) for item in value.values())
