"""Base class of Java and JavaScript handlers: one call in brackets, with source arguments.

That is what BFCL's prompting form makes of Java and JavaScript: `[Desk.open(width=5, label="x")]`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.errors import import_extra
from fctncalling.envs.handlers.handler import (
    DecodedAction,
    DecodeError,
    Handler,
    bfcl_call_strings,
    bracketed,
    require_readable_text,
    too_large,
)

if TYPE_CHECKING:
    from tree_sitter import Node


_NAME = r"[A-Za-z_$][\w$]*"
_NUMBER = r"-?(?:0|[1-9]\d*+)(?>(?:\.\d++)?)"
_SCALAR = rf'(?:"[^"\\]*+"|\'[^\'\\]++\'|{_NUMBER}|{_NAME}(?>(?:\.{_NAME})*))'
_ARRAY = rf"\[(?>(?:{_SCALAR}(?>(?:, ?{_SCALAR})*))?)\]"
_PROPERTY = rf"(?!(?:true|false|null)\b){_NAME}: ?(?:{_SCALAR}|{_ARRAY})"
_CONTAINER = rf"(?:{_ARRAY}|\{{(?>(?:{_PROPERTY}(?>(?:, ?{_PROPERTY})*))?)\}})"


def _patterns(value: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a whole plain call and of each argument."""
    argument = rf"({_NAME})=({value})"
    call = rf"({_NAME}(?>(?:\.{_NAME})*))\(({_NAME}={value}(?>(?:, {_NAME}={value})*))\)\Z"
    return re.compile(call, re.ASCII), re.compile(argument, re.ASCII)


_OF_SCALARS = _patterns(_SCALAR)
_OF_LITERALS = _patterns(f"(?:{_SCALAR}|{_CONTAINER})")
_STRING_OR_NAMES = re.compile(rf"\"[^\"]*+\"|'[^']*+'|({_NAME}(?>(?:\.{_NAME})*))", re.ASCII)
_PLAIN_CHARS = range(24, 1_000)  # behind shorter calls Java's grammar inserts no semicolon
_CONSTANTS = frozenset(("true", "false", "null"))
_LITERAL = re.compile(r"-?\d|(?:true|false|null)$|new |\[|\{")


class SourceCalls(Handler):
    """Base class of handlers of one call in Java or JavaScript."""

    language: str
    reserved: frozenset[str]  # words that are no names in the language
    containers = False  # whether lists and objects are written as in JavaScript
    end = ""  # what ends a written call

    @abstractmethod
    def parse_tree(self, source: str) -> Any:
        """Parse the first call of a source to [{name: {parameter: text}}], {} without one.

        Raises DecodeError. A positional argument that is kept stands under None.
        """

    def parse_plain_call(self, source: str) -> list[dict[str, dict[str, str]]] | None:
        """Parse a call of names, numbers and simple strings without the grammar; else None.

        None for any other source: a grammar reads those, and these five times slower.
        """
        whole, argument = _OF_LITERALS if self.containers else _OF_SCALARS
        may_be = len(source) in _PLAIN_CHARS and source.isascii() and source.isprintable()
        match = whole.match(source) if may_be else None
        if match is None:
            return None
        pairs = argument.findall(match[2])
        arguments = dict(pairs)
        names = [*match[1].split("."), *arguments]
        for name, value in pairs:
            if value[0] in "\"'":
                arguments[name] = value[1:-1]
            else:
                for token in _STRING_OR_NAMES.findall(value) if value[0] in "[{" else (value,):
                    names += () if token in _CONSTANTS else token.split(".")
        are_names = self.reserved.isdisjoint(names) and _CONSTANTS.isdisjoint(names)
        return [{match[1]: arguments}] if are_names and len(arguments) == len(pairs) else None

    def recognises(self, text: str) -> bool:
        """Whether the text is source that may contain a call.

        The look of it does not tell in which language.
        """
        return "(" in text

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode a text; the record is {} if it contains no call.

        Raises DecodeError.

        The call's arguments are source text. Its call string is what the tools, which are Python,
        would be handed; BFCL executes no other language.
        """
        source = bracketed(text)[1:-1]
        tree_sitter_grammar(self.language)  # also where none is needed: for each text alike
        record = self.parse_plain_call(source) or self.parse_tree(source)

        def calls_of_record(record: Any) -> list[Call]:
            if not record and source.strip():
                raise DecodeError("shape", "expected a function call")
            return [Call(name, arguments) for call in record for name, arguments in call.items()]

        return DecodedAction(record, calls_of_record, bfcl_call_strings)

    def render(self, calls: Sequence[Call]) -> str:
        """Write no call or one as canonical text.

        ValueError for more, and for what the language cannot say.
        """
        if len(calls) > 1:
            raise ValueError(
                f"{self.name}: a text holds one call, not {len(calls)}: the rest would not be read"
            )
        text = f"[{''.join(self._written(call) for call in calls)}]"
        if not self._says(text, calls):
            raise ValueError(f"{self.name}: no text decodes to {list(calls)!r}")
        return text

    def _written(self, call: Call) -> str:
        arguments = ", ".join(
            _assigned(key) + self._source_of(key, value) for key, value in call.arguments.items()
        )
        return f"{call.name}({arguments}){self.end}"

    def _source_of(self, key: Any, value: Any) -> str:
        """Return an argument's source: unchanged if it looks like a literal, else quoted."""
        if not isinstance(value, str):
            raise ValueError(
                f"{self.name}: {key} = {value!r}: expected the source text of the value"
            )
        quoted = [f'"{value}"', f"'{value}'"]
        for source in [value, *quoted] if _LITERAL.match(value) else [*quoted, value]:
            if self._says(f"[f({_assigned(key)}{source});]", [Call("f", {key: value})]):
                return source
        return value

    def _says(self, text: str, calls: Sequence[Call]) -> bool:
        try:
            return self.decode(text) == list(calls)
        except DecodeError:
            return False


