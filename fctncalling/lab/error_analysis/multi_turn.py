"""Multi-turn answers: which turn fails first, and which call of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fctncalling.data.types import Call, Task, Verdict
from fctncalling.envs.handlers import DecodeError
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.ground_truth import ExtraTools, replay_turns
from fctncalling.envs.judging.judge import judge
from fctncalling.envs.judging.oracle import parse_call_string
from fctncalling.envs.python_source.render import render_call
from fctncalling.lab.error_analysis.diagnosis import Diagnosis
from fctncalling.lab.error_analysis.form_repairs import repair_form

STEP_LIMIT = 20
"""Steps of a turn after which BFCL ends a dialogue."""
_MAX_SINGLE_EDITS = 6

Turns = list[list[str]]  # of call strings


class _Edit(NamedTuple):
    cause: str
    where: str
    calls: tuple[str, ...]  # the turn's, with this one thing mended


def diagnose_multi_turn(
    task: Task, response: Any, form: str, verdict: Verdict, extra_tools: ExtraTools | None = None
) -> Diagnosis:
    """Return why a multi-turn answer that `verdict` refuses fails."""
    if not isinstance(response, list):
        return Diagnosis(verdict, ("inference error",), (), str(response)[:200], str(response))
    turn = next(
        (at for at, passed in enumerate(verdict.per_turn) if not passed and at < len(response)),
        len(response),
    )
    judge_calls = _CallJudge(task, extra_tools)
    repaired, causes, complaint, mended = _repaired(task, response, form, turn)
    calls = [call_strings(task, each, form) for each in response]
    answer = f"turn {turn}: {_turn_text(response, turn)}"
    if verdict.error_type == "multi_turn:force_terminated" and turn == len(response):
        return _ended_early(task, response, verdict, answer)
    if causes:
        outcome = judge_calls(mended)
        silent = turn < len(calls) and not calls[turn]
        if outcome.valid or outcome.per_turn[turn] or (silent and mended[turn]):
            nearest = f"turn {turn}: {json.dumps(repaired[turn])}"
            suffices = (outcome.valid, outcome.valid)  # form, and types with it
            return Diagnosis(verdict, causes, (), complaint, answer, nearest, turn, *suffices)
    unread, said = _unread(task, response[turn], form)
    return _compared(task, calls, turn, verdict, answer, judge_calls, complaint or said, unread)


def call_strings(task: Task, turn: Any, form: str) -> list[str]:
    """Return the calls of a turn as they are executed; what does not decode is left out."""
    steps = turn if isinstance(turn, list) else []
    if form == "decoded_calls":
        flat = [call for step in steps for call in (step if isinstance(step, list) else [step])]
        return [call for call in flat if isinstance(call, str) and call]
    handler, found = handler_for(task, form), list[str]()
    for step in steps:
        try:
            found += handler.decode_execute(step)
        except DecodeError:
            continue
    return found


class _CallJudge:
    """Judge of turns of call strings of one task."""

    def __init__(self, task: Task, extra_tools: ExtraTools | None) -> None:
        self._task = task
        self._tools = extra_tools

    def __call__(self, turns: Turns) -> Verdict:
        response = [[turn] for turn in turns]
        return judge(self._task, response, "decoded_calls", extra_tools=self._tools)

    def tool_errors(self, turns: Turns, turn: int) -> list[str]:
        """Return what tools said against the calls of a turn."""
        for at, played in enumerate(replay_turns(self._task, turns, self._tools, "model")):
            if at == turn:
                return [_error_text(text) for text in played.results if _is_error(text)]
        return []


def _error_text(text: str) -> str:
    """Return a tool's error without the JSON around it."""
    try:
        return f"the tool said: {json.loads(text)['error']}"
    except (ValueError, KeyError, TypeError):
        return text


def _is_error(text: str) -> bool:
    return text.startswith(('{"error"', "Error during execution", "{'error'"))


def _repaired(
    task: Task, response: list[Any], form: str, last: int
) -> tuple[list[Any], tuple[str, ...], str, Turns]:
    """Return the answer with what could not be read rewritten, up to a turn, and why it was."""
    calls = [call_strings(task, turn, form) for turn in response]
    if form == "decoded_calls":
        return response, (), "", calls
    changed, causes, complaint = list(response), list[str](), ""
    for at, turn in enumerate(response[: last + 1]):
        steps = list(turn) if isinstance(turn, list) else []
        for index, step in enumerate(steps):
            repair = repair_form(task, form, step) if isinstance(step, str) else None
            if repair and repair.causes and repair.text is not None:
                steps[index] = repair.text
                causes += repair.causes
                complaint = complaint or repair.complaint
        changed[at] = steps
        calls[at] = call_strings(task, steps, form)
    return changed, tuple(dict.fromkeys(causes)), complaint, calls


