"""Entries of questioning tasks, proven; half of them leave a value open."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fctncalling.checkers import check
from fctncalling.checkers.clarify import ClarifyRecord, is_mentioned, split_words
from fctncalling.data.types import Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.users.known_values import known_values
from fctncalling.envs.users.rule_user import REGISTERS
from fctncalling.lab.forge.forged_entry import (
    ForgedEntry,
    NoTaskDrawn,
    difficulty,
    entry_task,
    user_answer,
)
from fctncalling.lab.forge.proof import UnprovenTask, proof_fault, question_fault
from fctncalling.lab.forge.twin_tasks import (
    ClarifyDraft,
    Twins,
    guess_chance,
    revealed_candidate_fault,
    twins_naming_two_values,
    twins_without_value,
    withheld_fault,
)

QUESTIONS = (
    "which {}",
    "What {} do you have in mind?",
    "Could you please tell me the {}?",
    "I still need the {}.",
)
"""Ways to ask for a value, each put to a user of another register."""


def draft_fault(draft: ClarifyDraft) -> str | None:
    """Return why a draft is thrown away: a value stands where it must not, or not where it must."""
    for name, each in draft.values.items():
        if name != draft.parameter and not is_mentioned(each.text, draft.question):
            return "does not say a value"
    asked = (draft.question, draft.docs, draft.parameter, draft.kind)
    match draft.candidates:
        case (value,):
            return withheld_fault(*asked, value)
        case (value, other):
            return revealed_candidate_fault(*asked, (value, other))
    return None


def find_misunderstood_question(task: Task, draft: ClarifyDraft) -> str | None:
    """Return a question that the rule-based user takes for another one; None where it takes none.

    Asked for the value that is open, it has to say it; asked for another one, it must not.
    """
    if not draft.is_open:
        return None
    record = _record(task)
    pair = " or ".join(sorted(each.text for each in draft.candidates))
    offers = [f"{pair}?"] if len(draft.candidates) == 2 else []
    name = draft.parameter
    for question, answer in _answers(task, name, offers):
        if not check(task, ClarifyRecord(record, 1, [answer])).valid:
            return f"{question!r} is answered {answer!r}"
    for known in known_values(task).keys() - {name}:
        for question, answer in _answers(task, known):
            if check(task, ClarifyRecord(record, 1, [answer])).valid:
                return f"{question!r} is answered {answer!r}"
    return None


def clarify_proof_fault(task: Task, draft: ClarifyDraft) -> str | None:
    """Return why a task is not proven; None where it is.

    Its calls are proven as those of other single-turn tasks. Without a question they have to be a
    guess where a value is open, and right where none is; one question more is needless, and a call
    with the other candidate is wrong.
    """
    if fault := proof_fault(replace(task, category="multiple")):
        return fault
    record = _record(task)
    if fault := question_fault(task, record, is_open=draft.is_open):
        return fault
    name = draft.parameter
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
    asked = [pattern.format(" ".join(split_words(name))) for pattern in QUESTIONS]
    for register, question in zip([*REGISTERS, *REGISTERS], [*asked, *offers], strict=False):
        yield question, user_answer(task, question, register)


_TWINS = {"missing": twins_without_value, "ambiguous": twins_naming_two_values}
_SORTS = ("missing", "missing", "missing", "ambiguous", "ambiguous")  # of each ten tasks, in pairs
MISUNDERSTOOD = "has a question that the user does not understand"
COMPLETE = "clarify_complete"


def clarify_entry(category: str, seed: int, index: int, attempt: int = 0) -> ForgedEntry:
    """Return task `index`; another `attempt` gives another task in its place.

    Nothing but these four decides. The id names the category that the task is of:
    clarify_complete, clarify_missing or clarify_ambiguous. Raises UnprovenTask.
    """
    sort, is_open = _place(category, seed, index)
    rng = random.Random(f"{seed} {category} {index} {attempt}")
    of = f"clarify_{sort}" if is_open else COMPLETE
    thrown: Counter[str] = Counter()
    while True:
        try:
            twins = _TWINS[sort](rng)
        except NoTaskDrawn:
            continue
        if fault := _fault(twins, f"clarify_{sort}", index):
            thrown[fault] += 1
            continue
        draft = twins.unclear if is_open else twins.complete
        entry = _entry(draft, of, index)
        return ForgedEntry(entry, _difficulty(draft), _provenance(twins, draft, sort), thrown)


def _place(category: str, seed: int, index: int) -> tuple[str, bool]:
    """Return which twins a place of the file is for, and which of the two.

    Of each two neighbours one leaves a value open; six of ten are of the sort "missing".
    """
    block, place = divmod(index, 2 * len(_SORTS))
    rng = random.Random(f"{seed} {category} places {block}")
    sorts = rng.sample(_SORTS, len(_SORTS))
    opens_first = [rng.random() < 0.5 for _ in sorts]
    return sorts[place // 2], (place % 2 == 0) == opens_first[place // 2]


def _fault(twins: Twins, category: str, index: int) -> str | None:
    """Return why twins are thrown away, whichever of them is wanted; None where they are not.

    Raises UnprovenTask for a defect of the forge.
    """
    drafts = (twins.complete, twins.unclear)
    if fault := next(filter(None, map(draft_fault, drafts)), None):
        return fault
    for draft in drafts:
        entry = _entry(draft, category if draft.is_open else COMPLETE, index)
        task = entry_task(entry)
        if find_misunderstood_question(task, draft) is not None:
            return MISUNDERSTOOD
        if fault := clarify_proof_fault(task, draft):
            raise UnprovenTask(f"{entry['id']}: {fault}: {entry}")
    return None


def _entry(draft: ClarifyDraft, category: str, index: int) -> dict[str, Any]:
    return {
        "id": f"{category}_{index}",
        "question": [[{"role": "user", "content": draft.question}]],
        "function": draft.docs,
        "ground_truth": [draft.truth],
        "user_knows": _known(draft),
        "missing_parameters": [draft.parameter] if draft.is_open else [],
    }


def _known(draft: ClarifyDraft) -> dict[str, Any]:
    """Return what the user knows: the values as it said them, and the open one as it would."""
    return {
        name: each.value
        if name == draft.parameter and each.text not in each.accepted
        else each.text
        for name, each in draft.values.items()
    }


def _difficulty(draft: ClarifyDraft) -> float:
    """Return the difficulty of the call; a question counts as another one."""
    truth = [draft.truth, *([{}] if draft.is_open else [])]
    return difficulty(draft.docs, truth)


def _provenance(twins: Twins, draft: ClarifyDraft, sort: str) -> dict[str, Any]:
    [accepted] = draft.truth.values()
    sources = Counter(
        "default" if values[0] == "" else "said"
        for name, values in accepted.items()
        if not draft.is_open or name != draft.parameter
    )
    chance = guess_chance(draft.kind) if len(draft.candidates) == 1 else 0.5
    return {
        "domain": twins.domain,
        "frames": [f"{twins.domain}/{twins.noun}"],
        "arguments": dict(sorted(sources.items())) | ({"asked": 1} if draft.is_open else {}),
        "twins": sort,
        "guess_chance": round(chance, 3) if draft.is_open else None,
    }
