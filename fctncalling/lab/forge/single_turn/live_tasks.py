"""Live tasks: docs as services write them, long and mostly optional; requests as people type."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fctncalling.lab.forge.forged_entry import NoTaskDrawn, SingleTurnTask
from fctncalling.lab.forge.single_turn.category_profiles import (
    PROFILES,
    CategoryProfile,
    draw_number,
    read_word_lists,
)
from fctncalling.lab.forge.single_turn.frames import FunctionTemplate, domains
from fctncalling.lab.forge.single_turn.made_calls import (
    MadeCall,
    make_call,
    request_body,
    request_for_call,
)
from fctncalling.lab.forge.single_turn.made_functions import (
    Doc,
    MadeFunction,
    MadeParameter,
    make_function,
)
from fctncalling.lab.forge.single_turn.python_tasks import (
    distinct_frames,
    fill_word_slots,
    task_provenance,
    with_context,
)
from fctncalling.lab.forge.single_turn.value_kinds import ValueKind, draw_value, enum_words

LIVE = ("live_simple", "live_multiple", "live_relevance")
GROUPED_SHARE = 0.08  # of functions with parameters that stand in a dict
EXAMPLE_SHARE = 0.9  # of parameters whose description has examples
NOTED_SHARE = 0.6  # of required parameters with a second sentence
SYSTEM_SHARE = 0.04  # of tasks with a system message
TERSE_SHARE = 0.12  # of requests that only name what is wanted
OPENED_SHARE, CLOSED_SHARE = 0.3, 0.12
CARELESS_SHARE = 0.2  # of requests without capital letter and full stop


def live_task(category: str, rng: random.Random) -> SingleTurnTask:
    """Return a live task of a category. Raises NoTaskDrawn for a draw that gives none."""
    profile = PROFILES[category]
    domain = rng.choice(domains())
    frames = distinct_frames(domain, draw_number(profile.functions, rng), rng, profile)
    functions = [live_function(frame, profile, rng) for frame in frames]
    if len({function.name for function in functions}) < len(functions):
        raise NoTaskDrawn("two functions of one name")
    call = make_call(functions[0], rng, profile.said_share)
    question = with_context(_typed(call, profile, rng), domain, profile, rng)
    rng.shuffle(functions)
    return SingleTurnTask(
        question,
        [function.doc for function in functions],
        None if category == "live_relevance" else [call.ground_truth()],
        task_provenance(domain.name, [call]),
        fill_word_slots(_phrase("system", rng), rng) if rng.random() < SYSTEM_SHARE else "",
    )


def live_function(
    frame: FunctionTemplate, profile: CategoryProfile, rng: random.Random
) -> MadeFunction:
    """Return a function of a frame, documented as a service does it."""
    made = make_function(frame, draw_number(profile.parameters, rng), profile, rng)
    group = _phrase("group", rng) if rng.random() < GROUPED_SHARE else ""
    taken = {each.name for each in made.parameters}
    outside = [each for each in made.parameters if each.frame.name not in frame.slots]
    loose = [each for each in outside if not each.frame.members]
    if len(loose) < 2 or group in taken:
        group = ""
    parameters = tuple(
        replace(
            each,
            kind=each.frame.kind if each.kind.words == "free" else each.kind,  # in one format
            group=group if each in loose else "",
            nullable=not each.required and each.default is None,
        )
        for each in made.parameters
    )
    name = _service_name(made, rng)
    return MadeFunction(frame, name, parameters, _documented(frame, name, parameters, rng))


def _service_name(function: MadeFunction, rng: random.Random) -> str:
    """Return a name as services have them: `Travel_2_FindHotels` now and then."""
    if rng.random() > 0.4 or "." in function.name:
        return function.name
    words = "".join(f"{word[0].upper()}{word[1:]}" for word in function.name.split("_"))
    return f"{function.frame.domain.capitalize()}_{rng.randint(1, 5)}_{words}"


def _documented(
    frame: FunctionTemplate, name: str, parameters: Sequence[MadeParameter], rng: random.Random
) -> Doc:
    verbs = {"compute": "calculates", "look": "retrieves", "find": "searches for"}
    verb = verbs.get(frame.mode) or _third_person(rng.choice(frame.verbs))
    text = f"{verb[0].upper()}{verb[1:]} {frame.generic()} {frame.tail}."
    if rng.random() < 0.45:
        text += f" {_phrase(f'remark_{frame.mode}', rng)}"
    schema = _schema([each for each in parameters if not each.group], rng)
    members = [each for each in parameters if each.group]
    if members:
        within = _schema(members, rng)
        group = members[0].group
        named = " and ".join(each.name for each in members[:2])
        schema["properties"][group] = within | {
            "description": f"Further {group} of the request as a dictionary, {named} among them."
        }
        if within["required"]:
            schema["required"].append(group)
    return {"name": name, "description": text, "parameters": schema}


def _third_person(verb: str) -> str:
    first, *rest = verb.split("_")
    ending = "es" if first.endswith(("s", "sh", "ch", "x")) else "s"
    if first.endswith("y") and first[-2] not in "aeou":
        first, ending = first[:-1], "ies"
    return " ".join([first + ending, *rest])


def _schema(parameters: Sequence[MadeParameter], rng: random.Random) -> dict[str, Any]:
    return {
        "type": "dict",
        "required": [each.name for each in parameters if each.required],
        "properties": {each.name: _parameter(each, rng) for each in parameters},
    }


def _parameter(parameter: MadeParameter, rng: random.Random) -> Doc:
    frame, kind = parameter.frame, parameter.kind
    text = frame.description
    clause = text.startswith(("how ", "what "))
    text = f"{text[0].upper()}{text[1:]}" if clause else f"The {text}"
    if kind.name == "bool":
        text = f"{text}. {_phrase('true_or_false', rng)}"
    elif rng.random() < EXAMPLE_SHARE:
        text += _examples(kind, rng)
    if parameter.required and rng.random() < NOTED_SHARE:
        text += f". {_phrase('noted', rng)}"
    documented: Doc = {"type": kind.bfcl_type, "description": f"{text}."}
    if kind.item_type:
        documented["items"] = {"type": kind.item_type}
    if kind.name == "enum":
        documented["enum"] = list(enum_words(kind))
    if frame.members:
        within = _schema([MadeParameter(m, m.name, True, m.kind) for m in frame.members], rng)
        documented |= {"properties": within["properties"], "required": within["required"]}
    if not parameter.required:
        documented["default"] = parameter.default
        said = _phrase("no_value" if parameter.default is None else "filled_in", rng)
        documented["description"] += f" {said.format(repr(parameter.default))}."
    return documented


def _examples(kind: ValueKind, rng: random.Random) -> str:
    """Return what a description says of the values of a kind: two of them, or their range."""
    if kind.name in ("int", "whole", "float") and rng.random() < 0.5:
        return f", from {kind.args[0]} to {kind.args[1]}"
    if kind.name in ("string", "date", "time", "code", "int", "whole", "float", "rate"):
        drawn = [draw_value(kind, rng).value for _ in range(2)]
        shown = [repr(value) if isinstance(value, str) else str(value) for value in drawn]
        return f", such as {' or '.join(dict.fromkeys(shown))}"
    return ""


def _typed(call: MadeCall, profile: CategoryProfile, rng: random.Random) -> str:
    """Return a request as people type it: bare, in haste, greeted, thanked for."""
    if rng.random() < TERSE_SHARE and call.function.frame.mode != "act":
        said = request_body(call, rng).removeprefix("are:")
        return said if rng.random() < 0.7 else f"{said[0].upper()}{said[1:]}?"
    said = request_for_call(call, rng, question_share=profile.question_share)
    if rng.random() < CARELESS_SHARE:
        said = f"{said[0].lower()}{said[1:].rstrip('.?')}"
    if rng.random() < OPENED_SHARE:
        opening = fill_word_slots(_phrase("opened", rng), rng)
        goes_on = not opening.endswith((". *", "! *", "? *")) and not said.startswith("I")
        said = opening.replace("*", f"{said[0].lower()}{said[1:]}" if goes_on else said)
    if rng.random() < CLOSED_SHARE:
        closing = fill_word_slots(_phrase("closed", rng), rng)
        said = closing.replace("*", said.rstrip(".?") if closing[2].islower() else said)
    return said


def _phrase(name: str, rng: random.Random) -> str:
    return rng.choice(read_word_lists("live_phrases")[name])
