"""Base classes of call formats (Handler, CallFormat), thoughts set apart, strict JSON helpers."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from inspect import signature
from typing import Any, NamedTuple

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.handlers.call_marks import is_within_call
from fctncalling.envs.python_source.call_source import MAX_NESTED, PlainCall, render_call

Record = list[dict[Any, Any]]
"""BFCL's decoded form: [{function name: {parameter: value}}]."""

_DECODER = json.JSONDecoder()
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
UNREAD = ("malformed", "unread_call")
"""Errors of messages in which calls were tried and none can be read."""
IN_JSON = re.compile(r'"(?>(?:[^"\\]|\\.)*)"?|[()\[\]{}]', re.DOTALL)
IN_PYTHON = re.compile(rf"{IN_JSON.pattern}|'(?>(?:[^'\\]|\\.)*)'?", re.DOTALL)
"""Strings, with or without an end, and brackets."""
MAX_TEXT_CHARS = 65_536
"""Of the longest text that is read, several times what a model says in a turn."""
FENCE = "`\n "
"""Characters that BFCL strips from both ends of a text."""
_BRACKETS = "[{("


class DecodeError(ValueError):
    """Error of a text that does not decode to calls: a model's mistake, hence data.

    `kind` is one of "syntax" (does not parse), "shape" (parses, but is not calls), "value" (an
    argument that is no literal) and "size" (longer or deeper than is read at all).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def require_shallow_nesting(value: Any, text: str) -> None:
    """Raise DecodeError for a value nested deeper than the code can walk."""
    if len(text) <= MAX_NESTED or sum(map(text.count, _BRACKETS)) <= MAX_NESTED:
        return
    level = [value]
    for _ in range(MAX_NESTED + 1):
        level = [
            item
            for container in level
            if isinstance(container, list | tuple | dict)
            for item in (container.values() if isinstance(container, dict) else container)
        ]
    if level:
        raise DecodeError("size", f"nested deeper than {MAX_NESTED} is not read")


class DecodedAction:
    """Decoded message: the record for the checkers, the calls, and their call strings.

    Calls and call strings are derived from the record when they are first needed; either raises
    DecodeError where there is none, for BFCL judges records whose calls no tool can be handed.
    """

    repairs: tuple[str, ...] = ()  # what a lenient handler mended before it read the text
    _calls: tuple[Call, ...] | None = None
    _call_strings: tuple[str, ...] | None = None

    def __init__(
        self,
        record: Any,
        calls_of_record: Callable[[Any], Sequence[Call]],
        call_strings_of: Callable[[Sequence[Call]], Sequence[str]],
        plain: Sequence[PlainCall] | None = None,
    ) -> None:
        self.record = record  # what BFCL's decode_ast returns
        self._calls_of = calls_of_record
        self._call_strings_of = call_strings_of
        self._plain = plain

    @property  # cached_property takes a lock, and more time than decoding most texts
    def calls(self) -> tuple[Call, ...]:
        """Decoded calls in order; their arguments are the record's objects, not copies."""
        if self._calls is None:
            self._calls = tuple(self._calls_of(self.record))
        return self._calls

    @property
    def call_strings(self) -> tuple[str, ...]:
        """Call strings that BFCL hands to the tools, in order."""
        if self._call_strings is None:
            self._call_strings = tuple(self._call_strings_of(self.calls))
        return self._call_strings

    @property
    def executable_calls(self) -> Sequence[str | PlainCall]:
        """Calls to execute: call strings, or plain calls instead.

        Good for one execution, since a tool may change its arguments.
        """
        return self.call_strings if self._plain is None else self._plain


class Handler(ABC):
    """Handler of one call format: text to calls and back; pure, raises only DecodeError."""

    name: str
    is_lenient = False  # whether texts are mended before they are read
    variant: PromptVariant | None = None  # the prompt variant that the handler is of

    @abstractmethod
    def recognises(self, text: str) -> bool:
        """Whether the text looks like the format; cheap, and no promise that it decodes."""

    @abstractmethod
    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode a text to a record, calls and call strings.

        `functions`: those on offer, for the types of values that a form writes as bare text. A
        subclass may leave the parameter out.
        """

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Accept a subclass with a `decode_action` that takes the text alone."""
        super().__init_subclass__(**keywords)
        own = cls.__dict__.get("decode_action")
        if own is not None and len(signature(own).parameters) == 2:
            cls.decode_action = lambda self, text, functions=(): own(self, text)  # type: ignore[method-assign]

    @abstractmethod
    def render(self, calls: Sequence[Call]) -> str:
        """Write calls as the canonical text that decodes to them.

        ValueError where the form cannot say them.
        """

    def decode(self, text: str, functions: Sequence[FunctionDoc] = ()) -> list[Call]:
        """Decode a text to its calls; [] if it states that there are none."""
        return list(self.decode_action(text, functions).calls)

    def decode_ast(self, text: str) -> Any:
        """Decode a text to the record that BFCL's AST checkers judge."""
        return self.decode_action(text).record

    def decode_execute(self, text: str) -> list[str]:
        """Decode a text to the call strings that BFCL hands to the tools, in order."""
        return list(self.decode_action(text).call_strings)


