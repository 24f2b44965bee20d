"""Forged tasks as entries of a file, with their ledger data and their proofs.

The truth of a single-turn task passes, and nothing near it does.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fctncalling.checkers import check
from fctncalling.checkers.clarify import GUESSED, NEEDLESS_QUESTION, ClarifyRecord
from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.judging.oracle import OMITTED, oracle_calls
from fctncalling.envs.users.rule_user import RuleUser
from fctncalling.evaluation.accepted_answers import render_source_value

Record = list[dict[str, dict[str, Any]]]


def proof_fault(task: Task) -> str | None:
    """Return why the proof of a task fails; None if it holds.

    The expected calls are rendered as text, decoded and judged; then every argument is set to a
    wrong value, every parameter that goes unsaid is given one, and every call is turned into one of
    another function.
    """
    if task.ground_truth is None:
        return None
    [calls] = oracle_calls(task)
    if task.language == "python":
        handler = get_handler("python_calls")
        record: Record = handler.decode_ast(handler.render(calls))
    else:
        record = _decoded(task, calls)
    verdict = check(task, record)
    if not verdict.valid:
        return f"the truth is refused: {verdict.error_type}: {verdict.message}"
    if not check(task, list(reversed(record))).valid:
        return "the truth passes in one order only"
    for what, wrong in _wrong_records(task, calls):
        if check(task, wrong).valid:
            return f"{what} passes too"
    return None


def _wrong_records(task: Task, calls: list[Call]) -> Iterator[tuple[str, Record]]:
    plain = _decoded(task, calls)
    truths = task.ground_truth or ()
    names = [doc.name for doc in task.functions] + ["no_such_function"]
    for index, (call, truth) in enumerate(zip(calls, truths, strict=True)):
        accepted: Mapping[str, list[Any]] = truth[call.name]
        for parameter, values in accepted.items():
            wrong = wrong_value(call.arguments.get(parameter, _default(values)), values)
            changed = _decoded(task, [Call(call.name, {parameter: wrong})])[0][call.name]
            yield f"{call.name}({parameter}={wrong!r})", _with(plain, index, changed)
        other = next(name for name in names if name != call.name)
        renamed = copy.deepcopy(plain)
        [renamed[index]] = ({other: arguments} for arguments in plain[index].values())
        yield f"a call of {other}", renamed
    yield "one call less", plain[1:]


def _decoded(task: Task, calls: Sequence[Call]) -> Record:
    """Return calls as the decoder of the task's language gives them: source text but in Python."""
    if task.language == "python":
        return [{call.name: dict(call.arguments)} for call in calls]
    docs = {doc.name: doc.parameters["properties"] for doc in task.functions}
    return [
        {
            call.name: {
                key: value
                if isinstance(value, str)
                else render_source_value(value, docs[call.name][key], task.language, "natural")
                for key, value in call.arguments.items()
            }
        }
        for call in calls
    ]


def _with(plain: Record, index: int, changed: Mapping[str, Any]) -> Record:
    record = copy.deepcopy(plain)
    [arguments] = record[index].values()
    arguments.update(changed)
    return record


def _default(values: list[Any]) -> Any:
    return next((value for value in values if value != OMITTED), "value")


