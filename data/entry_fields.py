"""Fields of a task entry, checked: ground truth, held-out functions and classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from fctncalling.data.errors import Location, TaskError
from fctncalling.data.types import FunctionDoc, Task

# A method BFCL took from TradingBot and its docs, but not from two entries of the retired
# multi_turn_composite (101 and 132). BFCL's generation holds out what it finds, hence nothing in
# those turns.
REMOVED_FUNCTIONS = frozenset({"update_market_status"})
_PATH = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)[.:]([A-Za-z_]\w*)")


def check_ground_truth_turns(task: Task, place: Location) -> None:
    """Raise TaskError unless the ground truth is a list of call strings for each turn."""
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
            "of question, "
            f"found {len(task.ground_truth)}"
        )


def check_accepted_calls(task: Task, place: Location) -> None:
    """Raise TaskError unless the ground truth is {function: {parameter: [values]}} per call."""
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


def with_accepted_values(task: Task, place: Location) -> Task:
    """Return a task whose ground truth has, written out, what its field `accept` accepts.

    `{"defaults": true}`: a parameter that the truth does not name, or whose documented default it
    accepts, may be left out or given that default. `{"any_order": true}` (or names of parameters):
    lists are right in any order. Raises TaskError for another form.
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
    is_order = isinstance(any_order, bool | list) and all(isinstance(each, str) for each in names)
    return is_order and isinstance(rules.get("defaults", False), bool)


def _accepted(
    parameters: Mapping[str, Any],
    truth: Mapping[str, list[Any]],
    rules: Mapping[str, Any],
    place: Location,
) -> Iterator[tuple[str, list[Any]]]:
    """Yield (parameter, accepted values), those of parameters left unsaid too."""
    any_order = rules.get("any_order", False)
    documented = parameters.get("properties", {})
    required = parameters.get("required", ())
    for name in [*truth, *(each for each in documented if each not in truth)]:
        values = list(truth.get(name, ()))
        if any_order is True or (any_order and name in any_order):
            values = _in_any_order(values, place.error, name)
        default = documented.get(name, {}).get("default")
        if rules.get("defaults") and default is not None and name not in required:
            if name not in truth:
                values = ["", default]
            elif any(type(each) is type(default) and each == default for each in values):
                values = values if "" in values else [*values, ""]
        if name in truth or values:
            yield name, values


def _in_any_order(values: list[Any], error: Callable[[str], TaskError], name: str) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, list) and len(value) > LONGEST_IN_ANY_ORDER:
            raise error(
                f"accept: any_order of {name}: expected lists of at most {LONGEST_IN_ANY_ORDER} "
                f"items, found one of {len(value)}: name the other parameters in any_order"
            )
        orders = map(list, permutations(value)) if isinstance(value, list) else [value]
        found += [each for each in orders if not any(_is_same(each, one) for one in found)]
    return found


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def missed_functions(
    entry: Mapping[str, Any], functions: Sequence[FunctionDoc], place: Location, *, more_later: bool
) -> dict[int, tuple[str, ...]]:
    """Return the functions held out until a turn.

    Raises TaskError for unknown turns, and for unknown names that `more_later` does not document.
    """
    known = {function.name for function in functions}
    missed: dict[int, tuple[str, ...]] = {}
    for turn, names in entry.get("missed_function", {}).items():
        if int(turn) >= len(entry["question"]):
            raise place.error(
                f"missed_function: turn {turn} is out of range: expected 0 to "
                f"{len(entry['question']) - 1}, "
                "as question has that many turns"
            )
        for name in names:
            if name not in known and name not in REMOVED_FUNCTIONS and not more_later:
                raise place.error(
                    f'missed_function["{turn}"]: "{name}" is no function of this task: expected '
                    "one of " + (", ".join(sorted(known)) or "none (it has no functions)")
                )
        missed[int(turn)] = tuple(name for name in names if name in known or more_later)
    return missed


def named_classes(
    entry: Mapping[str, Any], place: Location
) -> tuple[tuple[str, ...], dict[str, str], Mapping[str, Mapping[str, Any]]]:
    """Return an entry's classes by their bare names, name -> "module:Class", and name -> scenario.

    A scenario stands under the class's path or its bare name. Raises TaskError at `place`.
    """
    written: Sequence[str] = entry.get("involved_classes", entry.get("invoked_classes", []))
    scenarios = dict(entry.get("initial_config", {}))
    names, paths = list[str](), dict[str, str]()
    for each in written:
        name = each
        if "." in each or ":" in each:
            found = _PATH.fullmatch(each)
            if found is None:
                raise place.error(
                    'involved_classes: expected a class\'s name or "module.Class", found '
                    f"{each!r:.60}"
                )
            name = found[2]
            if name in names:
                raise place.error(
                    f'involved_classes: expected one class called "{name}", found {each!r:.60} too'
                )
            paths[name] = f"{found[1]}:{name}"
            if each in scenarios:
                scenarios[name] = scenarios.pop(each)
        names.append(name)
    for name in names:
        if not isinstance(scenario := scenarios.get(name, {}), dict):
            raise place.error(
                f"initial_config.{name}: expected the class's scenario (an object), found "
                f"{scenario!r:.60}"
            )
    return tuple(names), paths, scenarios
