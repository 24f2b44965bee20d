"""Proofs of plans: truths replay, every call is needed, no shorter plan does the same.

The judge is the project's own multi-turn checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from fctncalling.checkers.multi_turn import LiveTurnResults, turn_fault
from fctncalling.data.types import TurnResults
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.lab.forge.multi_turn.another_way import alternative_calls
from fctncalling.lab.forge.multi_turn.entries import plain_call
from fctncalling.lab.forge.multi_turn.knowledge import (
    is_failed_result,
    leaves_with_paths,
    parse_result,
)
from fctncalling.lab.forge.plan import Plan, PlannedTurn, Value

AMBIGUOUS = "another way leads to the same end"
_MOST_EXCLUDED = 2
Place = tuple[int, int]  # turn, call
Dropped = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Proof:
    """Outcome of a plan's replay. A plan is proven where `fault` is empty."""

    fault: str
    plan: Plan  # with `depends_on` and `result` as they were found


def prove(plan: Plan) -> Proof:
    """Return the plan with its dependencies, or why it is none.

    A truth must replay to the results it was planned with and without a refusal; a plan without one
    of its calls, or without two neighbours, must not pass.
    """
    truth = _replay(plan, frozenset())
    for turn, record in zip(plan.turns, truth, strict=True):
        for call, text in zip(turn.calls, record.results, strict=True):
            if is_failed_result(text) or text != call.result:
                return Proof(f"{call.function} replays to {text}", plan)
    places = [(t, c) for t, turn in enumerate(plan.turns) for c in range(len(turn.calls))]
    edges: dict[Place, list[Place]] = {place: [] for place in places}
    for place in places:
        passes, results = _attempt(plan, frozenset({place}), truth)
        if passes:
            return Proof(f"the plan passes without call {place}", plan)
        for later in _changed(results, truth, place):
            edges[later].append(place)
    for first, second in pairwise(places):
        if first[0] == second[0] and _attempt(plan, frozenset({first, second}), truth)[0]:
            return Proof(f"the plan passes without calls {first} and {second}", plan)
    if useless := _useless_steps(plan, edges):
        return Proof(f"nothing needs the steps {useless}", plan)
    excluded = _excluded(plan, truth)
    if excluded is None:
        return Proof(AMBIGUOUS, plan)
    return Proof(
        "", replace(plan, turns=_with_edges(plan.turns, edges), excluded_functions=excluded)
    )


def _useless_steps(plan: Plan, edges: dict[Place, list[Place]]) -> list[Place]:
    """Return the steps that no words ask for and that no later call needs."""
    needed = {place for places in edges.values() for place in places}
    for turn in plan.turns:
        for call in turn.calls:
            for value in call.arguments.values():
                if value.provenance == "result" and value.source is not None:
                    needed.add((value.source.turn, value.source.call))
    return [
        (t, c)
        for t, turn in enumerate(plan.turns)
        for c, call in enumerate(turn.calls)
        if call.purpose == "needed_step" and (t, c) not in needed
    ]


def _excluded(plan: Plan, truth: Sequence[TurnResults]) -> tuple[str, ...] | None:
    """Return the functions that are not offered, since they replace what the truth does.

    None where there are too many, or the plan needs one of them that makes it shorter.

    A function that the plan needs and that could stand for another call is offered: the checker
    takes either.
    """
    used = {call.function for turn in plan.turns for call in turn.calls}
    found: set[str] = set()
    for way in alternative_calls(plan, truth):
        if way.call.name not in used:
            found.add(way.call.name)
        elif way.length > 1:
            return None
        if len(found) > _MOST_EXCLUDED:
            return None
    return tuple(sorted(found))


def _with_edges(turns: Sequence[PlannedTurn], edges: dict[Any, Any]) -> tuple[PlannedTurn, ...]:
    found = []
    for t, turn in enumerate(turns):
        calls = tuple(
            replace(call, depends_on=tuple(edges[t, c])) for c, call in enumerate(turn.calls)
        )
        found.append(replace(turn, calls=calls, requested=calls))
    return tuple(found)


def _replay(plan: Plan, without: Dropped) -> list[TurnResults]:
    """Return what each turn leaves behind where some calls are not made."""
    session = ToolSession(
        plan.involved_classes, plan.initial_config, long_context=plan.long_context
    )
    records = []
    for t, turn in enumerate(plan.turns):
        results = tuple(
            session.execute(plain_call(call))
            for c, call in enumerate(turn.calls)
            if (t, c) not in without
        )
        records.append(TurnResults(results, session.public_state()))
    return records


def _attempt(
    plan: Plan, without: Dropped, truth: Sequence[TurnResults]
) -> tuple[bool, list[Sequence[str]]]:
    """Return whether the checker passes a plan without some calls, and its results by turn."""
    session = ToolSession(
        plan.involved_classes, plan.initial_config, long_context=plan.long_context
    )
    passes, seen, results = True, Counter[str](), list[Sequence[str]]()
    for t, turn in enumerate(plan.turns):
        made = tuple(
            session.execute(plain_call(call))
            for c, call in enumerate(turn.calls)
            if (t, c) not in without
        )
        results.append(made)
        seen.update(made)
        # The live states are compared before the next turn changes them, and never copied.
        passes = passes and not turn_fault(
            LiveTurnResults(made, session.live_state()), truth[t], seen
        )
    return passes, results


def with_long_context_results(plan: Plan) -> Plan | None:
    """Return the plan with the results that long context gives.

    None where a result does not show any more what a later argument is read from.

    Raises LongContextError where BFCL's tables are not here.
    """
    longer = replace(plan, variant="long_context")
    shown: dict[tuple[int, int], str] = {}
    turns = []
    for t, (turn, record) in enumerate(zip(plan.turns, _replay(longer, frozenset()), strict=True)):
        shown.update({(t, c): text for c, text in enumerate(record.results)})
        calls = tuple(
            replace(call, result=text)
            for call, text in zip(turn.calls, record.results, strict=True)
        )
        if not all(is_still_shown(value, shown) for c in calls for value in c.arguments.values()):
            return None
        turns.append(replace(turn, calls=calls, requested=calls))
    return replace(longer, turns=tuple(turns))


def is_still_shown(value: Value, shown: Mapping[tuple[int, int], str]) -> bool:
    """Whether a value that comes from a result stands there, at its path."""
    if value.provenance != "result" or value.source is None:
        return True
    found: Any = parse_result(shown[value.source.turn, value.source.call])
    key: Any = None
    for key in value.source.path:
        if key == "*":
            return all(each in leaf_values(found) for each in value.value)
        try:
            found = found[key]
        except (LookupError, TypeError):
            return False
    return bool(found == value.value or key == value.value)


def leaf_values(data: Any) -> list[Any]:
    """Return every atom of a result."""
    return [value for _, value in leaves_with_paths(data)]


def _changed(
    results: Sequence[Sequence[str]], truth: Sequence[TurnResults], dropped: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return the later calls whose results a dropped call changes."""
    found: list[tuple[int, int]] = []
    for t in range(dropped[0], len(truth)):
        texts = list(results[t])
        if t == dropped[0]:
            texts.insert(dropped[1], truth[t].results[dropped[1]])
        pairs = zip(texts, truth[t].results, strict=True)
        found.extend((t, c) for c, (one, other) in enumerate(pairs) if one != other)
    return found
