"""Validation of entries: a fast check, and JSON Schema to explain what is wrong.

The fast check runs on every entry and only says yes or no. `task.schema.json` states the same rules
in words; it (and jsonschema) is read only when an entry was refused, to name the field and what was
expected there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

from fctncalling.data.errors import Location, TaskError
from fctncalling.data.types import FunctionDoc, Task

SCHEMA = Path(__file__).with_name("task.schema.json")
ROLES = frozenset({"system", "user", "assistant", "tool"})
_TURN_INDEX = re.compile(r"[0-9]{1,9}")
_SHOWN_CHARS = 60


def is_task(entry: Any) -> bool:
    """Whether a value is a valid entry of any category, by a fast check of its fields."""
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
    """Whether a value is a valid function doc as BFCL writes it."""
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
    """Whether a value is a valid entry of a possible-answer file."""
    return (
        isinstance(answer, dict)
        and _is_name(answer.get("id"))
        and isinstance(answer.get("ground_truth"), list)
    )


def explain_invalid(value: Any, kind: str) -> str:
    """Explain what is wrong with a value, as `field: expected ..., found ...`.

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
        path, text = [*fault.absolute_path, missing], "nothing"
        expected = _expected(schema, kind, missing, fault.schema)
    else:
        path, text = list(fault.absolute_path), _shown(fault.instance)
        expected = fault.schema.get("description", fault.message)
    return f"{_field(path) or 'entry'}: expected {expected}, found {text}"


def _expected(schema: Mapping[str, Any], kind: str, field: str, place: Mapping[str, Any]) -> str:
    properties = place.get("properties") or schema["$defs"]["task"]["properties"]
    described = properties.get(field, {})
    while "$ref" in described:
        described = _at(schema, described["$ref"])
    return str(described.get("description", f"a field that every {kind} has"))


def _at(schema: Any, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        schema = schema[step]
    return schema


def _field(path: list[str | int]) -> str:
    """Format a JSON path as one would write it: `question[0][1].content`."""
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


# A method BFCL took from TradingBot and its docs, but not from two entries of the retired
# multi_turn_composite (101 and 132). BFCL's generation holds out what it finds, hence nothing in
# those turns.
REMOVED_FUNCTIONS = frozenset({"update_market_status"})
_PATH = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)[.:]([A-Za-z_]\w*)")


def check_ground_truth_turns(task: Task, place: Location) -> None:
    """Check that a task's truth has one list of call strings for each turn; TaskError."""
    if task.ground_truth is None:
        return
    for turn, calls in enumerate(task.ground_truth):
        if not isinstance(calls, list) or not all(isinstance(call, str) for call in calls):
            raise place.error(
                f"ground_truth[{turn}]: expected a turn: a list of calls as strings, found "
                f"{calls!r:.60}"
            )
    if len(task.ground_truth) != len(task.question):
        raise place.error(
            f"ground_truth: expected one list of calls for each of the {len(task.question)} turns "
            f"of question, found {len(task.ground_truth)}"
        )


def check_accepted_calls(task: Task, place: Location) -> None:
    """Check that each call of a truth is {function: {parameter: [values]}}; TaskError."""
    for index, call in enumerate(task.ground_truth or ()):
        field = f"ground_truth[{index}]"
        if not isinstance(call, dict) or not all(
            isinstance(accepted, dict) for accepted in call.values()
        ):
            raise place.error(
                f"{field}: expected {{function: {{parameter: [accepted values]}}}}, found "
                f"{call!r:.60}"
            )
        for name, accepted in call.items():
            for parameter, values in accepted.items():
                if not isinstance(values, list):
                    raise place.error(
                        f"{field}.{name}.{parameter}: expected a list of values, found "
                        f"{values!r:.60}"
                    )


ACCEPT = "accept"  # field of an own task: what is accepted beside the values of its ground truth
LONGEST_IN_ANY_ORDER = 5  # items: 120 orders


def apply_accept_field(task: Task, place: Location) -> Task:
    """Add the values that a task's field `accept` allows to its ground truth.

    Returns the task. `{"defaults": true}`: a parameter that the truth does not name, or whose
    documented default it accepts, may be left out or given that default. `{"any_order": true}` (or
    names of parameters): lists are right in any order. Raises TaskError for another form.
    """
    rules = task.extra.get(ACCEPT)
    if rules is None:
        return task
    if not _is_accept(rules):
        raise place.error(
            'accept: expected {"defaults": true, "any_order": true or [names of parameters]}, '
            f"found {rules!r:.60}"
        )
    if not task.ground_truth or task.language != "python":
        raise place.error("accept: expected calls of Python functions in ground_truth, found none")
    docs = {doc.name: doc.parameters for doc in task.functions}
    truth = [
        {
            name: dict(_accepted(docs.get(name, {}), values, rules, place))
            for name, values in call.items()
        }
        for call in task.ground_truth
    ]
    return replace(task, ground_truth=truth)


