"""Parse an assistant message into calls, or an error."""

from __future__ import annotations

from typing import Any, NamedTuple

from fctncalling.data.types import Call
from fctncalling.envs.handlers import DecodeError, Handler


class ParsedMessage(NamedTuple):
    """A parsed assistant message."""

    calls: tuple[Call, ...]
    executed: tuple[str, ...]  # call strings for the tools; empty for a task that executes nothing
    record: Any  # BFCL's decoded form, for the single-turn checkers; None where decoding failed
    error: str | None  # "no_call", "malformed", or None where there are calls
    complaint: str  # the decoder's, "" where there is none
    repairs: tuple[str, ...] = ()  # what a lenient mode mended before it read the calls


def parse_message(handler: Handler, text: str, *, executes: bool) -> ParsedMessage:
    """Parse a message.

    Raises only for a missing extra: anything else a decoder meets is the model's mistake.

    Were a decoder's crash taken for failed infrastructure, a policy could learn to have its bad
    episodes dropped.
    """
    record: Any = None
    try:
        action = handler.decode_action(text)
        record = None if executes else action.record
        calls = action.calls
        executed = action.call_strings if executes else ()
    except DecodeError as error:
        return _unparsed(handler, text, record, error.message)
    except ImportError:
        raise  # an extra that is not installed is nobody's answer
    except Exception as error:
        return _unparsed(handler, text, record, f"{type(error).__name__}: {error}")
    no_call = None if calls else "no_call"
    return ParsedMessage(calls, executed, record, no_call, "", action.repairs)


def _unparsed(handler: Handler, text: str, record: Any, message: str) -> ParsedMessage:
    return ParsedMessage(
        (), (), record, "malformed" if _recognises(handler, text) else "no_call", message
    )


def _recognises(handler: Handler, text: Any) -> bool:
    """Whether a text that cannot be read looks like calls.

    What a result file holds in its place is none.
    """
    try:
        return isinstance(text, str) and handler.recognises(text)
    except ImportError:
        raise  # an extra that is not installed is nobody's answer
    except Exception:
        return True  # such as deep nesting, which only calls have