def _unread(task: Task, turn: Any, form: str) -> tuple[tuple[str, ...], str]:
    """Return why the steps of a turn that look like calls could not be read, and the complaint."""
    for step in turn if isinstance(turn, list) and form != "decoded_calls" else ():
        repair = repair_form(task, form, step)
        if repair.text is None and repair.causes != ("never called",):
            return repair.causes, repair.complaint
    return (), ""


def _ended_early(task: Task, response: list[Any], verdict: Verdict, answer: str) -> Diagnosis:
    """Return why the answer has fewer turns, or more, than the task."""
    expected = len(task.ground_truth or ())
    last = response[-1] if response else []
    if len(response) > expected:
        cause, turn = "too many turns", expected
    elif isinstance(last, list) and len(last) >= STEP_LIMIT:
        cause, turn = "step limit", len(response) - 1
    else:
        cause, turn = "turns missing", len(response)
    return Diagnosis(verdict, (cause,), (), verdict.message, answer, None, turn)


def _compared(
    task: Task,
    calls: Turns,
    turn: int,
    verdict: Verdict,
    answer: str,
    judge_calls: _CallJudge,
    complaint: str,
    unread: tuple[str, ...],
) -> Diagnosis:
    """Return a diagnosis by the calls of the first failing turn, and those before."""
    truth = [list(map(str, each)) for each in task.ground_truth or ()]
    at = turn
    edits = _edits(task, calls[turn], truth[turn])
    while not edits and at > 0:  # the turn does what it should: an earlier one left its mark
        at -= 1
        edits = _edits(task, calls[at], truth[at])
    at = at if edits else turn
    if unread and not calls[turn]:
        causes: tuple[str, ...] = unread
    elif not any(calls[: turn + 1]):
        causes = ("never called",)
    elif not calls[turn]:
        causes = ("no call in the turn",)
    else:
        causes = tuple(dict.fromkeys(each.cause for each in edits)) or ("call order",)
    nearest = _nearest(calls, truth, turn, at, edits, judge_calls)
    errors = judge_calls.tool_errors(calls, turn)
    said = complaint if not calls[turn] else ""
    where = tuple(each.where for each in edits if each.cause == causes[0])
    said = said or next(iter(errors), verdict.message.partition(": ")[2])
    return Diagnosis(verdict, causes, where, said, answer, nearest, turn)


def _edits(task: Task, calls: Sequence[str], truth: Sequence[str]) -> list[_Edit]:
    """Return what takes a turn's calls to the truth's, one thing at a time."""
    docs = {doc.name: doc for doc in task.functions}

    def read(text: str) -> Call:
        try:
            return parse_call_string(text, docs)
        except ValueError:
            return Call(text, {})

    own, wanted = list(map(read, calls)), list(map(read, truth))
    free = [at for at, call in enumerate(own) if call not in wanted]
    for call in own:
        if call in wanted:
            wanted.remove(call)
    edits: list[_Edit] = []
    lacking = list[Call]()
    for call in wanted:
        near = [at for at in free if own[at].name == call.name]
        if not near:
            lacking.append(call)
            continue
        index = min(near, key=lambda at: len(_differing(own[at], call)))
        free.remove(index)
        mended = (*calls[:index], render_call(call.name, call.arguments), *calls[index + 1 :])
        parameters = ", ".join(_differing(own[index], call))
        edits.append(_Edit("wrong argument", f"{call.name}({parameters})", mended))
    for call in lacking:
        cause = "missing call" if free or edits else "stopped early"
        longer = (*calls, render_call(call.name, call.arguments))
        edits.append(_Edit(cause, call.name, longer))
    for index in free:
        shorter = (*calls[:index], *calls[index + 1 :])
        edits.append(_Edit("extra call", own[index].name, shorter))
    return edits


def _differing(own: Call, wanted: Call) -> list[str]:
    missing = object()
    return [
        str(key)
        for key in dict.fromkeys((*own.arguments, *wanted.arguments))
        if own.arguments.get(key, missing) != wanted.arguments.get(key, missing)
    ]


def _nearest(
    calls: Turns,
    truth: Turns,
    turn: int,
    edited: int,
    edits: Sequence[_Edit],
    judge_calls: _CallJudge,
) -> str | None:
    """Return the turn as it would have passed: with one thing mended, or else the truth's calls.

    None where not even those pass, for an earlier turn left another state.
    """
    candidates = [list(edit.calls) for edit in edits[:_MAX_SINGLE_EDITS]]
    for mended in (*candidates, truth[edited]):
        outcome = judge_calls([*calls[:edited], mended, *calls[edited + 1 :]])
        if outcome.valid or outcome.per_turn[turn]:
            passes = "" if outcome.valid else " (this turn passes; later ones still fail)"
            return f"turn {edited}: [{', '.join(mended)}]{passes}"
    return None


def _turn_text(response: Sequence[Any], turn: int) -> str:
    return json.dumps(response[turn], default=str) if turn < len(response) else "(there is none)"
