"""Calls inside a message, such as tags and code blocks: when to pause, what to append."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from fctncalling.data.types import Call
from fctncalling.envs.handlers.call_forms import CALL_FORMS
from fctncalling.envs.handlers.form_calls import FormCalls
from fctncalling.envs.handlers.handler import (
    CallFormat,
    DecodeError,
    Record,
    parse_call_object,
    parse_json,
    require_readable_text,
)

_RESULT = re.compile(r"\b[Rr]esult[ \t]*=[ \t]*")


class CallBlock(NamedTuple):
    """Block of a text that is meant as a call, from opening to closing mark."""

    start: int
    end: int  # behind its closing mark
    record: dict[Any, Any] | None  # {name: {parameter: value}}; None where the block is no call
    complaint: str = ""  # why it is none


MessageOutcome = Literal["answer", "continue", "end", "step_limit"]


class PausedMessage(NamedTuple):
    """State of an unfinished message at which generation paused.

    call: its block is closed, the result is due. submit: the policy is done. open: generation
    paused at a mark that means nothing here, as inside a block that is still open, and goes on.
    end: the policy stopped without a call.
    """

    kind: Literal["call", "submit", "open", "end"]
    block: CallBlock | None = None

    def outcome(self, *, calls_left: bool, pauses_left: bool) -> MessageOutcome:
        """Return the outcome of the pause: message answered, continued, ended, or over a limit.

        A call is answered while the limit of calls allows it, a pause that means nothing goes on
        while that of pauses does; the policy's own end is no limit's.
        """
        if self.kind == "call":
            return "answer" if calls_left else "step_limit"
        if self.kind == "open":
            return "continue" if pauses_left else "step_limit"
        return "end"


class InlineCalls(CallFormat):
    """Base class of syntaxes of calls inside a message; results are appended to it.

    A block reaches from its opening mark to the first closing mark behind it, so code that holds
    its own closing mark cannot be written: `render` refuses it.
    """

    continuation = "text"  # what the environment answers is appended raw to the unfinished message
    stop: tuple[str, ...]  # strings at which generation pauses
    # marks that only the policy and the environment may write: broken in what tools say
    tags: tuple[str, ...]
    submit: str = ""  # the mark that ends the episode; "" where the end of the message does
    usage: str  # one line for the model: how to call
    around_result: tuple[str, str]  # what stands before and behind a result
    _opening: re.Pattern[str]
    _closing: re.Pattern[str]

    def format_result(self, result: str) -> str:
        """Format a result for appending to the message after its call."""
        before, after = self.around_result
        return f"{before}{result}{after}"

    @abstractmethod
    def _block(self, start: int, end: int, inside: str) -> CallBlock:
        """Parse the text between an opening and a closing mark."""

    def paused_message(self, text: str, start: int = 0) -> PausedMessage:
        """Classify the policy's text since the last result as a paused message.

        Its last action begins at `start`.
        """
        opened = self._opening.search(text)
        submitted = text.find(self.submit) if self.submit else -1
        if submitted >= 0 and (opened is None or submitted < opened.start()):
            return PausedMessage("submit")
        block = next(self.closed_blocks(text), None)
        if block is not None:
            return PausedMessage("call", block)
        return PausedMessage("open" if any(stop in text[start:] for stop in self.stop) else "end")

    def closed_blocks(self, text: str) -> Iterator[CallBlock]:
        """Yield the closed call blocks of a text, in order."""
        end = 0
        while opened := self._opening.search(text, end):
            closed = self._closing.search(text, opened.end())
            if closed is None:
                return
            end = closed.end()
            yield self._block(opened.start(), end, text[opened.end() : closed.start()])

    def text_without_calls(self, text: str) -> str:
        """Remove calls from a message, an unclosed one too."""
        words, end = "", 0
        for block in self.closed_blocks(text):
            words += text[end : block.start]
            end = block.end
        return words + self._opening.split(text[end:], maxsplit=1)[0]

    def final_answer(self, text: str) -> str:
        """Return the final answer of a message: the submitted text, or what follows `Result =`."""
        words = self.text_without_calls(text)
        answer = words.partition(self.submit)[0] if self.submit else words
        return _RESULT.split(answer)[-1].strip()

    def recognises(self, text: str) -> bool:
        """Whether a block of the syntax opens in the text."""
        return self._opening.search(text) is not None

    def decode_ast(self, text: str) -> Record:
        """Decode a message to the record of its closed blocks.

        Raises DecodeError where a block is none.
        """
        require_readable_text(text)
        record: Record = []
        for block in self.closed_blocks(text):
            if block.record is None:
                raise DecodeError("shape", block.complaint)
            record.append(block.record)
        return record


EXECUTOR, CODE = "python_executor", "code"  # the tool and its parameter


class CodeBlocks(InlineCalls):
    """Base class of code blocks; each is a call of the Python executor."""

    _begin: str  # as it is written
    _end: str

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: the blocks, one below the other."""
        if any(call.name != EXECUTOR or list(call.arguments) != [CODE] for call in calls):
            raise ValueError(
                f"a code block calls {EXECUTOR} with {CODE}; got {[call.name for call in calls]}"
            )
        yield "\n".join(f"{self._begin}\n{call.arguments[CODE]}\n{self._end}" for call in calls)

    def _block(self, start: int, end: int, inside: str) -> CallBlock:
        code = inside.strip()
        record: dict[Any, Any] | None = {EXECUTOR: {CODE: code}} if code else None
        return CallBlock(start, end, record, "" if code else "the block holds no code")


