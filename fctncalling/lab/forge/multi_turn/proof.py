"""Proofs of plans: truths replay, every call is needed, no shorter plan does the same.

The judge is the project's own multi-turn checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product
from typing import Any, NamedTuple

from fctncalling.checkers.multi_turn import state_differences
from fctncalling.data.types import TurnResults
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.python_source.parse import PlainCall
from fctncalling.lab.forge.multi_turn.dials import INTERCHANGEABLE, SWITCHES
from fctncalling.lab.forge.multi_turn.knowledge import is_failed_result, leaves_with_paths
from fctncalling.lab.forge.multi_turn.moves import (
    CLASS_OF,
    PARAMETER_KINDS,
    function_moves,
    result_shape,
)
from fctncalling.lab.forge.plan import (
    Place,
    Plan,
    PlannedCall,
    PlannedTurn,
    Value,
    call_places,
    changed_replay,
    open_session,
    parse_result,
    plain_call,
    replay,
)

MOST_CALLS = 3  # neighbours that one call may stand for
MOST_ARGUMENTS = 12  # choices of arguments tried for a function


class AlternativeCall(NamedTuple):
    """A call that does what `length` calls of a turn from `start` on do."""

    turn: int
    start: int
    length: int
    call: PlainCall


def alternative_calls(plan: Plan, truth: Sequence[TurnResults]) -> Iterator[AlternativeCall]:
    """Yield other ways to the end of each turn; `truth` is what the plan leaves behind.

    Other calls that a judge could not tell from the truth's, or that leave the same state behind in
    fewer calls. The search is bounded: one call of another function in place of one to three
    neighbouring calls of a turn, with the values of those calls, all of them and no others: the
    words say no others, and say none in vain. The tools and the checker's own comparison decide.
    """
    session = open_session(plan)
    seen = Counter[str]()
    for number, turn in enumerate(plan.turns):
        before = Counter(seen)
        seen.update(truth[number].results)
        for start, call in enumerate(turn.calls):
            needed = Counter(truth[number].results)
            needed.subtract(truth[number].results[:start])
            needed.subtract(before)
            for length, candidates in _windows(plan.involved_classes, turn, start, before):
                calls = turn.calls[start:]
                for made in _equivalent_calls(
                    session, candidates, calls[:length], calls[length:], +needed, truth[number]
                ):
                    yield AlternativeCall(number, start, length, made)
            session.execute(plain_call(call))


def _windows(
    classes: Sequence[str], turn: PlannedTurn, start: int, before: Mapping[str, int]
) -> Iterator[tuple[int, list[PlainCall]]]:
    """Yield (length, calls that could stand for so many calls from `start` on)."""
    for length in range(1, min(MOST_CALLS, len(turn.calls) - start) + 1):
        calls = turn.calls[start : start + length]
        if length > 1 and not _may_shrink(calls, before):
            continue
        candidates = [
            made
            for owner in classes
            for function in PARAMETER_KINDS[owner]
            if _may_stand_for(function, calls)
            for made in islice(_calls(function, calls), MOST_ARGUMENTS)
        ]
        if candidates:
            yield length, candidates


def _may_shrink(calls: Sequence[PlannedCall], before: Mapping[str, int]) -> bool:
    """Whether fewer calls could do.

    Of calls that only change the state nobody needs the results, and a result that was seen before
    need not be seen again.
    """
    return _all_change_state(calls) or any(call.result in before for call in calls)


def _all_change_state(calls: Sequence[PlannedCall]) -> bool:
    return all(function_moves().changes_state(call.function) for call in calls)


def _may_stand_for(function: str, calls: Sequence[PlannedCall]) -> bool:
    known = function_moves()
    if any(call.function == function for call in calls):
        return False
    if len(calls) > 1:
        owners = {call.class_name for call in calls}
        return known.changes_state(function) and owners == {CLASS_OF[function]}
    same_effect = known.changes_state(function) == known.changes_state(calls[0].function)
    return same_effect and result_shape(calls[0].result) in known.shapes(function)


def _calls(function: str, calls: Sequence[PlannedCall]) -> Iterator[PlainCall]:
    """Yield calls of a function made of the values of others."""
    given = [
        (INTERCHANGEABLE.get(value.kind, value.kind), value.value)
        for call in calls
        for value in call.arguments.values()
    ]
    kinds = PARAMETER_KINDS[CLASS_OF[function]][function]
    wanted = {repr(atom) for kind, value in given if kind not in SWITCHES for atom in _atoms(value)}
    options = [_options(name, kind, given) for name, kind in kinds.items()]
    for values in product(*options):
        named = dict(zip(kinds, values, strict=True))
        taken = [
            repr(atom)
            for name, value in named.items()
            if kinds[name] not in SWITCHES
            for atom in _atoms(value)
        ]
        if len(taken) == len(wanted) and wanted.issubset(taken):
            yield PlainCall(function, (), named)


def _atoms(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _options(name: str, kind: str, given: Sequence[tuple[str, Any]]) -> list[Any]:
    """Return the values that a parameter could have, each once."""
    if kind in SWITCHES:
        return list(SWITCHES[kind])
    wanted = INTERCHANGEABLE.get(kind, kind)
    same = [value for each, value in given if each == wanted or _is_number(wanted, value)]
    if name == "numbers":
        atoms = [atom for each in same for atom in _atoms(each)]
        same = [atoms] if len(atoms) > 1 else []
    elif wanted == "number":
        same = [atom for each in same for atom in _atoms(each)]
    return list({repr(value): value for value in same}.values())


def _is_number(kind: str, value: Any) -> bool:
    return kind == "number" and type(value) in (int, float)


def _equivalent_calls(
    session: ToolSession,
    candidates: Sequence[PlainCall],
    replaced: Sequence[PlannedCall],
    rest: Sequence[PlannedCall],
    needed: Counter[str],
    truth: TurnResults,
) -> Iterator[PlainCall]:
    """Yield the candidates in place of some calls after which the turn ends as it should."""
    here, dirty = session.get_state(), False
    for call in candidates:
        if dirty:
            session.set_state(here)
        text = session.execute(call)
        dirty = function_moves().changes_state(call.name)
        if len(replaced) == 1 and text != replaced[0].result:
            continue
        dirty = True
        results = [text, *(session.execute(plain_call(each)) for each in rest)]
        if state_differences(session.live_state(), truth.states):
            continue
        # Of calls that only change the state, nobody needs the results.
        same_rest = results[1:] == [each.result for each in rest]
        if (same_rest and _all_change_state(replaced)) or not needed - Counter(results):
            yield call
    session.set_state(here)


AMBIGUOUS = "another way leads to the same end"
_MOST_EXCLUDED = 2


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
    excluded = _excluded(plan, truth)
    if excluded is None:
        return Proof(AMBIGUOUS, plan)
    return Proof(
        "", replace(plan, turns=_with_edges(plan.turns, edges), excluded_functions=excluded)
    )


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


def _excluded(plan: Plan, truth: Sequence[TurnResults]) -> tuple[str, ...] | None:
    """Return the functions that are not offered, since they replace what the truth does.

    None where there are too many, or the plan needs one of them that makes it shorter.

    A function that the plan needs and that could stand for another call is offered: the checker
    takes either.
    """
    used = {call.function for call in plan.calls}
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


def with_long_context_results(plan: Plan) -> Plan | None:
    """Return the plan with the results that long context gives.

    None where a result does not show any more what a later argument is read from.

    Raises LongContextError where BFCL's tables are not here.
    """
    longer = replace(plan, variant="long_context")
    shown: dict[tuple[int, int], str] = {}
    turns = []
    for t, (turn, record) in enumerate(zip(plan.turns, replay(longer), strict=True)):
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
    """Return the later calls whose results a dropped call changes."""
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
NUM_ACTIONS = (6, 16)  # one call an action, and one to end each turn
LEAST_CRITICAL = 0.3  # share of a critical plan's actions that have a trap
MOST_WRONG_VALUES = 4  # other values a call


class Criticality(NamedTuple):
    """Measurements of a plan's critical steps."""

    actions: int
    traps: int  # calls with a trap whose harm shows no earlier than in a later turn
    silent: int  # of these, those that no refusal ever betrays

    @property
    def share(self) -> float:
        """Share of actions that have a trap."""
        return self.traps / max(1, self.actions)

    @property
    def enough(self) -> bool:
        """Whether a plan is critical."""
        return NUM_ACTIONS[0] <= self.actions <= NUM_ACTIONS[1] and self.share >= LEAST_CRITICAL

    def record(self) -> dict[str, Any]:
        """Return the figures as a ledger holds them."""
        return {**self._asdict(), "share": round(self.share, 3)}


