"""Tasks of several turns for a user's class, executed while they are drawn.

Beside plain requests: a thing that is named in words and has to be looked up first, a second choice
for what may be refused, a refusal and what mends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any, NamedTuple

from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.judging.judge import judge
from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.forge.multi_turn.drafter import leaves_with_paths
from fctncalling.lab.forge.own_api.drawn_call import (
    AskableApi,
    DrawnCall,
    RequestDraft,
    draw_call,
    draw_frame,
)
from fctncalling.lab.forge.own_api.own_single_turn import with_back_reference
from fctncalling.lab.forge.plan import (
    Plan,
    PlannedCall,
    PlannedTurn,
    Value,
    call_places,
    changed_replay,
    plain_call,
    replay,
)
from fctncalling.lab.forge.words.turn_check import holds_words
from fctncalling.lab.own_api.english import singular, spaced_words
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.kinds.argument_kind import is_same_value
from fctncalling.lab.own_api.words.frames import RequestFrame
from fctncalling.lab.own_api.words.request_text import request_text, said_call
from fctncalling.lab.own_api.words.spoken_values import spoken_value
from fctncalling.lab.own_api.words.vocabulary import register_table_phrases

DONE = "Done."
FROM_RESULT_SHARE = 0.6  # of later turns that speak of what the result before tells
_REFUSED_SHARE = 0.6  # of requests with a second choice whose first one is refused
_TRIES = 12  # draws of a turn
# keys under which a state has what things are called
_TITLES = frozenset({"name", "title", "label"})
_CHOSEN = frozenset("identifier person_name date time datetime enum".split())


class RequestTurn(NamedTuple):
    """Turn of a task: the user's words, the calls that they ask for, and their frames."""

    text: str
    calls: tuple[DrawnCall, ...]
    frames: tuple[RequestFrame, ...] = ()


class StatefulConversation:
    """A conversation on live tools; calls that are tried and not kept leave no trace."""

    def __init__(self, api: AskableApi, rng: Random) -> None:
        name, tools = class_name_and_tools(api)
        self.api = api
        self.rng = rng
        self.scenario = dict(rng.choice(api.api.scenarios)) if api.api.scenarios else {}
        self._session = ToolSession((name,), {name: self.scenario}, extra_tools=tools)
        self.turns: list[RequestTurn] = []
        self.told = ""  # all that was said and shown
        self.result = ""  # of the last call
        self.state: dict[str, Any] = self._session.public_state()
        self._there: dict[str, dict[str, list[Any]]] = {}  # function -> parameter -> things

    def results(self, *calls: DrawnCall) -> list[str]:
        """Return the results of calls, one after the other, on a copy of the state."""
        saved = self._session.get_state()
        found = [self._session.execute(plain_call(_planned(call))) for call in calls]
        self._session.set_state(saved)
        return found

    def add(self, turns: list[RequestTurn]) -> None:
        """Go on by these turns."""
        for turn in turns:
            self.turns.append(turn)
            self.told += turn.text
            for call in turn.calls:
                self.result = self._session.execute(plain_call(_planned(call)))
                self.told += self.result
        self.state = self._session.public_state()
        self._there = {}

    def drawn(self, function: str, given: Mapping[str, Any] | None = None) -> DrawnCall:
        """Return a call of things that there are."""
        if function not in self._there:
            kinds = self.api.words[function].kinds.items()
            self._there[function] = {name: _things(name, kind, self.state) for name, kind in kinds}
        found = self._there[function].items()
        there = {name: self.rng.choice(each) for name, each in found if each}
        return draw_call(self.api, function, self.rng, given, there)


def multi_turn_draft(api: AskableApi, rng: Random, function: str) -> RequestDraft:
    """Return two or more turns on one state."""
    talk = StatefulConversation(api, rng)
    count = rng.choice((2, 2, 3))
    while len(talk.turns) < count:
        form = rng.choice(_FORMS)
        try:
            talk.add(form(talk, function))
        except NoTaskDrawn:
            if form is _plain:
                raise
            talk.add(_plain(talk, function))
        function = rng.choice(api.names)
    calls = [call for turn in talk.turns for call in turn.calls]
    return RequestDraft(
        "",
        calls,
        [frame for turn in talk.turns for frame in turn.frames],
        turns=[turn.text for turn in talk.turns],
        turn_calls=[[_text_of(call) for call in turn.calls] for turn in talk.turns],
        scenario=talk.scenario,
    )


