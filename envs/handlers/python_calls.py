"""Handler of BFCL's prompting form `[f(a=1), g.h(b='x')]`, decoded bug for bug.

The text is parsed to a syntax tree and never run. What differs from BFCL, on purpose: arithmetic is
computed by a bounded walk (BFCL evaluates its source), so names in it always fail; and text that is
longer or nested deeper than any sane answer does not decode.
"""

from __future__ import annotations

import ast
import keyword
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.handlers.handler import (
    FENCE,
    DecodedAction,
    DecodeError,
    Handler,
    bfcl_call_strings,
    bracketed,
    calls_of_record,
    named_calls,
    require_shallow_nesting,
)
from fctncalling.envs.python_source.call_source import (
    SourceTooLarge,
    parse_expression,
    parse_plain_calls,
    plain_calls_or_none,
    python_literal,
)
from fctncalling.envs.python_source.evaluator import Evaluator

_WORD = re.compile(r"\w")
_CODE = re.compile(r"(?<=[^\s`])[ \t]+`[^`\n]+`")  # in a line behind words
# What looks like a call: a name with a bracket at once, at the beginning of a line, or before an
# argument's name or literal, the bracket that closes, or the end of the text.
_CALL = re.compile(
    r"^[ \t`]*+[A-Za-z_][\w.]*+\((?!e?s\))"
    r"|(?<![\w.])[A-Za-z_][\w.]*+\(\s*+(?:[)\[{\"'\d-]|\w*+\s*+(?:\Z|=(?!=)))",
    re.MULTILINE,
)


class PythonCalls(Handler):
    """Handler of BFCL's prompting form; positional arguments are dropped."""

    name = "python_calls"

    def recognises(self, text: str) -> bool:
        """Whether the text opens a list, or looks like a call.

        Brackets in prose, as in "the file (of 2 kB)" or "file(s)", are no call's, nor is `code` in
        a sentence.
        """
        stripped = text.strip(FENCE)
        if stripped.startswith("[") and not stripped.startswith("[TOOL_CALLS]"):
            return True
        return "(" in text and _CALL.search(_CODE.sub("", text)) is not None

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once; its record is [{name: {parameter: value}}].

        Raises DecodeError.

        A callee that is no dotted name is called "", and `**{...}` gives a parameter called None.
        An argument without a text of its own can be judged, but is no call's; BFCL takes one that
        is a dict of dicts for a nested call, and fails on an empty dict.
        """
        source = bracketed(text)
        plain = parse_plain_calls(source)
        if plain is None:
            return DecodedAction(_parsed_calls(source), calls_of_record, multi_turn_call_strings)
        return DecodedAction(
            plain, named_calls, multi_turn_call_strings, plain_calls_or_none(source, plain)
        )

    def render(self, calls: Sequence[Call]) -> str:
        """Render calls as their canonical text.

        ValueError for names or values the form cannot say.
        """
        return f"[{', '.join(_rendered(call) for call in calls)}]"


def multi_turn_call_strings(calls: Sequence[Call]) -> list[str]:
    """Return the call strings of multi-turn tasks, with BFCL's bugs for Python calls.

    DecodeError for an empty dict, on which BFCL fails.
    """
    for call in calls:
        if any(_holds_empty_dict(value) for value in call.arguments.values()):
            raise DecodeError(
                "value", f"{call.name}: an empty dict cannot be an argument of a multi-turn call"
            )
    return bfcl_call_strings(calls)


def calls_of_expression(text: str) -> list[dict[str, dict[Any, Any]]]:
    """Parse a Python expression to a record: a call, or a list, tuple or set of calls."""
    plain = parse_plain_calls(text)
    return _parsed_calls(text) if plain is None else plain


def _parsed_calls(text: str) -> list[dict[str, dict[Any, Any]]]:
    if "(" not in text and "#" not in text and _WORD.search(text):  # and so no empty list
        raise DecodeError("shape", "expected a list of function calls")
    try:
        body = parse_expression(text.strip("'"))
        nodes = [body] if isinstance(body, ast.Call) else getattr(body, "elts", None)
        if nodes is None or not all(isinstance(node, ast.Call) for node in nodes):
            raise DecodeError("shape", "expected a list of function calls")
        values = _ValueReader()
        record = [values.call(node) for node in nodes if isinstance(node, ast.Call)]
        require_shallow_nesting(record, text)
        return record
    except SyntaxError as error:
        raise DecodeError("syntax", f"not a Python expression: {error.msg}") from None
    except Exception as error:
        raise failed_reading(error) from None


def failed_reading(error: Exception) -> DecodeError:
    """Convert an exception from reading a value to a DecodeError.

    Null bytes and lone surrogates are no source text; and whatever else reading a value raises
    (TypeError, NameError, OverflowError, ...) is a failed decode.
    """
    if isinstance(error, DecodeError):
        return error
    if isinstance(error, RecursionError | MemoryError):
        return DecodeError("size", "nested deeper than is read")
    if isinstance(error, SourceTooLarge):
        return DecodeError("size", str(error))
    return DecodeError("value", f"an argument cannot be read: {error}")


class _ValueReader:
    """Reader of a text's argument values, as BFCL reads them."""

    def __init__(self) -> None:
        self._arithmetic = Evaluator()

    def call(self, node: ast.Call) -> dict[str, dict[Any, Any]]:
        parts, callee = list[str](), node.func
        while isinstance(callee, ast.Attribute):
            parts.append(callee.attr)
            callee = callee.value
        if isinstance(callee, ast.Name):
            parts.append(callee.id)
        arguments = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        return {".".join(reversed(parts)): arguments}

    def value(self, node: ast.expr | None) -> Any:
        if type(node) is ast.Constant:  # most arguments are
            return "..." if node.value is ... else node.value
        match node:
            case ast.UnaryOp(operand=ast.Constant(value=operand)):
                return -operand  # type: ignore[operator]  # for any operator: +5 and ~5 are -5
            case ast.BinOp():
                return self._arithmetic.value(node)
            case ast.Name():
                return node.id
            case ast.List():
                return [self.value(element) for element in node.elts]
            case ast.Tuple():
                return tuple(self.value(element) for element in node.elts)
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                return {self.value(key): self.value(value) for key, value in pairs}
            case ast.Call():
                return self.call(node) if node.keywords else ast.unparse(node)
            case ast.Subscript():
                return f"{ast.unparse(node.value)}[{ast.unparse(node.slice)}]"
        raise DecodeError("value", f"a {type(node).__name__} expression is no argument value")


def _holds_empty_dict(value: Any) -> bool:
    """Whether a value has an empty dict where BFCL's rendering looks, only in dicts."""
    if not isinstance(value, dict):
        return False
    inside = value.values()
    if value and all(isinstance(item, dict) for item in inside):
        inside = next(iter(inside)).values()
    return not value or any(map(_holds_empty_dict, inside))


def _rendered(call: Call) -> str:
    for name in (*call.name.split("."), *call.arguments):
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(
                f"call {call.name!r}: {name!r} is no Python name, so this form cannot write it"
            )
        if unicodedata.normalize("NFKC", name) != name:
            raise ValueError(f"call {call.name!r}: Python reads the name {name!r} as another one")
    arguments = ", ".join(f"{key}={python_literal(value)}" for key, value in call.arguments.items())
    return f"{call.name}({arguments})"
