"""Handler of Java calls, `[Desk.open(width=5, label="x");]`, decoded as BFCL does, bug for bug.

Of all calls in the text the first one counts. Of its arguments assignments count, whatever their
operator, and bare names. BFCL takes the parser's byte offsets for those of characters, so that a
character of more than one byte shifts all that is read after it; a body behind a constructor call
is lost, and white space within most values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fctncalling.envs.handlers.handler import DecodeError
from fctncalling.envs.handlers.source_calls import (
    SourceCalls,
    encode_source,
    nodes_of,
    parse_argument_list,
    syntax_tree_root,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_WORDS = (
    "_|abstract|assert|boolean|break|byte|case|catch|char|class|const|continue|default|do|double|else|enum|exports"
    "|extends|final|finally|float|for|goto|if|implements|import|instanceof|int|interface|long|module|native|new|non"
    "|open|opens|package|permits|private|protected|provides|public|record|requires|return|sealed|short|static|strictfp"
    "|super|switch|synchronized|this|throw|throws|to|transient|transitive|try|uses|var|void|volatile|when|while|with"
    "|yield"
)
_RESERVED = frozenset(_WORDS.split("|"))
_QUOTED = ("string_literal", "character_literal")
_VERBATIM = ("identifier", "class_literal", "type_identifier", "method_invocation")
_POSITIONAL = ("identifier", "class_literal")
_PLAIN_CALL = re.compile(r"[\w$.]+\(.{9,}\)\Z", re.DOTALL)
_NOT_PLAIN = ("//", "/*", ";", "yield")


class JavaCalls(SourceCalls):
    """Handler of BFCL's prompting form for Java."""

    name, language, reserved = "java_calls", "java", _RESERVED
    end = ";"  # without it short calls are no Java to the parser

    def parse_tree(self, source: str) -> Any:
        """Parse the first call of a Java source as BFCL does; raises DecodeError."""
        calls = (node for node in nodes_of(_root(source)) if node.type == "method_invocation")
        call = next(calls, None)
        return {} if call is None else [_CallReader(source).call(call)]


def _root(source: str) -> Node:
    """Return the root of the source's syntax tree, after adding the semicolon that BFCL omits.

    The parser inserts it itself where that repair is its cheapest, so behind a whole call of more
    than ten characters, but it takes three times as long to find that out.
    """
    if _PLAIN_CALL.match(source) and not any(mark in source for mark in _NOT_PLAIN):
        with suppress(DecodeError):  # then the source alone decides
            root = syntax_tree_root(encode_source(f"{source};"), "java")
            if not root.has_error:
                return root
    return syntax_tree_root(encode_source(source), "java")


class _CallReader:
    """Reader of a call's names and values by their offsets in the syntax tree."""

    def __init__(self, source: str) -> None:
        self._source = source

    def call(self, node: Node) -> dict[str, dict[str | None, str]]:
        name, owner = self._field(node, "name"), node.child_by_field_name("object")
        called = self._text(name) if owner is None else f"{self._text(owner)}.{self._text(name)}"
        arguments = self._field(node, "arguments")
        return {called: parse_argument_list(arguments, _POSITIONAL, self._text, self._value)}

    def _value(self, node: Node) -> str:
        """Return a value's text as BFCL does: top-level quotes dropped, blanks between parts."""
        if node.type in _QUOTED:
            return self._text(node)[1:-1]
        texts = list[str]()
        parts: list[Node | str] = [node]
        while parts:
            part = parts.pop()
            if isinstance(part, str):
                texts.append(part)
            elif part.type in _QUOTED or part.type in _VERBATIM or not part.child_count:
                texts.append(self._text(part))
            else:
                parts.extend(reversed(self._parts(part)))
        return "".join(texts)

    def _parts(self, node: Node) -> Sequence[Node | str]:
        match node.type:
            case "array_creation_expression":
                return ["new ", self._field(node, "type"), "[]", self._field(node, "value")]
            case "object_creation_expression":
                parts: list[Node | str] = ["new ", self._field(node, "type"), "("]
                for argument in self._field(node, "arguments").children:
                    if argument.type not in (",", "(", ")"):
                        parts += [argument, ", "]
                return [*(parts[:-1] if parts[-1] == ", " else parts), ")"]
        return node.children

    def _field(self, node: Node, name: str) -> Node:
        field = node.child_by_field_name(name)
        if field is None:
            raise DecodeError("value", f"a {node.type} without {name} cannot be read")
        return field

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte]