def _plain(talk: StatefulConversation, function: str) -> list[RequestTurn]:
    """Return a request that the class carries out."""
    words, rng = talk.api.words[function], talk.rng
    primary = words.primary
    for _ in range(_TRIES):
        things = [] if primary is None else _things(primary, words.kinds[primary], talk.result)
        by_result = len(things) == 1 and rng.random() < FROM_RESULT_SHARE
        given = {primary: things[0]} if by_result and primary else {}
        call = talk.drawn(function, given)
        if _is_refused(talk.results(call)[0]) or any(call in turn.calls for turn in talk.turns):
            continue
        frame = draw_frame(talk.api, call, rng)
        arguments = dict(call.arguments)
        if primary and by_result and primary in frame.parameters:
            frame = with_back_reference(frame, words, rng)
            del arguments[primary]
        return [_turn(talk, call, frame, arguments)]
    raise NoTaskDrawn("refused by the class")


def _looked_up(talk: StatefulConversation, function: str) -> list[RequestTurn]:
    """Return a request that calls a thing by its name; its number has to be looked up first."""
    words, rng = talk.api.words[function], talk.rng
    finders = [each for each in _finders(talk.api) if each[0] != function]
    if not finders:
        raise NoTaskDrawn("nothing finds things by their names")
    for _ in range(_TRIES):
        finder, parameter = rng.choice(finders)
        titled = _TITLES | {parameter}
        leaves = leaves_with_paths(talk.state)
        names = [each for path, each in leaves if isinstance(each, str) and path[-1] in titled]
        if not names:
            continue
        name = rng.choice(names)
        look_up = DrawnCall(talk.api.words[finder], {parameter: name})
        [result] = talk.results(look_up)
        wanted = {
            each: found[0]
            for each, kind in words.kinds.items()
            if kind.kind == "identifier" and len(found := _things(each, kind, result)) == 1
        }
        if _is_refused(result) or len(wanted) != 1:
            continue
        [(looked_up, thing)] = wanted.items()
        call = talk.drawn(function, wanted)
        if _is_refused(talk.results(call)[0]) or holds_words(talk.told, str(thing)):
            continue
        frame = draw_frame(talk.api, call, rng)
        if looked_up not in frame.parameters:
            continue
        frame = replace(frame, text=frame.text.replace(f"{{{looked_up}}}", name))
        rest = {key: value for key, value in call.arguments.items() if key != looked_up}
        turn = _turn(talk, call, frame, rest)
        return [turn._replace(calls=(look_up, call), frames=(frame, frame))]
    raise NoTaskDrawn("no name leads to one thing")


def _second_choice(talk: StatefulConversation, function: str) -> list[RequestTurn]:
    """Return a request with a second choice, which counts if the first is refused."""
    rng = talk.rng
    first, second, other = _alternatives(talk, function, rng.random() < _REFUSED_SHARE)
    frame = draw_frame(talk.api, first, rng)
    said = said_call(talk.api.words[function], frame, first.arguments, rng)
    if "?" in said.phrase:
        raise NoTaskDrawn("a question")
    form = rng.choice(register_table_phrases("frame")["otherwise"]).replace("{o}", other)
    text = request_text([replace(said, phrase=f"{said.phrase}{form}")], rng)
    calls = (first, second) if _is_refused(talk.results(first)[0]) else (first,)
    return [RequestTurn(text, calls, (frame,) * len(calls))]


def _refused_then_otherwise(talk: StatefulConversation, function: str) -> list[RequestTurn]:
    """Return a request that is refused, and another choice for it."""
    first, second, other = _alternatives(talk, function, True)
    frame = draw_frame(talk.api, first, talk.rng)
    text = talk.rng.choice(register_table_phrases("frame")["instead"]).replace("{o}", other)
    text = text[:1].upper() + text[1:]
    return [_turn(talk, first, frame, first.arguments), RequestTurn(text, (second,), (frame,))]


def _alternatives(
    talk: StatefulConversation, function: str, is_refused: bool
) -> tuple[DrawnCall, DrawnCall, str]:
    """Return two calls that differ in one value, and how the second's is said.

    The first is refused or not, as wished; the second is carried out where the first is refused.
    """
    words = talk.api.words[function]
    for _ in range(_TRIES):
        first = _refused(talk, function) if is_refused else talk.drawn(function)
        second = talk.drawn(function)
        sorts = [words.kinds[name].kind for name in first.arguments]
        differing = [
            name
            for name, value in first.arguments.items()
            if (kind := words.kinds[name]).required
            and kind.kind in _CHOSEN
            and (sorts.count(kind.kind) == 1 or kind.kind == "identifier")
            and name in second.arguments
            and not is_same_value(value, second.arguments[name])
        ]
        if not differing:
            continue
        name = talk.rng.choice(differing)
        value = second.arguments[name]
        second = DrawnCall(words, {**first.arguments, name: value})
        before, after = talk.results(first, second)
        if _is_refused(before) is is_refused and (not is_refused or not _is_refused(after)):
            return first, second, str(spoken_value(words.kinds[name], value, talk.rng))
    raise NoTaskDrawn("no second choice")


