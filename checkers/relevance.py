"""BFCL's relevance checkers: whether an answer holds a call at all; which one is never looked at."""

from __future__ import annotations

from typing import Any

from fctncalling.checkers.ast_checker import format_fault
from fctncalling.checkers.python_values import Fault


def contains_call(record: Any) -> bool:
    """Whether a decoded answer holds a well-formed call; text that does not decode counts as none."""
    return format_fault(record) is None and len(record) > 0


def irrelevance_fault(record: Any) -> Fault | None:
    """Return why an answer is wrong where no offered function helps: it calls one."""
    return (
        Fault("irrelevance_error:decoder_success", "no call was expected")
        if contains_call(record)
        else None
    )


def relevance_fault(record: Any) -> Fault | None:
    """Return why an answer is wrong where an offered function helps: it calls none."""
    return (
        None
        if contains_call(record)
        else Fault("relevance_error:decoder_failed", "a call was expected")
    )
