"""Proofs of plans: truths replay, and every call is needed.

The judge is the project's own multi-turn checker; another way to the same end it takes as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, NamedTuple

from fctncalling.data.types import TurnResults
from fctncalling.lab.forge.multi_turn.drafter import is_failed_result, leaves_with_paths
from fctncalling.lab.forge.plan import (
    Place,
    Plan,
    PlannedCall,
    PlannedTurn,
    Value,
    call_places,
    changed_replay,
    parse_result,
    replay,
)


class Proof(NamedTuple):
    """Outcome of a plan's replay. A plan is proven if `fault` is empty."""

    fault: str
    plan: Plan  # with `depends_on` and `result` as they were found


def prove(plan: Plan) -> Proof:
    """Return the plan with its dependencies, or the fault of its proof.

    A truth must replay to the results it was planned with and without a refusal; a plan without one
    of its calls, or without two neighbours, must not pass.
    """
    truth = replay(plan)
    for turn, record in zip(plan.turns, truth, strict=True):
        for call, text in zip(turn.calls, record.results, strict=True):
            if is_failed_result(text) or text != call.result:
                return Proof(f"{call.function} replays to {text}", plan)
    places = call_places(plan)
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
    turns = _with_calls(
        plan.turns, lambda place, call: replace(call, depends_on=tuple(edges[place]))
    )
    return Proof("", replace(plan, turns=turns))


def _useless_steps(plan: Plan, edges: dict[Place, list[Place]]) -> list[Place]:
    """Return the steps that no words ask for and that no later call needs."""
    needed = {place for places in edges.values() for place in places}
    for value in plan.values:
        if value.provenance == "result" and value.source is not None:
            needed.add((value.source.turn, value.source.call))
    return [
        (t, c)
        for t, c in call_places(plan)
        if plan.turns[t].calls[c].purpose == "needed_step" and (t, c) not in needed
    ]


def _with_calls(
    turns: Sequence[PlannedTurn], change: Callable[[Place, PlannedCall], PlannedCall]
) -> tuple[PlannedTurn, ...]:
    """Return the turns with each call changed."""
    changed = (
        tuple(change((t, c), call) for c, call in enumerate(turn.calls))
        for t, turn in enumerate(turns)
    )
    return tuple(replace(turn, calls=calls) for turn, calls in zip(turns, changed, strict=True))


def with_long_context_results(plan: Plan) -> Plan | None:
    """Return the plan with the results that long context gives.

    None where a result does not show any more what a later argument is read from.

    Raises LongContextError where BFCL's tables are not here.
    """
    longer = replace(plan, variant="long_context")
    shown = {
        (t, c): text
        for t, record in enumerate(replay(longer))
        for c, text in enumerate(record.results)
    }
    if not all(is_still_shown(value, shown) for value in plan.values):
        return None
    turns = _with_calls(plan.turns, lambda place, call: replace(call, result=shown[place]))
    return replace(longer, turns=turns)


def is_still_shown(value: Value, shown: Mapping[tuple[int, int], str]) -> bool:
    """Whether a value from a result is still at its path."""
    if value.provenance != "result" or value.source is None:
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
    results: Sequence[Sequence[str]], truth: Sequence[TurnResults], dropped: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return the later calls with results that a dropped call changes."""
    found: list[tuple[int, int]] = []
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
    for place in call_places(plan):
        for wrong in _other_calls(plan, place):
            passes, results = changed_replay(plan, {place: wrong}, truth)
            refused = {t for t, texts in enumerate(results) if any(map(is_failed_result, texts))}
            if not passes and place[0] not in refused:
                first[place] = UndetectedWrongCall(place, wrong, not refused)
                break
    return list(first.values())


def _other_calls(plan: Plan, place: Place) -> Iterator[PlannedCall]:
    """Yield the call with another value of the same kind in the task, one argument changed."""
    call = plan.turns[place[0]].calls[place[1]]
    others = (
        replace(call, arguments={**call.arguments, name: replace(value, value=other)})
        for name, value in call.arguments.items()
        for other in {repr(v.value): v.value for v in plan.values if v.kind == value.kind}.values()
        if other != value.value
    )
    return islice(others, MOST_WRONG_VALUES)