class PythonXmlBlocks(CodeBlocks):
    """Code between OpenRLHF's <PYTHON> tags."""

    name = "python_block"
    stop = ("</PYTHON>",)
    tags = ("<PYTHON>", "</PYTHON>", "<PYTHON-OUTPUT>", "</PYTHON-OUTPUT>")
    usage = "<PYTHON>code</PYTHON> runs Python and shows what it prints."
    around_result = ("\n<PYTHON-OUTPUT>\n", "\n</PYTHON-OUTPUT>\n")
    _begin, _end = "<PYTHON>", "</PYTHON>"
    _opening, _closing = re.compile(_begin), re.compile(_end)


class MarkdownBlockCalls(CodeBlocks):
    """Code in Markdown fences, as ToolGRPO's models write it."""

    name = "markdown_block"
    stop = ("\n```\n",)
    tags = ("```",)
    usage = "A fenced block of python code is run, and what it prints follows it."
    around_result = ("```output\n", "\n```\n")
    _begin, _end = "```python", "```"
    _opening = re.compile(r"^```(?:python|py)[ \t]*$", re.MULTILINE)
    _closing = re.compile(r"^```[ \t]*(?:\n|\Z)", re.MULTILINE)


_HERMES = FormCalls(CALL_FORMS["hermes_calls"])


class InlineHermesCalls(InlineCalls):
    """Calls in Hermes' form: a JSON object of name and arguments between tags."""

    name = "hermes_text"
    stop = ("</tool_call>",)
    tags = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    usage = '<tool_call>{"name": ..., "arguments": {...}}</tool_call> calls a tool.'
    around_result = ("\n<tool_response>\n", "\n</tool_response>\n")
    _opening, _closing = re.compile("<tool_call>"), re.compile("</tool_call>")

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield candidate texts, those of Hermes' handler of whole messages."""
        return _HERMES.candidate_texts(calls)

    def _block(self, start: int, end: int, inside: str) -> CallBlock:
        try:
            return CallBlock(start, end, parse_call_object(parse_json(inside), "arguments"))
        except DecodeError as error:
            return CallBlock(start, end, None, error.message)


REQUEST, CALL, RESPONSE, SUBMIT = "<request>", "<call>", "<response>", "<submit>"
QUERY = "query"
"""The argument of a request's text, which the environment gives to whatever the tool takes."""

_TOOL = re.compile(r"\s*<([^<>\n]+)>")


class TrlRequestCalls(InlineCalls):
    """Calls as TRL's requests: a tool's name and one text; the marks can be changed.

    `<request><Tool>query<call>`, answered by `result<response>`, ended by `<submit>`.
    """

    name = "request_call"

    def __init__(
        self,
        request: str = REQUEST,
        call: str = CALL,
        response: str = RESPONSE,
        submit: str = SUBMIT,
    ) -> None:
        self.tags = (request, call, response, submit)
        if len(set(self.tags)) < 4 or min(map(len, self.tags)) < 2:
            raise ValueError(
                f"the marks are {self.tags}: expected four different texts of two characters or "
                "more"
            )
        self.stop = (call, submit)
        self.submit = submit
        self.around_result = ("", response)
        self.usage = f"{request}<tool>query{call} calls a tool, Result=answer{submit} ends."
        self._opening = re.compile(re.escape(request))
        self._closing = re.compile(re.escape(call))

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the one candidate text: the requests in order."""
        if any(list(call.arguments) != [QUERY] for call in calls):
            raise ValueError(
                f"a request has one argument, {QUERY}; got "
                f"{[dict(call.arguments) for call in calls]}"
            )
        request, end = self.tags[:2]
        yield "".join(f"{request}<{call.name}>{call.arguments[QUERY]}{end}" for call in calls)

    def _block(self, start: int, end: int, inside: str) -> CallBlock:
        tool = _TOOL.match(inside)
        if tool is None:
            return CallBlock(start, end, None, f"expected {self.tags[0]}<tool>query{self.tags[1]}")
        return CallBlock(start, end, {tool[1]: {QUERY: inside[tool.end() :]}})


TEXT_HANDLERS: dict[str, InlineCalls] = {
    handler.name: handler
    for handler in (TrlRequestCalls(), PythonXmlBlocks(), MarkdownBlockCalls(), InlineHermesCalls())
}
"""Name -> handler of calls in mid-generation, behind which the message goes on."""
