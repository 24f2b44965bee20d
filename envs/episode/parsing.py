"""Parser of assistant messages, error classes of a step, and corrective feedback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from fctncalling.data.types import Call, FunctionDoc, StepRecord
from fctncalling.envs.handlers import DecodeError, Handler, bears_call, split_thought
from fctncalling.envs.handlers.thoughts import SplitThought
from fctncalling.envs.prompting.prompts import JSON_TYPES


class ParsedMessage(NamedTuple):
    """Parsed message of the assistant: its calls, or why there are none."""

    calls: tuple[Call, ...]
    executed: tuple[str, ...]  # call strings for the tools; empty for a task that executes nothing
    record: Any  # BFCL's decoded form, for the single-turn checkers; None where decoding failed
    error: str | None  # "no_call", "malformed", "unread_call", or None where there are calls
    complaint: str  # the decoder's, "" where there is none
    repairs: tuple[str, ...] = ()  # what a lenient mode mended before it read the calls


def parse_message(
    handler: Handler, text: str, *, executes: bool, functions: Sequence[FunctionDoc] = ()
) -> ParsedMessage:
    """Parse an assistant message with a handler, after its thought.

    Raises only for a missing extra: anything else a decoder meets is the model's mistake.

    If a decoder's crash counted as failed infrastructure, a policy could learn to get its bad
    episodes dropped.
    """
    record: Any = None
    split = split_thought(text)
    try:
        action = handler.decode_action(split.rest, functions)
        record = None if executes else action.record
        calls = action.calls
        executed = action.call_strings if executes else ()
    except DecodeError as error:
        return _unparsed(handler, split, record, error.message)
    except ImportError:
        raise  # an extra that is not installed is nobody's answer
    except Exception as error:
        return _unparsed(handler, split, record, f"{type(error).__name__}: {error}")
    if not calls:
        return _without_calls(split, record, "", "no_call")
    return ParsedMessage(calls, executed, record, None, "", action.repairs)


def _unparsed(handler: Handler, split: SplitThought, record: Any, message: str) -> ParsedMessage:
    error = "malformed" if _recognises(handler, split.rest) else "no_call"
    return _without_calls(split, record, message, error)


def _without_calls(
    split: SplitThought, record: Any, complaint: str, otherwise: str
) -> ParsedMessage:
    """Return a message without calls; "unread_call" if a call opens and cannot be read."""
    if not isinstance(split.rest, str) or not bears_call(split):
        return ParsedMessage((), (), record, otherwise, complaint)
    return ParsedMessage((), (), record, "unread_call", complaint or "the call cannot be read")


def _recognises(handler: Handler, text: Any) -> bool:
    """Whether an undecodable text looks like calls.

    A value in a result file that is no text does not.
    """
    try:
        return isinstance(text, str) and handler.recognises(text)
    except ImportError:
        raise  # an extra that is not installed is nobody's answer
    except Exception:
        return True  # such as deep nesting, which only calls have


ERRORS = (
    "no_call",
    "malformed",
    "unread_call",
    "unknown_function",
    "bad_arguments",
    "tool_error",
    "step_limit",
)
UNREAD = ("malformed", "unread_call")
"""Errors of messages in which calls were tried and none can be read."""
EXECUTION_ERROR = "Error during execution: "
MAX_QUOTED = 80  # characters of a name of the model's that are repeated to it
MAX_NAMES = 5  # and how many of such names


def classify_error(
    step: StepRecord,
    functions: Sequence[FunctionDoc],
    has_function: Callable[[str], bool],
) -> str | None:
    """Return the worst error of a step: unknown_function, bad_arguments, tool_error or None.

    The words are `info["error"]` and, where corrective feedback is on, what follows a wrong call's
    result. BFCL's verdict depends on neither.
    """
    docs = {doc.name: doc for doc in functions}
    if any(call.name not in docs and not has_function(call.name) for call in step.calls):
        return "unknown_function"
    described = [(call, docs[call.name]) for call in step.calls if call.name in docs]
    if any(any(_argument_name_errors(call, doc)) for call, doc in described):
        return "bad_arguments"
    return "tool_error" if any(map(is_tool_error, step.results)) else None


def add_corrections(
    step: StepRecord, offered: Sequence[FunctionDoc], has_function: Callable[[str], bool]
) -> tuple[str, ...]:
    """Append advice to the result of each wrong call of a step.

    `offered`: the functions of its turn. Where calls and results do not pair up (a call inside
    another's arguments) the results stay as they are.
    """
    if len(step.calls) != len(step.results):
        return tuple(step.results)
    docs = {doc.name: doc for doc in offered}
    pairs = zip(step.calls, step.results, strict=True)
    advice = (
        (result, " ".join(_advice(call, docs, has_function, is_tool_error(result))))
        for call, result in pairs
    )
    return tuple(f"{result}\n{text}" if text else result for result, text in advice)


def _advice(
    call: Call, docs: dict[str, FunctionDoc], has_function: Callable[[str], bool], failed: bool
) -> Iterator[str]:
    """Yield sentences on how to correct a call; none if its doc and its tool accept it."""
    doc = docs.get(call.name)
    if doc is None:
        if not has_function(call.name):
            like = ", ".join(get_close_matches(_quoted(call.name), docs, n=3, cutoff=0.0)) or "none"
            yield (
                f'There is no function "{_quoted(call.name)}"; offered and nearest in name: {like}.'
            )
        return
    missing, unexpected = _argument_name_errors(call, doc)
    properties = doc.parameters.get("properties", {})
    if missing:
        yield (
            f"{doc.name} lacks "
            f"{', '.join(f'{name} ({_expected(properties.get(name, {}))})' for name in missing)}."
        )
    if unexpected:
        takes = ", ".join(properties) or "no parameters"
        yield (
            f"{doc.name} has no parameter {', '.join(map(_quoted, unexpected[:MAX_NAMES]))}; it "
            f"takes {takes}."
        )
    if missing or unexpected or failed:
        for name, value in call.arguments.items():
            if name in properties and not _has_type(value, properties[name]):
                yield (
                    f"{name} must be of type {_expected(properties[name])}, not "
                    f"{_type_name(value)}."
                )


def _argument_name_errors(call: Call, doc: FunctionDoc) -> tuple[list[str], list[str]]:
    """Return a call's missing parameters, and its arguments that are not documented."""
    documented, required = doc.parameters.get("properties", {}), doc.parameters.get("required", ())
    return [name for name in required if name not in call.arguments], [
        n for n in call.arguments if n not in documented
    ]


def _expected(schema: dict[str, Any]) -> str:
    """Return a parameter's JSON Schema type; "any" if its doc has none."""
    return JSON_TYPES.get(schema.get("type", ""), "any")


def _has_type(value: object, schema: dict[str, Any]) -> bool:
    expected, actual = _expected(schema), _type_name(value)
    return expected in ("any", actual) or (expected, actual) == ("number", "integer")


def _type_name(value: object) -> str:
    """Return the JSON Schema type of a literal."""
    if value is None:
        return "null"
    return JSON_TYPES.get(type(value).__name__, type(value).__name__)


def _quoted(name: str) -> str:
    return name if len(name) <= MAX_QUOTED else name[:MAX_QUOTED] + "..."


def is_tool_error(result: str) -> bool:
    """Whether a result text is an exception's, or a JSON object with "error" alone."""
    if result.startswith(EXECUTION_ERROR):
        return True
    if not result.startswith('{"error"'):
        return False
    try:
        return list(json.loads(result)) == ["error"]
    except ValueError:
        return False
