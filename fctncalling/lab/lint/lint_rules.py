"""Lint rules for tasks.

"impossible": no answer the rule could write passes the official checker. "broken": only an answer
that fails as the truth's own calls do. "suspicious": one passes, but only in an odd way, or the
entry contradicts itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fctncalling.checkers.agentic import standardize_string
from fctncalling.checkers.clarify import missing_parameters
from fctncalling.data.categories import WITHOUT_ANSWER
from fctncalling.data.types import Task, Verdict
from fctncalling.envs.episode.parsing import EXECUTION_ERROR, is_tool_error
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.judging.ground_truth import ExtraTools
from fctncalling.envs.judging.judge import judge
from fctncalling.envs.judging.oracle import oracle_calls, parse_call_string
from fctncalling.envs.python_source.parse import parse_expression
from fctncalling.envs.users.known_values import known_values
from fctncalling.evaluation.accepted_answers import (
    accepted_answer_texts,
    accepted_calls,
    render_calls,
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with one task."""

    id: str
    category: str
    severity: str  # "impossible", "broken" or "suspicious"
    rule: str
    message: str


def lint_task(task: Task, extra_tools: ExtraTools | None = None) -> Iterator[Finding]:
    """Yield the findings on a task; `extra_tools` are a user's own classes.

    Raises UnsupportedCategory, InfrastructureError, LookupError for a tool.
    """
    kind = task.kind
    if kind in ("relevance", "irrelevance"):
        rules: tuple[Callable[[Task], Iterator[tuple[str, str, str]]], ...] = (_offers_nothing,)
    elif task.ground_truth is None:
        rules = () if task.category in WITHOUT_ANSWER else (_no_truth,)
    elif kind == "multi_turn":
        rules = (_scenarios, _empty_turns, partial(_multi_turn_truth, tools=extra_tools))
    elif kind == "clarify":
        rules = (_check_docs, _questions)
    elif kind == "agentic":
        rules = (_agentic_truth,)
    else:
        rules = (_check_docs, _single_turn_truth)
    for rule in rules:
        for severity, name, message in rule(task):
            yield Finding(task.id, task.category, severity, name, message)


_NO_CALL = re.compile(
    rf"{EXECUTION_ERROR}.*?(name '\w+' is not defined|\w+\(\) (got an unexpected|missing|takes) )"
)
Found = Iterator[tuple[str, str, str]]  # severity, rule, message


def _no_truth(_: Task) -> Found:
    yield "impossible", "no_ground_truth", "no ground truth says what is right, so nothing can pass"


def _questions(task: Task) -> Found:
    """Find a missing value that the user does not know, and a truth that fails."""
    missing, known = missing_parameters(task), known_values(task)
    if unknown := [name for name in missing if name not in known]:
        yield (
            "impossible",
            "unknown_to_the_user",
            f"missing_parameters: {', '.join(unknown)}: user_knows has no value of it",
        )
    answer = render_calls(task, oracle_calls(task)[0])
    verdict = judge(task, [[*missing, answer]])
    if not verdict.valid:
        yield "impossible", "truth_rejected", f"{verdict.error_type}: {verdict.message}"


def _offers_nothing(task: Task) -> Found:
    if not task.functions:
        yield (
            "suspicious",
            "no_functions",
            "no function is offered, so nothing but text can be answered",
        )


def _check_docs(task: Task) -> Found:
    """Where the ground truth and the function docs disagree."""
    docs = {doc.name: doc.parameters for doc in task.functions}
    for expected in task.ground_truth or ():
        for name, accepted in expected.items():
            if name not in docs:
                yield "suspicious", "undocumented_function", f"{name} has no function doc"
                continue
            documented, required = docs[name].get("properties", {}), docs[name].get("required", ())
            for key, values in accepted.items():
                if not isinstance(values, list):
                    yield (
                        "suspicious",
                        "no_list",
                        f"{name}.{key}: {values!r:.60} stands where a list of values belongs",
                    )
                elif not values:
                    yield (
                        "suspicious",
                        "nothing_accepted",
                        f"{name}.{key}: the list of accepted values is empty",
                    )
                if key not in documented:
                    yield (
                        "suspicious",
                        "undocumented_parameter",
                        f"{name}.{key} is expected and not documented",
                    )
            for key in required:
                if key not in accepted:
                    yield (
                        "suspicious",
                        "unexpected_required",
                        f"{name}.{key} is required and not expected",
                    )


def _single_turn_truth(task: Task) -> Found:
    passed, fault = {}, "no answer can be written"
    for form, style, text in accepted_answer_texts(task):
        if form not in passed:
            verdict = _verdict(task, text, form)
            if verdict.valid:
                passed[form] = style
            elif style == "natural":
                fault = f"{verdict.error_type}: {verdict.message}"[:300]
    if not passed:
        yield "impossible", "truth_rejected", fault
    for form in ("prompting", "tool_call"):
        if passed and form not in passed:
            yield "suspicious", "one_form_only", f"no answer found passes in form {form}: {fault}"
        elif passed.get(form, "natural") != "natural":
            yield (
                "suspicious",
                "odd_answer_only",
                f"passes in form {form} only when written as {passed[form]}",
            )
    if passed:
        yield from _other_answers(task)


RETURN_FORMATS = ("bfcl_json", "bfcl_verbose_xml", "bfcl_concise_xml")