class UndetectedWrongCall(NamedTuple):
    """A call of a plan, and the wrong one that its tools take without a word."""

    place: Place
    wrong: PlannedCall
    silent: bool  # no refusal in a later turn betrays it either


def count_undetected_wrong_calls(plan: Plan) -> Criticality:
    """Return how many calls of a proven plan have an undetected wrong call (a trap)."""
    found = undetected_wrong_calls(plan)
    actions = sum(len(turn.calls) + 1 for turn in plan.turns)
    return Criticality(actions, len(found), sum(trap.silent for trap in found))


def undetected_wrong_calls(plan: Plan) -> list[UndetectedWrongCall]:
    """Return the first undetected wrong call of each call of a proven plan that has one."""
    truth = replay(plan)
    found = (_first_trap(plan, place, truth) for place in call_places(plan))
    return [trap for trap in found if trap is not None]


def _first_trap(
    plan: Plan, place: Place, truth: Sequence[TurnResults]
) -> UndetectedWrongCall | None:
    for wrong in _other_calls(plan, place):
        passes, results = changed_replay(plan, {place: wrong}, truth)
        refused = {t for t, texts in enumerate(results) if any(map(is_failed_result, texts))}
        if not passes and place[0] not in refused:
            return UndetectedWrongCall(place, wrong, not refused)
    return None


def _other_calls(plan: Plan, place: Place) -> Iterator[PlannedCall]:
    """Yield the call with another value of the same kind, one argument changed."""
    call = plan.turns[place[0]].calls[place[1]]
    tried = 0
    for name, value in call.arguments.items():
        for other in _values_of_kind(plan, value.kind):
            if other != value.value and tried < MOST_WRONG_VALUES:
                tried += 1
                yield replace(call, arguments={**call.arguments, name: replace(value, value=other)})


def _values_of_kind(plan: Plan, kind: str) -> list[Any]:
    """Return the values of a kind in the task, each once."""
    found: list[Any] = []
    for value in plan.values:
        if value.kind == kind and value.value not in found:
            found.append(value.value)
    return found
