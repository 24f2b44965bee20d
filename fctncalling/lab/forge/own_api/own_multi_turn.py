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

from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.forge.multi_turn.drafter import leaves_with_paths
from fctncalling.lab.forge.multi_turn.proof import prove
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
    PlanSession,
    Source,
    Value,
    changed_replay,
)
from fctncalling.lab.forge.words.turn_check import holds_words
from fctncalling.lab.own_api.english import singular, spaced_words
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.kinds.argument_kind import is_same_value
from fctncalling.lab.own_api.words.frames import RequestFrame
from fctncalling.lab.own_api.words.request_text import request_text, said_call
from fctncalling.lab.own_api.words.spoken_values import spoken_value
from fctncalling.lab.own_api.words.vocabulary import register_table_phrases

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
    steps: int = 0  # of the calls, the first ones, which the words do not mention


class OwnPlanSession(PlanSession):
    """A conversation on a user's class; calls that are tried and not kept leave no trace."""

    def __init__(self, api: AskableApi, rng: Random) -> None:
        if api.api.tool_class is None:
            raise NoTaskDrawn("cannot be executed")
        self.name = api.api.tool_class.rsplit(":", 1)[-1].rsplit(".", 1)[-1]
        scenario = dict(rng.choice(api.api.scenarios)) if api.api.scenarios else {}
        super().__init__((self.name,), {self.name: scenario}, {self.name: api.api.tool_class})
        self.api = api
        self.rng = rng
        self.requests: list[RequestTurn] = []
        self.told = ""  # all that was said and shown
        self.state: dict[str, Any] = self.session.public_state()
        self._there: dict[str, dict[str, list[Any]]] = {}  # function -> parameter -> things

    def tried(self, *calls: DrawnCall) -> list[str]:
        """Return the results of calls, one after the other, on a copy of the state."""
        return self.results(*(self._planned(call) for call in calls))

    def _planned(self, call: DrawnCall, text: str | None = None) -> PlannedCall:
        """Return a call as one of a plan; `text`: the words, which may leave its thing to a result.

        Of what they do not say an identifier is read from the latest result that shows it.
        """
        kinds, arguments = call.words.kinds, {}
        for name, value in call.arguments.items():
            arguments[name] = Value(kinds[name].kind, value, "said_now")
            if text is None or kinds[name].kind != "identifier" or holds_words(text, str(value)):
                continue
            for turn, calls in enumerate(self.turns):
                for index, other in enumerate(calls):
                    if holds_words(other.result, str(value)):
                        source = Source(turn, index)
                        arguments[name] = Value("identifier", value, "result", source=source)
        return PlannedCall(self.name, call.function, arguments)

    def add(self, requests: list[RequestTurn]) -> None:
        """Go on by these turns."""
        for request in requests:
            self.requests.append(request)
            self.turns.append([])
            self.told += request.text
            for index, drawn in enumerate(request.calls):
                call = self._planned(drawn, request.text)
                purpose: Any = "needed_step" if index < request.steps else "asked"
                call = replace(call, purpose=purpose, result=self.execute(call))
                self.turns[-1].append(call)
                self.told += call.result
        self.state = self.session.public_state()
        self._there = {}

    def drawn(self, function: str, given: Mapping[str, Any] | None = None) -> DrawnCall:
        """Return a call of things that there are."""
        if function not in self._there:
            kinds = self.api.words[function].kinds.items()
            self._there[function] = {name: _things(name, kind, self.state) for name, kind in kinds}
        found = self._there[function].items()
        there = {name: self.rng.choice(each) for name, each in found if each}
        return draw_call(self.api, function, self.rng, given, there)

    def request(self, call: DrawnCall, frame: RequestFrame, said: Mapping[str, Any]) -> RequestTurn:
        """Return a request for a call by a phrase and some of its arguments."""
        text = request_text([said_call(call.words, frame, said, self.rng)], self.rng)
        return RequestTurn(text, (call,), (frame,))


def multi_turn_draft(api: AskableApi, rng: Random, function: str) -> RequestDraft:
    """Return two or more turns on one state."""
    talk = OwnPlanSession(api, rng)
    count = rng.choice((2, 2, 3))
    while len(talk.requests) < count:
        form = rng.choice(_FORMS)
        try:
            talk.add(form(talk, function))
        except NoTaskDrawn:
            if form is _plain:
                raise
            talk.add(_plain(talk, function))
        function = rng.choice(api.names)
    calls = [call for turn in talk.requests for call in turn.calls]
    frames = [frame for turn in talk.requests for frame in turn.frames]
    turns = [turn.text for turn in talk.requests]
    return RequestDraft("", calls, frames, turns=turns, plan=talk.plan())


