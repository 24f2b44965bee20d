"""Exact calculator for untrusted text: sizes are bounded before computing, no `eval`.

Grammar: numbers, + - * / // % ** ( ), signs, with Python's precedence; ^ is read as a power,
typographic signs (a multiplication cross, a long minus) as the ASCII ones, 1,234 as 1234.
Everything else is refused with a short reason. The result's text is `str(round(float(x), 2))`, as
in the calculator of ToolGRPO and of TRL's example, except that -0.0 is written 0.0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

MAX_CHARACTERS, MAX_TOKENS = 200, 100
MAX_BITS, MAX_EXPONENT = 4096, 1024

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][+-]?\d{1,3}(?!\d))?)|(?P<operator>\*\*|//|[-+*/%^()]))",
    re.ASCII,
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_ASCII_SIGNS = str.maketrans(
    {"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "\u2013": "-", "\u00a0": " "}
)


class CalculatorError(ValueError):
    """Error of an expression that is no arithmetic, or too large to compute.

    The message is for the model.
    """


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
    if len(expression) > MAX_CHARACTERS:
        raise CalculatorError(f"the expression is longer than {MAX_CHARACTERS} characters")
    text = expression.translate(_ASCII_SIGNS).strip()
    text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    if not text.isascii():
        raise CalculatorError("only ASCII digits and + - * / // % ** ( ) are understood")
    tokens, numbers, position = list[str](), dict[str, Fraction](), 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CalculatorError(
                f"unexpected {text[position:].lstrip()[:1]!r} at position {position}"
            )
        token = match["operator"] or f"n{position}"
        if match["number"]:
            numbers[token] = Fraction(match["number"])
        tokens.append("**" if token == "^" else token)
        position = match.end()
    if len(tokens) > MAX_TOKENS:
        raise CalculatorError(f"more than {MAX_TOKENS} numbers and signs")
    if not tokens:
        raise CalculatorError("empty expression")
    try:
        # Of names, operators and brackets only: Python's own grammar says what binds how.
        tree = ast.parse(" ".join(tokens), mode="eval")
    except SyntaxError:
        raise CalculatorError("a number, a sign or a bracket is missing or too many") from None
    return _value(tree.body, numbers)


def _value(node: ast.expr, numbers: Mapping[str, Fraction]) -> Fraction:
    match node:
        case ast.Name():
            return numbers[node.id]
        case ast.UnaryOp():
            value = _value(node.operand, numbers)
            return -value if isinstance(node.op, ast.USub) else value
        case ast.BinOp():
            left, right = _value(node.left, numbers), _value(node.right, numbers)
            value = _OPERATIONS[type(node.op)](left, right)
            if _bits(value) > MAX_BITS:
                raise CalculatorError("number too large")
            return value
    raise CalculatorError("missing operator")  # Python's calls, f(1), and tuples, ()


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


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


_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / _nonzero(right),
    ast.FloorDiv: lambda left, right: Fraction(left // _nonzero(right)),
    ast.Mod: lambda left, right: left % _nonzero(right),
    ast.Pow: _power,
}

DESCRIPTION = (
    "Evaluate an arithmetic expression with + - * / // % ** and parentheses. The result is rounded "
    f"to two decimals, for example `14 + 34` gives `{calculate('14 + 34')}`."
)
