"""Multi-turn answers: which turn fails first, and which call of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from fctncalling.data.types import Call, Task, Verdict
from fctncalling.envs.handlers import DecodeError
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.judge import ExtraTools, judge, replay_turns
from fctncalling.envs.judging.oracle import parse_call_string
from fctncalling.envs.python_source.call_source import render_call
from fctncalling.lab.error_analysis.diagnosis import Diagnosis
from fctncalling.lab.error_analysis.form_repairs import name_positional_arguments, repair_form

STEP_LIMIT = 20
"""Steps of a turn after which BFCL ends a dialogue."""
_MAX_SINGLE_EDITS = 6
_UNNAMED = frozenset({"positional arguments", "arguments in a dict"})

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
    return _FailedAnswer(task, response, form, verdict, extra_tools).diagnosis()


class _FailedAnswer:
    """Answer that fails, and its first failing turn."""

    def __init__(
        self, task: Task, response: list[Any], form: str, verdict: Verdict, tools: ExtraTools | None
    ) -> None:
        self.task = task
        self.response = response
        self.form = form
        self.verdict = verdict
        self.tools = tools
        self.calls: Turns = list(map(self._call_strings, response))
        self.truth: Turns = [list(map(str, each)) for each in task.ground_truth or ()]
        passed = enumerate(verdict.per_turn[: len(response)])
        self.turn = next((at for at, is_right in passed if not is_right), len(response))

    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis: by unreadable text, else by the calls."""
        is_over = self.turn == len(self.response)
        if self.verdict.error_type == "multi_turn:force_terminated" and is_over:
            return self._ended_early()
        repaired, causes, complaint, mended = self._repaired(self.turn)
        if causes:
            outcome = self._judged(mended)
            silent = self.turn < len(self.calls) and not self.calls[self.turn]
            if outcome.valid or outcome.per_turn[self.turn] or (silent and mended[self.turn]):
                nearest = f"turn {self.turn}: {json.dumps(repaired[self.turn])}"
                everywhere = self._repaired(len(self.response))[-1]
                is_valid = outcome.valid or self._judged(everywhere).valid
                suffices = (is_valid, is_valid)  # form, and types with it
                answer = self._answer(self.turn)
                return Diagnosis(
                    self.verdict, causes, (), complaint, answer, nearest, self.turn, *suffices
                )
        if not set(causes) <= _UNNAMED:
            causes = ()
        elif causes:  # more is wrong than arguments without a name
            self.calls = mended
        return self._compared(complaint, causes)

    def _answer(self, turn: int) -> str:
        there = turn < len(self.response)
        text = json.dumps(self.response[turn], default=str) if there else "(there is none)"
        return f"turn {turn}: {text}"

    def _call_strings(self, turn: Any) -> list[str]:
        """Return the executed calls of a turn, without undecodable steps."""
        steps = turn if isinstance(turn, list) else []
        if self.form == "decoded_calls":
            flat = [call for step in steps for call in (step if isinstance(step, list) else [step])]
            return [call for call in flat if isinstance(call, str) and call]
        handler, calls = handler_for(self.task, self.form), list[str]()
        for step in steps:
            with suppress(DecodeError):
                calls += handler.decode_execute(step)
        return calls

    def _judged(self, turns: Turns) -> Verdict:
        response = [[turn] for turn in turns]
        return judge(self.task, response, "decoded_calls", extra_tools=self.tools)

    def _repaired(self, last: int) -> tuple[list[Any], tuple[str, ...], str, Turns]:
        """Return the answer with its unreadable text rewritten, up to the turn `last`.

        With why it was, the first complaint, and the calls of its turns.
        """
        changed, calls, causes, complaint = list(self.response), list(self.calls), list[str](), ""
        if self.form == "decoded_calls":
            return changed, (), "", calls
        for at, turn in enumerate(self.response[: last + 1]):
            steps = list(turn) if isinstance(turn, list) else []
            for index, step in enumerate(steps):
                repair = repair_form(self.task, self.form, step) if isinstance(step, str) else None
                if repair and repair.causes and repair.text is not None:
                    steps[index] = repair.text
                    causes += repair.causes
                    complaint = complaint or repair.complaint
                if at >= self.turn and (named := self._named(steps[index])):
                    steps[index] = named[1]
                    causes.append(named[0])
            changed[at], calls[at] = steps, self._call_strings(steps)
        return changed, tuple(dict.fromkeys(causes)), complaint, calls

    def _named(self, step: Any) -> tuple[str, str] | None:
        """Return (cause, text) of a step with names for its positional arguments; else None."""
        is_source = self.form == "prompting" and isinstance(step, str)
        return name_positional_arguments(self.task, step) if is_source else None

    def _unread(self) -> tuple[tuple[str, ...], str]:
        """Return why steps of the turn that look like calls cannot be read, and the complaint."""
        turn = self.response[self.turn]
        for step in turn if isinstance(turn, list) and self.form != "decoded_calls" else ():
            repair = repair_form(self.task, self.form, step)
            if repair.text is None and repair.causes != ("never called",):
                return repair.causes, repair.complaint
        return (), ""

    def _ended_early(self) -> Diagnosis:
        """Return why the answer has fewer turns, or more, than the task."""
        count, last = len(self.response), self.response[-1] if self.response else []
        if count > len(self.truth):
            cause, turn = "too many turns", len(self.truth)
        elif isinstance(last, list) and len(last) >= STEP_LIMIT:
            cause, turn = "step limit", count - 1
        else:
            cause, turn = "turns missing", count
        message, answer = self.verdict.message, self._answer(self.turn)
        return Diagnosis(self.verdict, (cause,), (), message, answer, None, turn)

    def _compared(self, complaint: str, known: tuple[str, ...]) -> Diagnosis:
        """Return the diagnosis by the calls of the first failing turn, and those before.

        known: causes of the failing turn that are mended in its calls already.
        """
        unread, unread_complaint = self._unread()
        calls, turn = self.calls[self.turn], self.turn
        at, edits = turn, self._edits(turn)
        while not edits and at > 0:  # the turn does what it should: an earlier one left its mark
            at -= 1
            edits = self._edits(at)
        at = at if edits else turn
        if unread and not calls:
            causes: tuple[str, ...] = unread
        elif not any(self.calls[: turn + 1]):
            causes = ("never called",)
        elif not calls:
            causes = ("no call in the turn",)
        else:
            causes = (*known, *dict.fromkeys(each.cause for each in edits)) or ("call order",)
        said = complaint or unread_complaint if not calls else ""
        where = tuple(each.where for each in edits if each.cause == causes[0])
        said = said or self._tool_error() or self.verdict.message.partition(": ")[2]
        answer, nearest = self._answer(turn), self._nearest(at, edits)
        return Diagnosis(self.verdict, causes, where, said, answer, nearest, turn)

    def _tool_error(self) -> str:
        """Return a tool's error on a call of the failing turn; "" if there is none."""
        played = replay_turns(self.task, self.calls, self.tools, "model")
        turn = next(islice(played, self.turn, None), None)
        for text in turn.results if turn else ():
            if text.startswith(('{"error"', "Error during execution", "{'error'")):
                with suppress(ValueError, KeyError, TypeError):
                    return f"the tool said: {json.loads(text)['error']}"
                return text
        return ""

    def _edits(self, turn: int) -> list[_Edit]:
        """Return the single edits that turn a turn's calls into the truth's."""
        docs, calls = {doc.name: doc for doc in self.task.functions}, self.calls[turn]

        def read(text: str) -> Call:
            try:
                return parse_call_string(text, docs)
            except ValueError:
                return Call(text, {})

        own, wanted = list(map(read, calls)), list(map(read, self.truth[turn]))
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
            parameters = _differing(own[index], call)
            is_missing = own[index].arguments.keys().isdisjoint(parameters)
            cause = "missing argument" if is_missing else "wrong argument"
            edits.append(_Edit(cause, f"{call.name}({', '.join(parameters)})", mended))
        for call in lacking:
            cause = "missing call" if free or edits else "stopped early"
            longer = (*calls, render_call(call.name, call.arguments))
            edits.append(_Edit(cause, call.name, longer))
        for index in free:
            shorter = (*calls[:index], *calls[index + 1 :])
            edits.append(_Edit("extra call", own[index].name, shorter))
        return edits

    def _nearest(self, edited: int, edits: Sequence[_Edit]) -> str | None:
        """Return a turn as it would have passed: with one thing mended, or the truth's calls.

        None where not even those pass, for an earlier turn left another state.
        """
        candidates = [list(edit.calls) for edit in edits[:_MAX_SINGLE_EDITS]]
        for mended in (*candidates, self.truth[edited]):
            outcome = self._judged([*self.calls[:edited], mended, *self.calls[edited + 1 :]])
            if outcome.valid or outcome.per_turn[self.turn]:
                passes = "" if outcome.valid else " (this turn passes; later ones still fail)"
                return f"turn {edited}: [{', '.join(mended)}]{passes}"
        return None


def _differing(own: Call, wanted: Call) -> list[str]:
    missing = object()
    return [
        str(key)
        for key in dict.fromkeys((*own.arguments, *wanted.arguments))
        if own.arguments.get(key, missing) != wanted.arguments.get(key, missing)
    ]
