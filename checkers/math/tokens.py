"""Tokenizer of mathematical text, plain or LaTeX."""

from __future__ import annotations

import re

MAX_TOKENS = 300
FUNCTIONS = frozenset(
    (
        *(
            "sqrt",
            "root",
            "sin",
            "cos",
            "tan",
            "cot",
            "sec",
            "csc",
            "arcsin",
            "arccos",
            "arctan",
            "sinh",
            "cosh",
        ),
        *("tanh", "log", "ln", "exp", "abs", "binom", "factorial"),
    )
)
CONSTANTS = frozenset(("pi", "e", "i", "oo"))
GREEK = frozenset(
    (
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "theta",
        "lambda",
        "mu",
        "rho",
        "sigma",
        "tau",
        "phi",
        "omega",
    )
)
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
    """Text that is no expression of this grammar; the message gives the position."""


def tokenize(text: str) -> list[tuple[str, str]]:
    """Return the (kind, text) tokens of an expression; raises ExpressionError."""
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
    """Return a word as a function or a constant, or two letters as a product.

    Longer words are no mathematics.
    """
    if word in FUNCTIONS or word in CONSTANTS or word in GREEK:
        return [("command", word)]
    if len(word) > 2:
        raise ExpressionError(f"unknown word {word!r}")
    return [("command", letter) if letter in CONSTANTS else ("letter", letter) for letter in word]
