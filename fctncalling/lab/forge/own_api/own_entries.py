"""Entries of tasks of a user's API, drawn and proven.

Drafts that prove nothing are thrown away and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from fctncalling.checkers import check
from fctncalling.checkers.clarify import ClarifyRecord
from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.scripted_policies import ONE_CALL_A_STEP
from fctncalling.lab.forge.forged_entry import (
    ForgedEntry,
    NoTaskDrawn,
    difficulty,
    entry_task,
    one_turn_entry,
    proof_fault,
    question_fault,
    user_answer,
)
from fctncalling.lab.forge.own_api.drawn_call import (
    OTHER_MIGHT_DO,
    AskableApi,
    RequestDraft,
)
from fctncalling.lab.forge.own_api.offers import OfferedFunctions
from fctncalling.lab.forge.own_api.own_multi_turn import multi_turn_draft, proven_plan
from fctncalling.lab.forge.own_api.own_single_turn import (
    functions_weighted_by_askable_values,
    missing_value_draft,
    out_of_scope_draft,
    several_calls_draft,
    single_call_draft,
)
from fctncalling.lab.forge.plan import Plan, plan_provenance, task_entry
from fctncalling.lab.forge.plan import difficulty as plan_difficulty
from fctncalling.lab.own_api.english import spaced_words
from fctncalling.lab.own_api.words.frames import RequestFrame

Maker = Callable[[AskableApi, Random, str], RequestDraft]
OWN_CATEGORIES: dict[str, float] = {
    "multiple": 46.0,
    "parallel_multiple": 20.0,
    "irrelevance": 24.0,
    "clarify": 12.0,
    "multi_turn_base": 12.0,
}
"""Category -> its share of a file, in the order in which a file holds them."""
_MAKERS: dict[str, Maker] = {
    "multiple": single_call_draft,
    "parallel_multiple": several_calls_draft,
    "clarify": missing_value_draft,
    "irrelevance": lambda api, rng, _: out_of_scope_draft(api, rng),
    "multi_turn_base": multi_turn_draft,
}
_TRIES, _TRIES_OF_PART = 400, 40
MOST_ALIKE = 0.9  # of a left-out function's fit: what a function on offer may reach
UNANSWERED = "has a question that the user does not understand"


def own_entry(api: AskableApi, category: str, seed: int, index: int, attempt: int) -> ForgedEntry:
    """Return task `index` of a category; only API, seed, index and attempt decide.

    Raises NoTaskDrawn where the API gives none.
    """
    part = "held out " if api.held_out else ""
    rng = Random(f"{part}{seed} {category} {index} {attempt}")
    thrown: Counter[str] = Counter()
    names = functions_weighted_by_askable_values(api) if category == "clarify" else api.names
    tries = (_TRIES if api.whole is None else _TRIES_OF_PART) if names else 0
    for attempted in range(tries):
        # Functions take turns, whatever can be drawn of them.
        function = names[(index + attempt + attempted) % len(names)]
        try:
            draft = _MAKERS[category](api, rng, function)
            return _forged(api, draft, category, index, rng)._replace(thrown_away=thrown)
        except NoTaskDrawn as fault:
            thrown[str(fault)] += 1
    most = ", ".join(f"{count} {each}" for each, count in thrown.most_common(3))
    lacks_state = category == "multi_turn_base" and not api.api.scenarios
    cure = "; --scenarios FILE gives states to begin from" * lacks_state
    raise NoTaskDrawn(f"{category}: no task after {tries} drafts ({most}){cure}")


def _forged(
    api: AskableApi, draft: RequestDraft, category: str, index: int, rng: Random
) -> ForgedEntry:
    """Return the task of a draft; NoTaskDrawn if it is not proven."""
    offer = _offer(api, draft, rng)
    if not {call.function for call in draft.calls} <= {each["name"] for each in offer.docs}:
        raise NoTaskDrawn("its functions have no room in one prompt")
    told = _provenance(draft) | ({"offered": offer.how} if offer.how else {})
    if draft.plan is not None:
        plan = proven_plan(draft, draft.plan)
        entry = task_entry(plan, draft.turns, f"{category}_{index}") | {ONE_CALL_A_STEP: True}
        entry |= {"function": offer.docs} if offer.how else {}
        _require_valid(api, plan, entry)
        return ForgedEntry(entry, plan_difficulty(plan), told | plan_provenance(plan))
    entry = draft_entry(draft, category, index, offer)
    if why := _fault(api, entry, draft):
        raise NoTaskDrawn(why)
    return ForgedEntry(entry, difficulty(entry["function"], entry.get("ground_truth")), told)


def _require_valid(api: AskableApi, plan: Plan, entry: dict[str, Any]) -> None:
    """Raise NoTaskDrawn where the calls of a plan, as a model writes them, do not pass."""
    task = replace(entry_task(entry), functions=api.api.functions)
    task = replace(task, involved_classes=plan.involved_classes)
    steps = [[*(f"[{call}]" for call in calls), "Done."] for calls in entry["ground_truth"]]
    if not judge(task, steps, "prompting", extra_tools=plan.tools).valid:
        raise NoTaskDrawn("its own calls do not pass")


def _offer(api: AskableApi, draft: RequestDraft, rng: Random) -> OfferedFunctions:
    if api.whole is not None:
        return OfferedFunctions(api.offers.docs, api.offers.how)
    text, called = "\n".join(draft.turns or (draft.question,)), [c.function for c in draft.calls]
    return api.offers.drawn(text, called, rng, about=draft.about, without=draft.left_out)


def draft_entry(
    draft: RequestDraft, category: str, index: int, offer: OfferedFunctions
) -> dict[str, Any]:
    """Return a draft of one turn as an entry of a file."""
    task_id = f"{'clarify_missing' if category == 'clarify' else category}_{index}"
    truth = [call.accepted() for call in draft.calls] or None
    entry = one_turn_entry(task_id, draft.question, offer.docs, truth)
    if draft.missing:
        [call] = draft.calls
        entry["missing_parameters"] = [draft.missing]
        entry["user_knows"] = {draft.missing: call.arguments[draft.missing]}
    return entry


def _fault(api: AskableApi, entry: dict[str, Any], draft: RequestDraft) -> str | None:
    """Return why a task does not name its functions or is not proven; None for a sound one."""
    offered = [doc["name"] for doc in entry["function"]]
    called = {call.function for call in draft.calls}
    others = [name for name in offered if name not in called]
    if draft.left_out:
        own = draft.frames[0].function
        scores = api.fit.scores(draft.question, (), [own, *offered])
        if any(scores[name] > MOST_ALIKE * scores[own] for name in offered):
            return OTHER_MIGHT_DO
    if not called or all(_tells_alone(api, frame, others) for frame in draft.frames):
        return draft_fault(entry, draft)
    placed = {name for frame in draft.frames for name in frame.parameters}
    values = [value for call in draft.calls for value in call.arguments.values()]
    values += [
        name
        for call in draft.calls
        for name in call.arguments
        if name not in placed and spaced_words(name) not in spaced_words(call.function)
    ]
    if not api.fit.names_all(draft.question, values, called, offered):
        return OTHER_MIGHT_DO
    return draft_fault(entry, draft)


def _tells_alone(api: AskableApi, frame: RequestFrame, others: Sequence[str]) -> bool:
    """Return whether a phrase is the user's, or of an act that no other function is."""
    act = frame.source.removeprefix("act:")
    is_act = act != frame.source and api.is_small
    is_act = is_act and all(act != each.name for name in others for each in api.acts[name])
    return frame.source == "file" or is_act


