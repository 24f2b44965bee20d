"""BFCL's agentic checker: whether the last message of an episode mentions an accepted answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fctncalling.checkers.python_values import Fault

NOT_ONE_TURN = object()
"""The record of an answer that is not one turn of messages."""

_INFERENCE = Fault("agentic:inference_error", "the answer is not a list of one turn")
_NO_MESSAGE = Fault("agentic:no_last_message", "no message is left that calls nothing")
_IGNORED = re.compile(r"[,./\-_*^()]")


def standardize_string(text: str) -> str:
    """Lower a string and drop , . / - _ * ^ ( ) as BFCL does to compare agentic answers."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def answer_fault(record: Any, accepted: Sequence[Any]) -> Fault | None:
    """Return the fault of a final answer that contains none of the accepted ones.

    A mention between word borders is enough, a negated one too. `record` is that message (a
    one-element list of it counts as well), None or empty where there is none, NOT_ONE_TURN where
    the answer has the wrong shape.
    """
    if record is NOT_ONE_TURN:
        return _INFERENCE
    if not record:
        return _NO_MESSAGE
    text = standardize_string(str(record[0] if isinstance(record, list) else record))
    if any(
        re.search(rf"\b{re.escape(standardize_string(str(answer)))}\b", text) for answer in accepted
    ):
        return None
    return Fault(
        "agentic:answer_not_found", f"none of {list(accepted)} is mentioned in the last message"
    )
