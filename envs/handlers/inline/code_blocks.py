"""Inline Python blocks: OpenRLHF's `<PYTHON>...</PYTHON>`, and Markdown's fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from fctncalling.data.types import Call
from fctncalling.envs.handlers.inline.inline_calls import CallBlock, InlineCalls

EXECUTOR, CODE = "python_executor", "code"  # the tool and its parameter


class CodeBlocks(InlineCalls):
    """Base class of code blocks: code between two marks is a call of the Python executor."""

    _begin: str  # as it is written
    _end: str

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield the blocks, one below the other."""
        if any(call.name != EXECUTOR or list(call.arguments) != [CODE] for call in calls):
            raise ValueError(
                f"a code block calls {EXECUTOR} with {CODE}; got {[call.name for call in calls]}"
            )
        yield "\n".join(f"{self._begin}\n{call.arguments[CODE]}\n{self._end}" for call in calls)

    def _block(self, start: int, end: int, inside: str) -> CallBlock:
        code = inside.strip()
        record: dict[Any, Any] | None = {EXECUTOR: {CODE: code}} if code else None
        return CallBlock(start, end, record, "" if code else "the block holds no code")


class PythonBlocks(CodeBlocks):
    """OpenRLHF's <PYTHON> tags."""

    name = "python_block"
    stop = ("</PYTHON>",)
    tags = ("<PYTHON>", "</PYTHON>", "<PYTHON-OUTPUT>", "</PYTHON-OUTPUT>")
    usage = "<PYTHON>code</PYTHON> runs Python and shows what it prints."
    _begin, _end = "<PYTHON>", "</PYTHON>"
    _opening, _closing = re.compile(_begin), re.compile(_end)

    def respond(self, result: str) -> str:
        """Return the output between its tags."""
        return f"\n<PYTHON-OUTPUT>\n{result}\n</PYTHON-OUTPUT>\n"


class MarkdownBlocks(CodeBlocks):
    """Fenced blocks, as ToolGRPO's models write them; blocks of other languages are no calls."""

    name = "markdown_block"
    stop = ("\n```\n",)
    tags = ("```",)
    usage = "A fenced block of python code is run, and what it prints follows it."
    _begin, _end = "```python", "```"
    _opening = re.compile(r"^```(?:python|py)[ \t]*$", re.MULTILINE)
    _closing = re.compile(r"^```[ \t]*(?:\n|\Z)", re.MULTILINE)

    def respond(self, result: str) -> str:
        """Return the output as a fenced block of its own."""
        return f"```output\n{result}\n```\n"
