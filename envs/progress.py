"""Progress: the share of an answer's scored turns that pass, beside BFCL's all-or-nothing verdict."""

from __future__ import annotations

from fctncalling.data.types import Task, Verdict
from fctncalling.envs.rewards import scored_turns


def progress_of(task: Task, verdict: Verdict) -> float:
    """Return the share of scored turns that pass, 0..1, each judged for itself; 1 for every valid answer."""
    if verdict.valid:
        return 1.0
    scored = [
        passed
        for passed, counts in zip(verdict.per_turn, scored_turns(task), strict=False)
        if counts
    ]
    return sum(scored) / len(scored) if scored and task.is_multi_turn else 0.0