def _other_answers(task: Task) -> Found:
    """Yield the formats that cannot say the expected calls, and whether their order matters."""
    calls = next(accepted_calls(task), None) if task.language == "python" else None
    if calls is None:
        return
    for name in RETURN_FORMATS:
        try:
            get_handler(name).render(calls)
        except ValueError as error:
            yield "suspicious", "return_format", f"{name}: {error}"[:300]
    if task.kind == "parallel":
        try:
            turned = get_handler("python_calls").render(calls[::-1])
        except ValueError:
            return
        if not judge(task, turned, "prompting").valid:
            yield "suspicious", "order_matters", "the same calls in reversed order are rejected"


def _verdict(task: Task, text: str, form: str) -> Verdict:
    """Return the verdict; a ground truth that the checker stumbles over rejects every answer."""
    try:
        return judge(task, text, form)
    except (TypeError, ValueError) as error:
        return Verdict(False, 0.0, "unusable ground truth", str(error))


def _scenarios(task: Task) -> Found:
    for name in task.initial_config:
        if name not in task.involved_classes:
            yield (
                "suspicious",
                "scenario_unused",
                f"initial_config holds {name}, which is not involved",
            )


def _empty_turns(task: Task) -> Found:
    if "miss_" in task.category or "composite" in task.category:
        return  # meant so: the agent is to ask
    for turn, calls in enumerate(task.ground_truth or ()):
        if not calls:
            yield (
                "suspicious",
                "empty_turn",
                f"turn {turn} expects no call, so nothing in it is checked",
            )


def _multi_turn_truth(task: Task, tools: ExtraTools | None) -> Found:
    turns = task.ground_truth or ()
    verdict = judge(
        task, [[[call] for call in calls] for calls in turns], "decoded_calls", extra_tools=tools
    )
    if not verdict.valid:
        yield "impossible", "truth_rejected", f"{verdict.error_type}: {verdict.message}"[:300]
        return
    yield from _failing_calls(task, tools)
    docs, texts = {doc.name: doc for doc in task.functions}, list[list[str]]()
    for turn, calls in enumerate(turns):
        texts.append([])
        for call in calls:
            try:
                texts[-1].append(
                    get_handler("python_calls").render([parse_call_string(call, docs)])
                )
            except ValueError as error:
                yield "suspicious", "unwritable_call", f"turn {turn}: {error}"[:300]
                return
    verdict = judge(task, texts, "prompting", extra_tools=tools)
    if not verdict.valid:
        yield "suspicious", "rejected_as_text", f"{verdict.error_type}: {verdict.message}"[:300]


def _failing_calls(task: Task, extra_tools: ExtraTools | None) -> Found:
    tools = ToolSession(
        task.involved_classes,
        task.initial_config,
        long_context=task.long_context,
        extra_tools=extra_tools,
    )
    for turn, calls in enumerate(task.ground_truth or ()):
        for call in calls:
            result = tools.execute(call)
            if is_tool_error(result):
                told = f"turn {turn}: {call} -> {result}"[:300]
                if _is_no_call(call, result):
                    yield "broken", "truth_is_no_call", told
                else:
                    yield "suspicious", "truth_fails", told


def _is_no_call(call: str, result: str) -> bool:
    """Whether a call failed as none of a function that is there with its own arguments.

    Broken syntax, an unknown name, arguments that the function does not take.
    """
    try:
        parse_expression(call.strip())
    except (ValueError, SyntaxError):
        return True
    return _NO_CALL.match(result) is not None


def _agentic_truth(task: Task) -> Found:
    accepted = [str(answer) for answer in task.ground_truth or ()]
    blank = [answer for answer in accepted if not standardize_string(answer).strip()]
    if blank:
        yield (
            "suspicious",
            "anything_accepted",
            f"accepted answer {blank[0]!r} occurs in every message",
        )
    message: Any = next(
        (answer for answer in accepted if judge(task, answer, "prompting").valid), None
    )
    if message is None:
        yield (
            "impossible",
            "truth_rejected",
            f"none of the accepted answers {accepted!r:.200} is found in itself",
        )


_MIXED = "the checker leaves items of an ArrayList of mixed types as source text"
_MISNAMED = "the ground truth and the function doc name different parameters"
OFFICIAL_FAULTS = {
    "simple_java_1": (
        "SQLCompletionAnalyzer.makeProposalsFromObject",
        "prompted, the checker loses the body of a HashMap; as a tool call it passes",
    ),
    "simple_java_35": (
        "RedissonConnection.bitOp",
        "prompted, the checker keeps the quotes inside a String[]; as a tool call it passes",
    ),
    "simple_java_36": ("ObjectMapEntryReplayDecoder.decode", _MIXED),
    "simple_java_65": ("RootObjectMapper.doXContent", _MIXED),
    "live_simple_106-63-0": ("record", _MISNAMED),
    "live_simple_112-68-0": ("record", _MISNAMED),
    "live_multiple_862-181-3": ("Trains_1_FindTrains", _MISNAMED),
    "live_multiple_964-207-0": ("transfer_to_human_agent", _MISNAMED),
}
"""Task id -> a function that it offers, which tells it from a user's task of that id, and the
fault.
"""


def unsolvable_official_fault(task: Task) -> str | None:
    """Return why no oracle solves an official task; None for every other task."""
    function, fault = OFFICIAL_FAULTS.get(task.id, ("", None))
    return fault if any(doc.name == function for doc in task.functions) else None
