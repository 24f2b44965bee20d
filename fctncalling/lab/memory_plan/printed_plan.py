"""`fctncalling train --plan`: print the memory plan and load nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fctncalling.algorithms.config import TrainConfig
from fctncalling.lab.memory_plan.phases import MemoryPlan
from fctncalling.lab.memory_plan.planning import make_plan
from fctncalling.lab.memory_plan.remedies import remedies, size_text
from fctncalling.training.announce import announce


def plan_text(plan: MemoryPlan) -> str:
    """Return the plan as a screen.

    Parameters, phases term by term, the largest microbatch that fits, and what to change.
    """
    sizes = plan.sizes
    lines = [
        f"Parameters: {sizes.num_weights:,}, trained {sizes.num_trained:,}.",
        f"Largest pass of the update: {plan.microbatch.tokens:,} tokens"
        f"{', each shared prefix once' if plan.microbatch.shared else ''}.",
        "",
    ]
    for phase in plan.phases:
        mark = "  <- peak" if phase is plan.peak else ""
        lines.append(f"{phase.name:24} {size_text(phase.num_bytes):>9}{mark}")
        for term in phase.terms:
            if term.num_bytes:
                flags = f"  {term.set_by}" if term.set_by else ""
                lines.append(f"  {term.name:22} {size_text(term.num_bytes):>9}{flags}")
    lines += [f"{'libraries':24} {size_text(plan.libraries):>9}", "", _verdict(plan)]
    if plan.largest_microbatch is not None:
        lines.append(f"Largest --max_microbatch_tokens that fits: {plan.largest_microbatch}.")
    if plan.remedies:
        lines += ["It would fit, or nearly, with", *(f"  {each}" for each in plan.remedies)]
    return "\n".join(lines)


def _verdict(plan: MemoryPlan) -> str:
    several = f" in {plan.num_processes} processes" if plan.num_processes > 1 else ""
    needed = f"Needed on {plan.device}{several}: {size_text(plan.needed)}"
    if plan.available is None:
        return f"{needed}; how much there is, this system does not tell."
    outcome = "fits" if plan.fits else "DOES NOT FIT"
    return f"{needed}, available {size_text(plan.available)}: {outcome}."


def print_plan(config: TrainConfig, form: str, roles: Sequence[str] = ()) -> int:
    """Print the plan as "text" or "json", in the first process; return 0 if it fits, else 1.

    roles: of a team, where `roles_of_run` names them.
    """
    plan = make_plan(config, roles)
    plan = plan._replace(remedies=remedies(plan, config, roles))
    announce(json.dumps(plan.as_json(), indent=2) if form == "json" else plan_text(plan))
    return 0 if plan.fits else 1
