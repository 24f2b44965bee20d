"""Entries of the single-turn categories, proven."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fctncalling.checkers import check
from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.judging.oracle import OMITTED, oracle_calls
from fctncalling.evaluation.accepted_answers import render_source_value
from fctncalling.lab.forge.forged_entry import ForgedEntry, NoTaskDrawn, SingleTurnTask, entry_task
from fctncalling.lab.forge.single_turn.code_tasks import LANGUAGES, code_task
from fctncalling.lab.forge.single_turn.irrelevant_tasks import irrelevant_task
from fctncalling.lab.forge.single_turn.live_tasks import LIVE, live_task
from fctncalling.lab.forge.single_turn.python_tasks import python_task

Record = list[dict[str, dict[str, Any]]]


def proof_fault(task: Task) -> str | None:
    """Return why a task is not proven; None where it is.

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


CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    *LIVE,
    *LANGUAGES,
)
"""The single-turn categories that can be forged."""
HARD_POINTS = 20.0  # at which the difficulty is two thirds


class UnprovenTask(AssertionError):
    """A forged task whose truth does not prove itself: a defect of the tables or of the forge."""


def single_turn_entry(category: str, seed: int, index: int, attempt: int = 0) -> ForgedEntry:
    """Return task `index` of a category; another `attempt` gives another task in its place.

    Nothing but these four numbers decides. Raises UnprovenTask.
    """
    forged = _drawn(category, f"{seed} {category} {index} {attempt}")
    system = [{"role": "system", "content": forged.system}] if forged.system else []
    entry: dict[str, Any] = {
        "id": f"{category}_{index}",
        "question": [[*system, {"role": "user", "content": forged.question}]],
        "function": forged.functions,
    }
    if forged.ground_truth is not None:
        entry["ground_truth"] = forged.ground_truth
    fault = proof_fault(entry_task(entry))
    if fault is not None:
        raise UnprovenTask(f"{entry['id']} (seed {seed}, attempt {attempt}): {fault}: {entry}")
    return ForgedEntry(entry, difficulty(forged), forged.provenance)


def difficulty(forged: SingleTurnTask) -> float:
    """Return how much has to be right, from 0 (one call, one argument) towards 1.

    Points: an argument said in the question 1, one to leave out a half, an item of a list or a
    member of a dict 1, each call 1, each further function offered a half.
    """
    points = 0.5 * (len(forged.functions) - 1)
    for call in forged.ground_truth or ():
        points += 1.0
        for accepted in call.values():
            points += sum(_points(values) for values in accepted.values())
    return round(1.0 - math.exp(-max(0.0, points - 2.0) / HARD_POINTS), 3)


def _points(values: list[Any]) -> float:
    if values[0] == "":
        return 0.5
    return float(len(values[0])) if isinstance(values[0], list | dict) else 1.0


def _drawn(category: str, key: str) -> SingleTurnTask:
    rng = random.Random(key)
    while True:
        try:
            if category == "irrelevance":
                return irrelevant_task(rng)
            if category in LIVE:
                return live_task(category, rng)
            return code_task(category, rng) if category in LANGUAGES else python_task(category, rng)
        except NoTaskDrawn:
            continue