def bfcl_call_strings(calls: Sequence[Call]) -> list[str]:
    """Return call strings of BFCL's prompting form, `name(k=repr(v), ...)`."""
    return [render_call(call.name, call.arguments) for call in calls]


def bracketed(text: str) -> str:
    """Strip the fences around a text and put it in brackets, as BFCL does; DecodeError."""
    require_readable_text(text)
    text = text.strip(FENCE)
    text = text if text.startswith("[") else f"[{text}"
    return text if text.endswith("]") else f"{text}]"


def require_readable_text(text: str) -> None:
    """Raise DecodeError for a value that is no text, or longer than MAX_TEXT_CHARS."""
    if not isinstance(text, str):
        raise DecodeError("shape", f"expected text, got {type(text).__name__}")
    if len(text) > MAX_TEXT_CHARS:
        raise too_large(len(text), "characters", MAX_TEXT_CHARS)


def too_large(size: int, unit: str, most: int) -> DecodeError:
    """Make the error of a text that exceeds a limit."""
    return DecodeError("size", f"the text has {size} {unit}; at most {most} are read")


def named_calls(record: Any) -> list[Call]:
    """Convert a record, [{name: arguments}], to calls.

    Raises DecodeError for a bad name or bad arguments.
    """
    calls = []
    for entry in record:
        name, arguments = next(iter(entry.items()))
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise DecodeError("shape", "expected each call as a name and an object of arguments")
        calls.append(Call(name, arguments))
    return calls


def calls_of_record(record: Any) -> list[Call]:
    """Convert a record with Python values to calls; DecodeError if a value has no repr."""
    calls = named_calls(record)
    try:
        repr(record)
    except (ValueError, RecursionError) as error:  # integers over the interpreter's limit of digits
        raise DecodeError("value", f"an argument has no text: {error}") from None
    return calls


class CallFormat(Handler):
    """Base class of formats that define only how to decode and to write calls.

    A subclass defines `decode_ast` and `candidate_texts`.
    """

    # Whether models have it in their chat template: call strings have no blanks then, as BFCL
    # executes those, and values, which are JSON, all have a text.
    is_native = False

    @abstractmethod
    def decode_ast(self, text: str) -> Record:
        """Decode a text as BFCL's AST decoder does, to its record; raises DecodeError."""

    @abstractmethod
    def candidate_texts(self, calls: Sequence[Call]) -> Iterable[str]:
        """Yield candidate texts of calls, the canonical one first.

        ValueError or TypeError for what has no text.
        """

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode a text to a record, calls and call strings.

        Its calls raise DecodeError also where the record is no list of named calls.
        """
        calls_of = named_calls if self.is_native else calls_of_record
        return DecodedAction(self.decode_ast(text), calls_of, self.call_strings)

    def call_strings(self, calls: Sequence[Call]) -> list[str]:
        """Return the call strings `name(k=repr(v), ...)`, in order; raises DecodeError."""
        if not self.is_native:
            return bfcl_call_strings(calls)
        return [
            f"{call.name}({','.join(f'{key}={value!r}' for key, value in call.arguments.items())})"
            for call in calls
        ]

    def render(self, calls: Sequence[Call]) -> str:
        """Write calls as their canonical text; ValueError if the form cannot express them."""
        expected = repr([Call(call.name, dict(call.arguments)) for call in calls])
        fault: object = "they would not read back: a tuple, a mark or a surrogate pair, perhaps"
        try:
            for text in self.candidate_texts(calls):
                with suppress(DecodeError):
                    if repr(self.decode(text, docs_of_calls(calls))) == expected:
                        return text
        except (TypeError, RecursionError) as error:
            fault = error
        raise ValueError(f"the form {self.name} cannot write the calls {expected[:200]}: {fault}")


def docs_of_calls(calls: Sequence[Call]) -> list[FunctionDoc]:
    """Make docs of functions that accept the calls' arguments."""
    docs: dict[str, dict[str, Any]] = {}
    for call in calls:
        properties = docs.setdefault(call.name, {})
        for key, value in call.arguments.items():
            schema = {"type": "string" if isinstance(value, str) else "any"}
            # without a type where some values are texts and some are not
            properties[key] = schema if properties.get(key, schema) == schema else {}
    return [FunctionDoc(name, "", {"properties": properties}) for name, properties in docs.items()]


