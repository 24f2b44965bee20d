"""Proof of a questioning task: asked once, the user says the value, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fctncalling.checkers import check
from fctncalling.checkers.clarify import GUESSED, NEEDLESS_QUESTION, ClarifyRecord
from fctncalling.checkers.said_values import is_said, words_of
from fctncalling.data.types import Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.users.known_values import known_values
from fctncalling.envs.users.rule_user import REGISTERS, RuleUser
from fctncalling.lab.forge.clarify.twin_tasks import ClarifyDraft
from fctncalling.lab.forge.clarify.withheld_values import uneven_fault, withheld_fault
from fctncalling.lab.forge.single_turn.proof import proof_fault

QUESTIONS = (
    "which {}",
    "What {} do you have in mind?",
    "Could you please tell me the {}?",
    "I still need the {}.",
)
"""Ways to ask for a value, each put to a user of another register."""


def draft_fault(draft: ClarifyDraft) -> str | None:
    """Return why a draft is thrown away: a value stands where it must not, or not where it must."""
    for each in draft.call.arguments:
        if each.value is None or each.parameter.name == draft.parameter.name:
            continue
        if each.parameter.kind.name != "bool" and not is_said(each.value.text, draft.question):
            return "does not say a value"
    match draft.candidates:
        case (value,):
            return withheld_fault(draft.question, draft.docs, draft.parameter, value)
        case (value, other):
            return uneven_fault(draft.question, draft.docs, draft.parameter, (value, other))
    return None


def misunderstood(task: Task, draft: ClarifyDraft) -> str | None:
    """Return a question that the rule-based user takes for another one; None where it takes none.

    Asked for the value that is open, it has to say it; asked for another one, it must not.
    """
    if not draft.is_open:
        return None
    record = _record(task)
    pair = " or ".join(sorted(each.text for each in draft.candidates))
    offers = [f"{pair}?"] if len(draft.candidates) == 2 else []
    name = draft.parameter.name
    for question, answer in _answers(task, name, offers):
        if not check(task, ClarifyRecord(record, 1, [answer])).valid:
            return f"{question!r} is answered {answer!r}"
    for known in known_values(task).keys() - {name}:
        for question, answer in _answers(task, known):
            if check(task, ClarifyRecord(record, 1, [answer])).valid:
                return f"{question!r} is answered {answer!r}"
    return None


def clarify_fault(task: Task, draft: ClarifyDraft) -> str | None:
    """Return why a task is not proven; None where it is.

    Its calls are proven as those of other single-turn tasks. Without a question they have to be a
    guess where a value is open, and right where none is; one question more is needless, and a call
    with the other candidate is wrong.
    """
    if fault := proof_fault(replace(task, category="multiple")):
        return fault
    record = _record(task)
    silent = check(task, ClarifyRecord(record, 0)).error_type
    if silent != (GUESSED if draft.is_open else None):
        return f"calls without a question are {silent or 'valid'}"
    needless = check(task, ClarifyRecord(record, 1 + draft.is_open)).error_type
    if needless != NEEDLESS_QUESTION:
        return f"a question too many is {needless or 'valid'}"
    name = draft.parameter.name
    for other in draft.candidates[1:]:
        [(function, arguments)] = record[0].items()
        wrong = [{function: {**arguments, name: other.value}}]
        if check(task, ClarifyRecord(wrong, int(draft.is_open))).valid:
            return f"{name}={other.value!r} passes too"
    return None


def _record(task: Task) -> list[dict[str, dict[str, Any]]]:
    """Return the expected calls as a decoder gives them."""
    [calls] = oracle_calls(task)
    return [{call.name: dict(call.arguments)} for call in calls]


def _answers(task: Task, name: str, offers: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield (question, answer) for every way to ask for a parameter, and for the offers."""
    about = {"task_id": task.id, "category": task.category, "turn": 0, "task": task}
    asked = [pattern.format(" ".join(words_of(name))) for pattern in QUESTIONS]
    for register, question in zip([*REGISTERS, *REGISTERS], [*asked, *offers], strict=False):
        conversation = [*task.question[0], {"role": "assistant", "content": question}]
        yield question, RuleUser(register)(conversation, about) or ""
