"""BFCL's JSON and tagged return formats (format sensitivity), decoded as BFCL does, bug for bug.

BFCL first strips backticks, line breaks and blanks and puts "[" and "]" around the text, whatever
the format, and then looks for the tag (where one was asked for) and for the calls in it; hence text
around them does no harm. Its regular expressions are replaced by searches that find the same and
never take longer than the text is long.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from fctncalling.data.types import Call
from fctncalling.envs.handlers.call_format import (
    CallFormat,
    Record,
    escape_in_json,
    skip_blanks,
    to_json,
)
from fctncalling.envs.handlers.handler import (
    DecodeError,
    require_readable_text,
    require_shallow_nesting,
)
from fctncalling.envs.handlers.python_calls import (
    PythonCalls,
    calls_of_expression,
    multi_turn_call_strings,
)

OPEN_TAG, CLOSE_TAG = "<TOOLCALL>", "</TOOLCALL>"
_FENCE = "`\n "
_NAMED_FUNCTION = re.compile(r'"function"\s*:\s*"')


class ReturnFormat(CallFormat):
    """Base class of the return formats of BFCL's format sensitivity.

    `tagged` where calls must be inside <TOOLCALL> and </TOOLCALL>.
    """

    format: str  # BFCL's name of it

    def __init__(self, *, tagged: bool) -> None:
        self.tagged = tagged
        self.name = f"bfcl_{self.format}{'_tagged' if tagged else ''}"

    def recognises(self, text: str) -> bool:
        """Whether the format recognises the text: what opens calls is there, behind the tag."""
        before, tag, inside = text.partition(OPEN_TAG)
        if not self.tagged:
            return self.has_call_syntax(before)
        inside = inside.lstrip().removeprefix("```json").removeprefix("```xml").lstrip(_FENCE)
        return tag != "" and self.begins_like_calls(inside) and self.has_call_syntax(inside)

    def decode_ast(self, text: str) -> Record:
        """Decode a text as BFCL's AST decoder does, to its record; raises DecodeError."""
        require_readable_text(text)
        text = text.strip(_FENCE)
        text = text if text.startswith("[") else f"[{text}"
        text = text if text.endswith("]") else f"{text}]"
        return self.decode_untagged(_inside_tag(text) if self.tagged else text)

    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield candidate texts of calls, tagged where that is wanted."""
        for text in self.untagged_candidate_texts(calls):
            yield f"{OPEN_TAG}{text}{CLOSE_TAG}" if self.tagged else text

    @abstractmethod
    def has_call_syntax(self, text: str) -> bool:
        """Whether the text has the syntax that opens calls of this format."""

    @abstractmethod
    def begins_like_calls(self, text: str) -> bool:
        """Whether the text begins like calls of this format: by its first character."""

    @abstractmethod
    def decode_untagged(self, text: str) -> Record:
        """Decode untagged: a text without its tag, to a record; raises DecodeError."""

    @abstractmethod
    def untagged_candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield untagged candidate texts of calls, the canonical one first."""


def _inside_tag(text: str) -> str:
    start = text.find(OPEN_TAG)
    end = text.find(CLOSE_TAG, start + len(OPEN_TAG))
    if start < 0 or end < 0:
        raise DecodeError("shape", f"expected calls between {OPEN_TAG} and {CLOSE_TAG}")
    return text[start + len(OPEN_TAG) : end].strip()


