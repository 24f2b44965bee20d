"""Plans by category and number: walked on live tools, proven, varied; one seed makes one plan."""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.python_source.call_source import PlainCall
from fctncalling.envs.tools import tool_class
from fctncalling.lab.forge.multi_turn import dials as tables
from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.dials import Dials
from fctncalling.lab.forge.multi_turn.drafter import (
    NUMERIC_KINDS,
    Drafter,
    Fact,
    Knowledge,
    inferred_value,
    is_empty_result,
    is_failed_result,
    newest_listed,
    verbatim_value,
)
from fctncalling.lab.forge.multi_turn.proof import prove, with_long_context_results
from fctncalling.lab.forge.multi_turn.values import make_world
from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn, Purpose, Value, parse_result

TELLING = (inventory.REFERENCE_KINDS - {"access_token"}) | tables.TOLD_MEASURES
"""Kinds of which the same value tells that two calls have to do with each other."""
_MADE_BY_CALLS = {"order_id", "booking_id", "tweet_id", "ticket_id"}
"""Kinds that there are none of until a call makes them."""
_DRAFTS = 4


class DeadEnd(Exception):
    """A walk that cannot be finished as it was begun."""


@dataclass
class Walk:
    """Live tools, the facts known of them, and the turns walked so far."""

    draw: random.Random
    classes: Sequence[str]
    config: Mapping[str, Any]
    dials: Dials
    knowledge: Knowledge = field(default_factory=Knowledge)
    turns: list[list[PlannedCall]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = ToolSession(self.classes, self.config)
        self._seen: set[tuple[str, str]] = set()

    @property
    def drafter(self) -> Drafter:
        """What drafts the next call."""
        state = self.session.live_state()
        return Drafter(self.draw, self.dials, self.knowledge, state, len(self.turns) - 1)

    def request(self, function: str, room: int) -> bool:
        """Try to add a call that the user asks for, and the steps it needs, in so many calls."""
        before = len(self.turns[-1])
        for _ in range(_DRAFTS):
            if self._attempt(function, "asked", room):
                return True
            if len(self.turns[-1]) > before:
                raise DeadEnd(f"steps for {function} did not help")
        return False

    def _attempt(self, function: str, purpose: Purpose, room: int) -> bool:
        login = tables.LOGINS.get(function)
        if login and any(inventory.values_at(login, self.session.live_state())):
            return False  # somebody who is logged in asks for no login
        last = [call.function for call in self.turns[-1][-1:]]
        if function in tables.OF_CURRENT_FOLDER and last == ["cd"]:
            return False  # nobody who has just moved asks what is there without saying where
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
        self.add(function, arguments, purpose, text)
        return True

    def _cured(
        self, function: str, text: str, room: int, arguments: dict[str, Value]
    ) -> tuple[dict[str, Value], str]:
        """Make the steps a refused call needs, one after another, and call again."""
        while is_failed_result(text) and room > 1:
            before = len(self.turns[-1])
            for cure in tables.cures(function, text):
                if self._attempt(cure, "needed_step", room - 1):
                    break
            else:
                break
            room -= len(self.turns[-1]) - before
            arguments = self.draft_arguments(function)
            text = self.execute(function, arguments)
        return arguments, text

    def _supply(self, function: str, room: int) -> int:
        """Look up, unasked, the source of a value; return the number of calls used."""
        kind, supplier, times, sure = tables.SUPPLIED.get(function, ("", "", 0, 0.0))
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
        """Return arguments for a call. Raises LookupError if the world holds none."""
        return self.drafter.arguments(function, tables.KINDS_OF[function])

    def execute(self, function: str, arguments: Mapping[str, Value]) -> str:
        """Return a call's result text."""
        plain = {name: deepcopy(each.value) for name, each in arguments.items()}
        return self.session.execute(PlainCall(function, (), plain))

    def add(
        self, function: str, arguments: Mapping[str, Value], purpose: Purpose, text: str
    ) -> None:
        """Add an executed call to the turn, and its result to the known facts."""
        turn, index = len(self.turns) - 1, len(self.turns[-1])
        self._seen.add((function, text))
        for value in arguments.values():
            self.knowledge.said(value, turn)
            if value.kind in tables.NEW_KINDS:
                self.knowledge.facts.append(Fact(tables.NEW_KINDS[value.kind], value.value, turn))
        self.knowledge.calls[turn, index] = arguments
        kinds = tables.kinds_in_result(function, {n: v.value for n, v in arguments.items()})
        self.knowledge.seen(parse_result(text), kinds, turn, index)
        owner = tables.CLASS_OF[function]
        self.turns[-1].append(PlannedCall(owner, function, arguments, purpose, (), text))

    def next_function(self, owner: str, room: int) -> str:
        """Draw a function of a class; as often as the dials say, one that follows up."""
        names = list(tables.PARAMETER_KINDS[owner])
        weights = [tables.FUNCTION_WEIGHTS.get(name, 1.0) * self._fit(name, room) for name in names]
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
        wanted = tables.ROOMY.get(function)
        fit = 1.0 if wanted is None else wanted[1] if room >= wanted[0] else 0.1
        taken = tables.KINDS_OF[function]
        known = {fact.kind for fact in self.knowledge.facts}
        if {*taken.values()} & _MADE_BY_CALLS - known:
            fit *= 0.03
        if "numbers" in taken and not newest_listed(self.knowledge, NUMERIC_KINDS):
            fit *= 0.1
        return fit

    def _relevance(self, owner: str) -> dict[str, float]:
        """Return how related functions are to the latest calls and facts.

        They take what was made, show what was done, or take what was shown or said.
        """
        calls = [call for turn in self.turns for call in turn if call.class_name == owner]
        last = [call.function for call in calls[-3:]]
        usual = tables.FOLLOW_UPS.get(last[-1], {}) if last else {}
        shows = {name for function in last for name in tables.reads_affected_by(function)}
        made = {
            kind
            for function in last
            if tables.makes_something(function)
            for kind in tables.produced_kinds(function)
        }
        recent = {fact.kind for fact in self.knowledge.facts[-8:]} & TELLING
        relevance = {}
        for name, kinds in tables.PARAMETER_KINDS[owner].items():
            taken = set(kinds.values())
            if taken & made & TELLING:
                relevance[name] = 12.0
            elif name in shows:
                relevance[name] = 3.0
            elif taken & recent:
                relevance[name] = 1.0
        return {**relevance, **usual}


def change_directory_unasked(walk: Walk) -> None:
    """Change the directory without being asked to: to one that the words name, or up."""
    state = walk.session.live_state()
    filled = [
        name
        for name in inventory.nameable_values("folder", state)
        if inventory.values_at(
            "GorillaFileSystem._current_dir.folders.{folder}.^", state, {"folder": name}
        )
    ]
    known = walk.drafter.known("folder")
    if not filled:
        folder = inferred_value("folder", "..")
    elif known and known.value in filled:
        folder = known
    else:
        folder = verbatim_value("folder", walk.draw.choice(filled))
    text = walk.execute("cd", {"folder": folder})
    if not is_failed_result(text):
        walk.add("cd", {"folder": folder}, "needed_step", text)


T = TypeVar("T")
_TRIES = 400  # plans begun for one that is proven; some five are
_REQUESTS = 12  # functions tried for one more call


def make_plan(seed: str, dials: Dials | None = None, apis: Sequence[str] = ()) -> Plan:
    """Return a proven plan without variant: the same for the same arguments.

    apis: classes that it may involve; none named: all.
    """
    dials = dials or Dials()
    draw, weights = random.Random(seed), tables.class_combination_weights(apis)
    for _ in range(_TRIES):
        classes = _drawn(draw, weights)
        sizes = [_drawn(draw, dials.calls) for _ in range(_drawn(draw, dials.turns))]
        try:
            plan = _walked(draw, classes, sizes, dials, seed)
        except DeadEnd:
            continue
        if draw.random() >= (1.0 if _history(plan) >= dials.history else dials.plain):
            continue
        proof = prove(plan)
        kept = dials.chains.get(longest_chain(proof.plan), 0.0)
        if not proof.fault and draw.random() < kept:
            return proof.plan
    raise RuntimeError(f"no plan proved itself in {_TRIES} walks from seed {seed!r}")


def _drawn(draw: random.Random, weights: Mapping[T, float]) -> T:
    return draw.choices(list(weights), list(weights.values()))[0]


def _walked(
    draw: random.Random, classes: Sequence[str], sizes: list[int], dials: Dials, seed: str
) -> Plan:
    config = make_world(draw, classes)
    walk = Walk(draw, classes, config, dials)
    owners = [classes[0] if draw.random() < 0.65 else classes[-1] for _ in sizes]
    if len(set(owners)) < len(classes) <= len(sizes):
        owners[draw.randrange(len(owners))] = next(c for c in classes if c not in owners)
    if draw.random() < 0.8:
        owners.sort(key=list(classes).index)  # most users finish one thing before another
    anchors = _anchors(draw, owners, sizes)
    for number, (owner, size) in enumerate(zip(owners, sizes, strict=True)):
        _walk_turn(walk, owner, size, anchors.get(number))
    turns = tuple(PlannedTurn(tuple(calls)) for calls in walk.turns)
    involved = list(classes)
    draw.shuffle(involved)
    config = {name: config[name] for name in classes}
    return Plan(config, tuple(involved), turns, seed=seed)


def _anchors(draw: random.Random, owners: Sequence[str], sizes: list[int]) -> dict[int, str]:
    """Return {turn: function} for the main subject of each class; its turn gets the room."""
    anchors: dict[int, str] = {}
    for owner in dict.fromkeys(owners):
        for function, room, chance in tables.ANCHORS.get(owner, ()):
            turns = [t for t, each in enumerate(owners) if each == owner and t not in anchors]
            if turns and draw.random() < chance:
                if room < 3:  # what it makes is for later turns
                    turns = turns[: (len(turns) + 1) // 2]
                turn = draw.choice([t for t in turns if sizes[t] >= room] or turns)
                anchors[turn] = function
                sizes[turn] = max(sizes[turn], room)
    return anchors


def _walk_turn(walk: Walk, owner: str, size: int, anchor: str | None) -> None:
    walk.turns.append([])
    here = walk.turns[-1]
    if anchor and walk.draw.random() < 0.5:
        walk.request(anchor, size)
        if len(here) >= size:
            return
        anchor = None
    if owner == "GorillaFileSystem" and size > 1 and walk.draw.random() < 0.75:
        change_directory_unasked(walk)
    for _ in range(_REQUESTS):
        room = size - len(here)
        late = anchor and room <= tables.ANCHOR_ROOM.get(anchor, 1)
        function = anchor if anchor and late else walk.next_function(owner, room)
        if walk.request(function, room) and function == anchor:
            anchor = None
        if len(here) >= size:
            return
    raise DeadEnd(f"{owner} offers no {size} calls")


def _history(plan: Plan) -> int:
    """Return how many values come from earlier turns' words or from results.

    A token does not count, as users like to say it again.
    """
    return sum(
        value.provenance in ("said_before", "result") and value.kind != "access_token"
        for value in plan.values
    )


def longest_chain(plan: Plan) -> int:
    """Return the most calls in a row of which each changes a result of the next."""
    length: dict[tuple[int, int], int] = {}
    for t, turn in enumerate(plan.turns):
        for c, call in enumerate(turn.calls):
            length[t, c] = 1 + max((length[place] for place in call.depends_on), default=0)
    return max(length.values(), default=0)


def without_function(plan: Plan, draw: random.Random) -> Plan | None:
    """Return the plan with one function held back until after the turn that first needs it.

    None where no turn has a function of its own.
    """
    used: set[str] = set()
    places = []
    for number, turn in enumerate(plan.turns):
        fresh = [c.function for c in turn.calls if c.function not in used and c.purpose == "asked"]
        if not turn.blank and fresh:
            places.append((number, draw.choice(fresh)))
        used.update(call.function for call in turn.calls)
    if not places:
        return None
    number, function = draw.choice(places)
    return replace(_with_turn(plan, number, held_back=function), variant="miss_func")


def without_value(plan: Plan, draw: random.Random) -> Plan | None:
    """Return the plan with one value left out of a request and said in a separate message.

    None where no request has a value that must be said.
    """
    places = [
        (number, (index, name))
        for number, turn in enumerate(plan.turns)
        for index, call in enumerate(turn.calls)
        for name, value in call.arguments.items()
        if _must_be_said(turn, call, name, value)
    ]
    if not places:
        return None
    number, blank = draw.choice(places)
    return replace(_with_turn(plan, number, blank=blank), variant="miss_param")


def _with_turn(plan: Plan, number: int, **changes: Any) -> Plan:
    changed = replace(plan.turns[number], **changes)
    return replace(plan, turns=(*plan.turns[:number], changed, *plan.turns[number + 1 :]))


def _must_be_said(turn: PlannedTurn, call: PlannedCall, name: str, value: Value) -> bool:
    if value.provenance != "said_now" or value.kind not in tables.BLANK_KINDS:
        return False
    if isinstance(value.value, dict | list) or name in optional_parameters(call.function):
        return False
    others = (each for other in turn.calls for each in other.arguments.values())
    return sum(value.value in (each.value, each.said) for each in others) == 1


@lru_cache(maxsize=256)
def optional_parameters(function: str) -> frozenset[str]:
    """Return the parameters that a call may do without."""
    method = getattr(tool_class(tables.CLASS_OF[function]), function)
    parameters = inspect.signature(method).parameters.values()
    return frozenset(each.name for each in parameters if each.default is not each.empty)


CATEGORIES = (
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
    "multi_turn_composite",
)
"""What can be forged. The last two need BFCL's long-context tables."""

_IRRELEVANCE = 0.03  # share of base tasks with a request that no offered function fits
_FOREIGN = ("TradingBot", "TravelAPI", "VehicleControlAPI")
_VARIED = 50  # plans made for one that has a variant


def multi_turn_plan(
    category: str,
    seed: int,
    index: int,
    attempt: int = 0,
    dials: Dials | None = None,
    apis: Sequence[str] = (),
) -> Plan:
    """Return the plan of a task: the same for the same arguments, proven, its difficulty set.

    apis: classes that it may involve; none named: all.

    Raises KeyError for a category that is not of CATEGORIES, LongContextError where BFCL's tables
    are needed and not here.
    """
    if category not in CATEGORIES:
        raise KeyError(f"{category}: expected one of {', '.join(CATEGORIES)}")
    variant = category.removeprefix("multi_turn_")
    for number in range(_VARIED):
        name = f"{seed}/{category}/{index}/{attempt}/{number}"
        made = make_plan(name, dials, apis)
        plan = _varied(made, variant, random.Random(f"{name}/variant"))
        if plan is not None:
            return replace(plan, difficulty=difficulty(plan))
    raise RuntimeError(f"{category}: no plan in {_VARIED} tries at number {index} of seed {seed}")


def _varied(plan: Plan, variant: str, draw: random.Random) -> Plan | None:
    if variant == "miss_func":
        return without_function(plan, draw)
    if variant == "miss_param":
        return without_value(plan, draw)
    if variant == "base":
        return _mixed(plan, draw)
    longer = with_long_context_results(plan)
    if longer is None or (proof := prove(longer)).fault:
        return None
    if variant == "long_context":
        return proof.plan
    shorter = without_value(proof.plan, draw)
    both = shorter and without_function(shorter, draw)
    return both and replace(both, variant="composite")


def _mixed(plan: Plan, draw: random.Random) -> Plan:
    """Return a base plan, one in some with a last request for a call that is not offered."""
    others = [name for name in _FOREIGN if name not in plan.involved_classes]
    if draw.random() >= _IRRELEVANCE:
        return plan
    dials = Dials(turns={1: 1}, calls={1: 1})
    foreign = make_plan(f"{plan.seed}/foreign", dials, (draw.choice(others),)).calls[-1:]
    if any(value.provenance == "result" for call in foreign for value in call.arguments.values()):
        return plan
    return replace(plan, turns=(*plan.turns, PlannedTurn((), unoffered=tuple(foreign))))


def difficulty(plan: Plan) -> float:
    """Return how hard a plan is, from 0 (one call, all said) to 1.

    Calls, unsaid steps, values from elsewhere than this turn's words, and what is held back, in
    equal parts but for the last.
    """
    calls = plan.calls
    unread = ("said_before", "result", "state", "inferred")
    elsewhere = sum(value.provenance in unread for value in plan.values)
    parts: Sequence[float] = (
        min(1.0, (len(calls) - 1) / 11),
        min(1.0, sum(call.purpose == "needed_step" for call in calls) / 4),
        elsewhere / max(1, len(plan.values)),
        min(1.0, sum(len(call.depends_on) for call in calls) / 6),
    )
    harder = 0.0 if plan.variant == "base" else 0.15
    return round(min(1.0, harder + 0.85 * sum(parts) / len(parts)), 3)
