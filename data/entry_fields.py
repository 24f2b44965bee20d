"""Fields of a task entry, checked: ground truth, held-out functions and classes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.data.errors import Location
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


def missed_functions(
    entry: Mapping[str, Any], functions: Sequence[FunctionDoc], place: Location, *, more_later: bool
) -> dict[int, tuple[str, ...]]:
    """Return the functions held out until a turn; raises TaskError for unknown turns, and for
    unknown names that `more_later` does not document.
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
