r"""Tokenizer and parser of mathematical text, plain or LaTeX, to a tree of plain values.

The text is bounded and never evaluated. A tree is JSON: ["number", "1/3"], ["name", "x"], ["+", a,
b] (also - * / ^), ["negative", a], ["call", "sqrt", a, ...], ["tuple", ...], ["set", ...],
["interval", "[)", a, b]. Understood are implicit products (2x, 3\pi), \frac, \sqrt[n]{}, powers,
functions, percent signs, thousands commas, and `x = ...` for what stands on its right.
"""

from __future__ import annotations

import re
from typing import Any

MAX_TOKENS = 300
FUNCTIONS = frozenset(
    "sqrt root sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp abs binom "
    "factorial".split()
)
CONSTANTS = frozenset(("pi", "e", "i", "oo"))
GREEK = frozenset("alpha beta gamma delta epsilon theta lambda mu rho sigma tau phi omega".split())
_REWRITES = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\\(?:left|right|displaystyle|limits|quad|qquad|[,;:! ])|\$|~", " "),
        (r"\\(?:text|mathrm|textbf|mbox|operatorname)\s*\{\s*([^{}]*?)\s*\}", r" \1 "),
        (r"\^\s*\{?\s*\\circ\s*\}?", " "),
        (r"\\[dt]frac", r"\\frac"),
        (r"\\(?:cdot|times)|[\u00d7\u00b7]", "*"),
        (r"\\div|\u00f7", "/"),
        (r"[\u2212\u2013]", "-"),
        (r"\\%", "%"),
        (r"\\(?:infty)|∞", r"\\oo"),
        (r"π", r"\\pi"),
        (r"√", r"\\sqrt"),
        (r"\*\*", "^"),
    )
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?|\.\d+)|\\(?P<command>[a-zA-Z]+|[{}|])|(?P<word>[a-zA-Z]+)|(?P<sign>[-+*/^%!()\[\]{}|,=_]))",
    re.ASCII,
)


class ExpressionError(ValueError):
    """Error of a text that is no expression of this grammar; the message names the fault."""


def tokenize(text: str) -> list[tuple[str, str]]:
    """Split a mathematical expression into (kind, text) tokens; raises ExpressionError."""
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text.strip().rstrip("."))
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ExpressionError(f"unexpected {text[position : position + 10]!r}")
        kind = match.lastgroup or ""
        tokens += _words(match[kind]) if kind == "word" else [(kind, match[kind])]
        position = match.end()
    if len(tokens) > MAX_TOKENS:
        raise ExpressionError(f"more than {MAX_TOKENS} symbols")
    return [*tokens, ("end", "")]


def _words(word: str) -> list[tuple[str, str]]:
    """Split a word into tokens: a function or constant, or letters as factors.

    Raises ExpressionError for other words of more than two letters.
    """
    if word in FUNCTIONS or word in CONSTANTS or word in GREEK:
        return [("command", word)]
    if len(word) > 2:
        raise ExpressionError(f"unknown word {word!r}")
    return [("command", letter) if letter in CONSTANTS else ("letter", letter) for letter in word]


Tree = list[Any]
MAX_CHARACTERS = 1000
MAX_DEPTH = 40
_CLOSING = {"(": (")", "]"), "[": (")", "]"), "{": ("}",)}  # an interval may be open at one end


def parse(text: str) -> Tree:
    """Parse a mathematical text to an expression tree; raises ExpressionError."""
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"longer than {MAX_CHARACTERS} characters")
    return _ExpressionParser(tokenize(text)).answer()


def try_parse(text: str) -> Tree | None:
    """Parse a mathematical text to an expression tree; None if it is no expression."""
    try:
        return parse(text)
    except ExpressionError:
        return None


