"""Base of BFCL's memory tools.

Their limits, their initial content, and what a model is shown of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fctncalling.envs.tools import bfcl_table
from fctncalling.envs.tools.bfcl.memory_replay import Conversations, frozen

Result = dict[str, Any]

_TABLE = bfcl_table("memory")


class MemoryLimits(NamedTuple):
    """Size limits of one part of a memory."""

    max_entries: int
    max_chars: int  # of one entry


CORE = MemoryLimits(**_TABLE["core"])
ARCHIVAL = MemoryLimits(**_TABLE["archival"])
MAX_SUMMARY_CHARS: int = _TABLE["rec_sum"]["max_chars"]
ENCODER: str = _TABLE["encoder"]

_TWO_PARTS = (
    "You have a memory that outlasts this conversation, in two parts. Core memory is small and "
    "always shown to you; "
    "archival memory holds far more and is read by calls only. Keep in it whatever later "
    "conversations may need, "
    "and look there before you answer what was said in earlier ones."
)
_ONE_TEXT = (
    "You have a memory that outlasts this conversation: one text, shown to you here. Keep in it "
    "whatever later "
    "conversations may need, and look there before you answer what was said in earlier ones."
)


def initial_memory(scenario: dict[str, Any]) -> tuple[dict[str, Any] | None, Conversations]:
    """Return how a memory begins: a snapshot to take over, or conversations to take notes of.

    Raises ValueError where the snapshot is no object or the conversations are no lists of texts.
    """
    snapshot, conversations = scenario.get("snapshot"), scenario.get("conversations", [])
    if snapshot is not None and not isinstance(snapshot, dict):
        raise ValueError(
            f"snapshot: expected an object, the public state of such a memory, got {snapshot!r:.80}"
        )
    if not all(isinstance(text, str) for texts in conversations for text in texts):
        raise ValueError(
            "conversations: expected a list of conversations, each a list of the user's messages"
        )
    return snapshot, () if snapshot is not None else frozen(conversations)


def shown(scenario_name: str, content: str, *, two_parts: bool) -> str:
    """Return what a model is shown of a memory before its first call."""
    role: str = _TABLE["roles"].get(scenario_name, "")
    held = "Core memory" if two_parts else "Memory"
    text = f"{held} holds:\n{content}" if content else f"{held} is empty."
    return "\n\n".join(filter(None, [role, _TWO_PARTS if two_parts else _ONE_TEXT, text]))
