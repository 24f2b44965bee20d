"""What went wrong in one step, in the environment's own words (`info["error"]`); BFCL's verdict never depends on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from fctncalling.data.types import Call, FunctionDoc, StepRecord

ERRORS = ("no_call", "malformed", "unknown_function", "bad_arguments", "tool_error", "step_limit")
EXECUTION_ERROR = "Error during execution: "


def mistake(
    step: StepRecord,
    functions: Sequence[FunctionDoc],
    known: Callable[[str], bool],  # whether the tools have a function of this name
) -> str | None:
    """Return the gravest mistake of a step's calls: an unknown function, wrong arguments, a tool's error, or None."""
    docs = {doc.name: doc for doc in functions}
    if any(call.name not in docs and not known(call.name) for call in step.calls):
        return "unknown_function"
    if any(not _arguments_fit(call, docs[call.name]) for call in step.calls if call.name in docs):
        return "bad_arguments"
    return "tool_error" if any(map(is_tool_error, step.results)) else None


def _arguments_fit(call: Call, doc: FunctionDoc) -> bool:
    known = doc.parameters.get("properties", {})
    required = doc.parameters.get("required", ())
    return all(name in known for name in call.arguments) and all(name in call.arguments for name in required)


def is_tool_error(result: str) -> bool:
    """Whether a result text is an exception's, or an object that holds nothing but an error."""
    if result.startswith(EXECUTION_ERROR):
        return True
    if not result.startswith('{"error"'):
        return False
    try:
        return list(json.loads(result)) == ["error"]
    except ValueError:
        return False
