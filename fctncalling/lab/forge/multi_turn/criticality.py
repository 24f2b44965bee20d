"""Criticality of plans, measured by execution: calls with a trap whose harm shows late.

A trap is the same call with another value of the task in place of the right one: the tools take it,
nothing later in its turn is refused, and the task is lost all the same. A policy that falls into it
learns of it only at the end, so that credit has to find the one action that mattered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fctncalling.data.types import TurnResults
from fctncalling.lab.forge.multi_turn.knowledge import is_failed_result
from fctncalling.lab.forge.plan import Plan, PlannedCall
from fctncalling.lab.forge.replay import Place, call_places, changed_replay, replay

NUM_ACTIONS = (6, 16)  # one call an action, and one to end each turn
LEAST = 0.3  # share of a critical plan's actions that have a trap
MOST_TRIED = 4  # other values a call


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
        return NUM_ACTIONS[0] <= self.actions <= NUM_ACTIONS[1] and self.share >= LEAST

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
        for other in _values(plan, value.kind):
            if other != value.value and tried < MOST_TRIED:
                tried += 1
                yield replace(call, arguments={**call.arguments, name: replace(value, value=other)})


def _values(plan: Plan, kind: str) -> list[Any]:
    """Return the values of a kind in the task, each once."""
    found: list[Any] = []
    for value in plan.values:
        if value.kind == kind and value.value not in found:
            found.append(value.value)
    return found
