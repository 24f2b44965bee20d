"""Handler of JavaScript calls, `[open(width=5, label="x")]`, decoded bug for bug.

The first statement that is a call counts; two calls with a comma between are none. Of its arguments
assignments count, and bare names and `true`. A value is its source text, without the quotes around
it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from fctncalling.checkers.javascript_values import is_quoted
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

# BFCL's release of the grammar knows a reserved word only where its statement or operator may
# stand, and takes it for a name anywhere else: where a value begins, and as the name of a tag or a
# function. Of an object `import` it lets any property be asked. But `await` never is a name to it,
# where the grammar of today may take it for one.
_WORDS = (
    "break|case|catch|const|continue|debugger|default|do|else|extends|finally|for|if|in|instanceof|return|switch|throw"
    "|try|var|while|with"
)
_TAG_WORDS = (
    f"{_WORDS}|class|delete|export|false|function|import|new|null|super|this|true|typeof|void"
)
_FIRST_WORDS = "case|catch|default|else|extends|finally|import(?=\\.)|in|instanceof|using"
_OTHER_WORDS = "async|await|enum|eval|get|let|of|set|static|target|using|yield"
_RESERVED = frozenset(f"{_TAG_WORDS}|{_OTHER_WORDS}".split("|"))
_BEFORE_VALUES = (
    r"[(,=\[:>?&|!~^%*/+-]|\.\.\.|<(?=\s)|\$\{|\{(?=\s*\w+\s*\})"
    r"|\b(?:await|delete|new|return|typeof|void|yield)\b"
)
_MISTAKEN = re.compile(
    rf"</?({_TAG_WORDS})\b|(?:{_BEFORE_VALUES})\s*({_WORDS})\b|\bfunction\s*\*?\s*({_TAG_WORDS})\b"
    rf"|(?<![\w$.])(import)(?=\.)|\A\s*({_FIRST_WORDS})(?=\s*[.(])".encode()
)


class JavaScriptCalls(SourceCalls):
    """Handler of BFCL's prompting form for JavaScript."""

    name, language, reserved = "javascript_calls", "javascript", _RESERVED
    containers = True

    def parse_tree(self, source: str) -> Any:
        """Parse the first call of a JavaScript source as BFCL does; raises DecodeError."""
        text = encode_source(source)
        for statement in _root(text).children:
            if statement.type == "expression_statement":
                for child in statement.children:
                    if child.type == "call_expression":
                        callee, arguments = child.children[:2]
                        return [{_text(text, callee): _arguments(text, arguments)}]
        return {}


def _root(source: bytes) -> Node:
    try:
        root = syntax_tree_root(source, "javascript")
    except DecodeError:
        masked = _MISTAKEN.sub(_masked, source)
        if masked == source:
            raise
        root = syntax_tree_root(masked, "javascript")
    if root.has_error and any(
        token.is_missing and token.type == ")" and _is_behind_a_pattern(token)
        for token in nodes_of(root, faulty=True)
    ):
        raise DecodeError("syntax", "a bracket is missing")
    if b"await" in source and any(_is_called_await(node, source) for node in nodes_of(root)):
        raise DecodeError("syntax", "nothing can be called await")
    return root


def _is_called_await(node: Node, source: bytes) -> bool:
    """Whether a node is a name that BFCL's parser release reads as the operator `await`.

    Before `)` it inserts what is awaited.
    """
    is_await = node.type == "identifier" and node.text == b"await"
    return is_await and not source[node.end_byte :].lstrip().startswith(b")")


def _is_behind_a_pattern(token: Node) -> bool:
    """Whether the parser inserted a token that BFCL's parser release does not insert.

    Behind what may also be a pattern, `{}`.
    """
    before = token.prev_sibling
    while before is not None and before.type not in ("object", "array") and before.child_count:
        before = before.children[-1]
    if before is None or before.type not in ("object", "array"):
        return False
    shorthand = "shorthand_property_identifier" if before.type == "object" else "comment"
    return all(child.type in (shorthand, "comment") for child in before.named_children)


def _masked(match: re.Match[bytes]) -> bytes:
    """Return the match with its reserved word replaced by a name of the same length."""
    word = match[match.lastindex or 0]
    return match[0][: -len(word)] + b"_" * len(word)


def _arguments(source: bytes, node: Node) -> dict[str | None, str]:
    def unquoted(part: Node) -> str:
        value = _text(source, part)
        return value[1:-1] if is_quoted(value) else value

    return parse_argument_list(node, ("identifier", "true"), partial(_text, source), unquoted)


def _text(source: bytes, node: Node) -> str:
    return source[node.start_byte : node.end_byte].decode()
