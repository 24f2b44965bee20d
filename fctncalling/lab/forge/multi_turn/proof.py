"""Proofs of plans: truths replay, and every call is needed.

The judge is the project's own multi-turn checker; another way to the same end it takes as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, NamedTuple

from fctncalling.data.types import TurnResults
from fctncalling.lab.forge.multi_turn.drafter import leaves_with_paths
from fctncalling.lab.forge.plan import (
    Place,
    Plan,
    PlannedCall,
    Value,
    changed_replay,
    parse_result,
    replay,
)

_REFUSALS = (
    '"error"',
    "'error'",
    "Error",
    "Stock not found",
    "Unknown",
    "00000",
    "Already",
    '_status": false',
    '"success": false',
    "No user is currently",
)


def is_failed_result(text: str) -> bool:
    """Whether a result of BFCL's tools says that a call failed."""
    return any(each in text for each in _REFUSALS)


class Proof(NamedTuple):
    """Outcome of a plan's replay. A plan is proven if `fault` is empty."""

    fault: str
    plan: Plan  # with the `depends_on` of its calls
    truth: Sequence[TurnResults] = ()  # what it leaves behind


def prove(plan: Plan) -> Proof:
    """Return the plan with its dependencies, or the fault of its proof.

    A truth must replay to the results that it was planned with; a plan without one of its calls, or
    without two neighbours, must not pass.
    """
    truth, places = replay(plan), [*plan.placed_calls]
    for (t, c), call in plan.placed_calls.items():
        if call.result != truth[t].results[c]:
            return Proof(f"{call.function} replays to {truth[t].results[c]}", plan)
    edges: dict[Place, list[Place]] = {place: [] for place in places}
    for place in places:
        passes, results = changed_replay(plan, {place: None}, truth)
        if passes:
            return Proof(f"the plan passes without call {place}", plan)
        for later in _changed(results, truth, place):
            edges[later].append(place)
    for first, second in pairwise(places):
        both = {first: None, second: None}
        if first[0] == second[0] and changed_replay(plan, both, truth)[0]:
            return Proof(f"the plan passes without calls {first} and {second}", plan)
    if useless := _useless_steps(plan, edges):
        return Proof(f"nothing needs the steps {useless}", plan)
    changed = {
        place: replace(call, depends_on=tuple(edges[place]))
        for place, call in plan.placed_calls.items()
    }
    return Proof("", _with_calls(plan, changed), truth)


def _useless_steps(plan: Plan, edges: Mapping[Place, Sequence[Place]]) -> list[Place]:
    """Return the steps that no words ask for and that no later call needs."""
    needed = {place for places in edges.values() for place in places}
    needed |= {(v.source.turn, v.source.call) for v in plan.values if v.provenance == "result"}
    steps = (place for place, call in plan.placed_calls.items() if call.purpose == "needed_step")
    return [place for place in steps if place not in needed]


def _with_calls(plan: Plan, calls: Mapping[Place, PlannedCall]) -> Plan:
    """Return a plan with other calls in their places."""
    turns = (
        replace(turn, calls=tuple(calls[t, c] for c in range(len(turn.calls))))
        for t, turn in enumerate(plan.turns)
    )
    return replace(plan, turns=tuple(turns))


def longest_chain(plan: Plan) -> int:
    """Return the most calls in a row of which each changes a result of the next."""
    length: dict[Place, int] = {}
    for place, call in plan.placed_calls.items():
        length[place] = 1 + max((length[each] for each in call.depends_on), default=0)
    return max(length.values(), default=0)


def with_long_context_results(plan: Plan) -> Plan | None:
    """Return the plan with the results that long context gives.

    None where a call is refused, or a result does not show any more what an argument is read from.

    Raises LongContextError where BFCL's tables are not here.
    """
    longer = replace(plan, variant="long_context")
    texts = (text for record in replay(longer) for text in record.results)
    shown = dict(zip(plan.placed_calls, texts, strict=True))
    if not all(is_still_shown(value, shown) for value in plan.values):
        return None
    if any(map(is_failed_result, shown.values())):
        return None
    calls = plan.placed_calls.items()
    return _with_calls(longer, {p: replace(call, result=shown[p]) for p, call in calls})


def is_still_shown(value: Value, shown: Mapping[Place, str]) -> bool:
    """Whether a value from a result is still at its path."""
    if value.provenance != "result":
        return True
    found: Any = parse_result(shown[value.source.turn, value.source.call])
    key: Any = None
    for key in value.source.path:
        if key == "*":
            shown_now = [each for _, each in leaves_with_paths(found)]
            return all(each in shown_now for each in value.value)
        try:
            found = found[key]
        except (LookupError, TypeError):
            return False
    return bool(found == value.value or key == value.value)


def _changed(
    results: Sequence[Sequence[str]], truth: Sequence[TurnResults], dropped: Place
) -> list[Place]:
    """Return the later calls with results that a dropped call changes."""
    found: list[Place] = []
    for t in range(dropped[0], len(truth)):
        texts = list(results[t])
        if t == dropped[0]:
            texts.insert(dropped[1], truth[t].results[dropped[1]])
        pairs = zip(texts, truth[t].results, strict=True)
        found.extend((t, c) for c, (one, other) in enumerate(pairs) if one != other)
    return found


# Criticality, measured by execution: a trap is the same call with another value of the task in
# place of the right one. The tools take it, nothing later in its turn is refused, and the task is
# lost all the same: credit has to find the one action that mattered.
NUM_ACTIONS = range(6, 17)  # one call an action, and one to end each turn
LEAST_CRITICAL = 0.3  # share of a critical plan's actions that have a trap
MOST_WRONG_VALUES = 4  # other values a call


class UndetectedWrongCall(NamedTuple):
    """A call of a plan, and the wrong one that its tools take without a word."""

    place: Place
    wrong: PlannedCall
    silent: bool  # no refusal in a later turn betrays it either


def criticality(plan: Plan) -> dict[str, Any] | None:
    """Return the figures of a proven plan's undetected wrong calls (traps); None if too few."""
    traps = undetected_wrong_calls(plan)
    actions = sum(len(turn.calls) + 1 for turn in plan.turns)
    share, silent = len(traps) / actions, sum(trap.silent for trap in traps)
    if actions not in NUM_ACTIONS or share < LEAST_CRITICAL:
        return None
    return {"actions": actions, "traps": len(traps), "silent": silent, "share": round(share, 3)}


def undetected_wrong_calls(plan: Plan) -> list[UndetectedWrongCall]:
    """Return the first undetected wrong call of each call of a proven plan that has one."""
    truth = replay(plan)
    first: dict[Place, UndetectedWrongCall] = {}
    for place, call in plan.placed_calls.items():
        for wrong in islice(_other_calls(plan, call), MOST_WRONG_VALUES):
            passes, results = changed_replay(plan, {place: wrong}, truth)
            refused = {t for t, texts in enumerate(results) if any(map(is_failed_result, texts))}
            if not passes and place[0] not in refused:
                first[place] = UndetectedWrongCall(place, wrong, not refused)
                break
    return list(first.values())


def _other_calls(plan: Plan, call: PlannedCall) -> Iterator[PlannedCall]:
    """Yield a call with another value of the same kind in the task, one argument changed."""
    for name, value in call.arguments.items():
        for other in {repr(v.value): v.value for v in plan.values if v.kind == value.kind}.values():
            if other != value.value:
                yield replace(call, arguments={**call.arguments, name: replace(value, value=other)})
