"""Diagnosis of an answer: its differences from the truth, and a near answer that passes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.checkers import ARGUMENT_CHECKERS
from fctncalling.data.types import Call, FunctionDoc, Task, Verdict
from fctncalling.envs.handlers import DecodeError
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.judge import ExtraTools, judge
from fctncalling.envs.judging.oracle import OMITTED, oracle_calls
from fctncalling.evaluation.accepted_answers import accepted_answer, render_calls
from fctncalling.lab.error_analysis.diagnosis import Diagnosis
from fctncalling.lab.error_analysis.form_repairs import (
    decode_or_error,
    name_positional_arguments,
    repair_form,
)
from fctncalling.lab.error_analysis.multi_turn import diagnose_multi_turn

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
        said, last = _plain(call.name), _plain(name.rpartition(".")[2])
        alike = said == _plain(name) or said.endswith(last)
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
    """Yield the fault of each wrong argument, and a value that would have passed."""
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
    """Return the value in another type that passes; _MISSING if none does."""
    for near in _other_types(value):
        changed = type(near) is not type(value) or near != value
        if changed and near != "" and not _fault(task, parameter, near, declared, accepted):
            return near
    return _MISSING


def _other_types(value: Any) -> Iterator[Any]:
    """Yield a value converted to other types: "5" to 5, 5 to "5", "a" to ["a"], 5 to 5.0."""
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


def diagnose(
    task: Task,
    response: Any,
    form: str = "prompting",
    *,
    verdict: Verdict | None = None,
    extra_tools: ExtraTools | None = None,
    failure: str = "",
) -> Diagnosis:
    """Return the verdict on one answer with everything that has to be mended.

    Arguments are those of `judge`; `verdict`: spares a second one; `failure`: the known cause of a
    dialogue that broke off. Raises what `judge` raises.
    """
    verdict = verdict or judge(task, response, form, extra_tools=extra_tools)
    if verdict.valid:
        return Diagnosis(verdict)
    if failure:
        return Diagnosis(verdict, (failure,), answer=answer_text(response))
    if task.kind == "multi_turn":
        return diagnose_multi_turn(task, response, form, verdict, extra_tools)
    if task.kind == "agentic":
        return _agentic(task, response, verdict)
    if task.kind == "irrelevance":
        return Diagnosis(verdict, ("called without need",), answer=answer_text(response))
    return _single_turn(task, response, form, verdict)


def answer_text(response: Any) -> str:
    """Return an answer as one text."""
    return response if isinstance(response, str) else json.dumps(response, default=str)


def _single_turn(task: Task, response: Any, form: str, verdict: Verdict) -> Diagnosis:
    repair = repair_form(task, form, response)
    text, causes = repair.text, list(repair.causes)

    def diagnosis(
        nearest: str | None, differences: Sequence[CallDifference] = (), **suffices: bool
    ) -> Diagnosis:
        where = tuple(each.where for each in differences if each.cause == causes[0])
        complaint, answer = repair.complaint or verdict.message, answer_text(response)
        return Diagnosis(verdict, tuple(causes), where, complaint, answer, nearest, **suffices)

    named = name_positional_arguments(task, text) if text and form == "prompting" else None
    if named is not None:
        causes.append(named[0])
        text = named[1]
    if text is not None and judge(task, text, form).valid:
        causes = causes or ["call order"]
        return diagnosis(text, form_suffices=True, types_suffice=True)
    if task.kind == "relevance":
        return diagnosis(None)
    decoded = decode_or_error(handler_for(task, form), text) if text else []
    calls = [] if isinstance(decoded, DecodeError) else decoded
    try:
        compared = compare_calls(task, calls, underscores=form == "tool_call")
    except (ValueError, StopIteration, TypeError, KeyError, AttributeError):
        # the ground truth cannot be written as calls
        return diagnosis(accepted_answer(task, form))
    if decoded:
        causes += dict.fromkeys(each.cause for each in compared.differences)
    nearest = _passing_text(task, form, compared.mended)
    if nearest is None:
        nearest = accepted_answer(task, form)
        if nearest is None or not judge(task, nearest, form).valid:
            nearest, causes = None, ["faulty ground truth"]
    typed = bool(decoded) and _passing_text(task, form, compared.with_types) is not None
    causes = causes or ["call order"]
    return diagnosis(nearest, compared.differences, types_suffice=typed)


def _passing_text(task: Task, form: str, calls: Sequence[Call]) -> str | None:
    try:
        if form.startswith("tool_call"):
            text = json.dumps([{each.name: json.dumps(dict(each.arguments))} for each in calls])
        elif "prompt_variant" in task.extra:
            text = handler_for(task, form).render(calls)
        else:
            text = render_calls(task, calls)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return text if judge(task, text, form).valid else None


def _agentic(task: Task, response: Any, verdict: Verdict) -> Diagnosis:
    """Diagnose a dialogue with its answer in the last message."""
    steps = response[0] if isinstance(response, list) and len(response) == 1 else response
    texts = [step for step in steps if isinstance(step, str)] if isinstance(steps, list) else []
    accepted = [str(each) for each in task.ground_truth or ()]
    if verdict.error_type == "agentic:inference_error":
        cause = "inference error"
    elif verdict.error_type == "agentic:no_last_message":
        cause = "never answered"
    elif any(judge(task, [[text]]).valid for text in texts[:-1]):
        cause = "answer not in the last message"
    else:
        cause = "wrong answer"
    last = texts[-1] if texts else answer_text(response)
    nearest = accepted[0] if accepted else None
    return Diagnosis(verdict, (cause,), (), verdict.message, last, nearest)
