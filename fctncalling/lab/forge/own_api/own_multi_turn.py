"""Tasks of several turns for an own class, executed as they are drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.judging.judge import judge
from fctncalling.lab.forge.forged_entry import NoSuchTask
from fctncalling.lab.forge.own_api.askable_api import AskableApi
from fctncalling.lab.forge.own_api.drawn_call import DrawnCall, OwnDraft, drawn_call, drawn_frame
from fctncalling.lab.forge.own_api.own_single_turn import with_pronoun
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.kinds.pattern_text import shape_pattern
from fctncalling.lab.own_api.words.frames import RequestFrame
from fctncalling.lab.own_api.words.request_text import request_text, said_call

DONE = "Done."
FROM_RESULT_SHARE = 0.6  # of later turns that speak of what the result before tells
_TRIES = 12  # draws of a turn


def several_turns(api: AskableApi, rng: Random, function: str) -> OwnDraft:
    """Return two or three requests on one state, all of which the class does without refusal."""
    name, tools = own_class(api)
    scenario = dict(rng.choice(api.api.scenarios)) if api.api.scenarios else {}
    session = ToolSession((name,), {name: scenario}, extra_tools=tools)
    calls: list[DrawnCall] = []
    frames: list[RequestFrame] = []
    turns: list[str] = []
    result = ""
    for number in range(rng.choice((2, 2, 3))):
        if number:
            function = rng.choice(api.names)
        call, frame, text, result = _turn(api, rng, function, session, result)
        if call in calls:
            raise NoSuchTask("the same call twice")
        calls.append(call)
        frames.append(frame)
        turns.append(text)
    written = [[_written(call)] for call in calls]
    return OwnDraft("", calls, frames, turns=turns, turn_calls=written, scenario=scenario)


def turns_fault(api: AskableApi, draft: OwnDraft) -> str | None:
    """Return why a task of several turns is not proven: its calls must pass, and each be needed."""
    name, tools = own_class(api)
    task = Task(
        "multi_turn_base_0",
        "multi_turn_base",
        [[{"role": "user", "content": text}] for text in draft.turns],
        functions=[FunctionDoc(d["name"], d["description"], d["parameters"]) for d in api.docs],
        ground_truth=draft.turn_calls,
        initial_config={name: draft.scenario},
        involved_classes=(name,),
    )
    whole = [[f"[{', '.join(calls)}]", DONE] for calls in draft.turn_calls]
    if not judge(task, whole, "prompting", extra_tools=tools).valid:
        return "its own calls do not pass"
    for left_out in range(len(whole)):
        rest = [[DONE] if at == left_out else each for at, each in enumerate(whole)]
        if judge(task, rest, "prompting", extra_tools=tools).valid:
            return "passes without one of its turns"
    return None


def own_class(api: AskableApi) -> tuple[str, dict[str, str]]:
    """Return the name of an API's class, and the tools that an environment takes."""
    if api.api.tool_class is None:
        raise NoSuchTask("cannot be executed")
    name = api.api.tool_class.rsplit(":", 1)[-1].rsplit(".", 1)[-1]
    return name, {name: api.api.tool_class}


def _turn(
    api: AskableApi, rng: Random, function: str, session: ToolSession, before: str
) -> tuple[DrawnCall, RequestFrame, str, str]:
    """Return a call that the class carries out, its frame, its request and its result."""
    words, state = api.words[function], repr(session.public_state())
    for _ in range(_TRIES):
        told = _only_thing(words.kinds, words.primary, before)
        by_result = told is not None and rng.random() < FROM_RESULT_SHARE
        given = {
            each: rng.choice(found)
            for each, kind in words.kinds.items()
            if kind.kind == "identifier" and (found := _things(kind, state))
        }
        if told is not None and by_result and words.primary:
            given[words.primary] = told
        call = drawn_call(api, function, rng)
        call = drawn_call(
            api, function, rng, {k: v for k, v in given.items() if k in call.arguments}
        )
        frame = drawn_frame(api, call, rng)
        arguments = dict(call.arguments)
        if by_result and words.primary in frame.parameters:
            frame = with_pronoun(frame, words, rng)
            del arguments[words.primary]
        text = request_text([said_call(words, frame, arguments, rng)], rng)
        saved = session.get_state()
        result = session.execute(_written(call))
        if not result.startswith("Error") and not re.match(r"\{['\"]error", result):
            return call, frame, text, result
        session.set_state(saved)
    raise NoSuchTask("refused by the class")


def _only_thing(kinds: Mapping[str, ArgumentKind], primary: str | None, result: str) -> str | None:
    """Return the only thing in a result that a function may act on."""
    if primary is None or kinds[primary].kind != "identifier":
        return None
    found = _things(kinds[primary], result)
    return found[0] if len(found) == 1 else None


def _things(kind: ArgumentKind, text: str) -> list[str]:
    """Return what has the shape of an identifier's values in a text."""
    pattern = kind.pattern or (shape_pattern(str(kind.examples[0])) if kind.examples else None)
    if not pattern:
        return []
    loose = re.sub(r"(\\d)+", r"\\d+", pattern.strip("^$"))
    return list(dict.fromkeys(found[0] for found in re.finditer(rf"(?<!\w){loose}(?![\w-])", text)))


def _written(call: DrawnCall) -> str:
    text = get_handler("python_calls").render([Call(call.function, dict(call.arguments))])
    return text[1:-1]