def _is_accept(rules: Any) -> bool:
    if not isinstance(rules, dict) or not rules.keys() <= {"defaults", "any_order"}:
        return False
    any_order = rules.get("any_order", False)
    names = any_order if isinstance(any_order, list) else []
    is_order = isinstance(any_order, bool | list) and all(isinstance(name, str) for name in names)
    return is_order and isinstance(rules.get("defaults", False), bool)


def _accepted(
    parameters: Mapping[str, Any],
    truth: Mapping[str, list[Any]],
    rules: Mapping[str, Any],
    place: Location,
) -> Iterator[tuple[str, list[Any]]]:
    """Yield (parameter, accepted values), also of parameters that the truth leaves out."""
    any_order = rules.get("any_order", False)
    documented = parameters.get("properties", {})
    required = parameters.get("required", ())
    for name in [*truth, *(name for name in documented if name not in truth)]:
        values = list(truth.get(name, ()))
        if any_order is True or (any_order and name in any_order):
            values = _in_any_order(values, place.error, name)
        default = documented.get(name, {}).get("default")
        if rules.get("defaults") and default is not None and name not in required:
            if name not in truth:
                values = ["", default]
            elif any(_is_same(value, default) for value in values):
                values = values if "" in values else [*values, ""]
        if name in truth or values:
            yield name, values


def _in_any_order(values: list[Any], error: Callable[[str], TaskError], name: str) -> list[Any]:
    accepted: list[Any] = []
    for value in values:
        if isinstance(value, list) and len(value) > LONGEST_IN_ANY_ORDER:
            raise error(
                f"accept: any_order of {name}: expected lists of at most {LONGEST_IN_ANY_ORDER} "
                f"items, found one of {len(value)}: name the other parameters in any_order"
            )
        orders = map(list, permutations(value)) if isinstance(value, list) else [value]
        for order in orders:
            if not any(_is_same(order, earlier) for earlier in accepted):
                accepted.append(order)
    return accepted


def _is_same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def held_out_functions_by_turn(
    entry: Mapping[str, Any], functions: Sequence[FunctionDoc], place: Location, *, more_later: bool
) -> dict[int, tuple[str, ...]]:
    """Map each turn to the held-out functions that an entry offers from it on.

    Raises TaskError for unknown turns, and for unknown names that `more_later` does not document.
    """
    documented = {function.name for function in functions}
    missed: dict[int, tuple[str, ...]] = {}
    for turn, names in entry.get("missed_function", {}).items():
        if int(turn) >= len(entry["question"]):
            raise place.error(
                f"missed_function: turn {turn} is out of range: expected 0 to "
                f"{len(entry['question']) - 1}, as question has that many turns"
            )
        for name in names:
            if name not in documented and name not in REMOVED_FUNCTIONS and not more_later:
                raise place.error(
                    f'missed_function["{turn}"]: "{name}" is no function of this task: expected '
                    "one of " + (", ".join(sorted(documented)) or "none (it has no functions)")
                )
        missed[int(turn)] = tuple(name for name in names if name in documented or more_later)
    return missed


def parse_involved_classes(
    entry: Mapping[str, Any], place: Location
) -> tuple[tuple[str, ...], dict[str, str], Mapping[str, Mapping[str, Any]]]:
    """Parse an entry's classes: their names, paths ("module:Class") and scenarios, by name.

    A scenario stands under the class's path or its bare name. Raises TaskError at `place`.
    """
    written: Sequence[str] = entry.get("involved_classes", entry.get("invoked_classes", []))
    scenarios = dict(entry.get("initial_config", {}))
    names, paths = list[str](), dict[str, str]()
    for text in written:
        name = text
        if "." in name or ":" in name:
            match = _PATH.fullmatch(name)
            if match is None:
                raise place.error(
                    'involved_classes: expected a class\'s name or "module.Class", found '
                    f"{text!r:.60}"
                )
            name = match[2]
            if name in names:
                raise place.error(
                    f'involved_classes: expected one class called "{name}", found {text!r:.60} too'
                )
            paths[name] = f"{match[1]}:{name}"
            if text in scenarios:
                scenarios[name] = scenarios.pop(text)
        names.append(name)
    for name in names:
        if not isinstance(scenario := scenarios.get(name, {}), dict):
            raise place.error(
                f"initial_config.{name}: expected the class's scenario (an object), found "
                f"{scenario!r:.60}"
            )
    return tuple(names), paths, scenarios
