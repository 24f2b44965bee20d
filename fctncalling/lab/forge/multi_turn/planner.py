"""Plans by category and number: walked on live tools, proven, varied; one seed makes one plan."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from fctncalling.envs.tools import tool_class
from fctncalling.lab.forge.multi_turn import dials as tables
from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.dials import FUNCTIONS, Dials
from fctncalling.lab.forge.multi_turn.drafter import NUMERIC_KINDS, Drafter, Knowledge
from fctncalling.lab.forge.multi_turn.proof import (
    is_failed_result,
    longest_chain,
    prove,
    with_long_context_results,
)
from fctncalling.lab.forge.multi_turn.values import make_world
from fctncalling.lab.forge.plan import (
    Plan,
    PlannedCall,
    PlannedTurn,
    PlanSession,
    Purpose,
    Value,
    difficulty,
)

_DRAFTS = 4
_EMPTY = re.compile(r'\[\]|\{"\w+": (\[\]|\{\}|"")\}|\{"count": 0, .*')
"""Results for which nobody would ask."""


class DeadEnd(Exception):
    """A walk that cannot be finished as it was begun."""


class Walk(PlanSession):
    """Live tools, the facts known of them, and the turns walked so far."""

    def __init__(
        self, draw: random.Random, classes: Sequence[str], config: Mapping[str, Any], dials: Dials
    ) -> None:
        super().__init__(classes, config)
        self.draw = draw
        self.dials = dials
        self.knowledge = Knowledge()
        self._seen: set[tuple[str, str]] = set()

    @property
    def drafter(self) -> Drafter:
        """What drafts the next call."""
        state = self.session.live_state()
        return Drafter(self.draw, self.dials, self.knowledge, state, len(self.turns) - 1)

    def drafted(self, function: str, purpose: Purpose) -> PlannedCall:
        """Draft a call and execute it. Raises LookupError if the world holds no arguments."""
        arguments = self.drafter.arguments(function)
        call = PlannedCall(FUNCTIONS[function].owner, function, arguments, purpose)
        return replace(call, result=self.execute(call))

    def add(self, call: PlannedCall) -> None:
        """Add an executed call to the turn, and the facts of its result to the known ones."""
        self._seen.add((call.function, call.result))
        self.knowledge.add(call, len(self.turns) - 1, len(self.turns[-1]))
        self.turns[-1].append(call)

    def request(self, function: str, room: int) -> bool:
        """Try to add a call that the user asks for, and the steps it needs, in so many calls."""
        before = len(self.turns[-1])
        for _ in range(_DRAFTS):
            if self.attempt(function, "asked", room):
                return True
            if len(self.turns[-1]) > before:
                raise DeadEnd(f"steps for {function} did not help")
        return False

    def attempt(self, function: str, purpose: Purpose, room: int) -> bool:
        """Try to add one call, after what it needs; return whether it was added."""
        login = FUNCTIONS[function].login
        if login and any(inventory.values_at(login, self.session.live_state())):
            return False  # somebody who is logged in asks for no login
        last = [call.function for call in self.turns[-1][-1:]]
        if function in tables.OF_CURRENT_FOLDER and last == ["cd"]:
            return False  # nobody who has just moved asks what is there without saying where
        try:
            room -= self._supply(function, room) if purpose == "asked" else 0
            call = self.drafted(function, purpose)
            while is_failed_result(call.result) and room > 1:
                before = len(self.turns[-1])
                helpers = FUNCTIONS[function].helpers(call.result)
                if not any(self.attempt(each, "needed_step", room - 1) for each in helpers):
                    break
                room -= len(self.turns[-1]) - before
                call = self.drafted(function, purpose)
        except LookupError:
            return False
        if is_failed_result(call.result) or (function, call.result) in self._seen:
            return False
        if _EMPTY.fullmatch(call.result) and (function != "diff" or self.draw.random() < 0.6):
            return False  # that two files are the same may be an answer
        self.add(call)
        return True

    def _supply(self, function: str, room: int) -> int:
        """Look up, unasked, the source of a value; return the number of calls used."""
        kind, supplier, times, sure = FUNCTIONS[function].supplied
        if room <= times or not times or self.draw.random() > max(sure, self.dials.supply):
            return 0
        if len(self.knowledge.of_kind(kind, shown=True)) >= times:
            return 0
        before = len(self.turns[-1])
        for _ in range(times):
            if not self.attempt(supplier, "needed_step", 1):
                break
        return len(self.turns[-1]) - before

    def next_function(self, owner: str, room: int) -> str:
        """Draw a function of a class; as often as the dials say, one that follows up."""
        names = tables.FUNCTIONS_OF[owner]
        weights = [FUNCTIONS[name].weight * self._fit(name, room) for name in names]
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
        least, liking = FUNCTIONS[function].room
        fit = liking if room >= least else 0.1
        taken = {*FUNCTIONS[function].takes.values()}
        if taken & tables.MADE_BY_CALLS - {fact.kind for fact in self.knowledge.facts}:
            fit *= 0.03
        is_of_list = "numbers" in FUNCTIONS[function].takes
        if is_of_list and not self.knowledge.newest_listed(*NUMERIC_KINDS):
            fit *= 0.1
        return fit

    def _relevance(self, owner: str) -> dict[str, float]:
        """Return how related functions are to the latest calls and facts.

        They take what was made, show what was done, or take what was shown or said.
        """
        calls = [call.function for turn in self.turns for call in turn if call.class_name == owner]
        last = [FUNCTIONS[name] for name in calls[-3:]]
        shows = {name for function in last for name in function.seen_by}
        made = {kind for function in last for kind in function.made_kinds}
        recent = {fact.kind for fact in self.knowledge.facts[-8:]} & tables.TELLING
        relevance = {}
        for name in tables.FUNCTIONS_OF[owner]:
            taken = {*FUNCTIONS[name].takes.values()}
            if taken & made:
                relevance[name] = 12.0
            elif name in shows:
                relevance[name] = 3.0
            elif taken & recent:
                relevance[name] = 1.0
        return {**relevance, **(last[-1].then if last else {})}


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
    walk = Walk(draw, classes, make_world(draw, classes), dials)
    owners = [classes[0] if draw.random() < 0.65 else classes[-1] for _ in sizes]
    if len(set(owners)) < len(classes) <= len(sizes):
        owners[draw.randrange(len(owners))] = next(c for c in classes if c not in owners)
    if draw.random() < 0.8:
        owners.sort(key=list(classes).index)  # most users finish one thing before another
    anchors = _anchors(draw, owners, sizes)
    for number, (owner, size) in enumerate(zip(owners, sizes, strict=True)):
        _walk_turn(walk, owner, size, *anchors.get(number, ("", 1)))
    involved = draw.sample(classes, len(classes))
    return replace(walk.plan(seed), involved_classes=tuple(involved))


def _anchors(
    draw: random.Random, owners: Sequence[str], sizes: list[int]
) -> dict[int, tuple[str, int]]:
    """Return {turn: (function, calls)} for the main subject of each class; it gets the room."""
    anchors: dict[int, tuple[str, int]] = {}
    for owner in dict.fromkeys(owners):
        for function, room, chance in tables.ANCHORS.get(owner, ()):
            turns = [t for t, each in enumerate(owners) if each == owner and t not in anchors]
            if turns and draw.random() < chance:
                if room < 3:  # what it makes is for later turns
                    turns = turns[: (len(turns) + 1) // 2]
                turn = draw.choice([t for t in turns if sizes[t] >= room] or turns)
                anchors[turn] = function, room
                sizes[turn] = max(sizes[turn], room)
    return anchors


def _walk_turn(walk: Walk, owner: str, size: int, anchor: str, anchor_room: int) -> None:
    walk.turns.append([])
    here = walk.turns[-1]
    if anchor and walk.draw.random() < 0.5:
        walk.request(anchor, size)
        anchor = ""
    if owner == "GorillaFileSystem" and size > max(1, len(here)) and walk.draw.random() < 0.75:
        walk.attempt("cd", "needed_step", 1)  # unasked
    for _ in range(_REQUESTS):
        room = size - len(here)
        if room <= 0:
            return
        late = anchor and room <= anchor_room
        function = anchor if late else walk.next_function(owner, room)
        if walk.request(function, room) and function == anchor:
            anchor = ""
    if len(here) < size:
        raise DeadEnd(f"{owner} offers no {size} calls")


def _history(plan: Plan) -> int:
    """Return how many values come from earlier turns' words or from results.

    A token does not count, as users like to say it again.
    """
    return sum(
        value.provenance in ("said_before", "result") and value.kind != "access_token"
        for value in plan.values
    )


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
        (turn, (index, name))
        for (turn, index), call in plan.placed_calls.items()
        for name, value in call.arguments.items()
        if _can_be_left_out(plan.turns[turn], call, name, value)
    ]
    if not places:
        return None
    number, blank = draw.choice(places)
    return replace(_with_turn(plan, number, blank=blank), variant="miss_param")


def _with_turn(plan: Plan, number: int, **changes: Any) -> Plan:
    changed = replace(plan.turns[number], **changes)
    return replace(plan, turns=(*plan.turns[:number], changed, *plan.turns[number + 1 :]))


def _can_be_left_out(turn: PlannedTurn, call: PlannedCall, name: str, value: Value) -> bool:
    if value.provenance != "said_now" or value.kind not in tables.BLANK_KINDS:
        return False
    if isinstance(value.value, dict | list) or name in optional_parameters(call.function):
        return False
    others = (each for other in turn.calls for each in other.arguments.values())
    return sum(value.value in (each.value, each.words) for each in others) == 1


@lru_cache(maxsize=256)
def optional_parameters(function: str) -> frozenset[str]:
    """Return the parameters that a call may do without."""
    method = getattr(tool_class(FUNCTIONS[function].owner), function)
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
        return plan
    longer = with_long_context_results(plan)
    if longer is None or (proof := prove(longer)).fault:
        return None
    if variant == "long_context":
        return proof.plan
    shorter = without_value(proof.plan, draw)
    both = shorter and without_function(shorter, draw)
    return both and replace(both, variant="composite")