def parse_json(text: str) -> Any:
    """Parse a JSON text; raises DecodeError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError("syntax", f"not JSON: {error}") from None
    require_shallow_nesting(value, text)
    return value


def parse_json_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value at an index of a text; return it and its end.

    Raises DecodeError.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise DecodeError("syntax", f"not JSON: {error}") from None
    require_shallow_nesting(value, text[start:end])
    return value, end


def closing_bracket_end(text: str, start: int, tokens: re.Pattern[str] = IN_PYTHON) -> int:
    """Return the index after the bracket that closes the one at `start`.

    The text's end if there is none. `tokens`: brackets, and strings, in which brackets do not
    count.
    """
    depth = 0
    for token in tokens.finditer(text, start):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth == 0:
            return token.end()
    return len(text)


def parse_call_object(value: Any, *keys: str, name: str = "name") -> dict[Any, Any]:
    """Convert a call object {"name": ..., <one of keys>: {...}} to {name: arguments}.

    `name`: the key of the name, where it is another; "name" may stand for it. Raises DecodeError.
    """
    called = value.get(name, value.get("name")) if isinstance(value, dict) else None
    if not isinstance(called, str):
        raise DecodeError("shape", f'expected each call as an object with a "{name}"')
    arguments = [value[key] for key in keys if key in value]
    if len(arguments) != 1 or not isinstance(arguments[0], dict):
        raise DecodeError("shape", f"{called}: expected an object under {' or '.join(keys)}")
    return {called: arguments[0]}


def to_json(value: Any) -> str:
    """Write a value as JSON on one line.

    Characters beyond ASCII are unescaped, lone surrogates escaped.
    """
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def escape_in_json(text: str, characters: str = "<}[") -> str:
    """Escape the given characters in the strings of a JSON text; the value stays the same."""
    table = str.maketrans({character: f"\\u{ord(character):04x}" for character in characters})
    return _JSON_STRING.sub(lambda string: string[0].translate(table), text)


THOUGHTS = {
    "<think>": "</think>",
    "[THINK]": "[/THINK]",
    "<thinking>": "</thinking>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "<think:opensource>": "</think:opensource>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "to=self<|message|>": "<|eom|>",
    "[BEGIN REASONING]": "[BEGIN FINAL RESPONSE]",
}
"""The mark that opens a thought -> the one that closes it."""
_OPENING = re.compile("|".join(map(re.escape, THOUGHTS)))
_ENDS = ("<|end|>", "<|eom|>")  # of messages, of thoughts too
_CLOSING = re.compile("|".join(re.escape(e) for e in THOUGHTS.values() if e not in _ENDS))
_HEADER = "<|start|>assistant"  # of the message behind a thought's


class SplitThought(NamedTuple):
    """Message split into its thought and the rest, in which calls count."""

    thought: str
    rest: str
    closed: bool = True  # False: the message ends within the thought


def _may_think(text: str) -> bool:
    """Whether a text contains a word that every mark of a thought has; a fast test."""
    if ("<" in text and "think" in text) or "THINK]" in text or "[B" in text:
        return True
    return "|" in text and any(word in text for word in ("THINK", "channel", "to=self", "<|i"))


def _opening(text: str) -> re.Match[str] | None:
    """Return the first mark at the beginning of a line that opens a thought."""
    mark = _OPENING.search(text)
    while mark and text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()].strip():
        mark = _OPENING.search(text, mark.end())
    return mark


def without_thought(text: str) -> str:
    """Return a message without its thought."""
    return _split(text)[1]


def split_thought(text: str) -> SplitThought:
    """Split the thought off a message; an unclosed one reaches to the end.

    Marks inside a call, as in an argument's text, are none of a thought's.
    """
    return SplitThought(*_split(text))


def _split(text: str) -> tuple[str, str, bool]:
    """Return the thought, the rest, and whether the thought is closed."""
    if not isinstance(text, str) or not _may_think(text):
        return "", text, True
    if opening := _OPENING.match(text):  # most thoughts; nothing but them is looked for again
        inside, mark, rest = text[opening.end() :].partition(THOUGHTS[opening[0]])
        if mark and not _may_think(rest):
            return inside.strip(), rest.lstrip().removeprefix(_HEADER).lstrip(), True
    thoughts: list[str] = []
    rest, closed, opening = text, True, _opening(text)
    # one that the prompt opened
    before = opening.start() if opening else len(text)
    closing = _CLOSING.search(text, 0, before) if before else None
    if closing and not is_within_call(text, closing.start()):
        thoughts.append(text[: closing.start()].strip())
        rest = text[closing.end() :]
        opening = _opening(rest)
    while closed and opening and not is_within_call(rest, opening.start()):
        inside, mark, behind = rest[opening.end() :].partition(THOUGHTS[opening[0]])
        thoughts.append(inside.strip())
        rest, closed = rest[: opening.start()] + behind, bool(mark)
        opening = _opening(rest) if _may_think(rest) else None
    if not thoughts:
        return "", text, True
    return "\n".join(thoughts).strip(), rest.lstrip().removeprefix(_HEADER).lstrip(), closed