def wrong_value(value: Any, accepted: list[Any]) -> Any:
    """Return a value of the same type that is none of the accepted ones."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        wrong = value + 1
        while wrong in accepted:
            wrong += 1
        return wrong
    if isinstance(value, list):
        return [*value, value[-1]] if value else ["value"]
    if isinstance(value, dict):
        if not value:
            return {"other": "value"}
        key = next(iter(value))
        return {**value, key: wrong_value(value[key], [])}
    return f"{value} or other"


def question_fault(task: Task, record: Record, *, is_open: bool) -> str | None:
    """Return why the proof of when to ask a question fails; None if it holds.

    Without a question the expected calls are a guess where a value is open, and right where none
    is; one question more than that is needless.
    """
    silent = check(task, ClarifyRecord(record, 0)).error_type
    if silent != (GUESSED if is_open else None):
        return f"calls without a question are {silent or 'valid'}"
    needless = check(task, ClarifyRecord(record, 1 + is_open)).error_type
    return (
        None if needless == NEEDLESS_QUESTION else f"a question too many is {needless or 'valid'}"
    )


class UnprovenTask(AssertionError):
    """Forged task with a truth that fails its proof: a defect of the tables or of the forge."""


class ForgedEntry(NamedTuple):
    """An entry as `load_tasks` reads it, its ground truth and function docs inside."""

    entry: dict[str, Any]
    difficulty: float  # from 0 (one call, everything said) to 1
    provenance: dict[str, Any]  # where words, values and calls come from
    thrown_away: Mapping[str, int] = {}  # reason -> number of tasks thrown away in its place

    @property
    def user_texts(self) -> tuple[str, ...]:
        """What the user says, message by message."""
        return tuple(user_texts(self.entry["question"]))


def one_turn_entry(
    task_id: str, question: str, functions: Sequence[Any], truth: Any = None, system: str = ""
) -> dict[str, Any]:
    """Return the entry of a task of one request; without a truth none is listed."""
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": question})
    entry = {"id": task_id, "question": [messages], "function": functions}
    return entry if truth is None else {**entry, "ground_truth": truth}


def user_texts(question: Any) -> Iterator[str]:
    """Yield the user messages of an entry's turns."""
    for turn in question:
        for message in turn:
            if message["role"] == "user":
                yield message["content"]


def atoms(value: Any) -> Iterator[Any]:
    """Yield the atoms in the lists and dicts of a value, at any depth."""
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from atoms(each)
    else:
        yield value


def entry_task(entry: Mapping[str, Any]) -> Task:
    """Return an entry as the task that `load_tasks` reads."""
    return Task(
        entry["id"],
        entry["id"].rpartition("_")[0],
        entry["question"],
        functions=[
            FunctionDoc(doc["name"], doc["description"], doc["parameters"])
            for doc in entry.get("function", ())
            if isinstance(doc, dict)
        ],
        ground_truth=entry.get("ground_truth"),
        initial_config=entry.get("initial_config", {}),
        involved_classes=entry.get("involved_classes", ()),
        extra={key: entry[key] for key in ("user_knows", "missing_parameters") if key in entry},
    )


HARD_POINTS = 20.0  # at which the difficulty is two thirds


def difficulty(functions: Sequence[Any], truth: Sequence[Mapping[str, Any]] | None) -> float:
    """Return how much has to be right, from 0 (one call, one argument) towards 1.

    Points: an argument said in the question 1, one to leave out a half, an item of a list or a
    member of a dict 1, each call 1, each further function offered a half.
    """
    points = 0.5 * (len(functions) - 1)
    for call in truth or ():
        points += 1.0
        for accepted in call.values():
            points += sum(_points(values) for values in accepted.values())
    return round(1.0 - math.exp(-max(0.0, points - 2.0) / HARD_POINTS), 3)


def _points(values: list[Any]) -> float:
    if values[0] == "":
        return 0.5
    return float(len(values[0])) if isinstance(values[0], list | dict) else 1.0


def user_answer(task: Task, question: str, register: str) -> str:
    """Return the answer of the rule-based user to a question."""
    about = {"task_id": task.id, "category": task.category, "turn": 0, "task": task}
    conversation = [*task.question[0], {"role": "assistant", "content": question}]
    return RuleUser(register)(conversation, about) or ""


class NoTaskDrawn(Exception):
    """A draw that gives no task: another one is drawn."""


@dataclass(frozen=True)
class SingleTurnTask:
    """Drawn task: a question, function docs and accepted calls."""

    question: str
    functions: list[dict[str, Any]]
    ground_truth: list[dict[str, dict[str, list[Any]]]] | None
    provenance: dict[str, Any]
    system: str = ""  # a system message in front of the question
