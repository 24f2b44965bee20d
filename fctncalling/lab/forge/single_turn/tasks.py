"""Single-turn tasks of BFCL's categories: functions by a profile, requests by the own-API forge."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from fctncalling.lab.forge.forged_entry import (
    ForgedEntry,
    NoTaskDrawn,
    SingleTurnTask,
    UnprovenTask,
    difficulty,
    entry_task,
    proof_fault,
)
from fctncalling.lab.forge.measures import content_words
from fctncalling.lab.forge.own_api.drawn_call import DrawnCall, RequestDraft, draw_call, draw_frame
from fctncalling.lab.forge.own_api.own_single_turn import (
    calls_in_turn_draft,
    can_be_missing,
    likewise_draft,
    listed_values_draft,
    single_call_draft,
)
from fctncalling.lab.forge.single_turn.documents import (
    FunctionTemplate,
    OfferedFunction,
    askable,
    domains,
    draw_function,
    draw_number,
    profiles,
    templates,
    texts,
)
from fctncalling.lab.own_api.english import correct_articles
from fctncalling.lab.own_api.kinds.value_tables import value_table
from fctncalling.lab.own_api.words.request_text import request_text, said_call

SAME_DOMAIN = 0.7  # of the functions offered besides the right one
MODE_WEIGHTS = {"compute": 1.5, "look": 0.5, "find": 0.8, "act": 0.9, "code": 1.0}
LIST_WEIGHT = 3.0  # of functions with a parameter that is a list
SYSTEM_SHARE = 0.04  # of live tasks with a system message
KIN = 4  # functions of a domain among which a near one is drawn
ABOUT_SHARE = 0.4  # of the questions no function answers: about what the function deals with


CATEGORIES = tuple(name for name in profiles() if name != "clarify")
"""The single-turn categories that can be forged."""


def single_turn_entry(category: str, seed: int, index: int, attempt: int = 0) -> ForgedEntry:
    """Return task `index` of a category; another `attempt` gives another task in its place.

    Nothing but these four numbers decides. Raises UnprovenTask.
    """
    rng = random.Random(f"{seed} {category} {index} {attempt}")
    task = None
    while task is None:
        try:
            task = _irrelevant_task(rng) if category == "irrelevance" else _task(category, rng)
        except NoTaskDrawn:
            continue
    system = [{"role": "system", "content": task.system}] if task.system else []
    entry: dict[str, Any] = {
        "id": f"{category}_{index}",
        "question": [[*system, {"role": "user", "content": task.question}]],
        "function": task.functions,
    }
    if task.ground_truth is not None:
        entry["ground_truth"] = task.ground_truth
    if fault := proof_fault(entry_task(entry)):
        raise UnprovenTask(f"{entry['id']} (seed {seed}, attempt {attempt}): {fault}: {entry}")
    return ForgedEntry(entry, difficulty(task.functions, task.ground_truth), task.provenance)


def _task(category: str, rng: random.Random) -> SingleTurnTask:
    """Return a task whose user wants calls. Raises NoTaskDrawn for a draw that gives none."""
    profile = profiles()[category]
    chosen = distinct_templates(
        domains(code=bool(profile.types)), draw_number(profile.functions, rng), rng
    )
    functions = [draw_function(each, profile, rng) for each in chosen]
    if len({each.name for each in functions}) < len(functions):
        raise NoTaskDrawn("two functions of one name")
    draft = _draft(category, functions, draw_number(profile.calls, rng), rng)
    own = {each.words.doc.name: each for each in functions}
    docs = [each.doc for each in functions]
    rng.shuffle(docs)
    system = ""
    if profile.long and rng.random() < SYSTEM_SHARE:
        system = _with_values(rng.choice(texts()["system"]), rng)
    told = task_provenance(chosen[0].domain, [(own[c.function].template, c) for c in draft.calls])
    truth = [own[call.function].truth(call) for call in draft.calls]
    is_open = category == "live_relevance"
    return SingleTurnTask(draft.question, docs, None if is_open else truth, told, system)


def _draft(
    category: str, functions: Sequence[OfferedFunction], num_calls: int, rng: random.Random
) -> RequestDraft:
    api = askable([each.words for each in functions])
    names = [*api.words]
    if category == "parallel":
        draw = rng.choices((listed_values_draft, likewise_draft, None), weights=(36, 27, 37))[0]
        if draw is not None:
            return draw(api, rng, names[0], num_calls)
        return calls_in_turn_draft(api, rng, names * num_calls)
    if category == "parallel_multiple":
        used = names[:num_calls]
        return calls_in_turn_draft(api, rng, [*used, *rng.choices(used, k=num_calls - len(used))])
    return single_call_draft(api, rng, names[0])


def distinct_templates(
    by_domain: Mapping[str, Sequence[FunctionTemplate]], count: int, rng: random.Random
) -> list[FunctionTemplate]:
    """Return functions that do different things: most of one domain, some of another one."""
    names = [*by_domain]
    domain = rng.choice(names)
    chosen: list[FunctionTemplate] = []
    while len(chosen) < count:
        same = not chosen or rng.random() < SAME_DOMAIN
        of_domain = by_domain[domain if same else rng.choice(names)]
        [one] = rng.choices(of_domain, weights=[_weight(each) for each in of_domain])
        if not any(may_serve_each_other(one, other) for other in chosen):
            chosen.append(one)
    return chosen


@cache
def _weight(template: FunctionTemplate) -> float:
    """Return how often a function is drawn, by its mode and the kinds of its parameters."""
    lists = any(kind.kind == "array" for kind in template.words.kinds.values())
    return MODE_WEIGHTS[template.mode] * (LIST_WEIGHT if lists else 1.0)


def may_serve_each_other(one: FunctionTemplate, other: FunctionTemplate) -> bool:
    """Whether who wants one of two functions may be served by the other."""
    same = one.domain == other.domain and one.schemas.keys() == other.schemas.keys()
    if one.noun == other.noun or (same and not one.family):
        return True
    return any({one.noun, other.noun} <= group for group in related_nouns())


@cache
def related_nouns() -> tuple[frozenset[str], ...]:
    """Return groups of nouns: who wants one may be served by another of the group."""
    return tuple(frozenset(line.split()) for line in texts()["related"])


def task_provenance(
    domain: str, calls: Sequence[tuple[FunctionTemplate, DrawnCall]]
) -> dict[str, Any]:
    """Return where a task comes from: its domain, functions, and the source of each argument."""
    said = sum(len(call.arguments) for _, call in calls)
    every = sum(len(call.words.kinds) for _, call in calls)
    return {
        "domain": domain,
        "frames": [f"{template.domain}/{template.noun}" for template, _ in calls],
        "arguments": {"said": said, "default": every - said},
    }


def _with_values(text: str, rng: random.Random) -> str:
    """Return a text in which a value of its table takes the place of each `{table}`."""
    said = re.sub(r"\{(\w+)\}", lambda slot: rng.choice(value_table(slot[1])), text)
    return correct_articles(said)


def _irrelevant_task(rng: random.Random) -> SingleTurnTask:
    """Return a question and one function that cannot answer it.

    Near misses: another aspect of what the function tells, a function that resembles the one that
    is wanted, the same fact of another thing, the right function without a value that it needs.
    Others: a question that no function answers, a function of the domain, any function.
    """
    domain = rng.choice([*domains()])
    [how] = rng.choices([*_WAYS], weights=[weight for weight, _ in _WAYS.values()])
    task = _WAYS[how][1](domain, rng)
    return replace(task, provenance=task.provenance | {"irrelevance": how})


def _other_aspect(domain: str, rng: random.Random) -> SingleTurnTask:
    """Return a question for one thing that a family of functions tells, with another offered."""
    family = [each for each in domains()[domain] if each.family]
    if not family:
        raise NoTaskDrawn("no family")
    asked = rng.choice(family)
    return _offering(asked, rng.choice([e for e in family if e.family == asked.family]), rng)


def _kin(domain: str, rng: random.Random) -> SingleTurnTask:
    """Return a question with one of the functions offered that are described most like its own."""
    asked = rng.choice(domains()[domain])
    words = content_words(asked.words.doc.description)
    others = [each for each in domains()[domain] if not may_serve_each_other(asked, each)]
    others.sort(key=lambda each: -len(words & content_words(each.words.doc.description)))
    return _offering(asked, rng.choice(others[:KIN]), rng)


def _other_thing(_: str, rng: random.Random) -> SingleTurnTask:
    """Return a question with a function offered that tells the same of another sort of thing."""
    asked = rng.choice([each for each in templates() if each.aspect])
    alike = [e for e in templates() if e.aspect == asked.aspect and e.family != asked.family]
    if not alike:
        raise NoTaskDrawn("an aspect of one thing alone")
    return _offering(asked, rng.choice(alike), rng)


def _of_domain(domain: str, rng: random.Random) -> SingleTurnTask:
    asked, offered = distinct_templates({domain: domains()[domain]}, 2, rng)
    return _offering(asked, offered, rng)


def _far(domain: str, rng: random.Random) -> SingleTurnTask:
    offered = rng.choice(domains()[rng.choice([*domains()])])
    return _offering(rng.choice(domains()[domain]), offered, rng)


def _offering(
    asked: FunctionTemplate, offered: FunctionTemplate, rng: random.Random
) -> SingleTurnTask:
    """Return a request for one function with another one offered."""
    if may_serve_each_other(asked, offered):
        raise NoTaskDrawn("the function fits")
    words = draw_function(asked, profiles()["irrelevance"], rng).words
    draft = single_call_draft(askable([words]), rng, words.doc.name)
    return _declined(draft.question, offered, [(asked, draft.calls[0])], rng)


def _declined(
    question: str,
    offered: FunctionTemplate,
    calls: Sequence[tuple[FunctionTemplate, DrawnCall]],
    rng: random.Random,
) -> SingleTurnTask:
    doc = draw_function(offered, profiles()["irrelevance"], rng).doc
    told = task_provenance(offered.domain, calls)
    told |= {"offered": f"{offered.domain}/{offered.noun}"}
    return SingleTurnTask(question, [doc], None, told)


def _unsaid(domain: str, rng: random.Random) -> SingleTurnTask:
    """Return a request for the function that is offered, without a value that it needs."""
    template = rng.choice(domains()[domain])
    function = draw_function(template, profiles()["irrelevance"], rng)
    words = function.words
    api = askable([words])
    call = draw_call(api, words.doc.name, rng)
    frame = draw_frame(api, call, rng)
    needed = [
        name
        for name, kind in words.kinds.items()
        if kind.required and can_be_missing(kind) and name not in frame.parameters
        if template.words.kinds[name].required
    ]
    if not needed:
        raise NoTaskDrawn("nothing to leave out")
    left_out = needed[rng.randrange(len(needed)) :]
    said = {name: value for name, value in call.arguments.items() if name not in left_out}
    text = request_text([said_call(words, frame, said, rng)], rng)
    told = task_provenance(domain, [(template, DrawnCall(words, said))])
    told |= {"offered": f"{domain}/{template.noun}"}
    told["left_open"] = sorted(function.names[name] for name in left_out)
    return SingleTurnTask(text, [function.doc], None, told)


def _unanswerable(domain: str, rng: random.Random) -> SingleTurnTask:
    """Return a question that no function answers, maybe about what the function deals with."""
    if rng.random() < ABOUT_SHARE:
        template = rng.choice(domains()[domain])
        if not template.about:
            raise NoTaskDrawn("a subject that cannot be asked about")
        question = rng.choice(texts()["about"][template.mode]).format(template.about)
        return _declined(correct_articles(question), template, [], rng)
    question = _with_values(rng.choice(texts()["questions"][domain]), rng)
    of_domain = domain if rng.random() < SAME_DOMAIN else rng.choice([*domains()])
    return _declined(question, rng.choice(domains()[of_domain]), [], rng)


_WAYS: dict[str, tuple[float, Callable[[str, random.Random], SingleTurnTask]]] = {
    "other aspect": (0.12, _other_aspect),
    "kin": (0.12, _kin),
    "other thing": (0.05, _other_thing),
    "unsaid": (0.12, _unsaid),
    "unanswerable": (0.32, _unanswerable),
    "domain": (0.15, _of_domain),
    "far": (0.12, _far),
}
"""Way to an irrelevant function -> its share, and what draws it."""