class _ExpressionParser:
    """Recursive-descent parser; each method advances past what it has read."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0  # sums and exponents inside each other
        self._commands = 0  # commands inside each other

    @property
    def _here(self) -> tuple[str, str]:
        return self._tokens[self._position]

    def _is(self, *texts: str) -> bool:
        return self._here[1] in texts and self._here[0] in ("sign", "command")

    def _take(self) -> str:
        text = self._here[1]
        self._position += 1
        return text

    def _expect(self, text: str) -> None:
        if not self._is(text):
            raise ExpressionError(f"expected {text!r}, found {self._here[1]!r}")
        self._position += 1

    def answer(self) -> Tree:
        tree = self._sum()
        if self._is("="):
            if tree[0] != "name":
                raise ExpressionError("an equation is no value")
            self._position += 1
            tree = self._sum()
        if self._is(","):
            items = [tree, *self._more_items()]
            tree = ["set", *items]  # "1, 2": solutions, in any order
        if self._here[0] != "end":
            raise ExpressionError(f"unexpected {self._here[1]!r}")
        return tree

    def _more_items(self) -> list[Tree]:
        items = []
        while self._is(","):
            self._position += 1
            items.append(self._sum())
        return items

    def _sum(self) -> Tree:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError("nested too deeply")
        tree = self._product()
        while self._is("+", "-"):
            sign = self._take()
            tree = [sign, tree, self._product()]
        self._depth -= 1
        return tree

    def _product(self) -> Tree:
        tree = self._signed()
        while True:
            if self._is("*", "/"):
                sign = self._take()
                tree = [sign, tree, self._signed()]
            elif self._starts_factor():
                tree = ["*", tree, self._power()]
            else:
                return tree

    def _starts_factor(self) -> bool:
        kind, text = self._here
        if kind == "sign":
            return text in "({"
        return kind in ("letter", "command") and text not in ("}", "|")

    def _signed(self) -> Tree:
        negative = False
        while self._is("+", "-"):
            negative ^= self._take() == "-"
        tree = self._power()
        return ["negative", tree] if negative else tree

    def _power(self) -> Tree:
        tree = self._atom()
        while self._is("!", "%"):
            tree = (
                ["call", "factorial", tree]
                if self._take() == "!"
                else ["/", tree, ["number", "100"]]
            )
        if self._is("^"):
            self._position += 1
            tree = ["^", tree, self._script()]
        return tree

    def _script(self) -> Tree:
        """Read an exponent: a sign and an atom, with powers on it (right-associative)."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError("nested too deeply")
        tree = self._signed()
        self._depth -= 1
        return tree

    def _atom(self) -> Tree:
        kind, text = self._here
        self._position += 1
        if kind == "number":
            return ["number", text]
        if kind == "letter":
            return ["name", text + self._subscript()]
        if kind == "command" and text not in ("{", "}", "|"):
            self._commands += 1  # \sin\sin\sin ... nests without any bracket
            if self._commands > MAX_DEPTH:
                raise ExpressionError("nested too deeply")
            tree = self._command(text)
            self._commands -= 1
            return tree
        if text == "|":
            tree = self._sum()
            self._position += 1
            if self._tokens[self._position - 1][1] != "|":
                raise ExpressionError("expected '|'")
            return ["call", "abs", tree]
        if text in ("(", "[", "{") and kind in ("sign", "command"):
            return self._bracket(text, escaped=kind == "command")
        raise ExpressionError(f"unexpected {text!r}")

    def _subscript(self) -> str:
        if not self._is("_"):
            return ""
        self._position += 1
        braced = self._is("{")
        if braced:
            self._position += 1
        kind, text = self._here
        if kind not in ("number", "letter"):
            raise ExpressionError("a subscript is one letter or number")
        self._position += 1
        if braced:
            self._expect("}")
        return f"_{text}"

    def _command(self, name: str) -> Tree:
        if name in ("frac", "binom"):
            above, below = self._argument(), self._argument()
            return ["/", above, below] if name == "frac" else ["call", "binom", above, below]
        if name == "sqrt" and self._is("["):
            self._position += 1
            degree = self._sum()
            self._expect("]")
            return ["call", "root", self._argument(), degree]
        if name in FUNCTIONS:
            power = None
            if self._is("^"):  # \sin^2 x
                self._position += 1
                power = self._script()
            tree: Tree = [
                "call",
                name,
                self._argument() if name in ("sqrt", "abs") else self._applied(),
            ]
            return tree if power is None else ["^", tree, power]
        if name in CONSTANTS or name in GREEK:
            return ["name", name + self._subscript()]
        raise ExpressionError(f"unknown command \\{name}")

    def _argument(self) -> Tree:
        r"""Read a command's argument: a group or a symbol; of a number one digit (\frac12)."""
        kind, text = self._here
        if (
            kind == "number"
            and len(text) > 1
            and self._tokens[self._position - 1][1] in ("frac", "sqrt")
        ):
            self._tokens[self._position] = ("number", text[1:])
            return ["number", text[0]]
        return self._atom()

    def _applied(self) -> Tree:
        r"""Read the argument of a function written without brackets.

        It is all that is written together, as in \ln e^2 and \sin 2x.
        """
        if self._is("(", "[", "{"):
            return self._atom()
        tree = self._power()
        while self._starts_factor() and self._here[1] not in FUNCTIONS and not self._is("(", "{"):
            tree = ["*", tree, self._power()]
        return tree

    def _bracket(self, opening: str, *, escaped: bool) -> Tree:
        items = [self._sum(), *self._more_items()]
        kind, closing = self._here
        if escaped != (kind == "command") or closing not in _CLOSING[opening]:
            raise ExpressionError(f"{opening!r} is not closed")
        self._position += 1
        if opening == "{" and escaped:
            return ["set", *items]
        if len(items) == 1 and opening + closing in ("()", "{}"):
            return items[0]
        if opening == "(" and closing == ")":
            return ["tuple", *items]
        if len(items) == 2 and opening != "{":
            return ["interval", opening + closing, *items]
        raise ExpressionError("unknown brackets")
