"""Plans of multi-turn tasks: drawn, walked, proven. One seed text makes one plan."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.dials import ANCHOR_ROOM, ANCHORS, CLASS_WEIGHTS, Dials
from fctncalling.lab.forge.multi_turn.drafter import inferred_value, verbatim_value
from fctncalling.lab.forge.multi_turn.knowledge import is_failed_result
from fctncalling.lab.forge.multi_turn.proof import AMBIGUOUS, prove
from fctncalling.lab.forge.multi_turn.values import make_world
from fctncalling.lab.forge.multi_turn.walk import DeadEnd, Walk
from fctncalling.lab.forge.plan import Plan, PlannedTurn, Purpose, Value


def change_directory_unasked(walk: Walk) -> bool:
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
    return _made(walk, "cd", {"folder": folder}, "needed_step")


def _made(walk: Walk, function: str, arguments: dict[str, Value], purpose: Purpose) -> bool:
    text: Any = walk.execute(function, arguments)
    if is_failed_result(text):
        return False
    walk.add(function, arguments, purpose, text)
    return True


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
    ambiguous = 0
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
            return replace(proof.plan, ambiguous=ambiguous)
        ambiguous += proof.fault == AMBIGUOUS
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