def _plain(talk: OwnPlanSession, function: str) -> list[RequestTurn]:
    """Return a request that the class carries out."""
    words, rng = talk.api.words[function], talk.rng
    primary, result = words.primary, talk.turns[-1][-1].result if talk.turns else ""
    for _ in range(_TRIES):
        things = [] if primary is None else _things(primary, words.kinds[primary], result)
        by_result = len(things) == 1 and rng.random() < FROM_RESULT_SHARE
        given = {primary: things[0]} if by_result and primary else {}
        call = talk.drawn(function, given)
        if _is_refused(talk.tried(call)[0]) or any(call in turn.calls for turn in talk.requests):
            continue
        frame = draw_frame(talk.api, call, rng)
        arguments = dict(call.arguments)
        if primary and by_result and primary in frame.parameters:
            frame = with_back_reference(frame, words, rng)
            del arguments[primary]
        return [talk.request(call, frame, arguments)]
    raise NoTaskDrawn("refused by the class")


def _looked_up(talk: OwnPlanSession, function: str) -> list[RequestTurn]:
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
        [result] = talk.tried(look_up)
        wanted = {
            each: found[0]
            for each, kind in words.kinds.items()
            if kind.kind == "identifier" and len(found := _things(each, kind, result)) == 1
        }
        if _is_refused(result) or len(wanted) != 1:
            continue
        [(looked_up, thing)] = wanted.items()
        call = talk.drawn(function, wanted)
        if _is_refused(talk.tried(call)[0]) or holds_words(talk.told, str(thing)):
            continue
        frame = draw_frame(talk.api, call, rng)
        if looked_up not in frame.parameters:
            continue
        frame = replace(frame, text=frame.text.replace(f"{{{looked_up}}}", name))
        rest = {key: value for key, value in call.arguments.items() if key != looked_up}
        turn = talk.request(call, frame, rest)
        return [turn._replace(calls=(look_up, call), frames=(frame, frame), steps=1)]
    raise NoTaskDrawn("no name leads to one thing")


def _second_choice(talk: OwnPlanSession, function: str) -> list[RequestTurn]:
    """Return a request with a second choice, which counts if the first is refused."""
    rng = talk.rng
    is_refused = rng.random() < _REFUSED_SHARE
    first, second, other = _alternatives(talk, function, is_refused)
    frame = draw_frame(talk.api, first, rng)
    said = said_call(first.words, frame, first.arguments, rng)
    if "?" in said.phrase:
        raise NoTaskDrawn("a question")
    form = rng.choice(register_table_phrases("frame")["otherwise"]).replace("{o}", other)
    text = request_text([replace(said, phrase=f"{said.phrase}{form}")], rng)
    calls = (first, second) if is_refused else (first,)
    return [RequestTurn(text, calls, (frame,) * len(calls))]


def _refused_then_otherwise(talk: OwnPlanSession, function: str) -> list[RequestTurn]:
    """Return a request that is refused, and another choice for it."""
    first, second, other = _alternatives(talk, function, True)
    frame = draw_frame(talk.api, first, talk.rng)
    text = talk.rng.choice(register_table_phrases("frame")["instead"]).replace("{o}", other)
    turn = RequestTurn(text[:1].upper() + text[1:], (second,), (frame,))
    return [talk.request(first, frame, first.arguments), turn]


def _alternatives(
    talk: OwnPlanSession, function: str, is_refused: bool
) -> tuple[DrawnCall, DrawnCall, str]:
    """Return two calls that differ in one value, and how the second's is said.

    The first, of things that there are, is refused or not, as wished; the second is carried out
    where the first is refused.
    """
    words = talk.api.words[function]
    for _ in range(4 * _TRIES):
        first, second = talk.drawn(function), talk.drawn(function)
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
        before, after = talk.tried(first, second)
        if _is_refused(before) is is_refused and (not is_refused or not _is_refused(after)):
            return first, second, str(spoken_value(words.kinds[name], value, talk.rng))
    raise NoTaskDrawn("no second choice")


_FORMS: tuple[Callable[[OwnPlanSession, str], list[RequestTurn]], ...] = (
    *(_plain, _plain, _plain, _looked_up, _looked_up),
    *(_second_choice, _refused_then_otherwise),
)


def proven_plan(draft: RequestDraft, plan: Plan) -> Plan:
    """Return the proven plan of a draft; NoTaskDrawn if its proof fails.

    Its calls must each be needed, and none pass with another value.
    """
    proof = prove(plan)
    if proof.fault:
        raise NoTaskDrawn("passes without one of its calls")
    for (place, planned), call in zip(proof.plan.placed_calls.items(), draft.calls, strict=True):
        for name, other in _wrong_values(call):
            value = replace(planned.arguments[name], value=other)
            wrong = replace(planned, arguments={**planned.arguments, name: value})
            if changed_replay(plan, {place: wrong}, proof.truth)[0]:
                raise NoTaskDrawn("passes with another value")
    return proof.plan


def _wrong_values(call: DrawnCall) -> Iterator[tuple[str, Any]]:
    """Yield a wrong value of each argument of a call."""
    rng = Random(f"{call.function} {call.arguments}")
    for name, value in call.arguments.items():
        right = [value, *call.truth.get(name, ())]
        others = (call.words.kinds[name].draw(rng) for _ in range(_TRIES))
        wrong = (other for other in others if not any(is_same_value(other, r) for r in right))
        yield from ((name, other) for other in islice(wrong, 1))


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
