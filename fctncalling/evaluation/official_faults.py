"""Official BFCL tasks whose own ground truth the official checker rejects, and why."""

from __future__ import annotations

from fctncalling.data.types import Task

_MIXED = "the checker leaves items of an ArrayList of mixed types as source text"
_MISNAMED = "the ground truth and the function doc name different parameters"
OFFICIAL_FAULTS = {
    "simple_java_1": (
        "SQLCompletionAnalyzer.makeProposalsFromObject",
        "prompted, the checker loses the body of a HashMap; as a tool call it passes",
    ),
    "simple_java_35": (
        "RedissonConnection.bitOp",
        "prompted, the checker keeps the quotes inside a String[]; as a tool call it passes",
    ),
    "simple_java_36": ("ObjectMapEntryReplayDecoder.decode", _MIXED),
    "simple_java_65": ("RootObjectMapper.doXContent", _MIXED),
    "live_simple_106-63-0": ("record", _MISNAMED),
    "live_simple_112-68-0": ("record", _MISNAMED),
    "live_multiple_862-181-3": ("Trains_1_FindTrains", _MISNAMED),
    "live_multiple_964-207-0": ("transfer_to_human_agent", _MISNAMED),
}
"""Task id -> a function that it offers, which tells it from a user's task of that id, and the
fault.
"""


def official_fault(task: Task) -> str | None:
    """Return why no oracle solves an official task; None for every other task."""
    function, fault = OFFICIAL_FAULTS.get(task.id, ("", None))
    return fault if any(doc.name == function for doc in task.functions) else None
