"""Walks: one call after another on live tools, each drafted from what is known by then."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.python_source.parse import PlainCall
from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.dials import (
    ALIKE,
    FOLLOW_UPS,
    FUNCTION_WEIGHTS,
    LOGINS,
    NEVER_UNASKED,
    NEW_KINDS,
    OPPOSITES,
    ROOMY,
    SETTINGS,
    SUPPLIED,
    TOLD_MEASURES,
    Dials,
)  # fmt: skip
from fctncalling.lab.forge.multi_turn.drafter import NUMERIC_KINDS, Drafter, newest_listed
from fctncalling.lab.forge.multi_turn.knowledge import (
    Fact,
    Knowledge,
    is_empty_result,
    is_failed_result,
)
from fctncalling.lab.forge.multi_turn.moves import (
    CLASS_OF,
    PARAMETER_KINDS,
    FunctionMoves,
    function_moves,
)
from fctncalling.lab.forge.plan import PlannedCall, Purpose, Value, copy_argument, parse_result
from fctncalling.lab.forge.words.turn_check import OF_CURRENT_FOLDER

TELLING = (inventory.REFERENCE_KINDS - {"access_token"}) | TOLD_MEASURES
"""Kinds of which the same value tells that two calls have to do with each other."""
_MADE_BY_CALLS = {"order_id", "booking_id", "tweet_id", "ticket_id"}
"""Kinds that there are none of until a call makes them."""
_TRIES = 4


class DeadEnd(Exception):
    """A walk that cannot be finished as it was begun."""


@dataclass
class Walk:
    """Live tools, what is known of them, and the turns walked so far."""

    draw: random.Random
    classes: Sequence[str]
    config: Mapping[str, Any]
    dials: Dials
    knowledge: Knowledge = field(default_factory=Knowledge)
    turns: list[list[PlannedCall]] = field(default_factory=list)
    moves: FunctionMoves = field(default_factory=function_moves)

    def __post_init__(self) -> None:
        self.session = ToolSession(self.classes, self.config)
        self._seen: set[tuple[str, str]] = set()

    def start_turn(self) -> None:
        """Begin another user turn."""
        self.turns.append([])

    @property
    def drafter(self) -> Drafter:
        """What drafts the next call."""
        state = self.session.live_state()
        return Drafter(self.draw, self.dials, self.knowledge, state, len(self.turns) - 1)

    def request(self, function: str, room: int) -> bool:
        """Try to add a call that the user asks for, and the steps it needs, in so many calls."""
        before = len(self.turns[-1])
        for _ in range(_TRIES):
            if self._attempt(function, "asked", room):
                return True
            if len(self.turns[-1]) > before:
                raise DeadEnd(f"steps for {function} did not help")
        return False

    def _attempt(self, function: str, purpose: Purpose, room: int) -> bool:
        if self._is_idle(function) or (function in OF_CURRENT_FOLDER and self._has_just_moved()):
            return False
        try:
            room -= self._supply(function, room) if purpose == "asked" else 0
            arguments = self.draft_arguments(function)
            text = self.execute(function, arguments)
            if is_failed_result(text) and room > 1:
                arguments, text = self._cured(function, text, room, arguments)
        except LookupError:
            return False
        if is_failed_result(text) or (function, text) in self._seen:
            return False
        if is_empty_result(text) and (function != "diff" or self.draw.random() < 0.6):
            return False  # that two files are the same may be an answer
        if self._repeats(function, arguments):
            return False
        self.add(function, arguments, purpose, text)
        return True

    def _repeats(self, function: str, arguments: Mapping[str, Value]) -> bool:
        """Whether a call was made before, or undoes one of its turn: nobody asks for either."""
        given = [value.value for value in arguments.values()]

        def same(name: str | None, calls: Iterable[PlannedCall]) -> bool:
            return any(
                call.function == name and [v.value for v in call.arguments.values()] == given
                for call in calls
            )

        changes = arguments and self.moves.changes_state(function)
        return same(OPPOSITES.get(function), self.turns[-1]) or bool(
            changes and same(function, chain.from_iterable(self.turns))
        )

    def _cured(
        self, function: str, text: str, room: int, arguments: dict[str, Value]
    ) -> tuple[dict[str, Value], str]:
        """Make the steps a refused call needs, one after another, and call again."""
        while is_failed_result(text) and room > 1:
            before = len(self.turns[-1])
            for cure in self.moves.cures(function, text):
                if cure in NEVER_UNASKED or self.moves.makes_something(cure):
                    continue
                if self._attempt(cure, "needed_step", room - 1):
                    break
            else:
                break
            room -= len(self.turns[-1]) - before
            arguments = self.draft_arguments(function)
            text = self.execute(function, arguments)
        return arguments, text

    def _supply(self, function: str, room: int) -> int:
        """Look up, unasked, what a value is to be read from; return how many calls that took."""
        kind, supplier, times, sure = SUPPLIED.get(function, ("", "", 0, 0.0))
        if room <= times or not times or self.draw.random() > max(sure, self.dials.supply):
            return 0
        if len(self.knowledge.results(kind)) >= times:
            return 0
        before = len(self.turns[-1])
        for _ in range(times):
            if not self._attempt(supplier, "needed_step", 1):
                break
        return len(self.turns[-1]) - before

    def draft_arguments(self, function: str) -> dict[str, Value]:
        """Return arguments for a call. Raises LookupError where the world holds none."""
        return self.drafter.arguments(function, PARAMETER_KINDS[CLASS_OF[function]][function])

    def _is_idle(self, function: str) -> bool:
        """Whether a login is asked for by somebody who is logged in."""
        state = self.session.live_state()
        return function in LOGINS and any(inventory.values_at(LOGINS[function], state))

    def _has_just_moved(self) -> bool:
        """Whether the turn's last call changed the directory.

        Nobody then asks where they are, nor what is there without saying where.
        """
        return bool(self.turns[-1]) and self.turns[-1][-1].function == "cd"

    def execute(self, function: str, arguments: Mapping[str, Value]) -> str:
        """Return a call's result text."""
        plain = {name: copy_argument(each.value) for name, each in arguments.items()}
        return self.session.execute(PlainCall(function, (), plain))

    def add(
        self, function: str, arguments: Mapping[str, Value], purpose: Purpose, text: str
    ) -> None:
        """Take a call that was made into the turn, and what it shows into what is known."""
        turn, index = len(self.turns) - 1, len(self.turns[-1])
        self._seen.add((function, text))
        for value in arguments.values():
            self.knowledge.said(value, turn)
            if value.kind in NEW_KINDS:
                self.knowledge.facts.append(Fact(NEW_KINDS[value.kind], value.value, turn))
        self.knowledge.calls[turn, index] = arguments
        kinds = self.moves.kinds_in_result(function, {n: v.value for n, v in arguments.items()})
        self.knowledge.seen(parse_result(text), kinds, turn, index)
        owner = CLASS_OF[function]
        self.turns[-1].append(PlannedCall(owner, function, arguments, purpose, (), text))

    def next_function(self, owner: str, room: int) -> str:
        """Draw a function of a class; as often as the dials say, one that follows up."""
        names = list(PARAMETER_KINDS[owner])
        weights = [FUNCTION_WEIGHTS.get(name, 1.0) * self._fit(name, room) for name in names]
        if self.draw.random() < self.dials.follow_up:
            relevance = self._relevance(owner)
            weights = [w * relevance.get(n, 0.1) for n, w in zip(names, weights, strict=True)]
        if not any(weights):
            raise DeadEnd(f"{owner} offers nothing for {room} calls")
        return self.draw.choices(names, weights)[0]

    def _fit(self, function: str, room: int) -> float:
        """Return how well a function fits.

        Those that need steps into what is left of a turn, those that take what others make to what
        has been made.
        """
        wanted = ROOMY.get(function)
        fit = 1.0 if wanted is None else wanted[1] if room >= wanted[0] else 0.1
        made = {call.function for turn in self.turns for call in turn}
        if function in SETTINGS & made:
            fit *= 0.15
        kinds = set(PARAMETER_KINDS[CLASS_OF[function]][function].values())
        known = {fact.kind for fact in self.knowledge.facts}
        if kinds & _MADE_BY_CALLS - known:
            fit *= 0.03
        if "numbers" in PARAMETER_KINDS[CLASS_OF[function]][function] and not newest_listed(
            self.knowledge, NUMERIC_KINDS
        ):
            fit *= 0.1
        return fit

    def _relevance(self, owner: str) -> dict[str, float]:
        """Return how much functions have to do with what came up last.

        They take what was made, show what was done, or take what was shown or said.
        """
        calls = [call for turn in self.turns for call in turn if call.class_name == owner]
        last = [call.function for call in calls[-3:]]
        usual = FOLLOW_UPS.get(last[-1], {}) if last else {}
        shows = {name for function in last for name in self.moves.reads_affected_by(function)}
        made = {
            kind
            for function in last
            if self.moves.makes_something(function)
            for kind in self.moves.produced_kinds(function).values()
        }
        recent = {fact.kind for fact in self.knowledge.facts[-8:]} & TELLING
        relevance = {}
        for name, kinds in PARAMETER_KINDS[owner].items():
            taken = {ALIKE.get(kind, kind) for kind in kinds.values()}
            if taken & made & TELLING:
                relevance[name] = 12.0
            elif name in shows:
                relevance[name] = 3.0
            elif taken & recent:
                relevance[name] = 1.0
        return {**relevance, **usual}
