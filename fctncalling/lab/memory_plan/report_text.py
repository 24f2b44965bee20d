"""The memory plan as text."""

from __future__ import annotations

from fctncalling.lab.memory_plan.phases import MemoryPlan
from fctncalling.lab.memory_plan.remedies import size_text


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
