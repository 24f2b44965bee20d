"""Plans by category and number: each depends on its seed, category, index and attempt alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from fctncalling.lab.forge.multi_turn.dials import Dials
from fctncalling.lab.forge.multi_turn.planner import make_plan
from fctncalling.lab.forge.multi_turn.proof import in_long_context, prove
from fctncalling.lab.forge.multi_turn.variants import (
    with_foreign_request,
    without_function,
    without_value,
)
from fctncalling.lab.forge.multi_turn.worlds.make_world import make_world
from fctncalling.lab.forge.plan import Plan, PlannedCall

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
_TRIES = 50


def multi_turn_plan(
    category: str, seed: int, index: int, attempt: int = 0, dials: Dials | None = None
) -> Plan:
    """Return the plan of a task: the same for the same arguments, proven, its difficulty set.

    Raises KeyError for a category that is not of CATEGORIES, LongContextError where BFCL's tables
    are needed and not here.
    """
    if category not in CATEGORIES:
        raise KeyError(f"{category}: expected one of {', '.join(CATEGORIES)}")
    variant = category.removeprefix("multi_turn_")
    ambiguous = 0
    for number in range(_TRIES):
        name = f"{seed}/{category}/{index}/{attempt}/{number}"
        made = make_plan(name, dials)
        ambiguous += made.ambiguous
        plan = _varied(made, variant, random.Random(f"{name}/variant"))
        if plan is not None:
            return replace(plan, difficulty=difficulty(plan), ambiguous=ambiguous)
    raise RuntimeError(f"{category}: no plan in {_TRIES} tries at number {index} of seed {seed}")


def _varied(plan: Plan, variant: str, draw: random.Random) -> Plan | None:
    if variant == "miss_func":
        return without_function(plan, draw)
    if variant == "miss_param":
        return without_value(plan, draw)
    if variant == "base":
        return _mixed(plan, draw)
    longer = in_long_context(plan)
    if longer is None or (proof := prove(longer)).fault:
        return None
    if variant == "long_context":
        return proof.plan
    shorter = without_value(proof.plan, draw)
    both = shorter and without_function(shorter, draw)
    return both and replace(both, variant="composite")


def _mixed(plan: Plan, draw: random.Random) -> Plan:
    """Return a base plan, one in some with a request out of scope or a class too many."""
    chance = draw.random()
    others = [name for name in _FOREIGN if name not in plan.involved_classes]
    if chance < _IRRELEVANCE:
        dials = Dials(turns={1: 1}, calls={1: 1})
        foreign = make_plan(f"{plan.seed}/foreign", dials, [(draw.choice(others),)])
        asked = [call for call in foreign.turns[0].calls if _asks_by_itself(call)]
        return with_foreign_request(plan, asked[0], draw) if asked else plan
    if chance < _IRRELEVANCE + _DISTRACTORS:
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
    calls = [call for turn in plan.turns for call in turn.calls]
    values = [value for call in calls for value in call.arguments.values()]
    elsewhere = [
        v for v in values if v.provenance in ("said_before", "result", "state", "inferred")
    ]
    parts: Sequence[float] = (
        min(1.0, (len(calls) - 1) / 11),
        min(1.0, sum(call.purpose == "needed_step" for call in calls) / 4),
        len(elsewhere) / max(1, len(values)),
        min(1.0, sum(len(call.depends_on) for call in calls) / 6),
    )
    harder = 0.0 if plan.variant == "base" else 0.15
    return round(min(1.0, harder + 0.85 * sum(parts) / len(parts)), 3)
