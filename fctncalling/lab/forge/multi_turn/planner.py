"""Plans by category and number: drawn, walked, proven, varied; one seed text makes one plan."""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from fctncalling.envs.tools import tool_class
from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.dials import (
    ANCHOR_ROOM,
    ANCHORS,
    BLANK_KINDS,
    CLASS_WEIGHTS,
    Dials,
    class_combination_weights,
)
from fctncalling.lab.forge.multi_turn.drafter import inferred_value, verbatim_value
from fctncalling.lab.forge.multi_turn.knowledge import is_failed_result
from fctncalling.lab.forge.multi_turn.moves import CLASS_OF
from fctncalling.lab.forge.multi_turn.proof import prove, with_long_context_results
from fctncalling.lab.forge.multi_turn.values import make_world
from fctncalling.lab.forge.multi_turn.walk import DeadEnd, Walk
from fctncalling.lab.forge.plan import (
    Plan,
    PlannedCall,
    PlannedTurn,
    Role,
    Source,
    Value,
    said_earlier,
)


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
        folder = inferred_value("folder", "..", "parent_folder")
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


def make_plan(
    seed: str, dials: Dials | None = None, weights: Mapping[tuple[str, ...], float] = CLASS_WEIGHTS
) -> Plan:
    """Return a proven plan without variant: the same for the same arguments.

    weights: combination of classes -> how often it is drawn.
    """
    dials = dials or Dials()
    draw = random.Random(seed)
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
    turns = tuple(PlannedTurn(tuple(calls), requested=tuple(calls)) for calls in walk.turns)
    involved = list(classes)
    draw.shuffle(involved)
    config = {name: config[name] for name in classes}
    return Plan(config, tuple(involved), turns, seed=seed)