def _refused(talk: StatefulConversation, function: str) -> DrawnCall:
    """Return a call of things that there are, which the class refuses all the same."""
    for _ in range(_TRIES):
        call = talk.drawn(function)
        if _is_refused(talk.results(call)[0]):
            return call
    raise NoTaskDrawn("is not refused")


_FORMS: tuple[Callable[[StatefulConversation, str], list[RequestTurn]], ...] = (
    *(_plain, _plain, _plain, _looked_up, _looked_up),
    *(_second_choice, _refused_then_otherwise),
)


def _turn(
    talk: StatefulConversation, call: DrawnCall, frame: RequestFrame, said: Mapping[str, Any]
) -> RequestTurn:
    words = talk.api.words[call.function]
    text = request_text([said_call(words, frame, said, talk.rng)], talk.rng)
    return RequestTurn(text, (call,), (frame,))


def multi_turn_fault(api: AskableApi, draft: RequestDraft) -> str | None:
    """Return why a task of several turns is not proven.

    Its calls must pass, each be needed, and none pass with another value.
    """
    name, tools = class_name_and_tools(api)
    task = Task(
        "multi_turn_base_0",
        "multi_turn_base",
        [[{"role": "user", "content": text}] for text in draft.turns],
        functions=api.api.functions,
        ground_truth=draft.turn_calls,
        initial_config={name: draft.scenario},
        involved_classes=(name,),
    )

    steps = [[*(f"[{call}]" for call in calls), DONE] for calls in draft.turn_calls]
    if not judge(task, steps, "prompting", extra_tools=tools).valid:
        return "its own calls do not pass"
    calls = iter([_planned(call, name) for call in draft.calls])
    turns = tuple(PlannedTurn(tuple(islice(calls, len(each)))) for each in draft.turn_calls)
    plan = Plan({name: draft.scenario}, (name,), turns, tools=tools)
    truth = replay(plan)
    for place, call in zip(call_places(plan), draft.calls, strict=True):
        if changed_replay(plan, {place: None}, truth)[0]:
            return "passes without one of its calls"
        for wrong in _wrong_calls(api, call):
            if changed_replay(plan, {place: _planned(wrong, name)}, truth)[0]:
                return "passes with another value"
    return None


def _planned(call: DrawnCall, class_name: str = "") -> PlannedCall:
    arguments = {n: Value("", value, "said_now") for n, value in call.arguments.items()}
    return PlannedCall(class_name, call.function, arguments)


def _text_of(call: DrawnCall) -> str:
    text = get_handler("python_calls").render([Call(call.function, dict(call.arguments))])
    return text[1:-1]


def _wrong_calls(api: AskableApi, call: DrawnCall) -> Iterator[DrawnCall]:
    """Yield a call with each of its values changed in turn."""
    rng = Random(_text_of(call))
    for name, value in call.arguments.items():
        others = (api.words[call.function].kinds[name].draw(rng) for _ in range(_TRIES))
        right = [value, *call.truth.get(name, ())]
        wrong = (other for other in others if not any(is_same_value(other, r) for r in right))
        for other in islice(wrong, 1):
            yield replace(call, arguments={**call.arguments, name: other})


def class_name_and_tools(api: AskableApi) -> tuple[str, dict[str, str]]:
    """Return the name of an API's class, and the tools that an environment takes."""
    if api.api.tool_class is None:
        raise NoTaskDrawn("cannot be executed")
    name = api.api.tool_class.rsplit(":", 1)[-1].rsplit(".", 1)[-1]
    return name, {name: api.api.tool_class}


def _finders(api: AskableApi) -> list[tuple[str, str]]:
    """Return (function, parameter) of those that look things up by a name alone."""
    found = []
    for function in api.names:
        kinds = api.words[function].kinds
        required = [name for name, kind in kinds.items() if kind.required]
        if len(required) == 1 and kinds[required[0]].kind in ("person_name", "free_text"):
            found.append((function, required[0]))
    return found


def _is_refused(result: str) -> bool:
    return result.startswith("Error") or re.match(r"\{['\"]error", result) is not None


def _things(name: str, kind: ArgumentKind, told: Any) -> list[Any]:
    """Return the values in a text or a state that have the shape of a parameter's identifiers.

    Of whole numbers those that a state has under its name.
    """
    if kind.type == "integer" and not isinstance(told, str):
        noun = spaced_words(name).split(" ")[0]
        ids = (each for each in leaves_with_paths(told) if each[0][-1:] == each[1:])
        return [
            each
            for path, each in ids
            if isinstance(each, int) and len(path) > 1 and singular(str(path[-2])) == noun
        ]
    if kind.kind != "identifier" or not kind.loose_pattern:
        return []
    shape = rf"(?<!\w)(?:{kind.loose_pattern.strip('^$')})(?![\w-])"
    return list(dict.fromkeys(found[0] for found in re.finditer(shape, str(told))))