class TaggedPythonReturn(ReturnFormat):
    """Tagged Python return, a format: a list of calls between tags; without tags PythonCalls."""

    format = "python"

    def __init__(self) -> None:
        super().__init__(tagged=True)

    def has_call_syntax(self, text: str) -> bool:
        """Whether the text has call syntax: an opening parenthesis."""
        return "(" in text

    def begins_like_calls(self, text: str) -> bool:
        """Whether the text begins like Python calls: neither with XML nor a JSON object."""
        return not text.startswith("<") and not text.removeprefix("[").lstrip().startswith("{")

    def decode_untagged(self, text: str) -> Record:
        """Decode untagged: the calls of one expression; raises DecodeError."""
        return calls_of_expression(text)

    def call_strings(self, calls: Sequence[Call]) -> list[str]:
        """Return the call strings, as BFCL executes them; raises DecodeError."""
        return multi_turn_call_strings(calls)

    def untagged_candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield untagged candidate texts: the prompting form."""
        text = PythonCalls().render(calls)
        yield text
        yield text.replace("<", "\\x3c")  # in a string, where alone it can stand


class JsonReturn(ReturnFormat):
    """JSON return, a format: a list of {"function", "parameters"}, fenced.

    Malformed JSON holds no calls and is no error. A list in an argument whose last item is an
    object ends the calls for BFCL, so such calls cannot be written.
    """

    format = "json"

    def has_call_syntax(self, text: str) -> bool:
        """Whether the text has call syntax: both keys of a call, the function as text."""
        return '"parameters"' in text and _NAMED_FUNCTION.search(text) is not None

    def begins_like_calls(self, text: str) -> bool:
        """Whether the text begins like JSON calls: with an object, or a list of them."""
        return text.removeprefix("[").lstrip().startswith("{")

    def decode_untagged(self, text: str) -> Record:
        """Decode untagged: the first thing in brackets that could list objects.

        Raises DecodeError.
        """
        start, end = text.find("["), text.rfind("]")
        if 0 <= start < end:
            text = text[start : end + 1]
        try:
            listed = json.loads(first_list_of_objects(text))
        except json.JSONDecodeError:
            return []
        except (ValueError, RecursionError) as error:  # digits or depth without end
            raise DecodeError("size", f"more than is read: {error}") from None
        require_shallow_nesting(listed, text)
        if not isinstance(listed, list | dict | str):
            raise DecodeError("shape", "expected a list of calls")
        return [_function_call(each) for each in listed if isinstance(each, dict)]

    def untagged_candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield untagged candidate texts: the fenced list, then with marks escaped."""
        text = to_json(
            [{"function": call.name, "parameters": dict(call.arguments)} for call in calls]
        )
        yield f"```json\n{text}\n```"
        yield f"```json\n{escape_in_json(text)}\n```"


def _function_call(each: dict[str, Any]) -> dict[Any, Any]:
    if "function" not in each or "parameters" not in each:
        raise DecodeError("shape", 'expected each call as {"function": ..., "parameters": ...}')
    if isinstance(each["function"], list | dict):
        raise DecodeError("shape", "expected the function's name as text")
    return {each["function"]: each["parameters"]}


def first_list_of_objects(text: str) -> str:
    r"""Return the first list of JSON objects in a text, else the whole text.

    BFCL's pattern is `\[\s*{.*?}\s*(?:,\s*{.*?}\s*)*\]`, where the dot matches all.

    Brackets and braces are not paired: from "[{" on, the list ends behind the first "}" that "]"
    follows, or that ", {" follows from where the same holds. Read from right to left, each of them
    is looked at once.
    """
    found: tuple[int, int] | None = None
    # where the list ends for the first "}", of those behind, that can end an object
    following: int | None = None
    after_open: dict[int, int | None] = {}  # index of "{" -> that, seen from there
    for index in reversed([index for index, character in enumerate(text) if character in "{}["]):
        if text[index] == "{":
            after_open[index] = following
        elif text[index] == "}":
            end = _end_behind(text, index, after_open)
            following = following if end is None else end
        else:
            end = after_open.get(skip_blanks(text, index + 1))
            found = found if end is None else (index, end)
    return text if found is None else text[found[0] : found[1]]


def _end_behind(text: str, brace: int, after_open: dict[int, int | None]) -> int | None:
    index = skip_blanks(text, brace + 1)
    if text[index : index + 1] == "]":
        return index + 1
    if text[index : index + 1] == ",":
        return after_open.get(skip_blanks(text, index + 1))
    return None
