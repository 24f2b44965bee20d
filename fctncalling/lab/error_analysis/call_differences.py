"""Single-turn calls against the ground truth: what differs, and the calls mended."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.checkers import ARGUMENT_CHECKERS
from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.judging.oracle import OMITTED, oracle_calls

_MISSING = object()
_ITEM_TYPES: tuple[Callable[[Any], Any], ...] = (int, float, str)


class CallDifference(NamedTuple):
    """One thing that is wrong with the calls of an answer."""

    cause: str
    where: str  # "function" or "function.parameter"
    weight: int  # how far it takes a call from the expected one


class ComparedCalls(NamedTuple):
    """Calls compared with the ground truth."""

    differences: tuple[CallDifference, ...]
    with_types: tuple[Call, ...]  # as they are, argument types mended
    mended: tuple[Call, ...]  # what passes: everything mended


class _Pair(NamedTuple):
    differences: tuple[CallDifference, ...]
    with_types: Call
    mended: Call

    @property
    def distance(self) -> int:
        return sum(each.weight for each in self.differences)


def compare_calls(task: Task, calls: Sequence[Call], *, underscores: bool = False) -> ComparedCalls:
    """Return how calls differ from the ground truth's, each expected call paired with the nearest.

    `underscores`: names are expected with underscores for dots.
    """
    [expected] = oracle_calls(task)
    truth = [accepted for each in task.ground_truth or () for accepted in each.values()]
    left = list(calls)
    pairs: list[_Pair] = []
    missing: list[CallDifference] = []
    for oracle, accepted in zip(expected, truth, strict=True):
        candidates = [_paired(task, call, oracle, accepted, underscores) for call in left]
        if not candidates:
            missing.append(CallDifference("too few calls", oracle.name, 50))
            name = oracle.name.replace(".", "_") if underscores else oracle.name
            own = Call(name, oracle.arguments)
            pairs.append(_Pair((), own, own))
            continue
        index = min(range(len(left)), key=lambda at: candidates[at].distance)
        pairs.append(candidates[index])
        del left[index]
    extra = [CallDifference("too many calls", call.name, 50) for call in left]
    found = sorted((each for pair in pairs for each in pair.differences), key=lambda e: -e.weight)
    return ComparedCalls(
        (*missing, *extra, *found),
        tuple(pair.with_types for pair in pairs[: len(calls)]),
        tuple(pair.mended for pair in pairs),
    )


def _paired(
    task: Task, call: Call, oracle: Call, accepted: Mapping[str, Any], underscores: bool
) -> _Pair:
    doc = next(each for each in task.functions if each.name == oracle.name)
    name = doc.name.replace(".", "_") if underscores else doc.name
    found: list[CallDifference] = []
    if call.name != name:
        alike = _plain(call.name) == _plain(name) or _plain(call.name).endswith(_last(name))
        cause, weight = ("misspelt function", 30) if alike else ("wrong function", 100)
        found.append(CallDifference(cause, f"{call.name} for {name}", weight))
        if not alike:  # its arguments are those of another function: nothing is said of them
            return _Pair(tuple(found), call, Call(name, oracle.arguments))
    typed, mended = dict(call.arguments), dict(call.arguments)
    for difference, parameter, value in _arguments(task, doc, call, oracle, accepted):
        found.append(difference)
        for arguments in (typed, mended) if difference.cause == "wrong type" else (mended,):
            if value is _MISSING:
                arguments.pop(parameter, None)
            else:
                arguments[parameter] = value
    return _Pair(tuple(found), Call(call.name, typed), Call(name, mended))


def _arguments(
    task: Task, doc: FunctionDoc, call: Call, oracle: Call, accepted: Mapping[str, Any]
) -> Iterator[tuple[CallDifference, str, Any]]:
    """Yield what is wrong with each argument, and the value that would have passed."""
    documented = doc.parameters.get("properties", {})
    required = doc.parameters.get("required", ())
    for parameter in dict.fromkeys((*call.arguments, *accepted, *required)):
        where = f"{doc.name}.{parameter}"
        right = oracle.arguments.get(parameter, _MISSING)
        if parameter not in call.arguments:
            if parameter in required or OMITTED not in accepted.get(parameter, ()):
                yield CallDifference("missing argument", where, 10), parameter, right
            continue
        if parameter not in documented or parameter not in accepted:
            yield CallDifference("unexpected argument", where, 10), parameter, _MISSING
            continue
        value, values = call.arguments[parameter], accepted[parameter]
        fault = _fault(task, parameter, value, documented[parameter], values)
        if fault is None:
            continue
        near = _retyped(task, parameter, value, documented[parameter], values)
        if near is not _MISSING:
            yield CallDifference("wrong type", where, 2), parameter, near
        elif fault.startswith("type_error"):
            yield CallDifference("wrong type", where, 11), parameter, right
        else:
            yield CallDifference("wrong argument", where, 10), parameter, right


def _fault(task: Task, parameter: str, value: Any, declared: Any, accepted: Any) -> str | None:
    try:
        fault = ARGUMENT_CHECKERS[task.language](parameter, value, declared, accepted)
    except ValueError as error:
        return str(error)
    return None if fault is None else fault.error_type


def _retyped(task: Task, parameter: str, value: Any, declared: Any, accepted: Any) -> Any:
    """Return the value in another type that passes; _MISSING where none does."""
    for near in _other_types(value):
        changed = type(near) is not type(value) or near != value
        if changed and near != "" and not _fault(task, parameter, near, declared, accepted):
            return near
    return _MISSING


def _other_types(value: Any) -> Iterator[Any]:
    """Yield what a value would be in other types: "5" is 5, 5 is "5", "a" is ["a"], 5 is 5.0."""
    if isinstance(value, str):
        yield from _types_of_text(value)
    elif isinstance(value, int | float):
        yield str(value)
        with contextlib.suppress(OverflowError):
            if float(value).is_integer():
                yield int(value)
            yield float(value)
    elif isinstance(value, list | tuple):
        yield list(value)
        yield tuple(value)
        yield from value[:1] if len(value) == 1 else ()
        for kind in _ITEM_TYPES:
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                yield [kind(each) for each in value]
    elif isinstance(value, dict):
        yield {
            key: next((near for near in _other_types(each)), each) for key, each in value.items()
        }
    yield [value]


def _types_of_text(text: str) -> Iterator[Any]:
    named = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in named:
        yield named[text.lower()]
    with contextlib.suppress(ValueError, RecursionError):
        yield json.loads(text)
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            yield kind(text)
    yield from (f"{text}L", f"{text}f", text.lower())  # literals of Java
    if "," in text:
        yield [part.strip() for part in text.split(",")]


def _plain(name: str) -> str:
    return name.replace("_", "").replace(".", "").replace("-", "").lower()


def _last(name: str) -> str:
    return _plain(name.rpartition(".")[2])
