"""Another way to the same end.

Other calls that a judge could not tell from the truth's, or that leave the same state behind in
fewer calls.

The search is bounded: one call of another function in place of one to three neighbouring calls of a
turn, with the values of those calls, all of them and no others: the words say no others, and say
none in vain. The tools and the checker's own comparison decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, NamedTuple

from fctncalling.checkers.multi_turn import state_differences
from fctncalling.data.types import TurnResults
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.python_source.parse import PlainCall
from fctncalling.lab.forge.multi_turn.entries import plain_call
from fctncalling.lab.forge.multi_turn.kinds import PARAMETER_KINDS
from fctncalling.lab.forge.multi_turn.moves import (
    CLASS_OF,
    FunctionMoves,
    function_moves,
    result_shape,
)
from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn

MOST_CALLS = 3  # neighbours that one call may stand for
MOST_ARGUMENTS = 12  # choices of arguments tried for a function
_ALIKE = {
    "file_name": "entry", "entry_name": "entry", "new_file": "entry", "folder": "entry",
    "new_folder": "entry", "destination": "entry", "exchanged": "number", "percent": "number",
    "price": "number", "amount": "number", "count": "number", "precision": "number",
    "ticket_updates": "text", "title": "text",
}  # fmt: skip
"""Kinds of which one may stand where the other does."""
_SWITCHES: dict[str, tuple[Any, ...]] = {
    "switch": (True, False),
    "headlight_mode": ("on", "off", "auto"),
    "brake_mode": ("engage", "release"),
    "ignition_mode": ("START", "STOP"),
    "order_type": ("Buy", "Sell"),
}
"""Kinds that a verb decides: any of their values could be meant."""


class AlternativeCall(NamedTuple):
    """A call that does what `length` calls of a turn from `start` on do."""

    turn: int
    start: int
    length: int
    call: PlainCall


def alternative_calls(plan: Plan, truth: Sequence[TurnResults]) -> Iterator[AlternativeCall]:
    """Yield other ways to the end of each turn; `truth` is what the plan leaves behind."""
    session = ToolSession(
        plan.involved_classes, plan.initial_config, long_context=plan.long_context
    )
    seen = Counter[str]()
    for number, turn in enumerate(plan.turns):
        before = Counter(seen)
        seen.update(truth[number].results)
        for start, call in enumerate(turn.calls):
            windows = list(_windows(plan.involved_classes, turn, start, before))
            if windows:
                here = session.get_state()
                for length, candidates in windows:
                    search = _Search(turn, start, length, truth[number], before)
                    for made in search.found(session, here, candidates):
                        yield AlternativeCall(number, start, length, made)
                session.set_state(here)
            session.execute(plain_call(call))


def _windows(
    classes: Sequence[str], turn: PlannedTurn, start: int, before: Mapping[str, int]
) -> Iterator[tuple[int, list[PlainCall]]]:
    """Yield (length, calls that could stand for so many calls from `start` on)."""
    known = function_moves()
    for length in range(1, min(MOST_CALLS, len(turn.calls) - start) + 1):
        calls = turn.calls[start : start + length]
        if length > 1 and not _may_shrink(calls, before, known):
            continue
        candidates = [
            made
            for owner in classes
            for function in PARAMETER_KINDS[owner]
            if _may_stand_for(function, calls, known)
            for made in islice(_calls(function, calls), MOST_ARGUMENTS)
        ]
        if candidates:
            yield length, candidates


def _may_shrink(
    calls: Sequence[PlannedCall], before: Mapping[str, int], known: FunctionMoves
) -> bool:
    """Whether fewer calls could do.

    Of calls that only change the state nobody needs the results, and a result that was seen before
    need not be seen again.
    """
    silent = all(known.changes_state(call.function) for call in calls)
    return silent or any(call.result in before for call in calls)


def _may_stand_for(function: str, calls: Sequence[PlannedCall], known: FunctionMoves) -> bool:
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
        (_ALIKE.get(value.kind, value.kind), value.value)
        for call in calls
        for value in call.arguments.values()
    ]
    kinds = PARAMETER_KINDS[CLASS_OF[function]][function]
    wanted = {
        repr(atom) for kind, value in given if kind not in _SWITCHES for atom in _atoms(value)
    }
    options = [_options(name, kind, given) for name, kind in kinds.items()]
    for values in product(*options):
        named = dict(zip(kinds, values, strict=True))
        taken = [
            repr(atom)
            for name, value in named.items()
            if kinds[name] not in _SWITCHES
            for atom in _atoms(value)
        ]
        if len(taken) == len(wanted) and wanted.issubset(taken):
            yield PlainCall(function, (), named)


def _atoms(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _options(name: str, kind: str, given: Sequence[tuple[str, Any]]) -> list[Any]:
    """Return the values that a parameter could have, each once."""
    if kind in _SWITCHES:
        return list(_SWITCHES[kind])
    wanted = _ALIKE.get(kind, kind)
    same = [value for each, value in given if each == wanted or _is_number(wanted, value)]
    if name == "numbers":
        atoms = [atom for each in same for atom in _atoms(each)]
        same = [atoms] if len(atoms) > 1 else []
    elif wanted == "number":
        same = [atom for each in same for atom in _atoms(each)]
    return list({repr(value): value for value in same}.values())


def _is_number(kind: str, value: Any) -> bool:
    return kind == "number" and type(value) in (int, float)


class _Search:
    """Candidates for some calls of a turn, tried one by one; the rest of the turn stays."""

    def __init__(
        self,
        turn: PlannedTurn,
        start: int,
        length: int,
        truth: TurnResults,
        before: Mapping[str, int],
    ) -> None:
        self._replaced = turn.calls[start : start + length]
        self._rest = turn.calls[start + length :]
        self._truth = truth
        needed = Counter(truth.results)
        needed.subtract(truth.results[:start])
        needed.subtract(before)
        self._needed = +needed

    def found(
        self, session: ToolSession, here: Mapping[str, Any], candidates: Sequence[PlainCall]
    ) -> Iterator[PlainCall]:
        """Yield the candidates after which the turn ends as it should."""
        known, dirty = function_moves(), True
        for call in candidates:
            if dirty:
                session.set_state(here)
            text = session.execute(call)
            dirty = known.changes_state(call.name)
            if len(self._replaced) == 1 and text != self._replaced[0].result:
                continue
            dirty = True
            results = [text, *(session.execute(plain_call(each)) for each in self._rest)]
            if state_differences(session.live_state(), self._truth.states):
                continue
            if self._silent(results) or not self._needed - Counter(results):
                yield call

    def _silent(self, results: Sequence[str]) -> bool:
        """Whether only results of calls that change the state are other than the truth's."""
        known = function_moves()
        changing = all(known.changes_state(call.function) for call in self._replaced)
        return changing and results[1:] == [call.result for call in self._rest]
