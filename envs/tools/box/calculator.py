"""Exact calculator for untrusted text: sizes are bounded before computing, no `eval`.

Grammar: numbers, + - * / // % ** ( ), signs, with Python's precedence; ^ is read as a power,
typographic signs (a multiplication cross, a long minus) as the ASCII ones, 1,234 as 1234.
Everything else is refused with a short reason. The result's text is `str(round(float(x), 2))`, as
in the calculator of ToolGRPO and of TRL's example, except that -0.0 is written 0.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

MAX_CHARACTERS, MAX_TOKENS, MAX_DEPTH = 200, 100, 30
MAX_BITS, MAX_EXPONENT = 4096, 1024

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][+-]?\d{1,3}(?!\d))?)|(?P<operator>\*\*|//|[-+*/%^()]))",
    re.ASCII,
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_ASCII_SIGNS = str.maketrans(
    {"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "\u2013": "-", "\u00a0": " "}
)
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": 4}
# A sign binds less than the power behind it, -2**2 == -(2**2), and may stand before an exponent,
# 2**-1 == 0.5: both as in Python.
_SIGN_PRECEDENCE = 3


class CalculatorError(ValueError):
    """Error of an expression that is no arithmetic, or too large to compute.

    The message is for the model.
    """


class _Token(NamedTuple):
    text: str  # the operator; "" for a number and for the end
    number: Fraction | None = None

    @property
    def is_end(self) -> bool:
        return not self.text and self.number is None


def calculate(expression: str) -> str:
    """Compute an expression to two decimals, as text; errors as `Tool error: ...`.

    Never raises.
    """
    try:
        value = evaluate(expression)
    except CalculatorError as error:
        return f"Tool error: {error}"
    try:
        return str(round(float(value), 2) + 0.0)  # -0.0 + 0.0 is 0.0
    except OverflowError:
        return "Tool error: number too large"


def evaluate(expression: str) -> Fraction:
    """Evaluate an expression exactly; only roots, such as 2**0.5, use floats."""
    parser = _CalculatorParser(_tokens(expression))
    value = parser.expression(1, 0)
    if not parser.token.is_end:
        raise CalculatorError(f"unexpected {parser.token.text!r}")
    return value


def _tokens(expression: str) -> list[_Token]:
    if len(expression) > MAX_CHARACTERS:
        raise CalculatorError(f"the expression is longer than {MAX_CHARACTERS} characters")
    text = expression.translate(_ASCII_SIGNS).strip()
    text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    if not text.isascii():
        raise CalculatorError("only ASCII digits and + - * / // % ** ( ) are understood")
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CalculatorError(
                f"unexpected {text[position:].lstrip()[:1]!r} at position {position}"
            )
        if match["number"]:
            tokens.append(_Token("", Fraction(match["number"])))
        else:
            tokens.append(_Token("**" if match["operator"] == "^" else match["operator"]))
        position = match.end()
    if len(tokens) > MAX_TOKENS:
        raise CalculatorError(f"more than {MAX_TOKENS} numbers and signs")
    if not tokens:
        raise CalculatorError("empty expression")
    return [*tokens, _Token("")]


class _CalculatorParser:
    """Precedence-climbing parser that computes while it parses."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._position]

    def expression(self, lowest: int, depth: int) -> Fraction:
        """Evaluate the longest expression of operators no looser than `lowest`."""
        if depth > MAX_DEPTH:
            raise CalculatorError("nested too deeply")
        value = self._operand(depth)
        while True:
            token = self.token
            if token.number is not None or token.text == "(":
                raise CalculatorError("missing operator")
            precedence = _PRECEDENCE.get(token.text, 0)
            if precedence < lowest:
                return value
            self._position += 1
            right = self.expression(
                _SIGN_PRECEDENCE if token.text == "**" else precedence + 1, depth + 1
            )
            value = _bounded(_OPERATIONS[token.text](value, right))

    def _operand(self, depth: int) -> Fraction:
        token = self.token
        if token.is_end:
            raise CalculatorError("the expression ends too early")
        self._position += 1
        if token.number is not None:
            return token.number
        if token.text in ("+", "-"):
            value = self.expression(_SIGN_PRECEDENCE, depth + 1)
            return -value if token.text == "-" else value
        if token.text != "(":
            raise CalculatorError(f"unexpected {token.text!r}")
        value = self.expression(1, depth + 1)
        if self.token.text != ")":
            raise CalculatorError("missing )")
        self._position += 1
        return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > MAX_BITS:
        raise CalculatorError("number too large")
    return value


def _nonzero(divisor: Fraction) -> Fraction:
    if not divisor:
        raise CalculatorError("division by zero")
    return divisor


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator == 1:
        if not base and exponent < 0:
            raise CalculatorError("division by zero")
        # before it is computed
        if abs(exponent) > MAX_EXPONENT or _bits(base) * abs(exponent) > MAX_BITS:
            raise CalculatorError("exponent too large")
        return base ** int(exponent)
    if base < 0:
        raise CalculatorError("root of a negative number")
    try:
        return Fraction(float(base) ** float(exponent))
    except ZeroDivisionError as error:
        raise CalculatorError("division by zero") from error
    except OverflowError as error:
        raise CalculatorError("number too large") from error


_OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / _nonzero(right),
    "//": lambda left, right: Fraction(left // _nonzero(right)),
    "%": lambda left, right: left % _nonzero(right),
    "**": _power,
}

DESCRIPTION = (
    "Evaluate an arithmetic expression with + - * / // % ** and parentheses. The result is rounded "
    f"to two decimals, for example `14 + 34` gives `{calculate('14 + 34')}`."
)