def _assigned(key: Any) -> str:
    return "" if key is None else f"{key}="


def parse_argument_list(
    node: Node, positional: Collection[str], text: Callable[[Node], str], value: Callable[..., str]
) -> dict[str | None, str]:
    """Parse an argument list: assignments by name, and `positional` node kinds under None.

    DecodeError for a name, or a positional argument, that stands there twice.
    """
    arguments: dict[str | None, str] = {}
    for child in node.children:
        if child.type == "assignment_expression":
            # The third part is the value, unless a comment stands before it.
            name, source = text(child.children[0]), value(child.children[2])
        elif child.type in positional:
            name, source = None, text(child)
        else:
            continue
        if name in arguments:
            twice = "two positional arguments" if name is None else f"two arguments called {name!r}"
            raise DecodeError("value", f"{twice} are not read")
        arguments[name] = source
    return arguments


MAX_SOURCE_CHARS = 16_384
"""The longest source that is parsed: what a model says in a long turn."""
MAX_TOKENS = 1_000
"""The most words, strings and marks of it."""
MAX_DEPTH = 100
"""The most operators and brackets that wait for their end at once: a repair tries them all."""

_SHORT_CHARS = 256  # so little is parsed in a few milliseconds, whatever it says
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|\'(?:[^\'\\\n]|\\.)*\'?|\w+|[^\w\s.]', re.DOTALL)
_OPERATORS = frozenset("=<>!~+-*/%&|^?:@#\\")


def encode_source(source: str) -> bytes:
    """Encode a source for the parser; raises DecodeError for sources it must not get.

    A grammar's repair of hopeless text costs more than the square of what it has read so far. Hence
    the bounds below, which are found without parsing and are the same on every machine: within them
    a text is read or refused in some 50 milliseconds.
    """
    require_readable_text(source)
    if len(source) > MAX_SOURCE_CHARS:
        raise too_large(len(source), "characters", MAX_SOURCE_CHARS)
    if len(source) > _SHORT_CHARS:
        _require_flat(_TOKEN.findall(source))
    try:
        return source.encode()
    except UnicodeEncodeError:
        raise DecodeError("syntax", "half a surrogate pair is no source text") from None


def _require_flat(tokens: Sequence[str]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise too_large(len(tokens), "words and marks", MAX_TOKENS)
    waiting = 0  # for its end
    before: list[int] = []  # what waited when each bracket was opened
    operand = True  # whether the last token ends one, so that a comma or bracket ends what waits
    for token in tokens:
        if token in "([{":
            before.append(waiting)
            waiting += 1
        elif token in ")]}" and operand:
            waiting = before.pop() if before else 0
        elif token in ",;" and operand:
            waiting = before[-1] + 1 if before else 0
        elif len(token) == 1 and not token.isalnum():
            waiting += 1
        operand = token not in _OPERATORS
        if waiting > MAX_DEPTH:
            raise DecodeError(
                "size", f"the source nests deeper than {MAX_DEPTH} operators and brackets"
            )


def syntax_tree_root(source: bytes, language: str) -> Node:
    """Return the root of a source's syntax tree.

    Raises DecodeError for no tree, MissingExtra for no grammar.

    As in BFCL a token that the parser had to insert is no fault, one that it had to skip is.
    """
    # One each time: it is for one thread.
    library, grammar = tree_sitter_grammar(language)
    root: Node = library.Parser(grammar).parse(source).root_node
    if root.has_error and any(node.is_error for node in nodes_of(root, faulty=True)):
        raise DecodeError("syntax", f"this is not {language}")
    return root


def nodes_of(root: Node, *, faulty: bool = False) -> Iterator[Node]:
    """Yield the nodes of a tree, each before its children; `faulty`: only those with a fault."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        yield node
        nodes.extend(child for child in reversed(node.children) if child.has_error or not faulty)


@cache
def tree_sitter_grammar(language: str) -> tuple[Any, Any]:
    """Return tree-sitter and its grammar of a language; MissingExtra if not installed."""
    library, grammar = (
        import_extra(name, language, f"reading {language} calls") for name in _libraries(language)
    )
    return library, library.Language(grammar.language())


def missing_libraries(language: str) -> list[str]:
    """Return the libraries that read calls of a language and are not installed."""
    return [name for name in _libraries(language) if find_spec(name) is None]


def _libraries(language: str) -> tuple[str, str]:
    return "tree_sitter", f"tree_sitter_{language}"
