"""Inline calls: generation pauses after each and continues with its result."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from fctncalling.envs.handlers.call_format import CallFormat, Record, calls_of
from fctncalling.envs.handlers.handler import DecodeError, require_readable

_RESULT = re.compile(r"\b[Rr]esult[ \t]*=[ \t]*")


class CallBlock(NamedTuple):
    """One closed block of a text that is meant as a call."""

    start: int
    end: int  # behind its closing mark
    record: dict[Any, Any] | None  # {name: {parameter: value}}; None where the block is no call
    complaint: str = ""  # why it is none


MessageOutcome = Literal["answer", "continue", "end", "step_limit"]


class Pause(NamedTuple):
    """State of an unfinished message where generation paused.

    call: its block is closed, the result is due. submit: the policy is done. open: generation
    paused at a mark that means nothing here, as inside a block that is still open, and goes on.
    end: the policy stopped without a call.
    """

    kind: Literal["call", "submit", "open", "end"]
    block: CallBlock | None = None

    def outcome(self, *, calls_left: bool, pauses_left: bool) -> MessageOutcome:
        """Return how the message goes on: the rule of every environment with inline calls.

        A call is answered while the limit of calls allows it, a pause that means nothing goes on
        while that of pauses does; the policy's own end is no limit's.
        """
        if self.kind == "call":
            return "answer" if calls_left else "step_limit"
        if self.kind == "open":
            return "continue" if pauses_left else "step_limit"
        return "end"


class InlineCalls(CallFormat):
    """Base class of inline call syntaxes; they read the policy's own text alone, never a tool's.

    A block reaches from its opening mark to the first closing mark behind it, so code that holds
    its own closing mark cannot be written: `render` refuses it.
    """

    continuation = "text"  # what the environment answers is appended raw to the unfinished message
    stop: tuple[str, ...]  # strings at which generation pauses
    tags: tuple[
        str, ...
    ]  # marks that only the policy and the environment may write: broken in what tools say
    submit: str = ""  # the mark that ends the episode; "" where the end of the message does
    usage: str  # one line for the model: how to call
    _opening: re.Pattern[str]
    _closing: re.Pattern[str]

    @abstractmethod
    def respond(self, result: str) -> str:
        """Return what is appended to the message behind a call."""

    @abstractmethod
    def _block(self, start: int, end: int, inside: str) -> CallBlock:
        """Return what stands between an opening and a closing mark."""

    def pause(self, text: str, start: int = 0) -> Pause:
        """Return the state of the policy's text since the last result.

        Its last action begins at `start`.
        """
        opened = self._opening.search(text)
        submitted = text.find(self.submit) if self.submit else -1
        if submitted >= 0 and (opened is None or submitted < opened.start()):
            return Pause("submit")
        block = next(self.blocks(text), None)
        if block is not None:
            return Pause("call", block)
        return Pause("open" if any(stop in text[start:] for stop in self.stop) else "end")

    def blocks(self, text: str) -> Iterator[CallBlock]:
        """Yield the closed blocks of a text in order."""
        end = 0
        while opened := self._opening.search(text, end):
            closed = self._closing.search(text, opened.end())
            if closed is None:
                return
            end = closed.end()
            yield self._block(opened.start(), end, text[opened.end() : closed.start()])

    def text_without_calls(self, text: str) -> str:
        """Return the text of a message outside its calls, an open one included."""
        parts, end = [], 0
        for block in self.blocks(text):
            parts.append(text[end : block.start])
            end = block.end
        rest = text[end:]
        opened = self._opening.search(rest)
        return "".join([*parts, rest if opened is None else rest[: opened.start()]])

    def answer(self, text: str) -> str:
        """Return the final answer: the submitted text, or the part of it behind `Result =`."""
        words = self.text_without_calls(text)
        if self.submit:
            words = words.partition(self.submit)[0]
        results = _RESULT.split(words)
        return results[-1].strip()

    def recognises(self, text: str) -> bool:
        """Whether a block opens in the text."""
        return self._opening.search(text) is not None

    def decode_ast(self, text: str) -> Record:
        """Return the calls of the closed blocks of a message.

        Raises DecodeError where a block is none.
        """
        require_readable(text)
        record: Record = []
        for block in self.blocks(text):
            if block.record is None:
                raise DecodeError("shape", block.complaint)
            record.append(block.record)
        calls_of(record)
        return record