def _anchors(draw: random.Random, owners: Sequence[str], sizes: list[int]) -> dict[int, str]:
    """Return {turn: function} for what most tasks of a class are about; its turn gets the room."""
    anchors: dict[int, str] = {}
    for owner in dict.fromkeys(owners):
        for function, room, chance in ANCHORS.get(owner, ()):
            turns = [t for t, each in enumerate(owners) if each == owner and t not in anchors]
            if turns and draw.random() < chance:
                if room < 3:  # what it makes is for later turns
                    turns = turns[: (len(turns) + 1) // 2]
                turn = draw.choice([t for t in turns if sizes[t] >= room] or turns)
                anchors[turn] = function
                sizes[turn] = max(sizes[turn], room)
    return anchors


def _walk_turn(walk: Walk, owner: str, size: int, anchor: str | None) -> None:
    walk.start_turn()
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
        late = anchor and room <= ANCHOR_ROOM.get(anchor, 1)
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

    That turn calls nothing; a turn without words follows, in which the function is offered and the
    calls are made. None where no turn has a function of its own.
    """
    used: set[str] = set()
    places = []
    for number, turn in enumerate(plan.turns):
        fresh = [c.function for c in turn.calls if c.function not in used and c.purpose == "asked"]
        if turn.role == "request" and fresh:
            places.append((number, draw.choice(fresh)))
        used.update(call.function for call in turn.calls)
    if not places:
        return None
    number, function = draw.choice(places)
    longer = _answered_later(plan, number, "request_without_function", "function_returns")
    missed = {**longer.missed_functions, number + 1: (function,)}
    return replace(longer, variant="miss_func", missed_functions=missed)


def without_value(plan: Plan, draw: random.Random) -> Plan | None:
    """Return the plan with one value left out of a request and said in a turn of its own.

    None where no request has a value that must be said.
    """
    places = [
        (number, (index, name))
        for number, turn in enumerate(plan.turns)
        if turn.role == "request"
        for index, call in enumerate(turn.calls)
        for name, value in call.arguments.items()
        if _must_be_said(turn, call, name, value)
    ]
    if not places:
        return None
    number, blank = draw.choice(places)
    longer = _answered_later(plan, number, "request_without_value", "missing_value", blank)
    return replace(longer, variant="miss_param")


def with_unoffered_class_request(plan: Plan, foreign: PlannedCall, draw: random.Random) -> Plan:
    """Return the plan with one turn more, which asks for a call of a class that is not offered."""
    number = draw.randint(0, len(plan.turns))
    turn = PlannedTurn((), "request_out_of_scope", (foreign,))
    before = plan.turns[:number]
    after = tuple(_moved(each, number) for each in plan.turns[number:])
    return replace(plan, turns=(*before, turn, *after), variant="irrelevance")


def _must_be_said(turn: PlannedTurn, call: PlannedCall, name: str, value: Value) -> bool:
    if value.provenance != "said_now" or value.kind not in BLANK_KINDS:
        return False
    if isinstance(value.value, dict | list) or name in optional_parameters(call.function):
        return False
    others = (each for other in turn.calls for each in other.arguments.values())
    return sum(value.value in (each.value, each.said) for each in others) == 1


@lru_cache(maxsize=256)
def optional_parameters(function: str) -> frozenset[str]:
    """Return the parameters that a call may do without."""
    method = getattr(tool_class(CLASS_OF[function]), function)
    parameters = inspect.signature(method).parameters.values()
    return frozenset(each.name for each in parameters if each.default is not each.empty)


def _answered_later(
    plan: Plan, number: int, asks: Role, answers: Role, blank: tuple[int, str] | None = None
) -> Plan:
    """Return the plan with two turns in place of one: its words first, its calls a turn later."""
    turn = plan.turns[number]
    index, name = blank or (-1, "")
    calls = tuple(
        said_earlier(call, number, (name,) if index == at else ())
        for at, call in enumerate(_moved(turn, number).calls)
    )
    two = (PlannedTurn((), asks, turn.requested, blank), PlannedTurn(calls, answers, calls, blank))
    missed = {(t + 1 if t > number else t): names for t, names in plan.missed_functions.items()}
    after = tuple(_moved(turn, number) for turn in plan.turns[number + 1 :])
    return replace(plan, turns=(*plan.turns[:number], *two, *after), missed_functions=missed)


def _later(source: Source, number: int) -> Source:
    """Return where a value is after a turn was put in: words of that turn stay, results move."""
    moves = source.turn > number or (source.turn == number and source.call >= 0)
    return replace(source, turn=source.turn + 1) if moves else source


def _moved(turn: PlannedTurn, number: int) -> PlannedTurn:
    """Return a turn whose calls are made after a turn was put in behind the words of `number`."""
    calls = tuple(_moved_call(call, number) for call in turn.calls)
    requested = tuple(_moved_call(call, number) for call in turn.requested)
    return replace(turn, calls=calls, requested=requested)


def _moved_call(call: PlannedCall, number: int) -> PlannedCall:
    arguments = {
        name: replace(value, source=_later(value.source, number)) if value.source else value
        for name, value in call.arguments.items()
    }
    depends = [_later(Source(turn, index), number) for turn, index in call.depends_on]
    places = tuple((source.turn, source.call) for source in depends)
    return replace(call, arguments=arguments, depends_on=places)


CATEGORIES = (
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
    "multi_turn_composite",
)
"""What can be forged. The last two need BFCL's long-context tables."""

_IRRELEVANCE = 0.03  # share of base tasks with a request that no offered function fits
_DISTRACTORS = 0.05  # share of base tasks with a class offered that nothing asks for
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
        made = make_plan(name, dials, class_combination_weights(apis))
        plan = _varied(made, variant, random.Random(f"{name}/variant"), apis)
        if plan is not None:
            return replace(plan, difficulty=difficulty(plan))
    raise RuntimeError(f"{category}: no plan in {_VARIED} tries at number {index} of seed {seed}")


def _varied(plan: Plan, variant: str, draw: random.Random, apis: Sequence[str]) -> Plan | None:
    if variant == "miss_func":
        return without_function(plan, draw)
    if variant == "miss_param":
        return without_value(plan, draw)
    if variant == "base":
        return _mixed(plan, draw, apis)
    longer = with_long_context_results(plan)
    if longer is None or (proof := prove(longer)).fault:
        return None
    if variant == "long_context":
        return proof.plan
    shorter = without_value(proof.plan, draw)
    both = shorter and without_function(shorter, draw)
    return both and replace(both, variant="composite")


def _mixed(plan: Plan, draw: random.Random, apis: Sequence[str]) -> Plan:
    """Return a base plan, one in some with a request out of scope or a class too many."""
    chance = draw.random()
    others = [name for name in _FOREIGN if name not in plan.involved_classes]
    if chance < _IRRELEVANCE:
        dials = Dials(turns={1: 1}, calls={1: 1})
        foreign = make_plan(f"{plan.seed}/foreign", dials, {(draw.choice(others),): 1.0})
        asked = [call for call in foreign.turns[0].calls if _asks_by_itself(call)]
        return with_unoffered_class_request(plan, asked[0], draw) if asked else plan
    others = [name for name in others if not apis or name in apis]
    if others and chance < _IRRELEVANCE + _DISTRACTORS:
        name = draw.choice(others)
        config = {**plan.initial_config, **make_world(draw, [name])}
        involved = [*plan.involved_classes, name]
        draw.shuffle(involved)
        proof = prove(replace(plan, initial_config=config, involved_classes=tuple(involved)))
        return plan if proof.fault else proof.plan
    return plan


def _asks_by_itself(call: PlannedCall) -> bool:
    """Whether a call can be asked for without what was asked before it."""
    values = call.arguments.values()
    return call.purpose == "asked" and all(each.provenance != "result" for each in values)


_FOREIGN = ("MessageAPI", "TwitterAPI", "TicketAPI", "TradingBot", "TravelAPI", "VehicleControlAPI")


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
