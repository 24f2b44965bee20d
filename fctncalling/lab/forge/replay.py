"""Replays of plans on fresh tools: as planned, and with calls left out or changed.

The judge is the project's own multi-turn checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fctncalling.checkers.multi_turn import LiveTurnResults, turn_fault
from fctncalling.data.types import TurnResults
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.lab.forge.plan import Plan, PlannedCall, plain_call

Place = tuple[int, int]
"""(turn, call): a call's place in a plan."""
Changes = Mapping[Place, PlannedCall | None]
"""Place -> the call made there instead; None: it is left out."""


def open_session(plan: Plan) -> ToolSession:
    """Return the tools of a plan in their initial state."""
    return ToolSession(
        plan.involved_classes,
        plan.initial_config,
        long_context=plan.long_context,
        extra_tools=plan.tools,
    )


def call_places(plan: Plan) -> list[Place]:
    """Return the place of each call."""
    return [(t, c) for t, turn in enumerate(plan.turns) for c in range(len(turn.calls))]


def replay(plan: Plan) -> list[TurnResults]:
    """Return what each turn leaves behind."""
    session = open_session(plan)
    return [
        TurnResults(_executed(session, plan, t, {}), session.public_state())
        for t in range(len(plan.turns))
    ]


def changed_replay(
    plan: Plan, changes: Changes, truth: Sequence[TurnResults]
) -> tuple[bool, list[tuple[str, ...]]]:
    """Return whether the checker passes a changed plan, and its results by turn.

    `truth` is what the plan leaves behind unchanged.
    """
    session = open_session(plan)
    passes, seen, results = True, Counter[str](), list[tuple[str, ...]]()
    for t, record in enumerate(truth):
        made = _executed(session, plan, t, changes)
        results.append(made)
        seen.update(made)
        # The live states are compared before the next turn changes them, and never copied.
        passes = passes and not turn_fault(
            LiveTurnResults(made, session.live_state()), record, seen
        )
    return passes, results


def _executed(session: ToolSession, plan: Plan, number: int, changes: Changes) -> tuple[str, ...]:
    """Return the results of a turn's calls."""
    calls = (changes.get((number, c), call) for c, call in enumerate(plan.turns[number].calls))
    return tuple(session.execute(plain_call(call)) for call in calls if call is not None)