def draft_fault(entry: dict[str, Any], draft: RequestDraft) -> str | None:
    """Return why the proof of a task fails; None if it holds: see `proof_fault`."""
    task = entry_task(entry)
    if draft.calls and (fault := _plain_fault(task, draft)):
        return fault
    if not draft.missing:
        return proof_fault(_offering(task, draft))
    if fault := proof_fault(replace(_offering(task, draft), category="multiple")):
        return fault
    record = _record(draft)
    if fault := question_fault(task, record, is_open=True):
        return fault
    return None if _answers(task, draft, record) else UNANSWERED


def _offering(task: Task, draft: RequestDraft) -> Task:
    """Return the task with one distractor function: one wrong function is as wrong as any.

    What is proven of two holds for all, and three hundred functions would take a second.
    """
    named = {call.function for call in draft.calls}
    others = [doc for doc in task.functions if doc.name not in named]
    kept = [doc for doc in task.functions if doc.name in named]
    return replace(task, functions=[*kept, *others[:1]])


def _record(draft: RequestDraft) -> list[dict[str, dict[str, Any]]]:
    return [{call.function: dict(call.arguments)} for call in draft.calls]


def _plain_fault(task: Task, draft: RequestDraft) -> str | None:
    """Return why the drawn values, rendered and decoded, are not accepted."""
    handler = get_handler("python_calls")
    calls = [Call(each.function, dict(each.arguments)) for each in draft.calls]
    record = handler.decode_ast(handler.render(calls))
    checked = replace(_offering(task, draft), category="parallel_multiple")
    verdict = check(checked, record)
    return None if verdict.valid else f"the values said are refused: {verdict.error_type}"


def _answers(task: Task, draft: RequestDraft, record: list[dict[str, dict[str, Any]]]) -> bool:
    """Return whether the user says the value when asked for it."""
    question = f"Could you please tell me the {spaced_words(draft.missing)}?"
    answer = user_answer(task, question, "plain")
    return check(task, ClarifyRecord(record, 1, [answer])).valid


def _provenance(draft: RequestDraft) -> dict[str, Any]:
    told: dict[str, Any] = {
        "functions": [call.function for call in draft.calls],
        "frames": [f"{frame.source}/{frame.mood}: {frame.text}" for frame in draft.frames],
        "said": [sorted(call.arguments) for call in draft.calls],
    }
    for name in ("missing", "source"):
        if value := getattr(draft, name):
            told[name] = value
    return told | ({"left_out": draft.left_out[0]} if draft.left_out else {})
