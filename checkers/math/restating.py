"""Restated questions: answers that are equal to the right one, and yet no answer."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from fctncalling.checkers.math.answer import exact_number, parse_number_literal
from fctncalling.checkers.math.canonical import (
    canonical_form,
    is_unsimplified,
    subtrees,
    tuple_elements,
)
from fctncalling.checkers.math.expression import (
    CONSTANTS,
    FUNCTIONS,
    GREEK,
    ExpressionError,
    Tree,
    tokenize,
    try_parse,
)

MAX_RUN = 24  # words of a question that are looked at as one expression
_BETWEEN = re.compile(r"[$?;:=]|\\[()\[\]]|[.,](?=\s|$)")
_MATHEMATICAL = re.compile(r"[\d+*/^\\(){}|!%\u2212\u00d7\u00b7\u00f7\u221a\u03c0-]")
_NO_MATTER = frozenset("(){}[]*")  # signs that can stand or be left out


def restates_question(answer: str, question: str, truth: str = "") -> bool:
    r"""Whether an answer restates the question alone, though equal to the truth.

    A number has to be written out: digits, a fraction in lowest terms, or m * 10^n. Any other
    expression must not be unfinished (`is_unsimplified`), nor one of the question, however its sums
    and products are written; but it may be shorter than there, or written as the truth is.
    """
    tree = try_parse(answer)
    if tree is None:
        return False
    asked, wanted = list(_expressions(question)), try_parse(truth)
    if _has_words_of(answer, asked) and not _has_words_of(answer, [truth]):
        return True
    if exact_number(truth) is not None:
        percent = "%" if truth.rstrip().endswith("%") else ""
        return parse_number_literal(answer, like=percent) is None and not _is_written_out(tree)
    forms_of_truth = {canonical_form(each) for each in tuple_elements(wanted)} if wanted else set()
    trees = [each for each in map(try_parse, asked) if each is not None]
    sizes = {
        form: _size(each) for each in trees if (form := canonical_form(each)) not in forms_of_truth
    }
    return any(
        not _is_written_out(each)
        and (is_unsimplified(each) or sizes.get(canonical_form(each), math.inf) <= _size(each))
        for each in tuple_elements(tree)
    )


def _is_written_out(tree: Tree) -> bool:
    """Whether an expression is a number as one writes it at the end of a calculation."""
    if tree[0] == "negative":
        tree = tree[1]
    match tree:
        case ["number", _]:
            return True
        case ["/", ["number", above], ["number", below]]:
            values = Fraction(above), Fraction(below)
            whole = all(each.denominator == 1 for each in values)
            return whole and values[1] > 1 and math.gcd(int(values[0]), int(values[1])) == 1
        case ["*", ["number", mantissa], ["^", ["number", "10"], exponent]]:
            exponent = exponent[1] if exponent[0] == "negative" else exponent
            return 1 <= Fraction(mantissa) < 10 and exponent[0] == "number"
    return False


def _has_words_of(answer: str, expressions: list[str]) -> bool:
    """Whether an answer has the symbols of an expression, in whatever order."""
    symbols = _symbols(answer)
    return sum(symbols.values()) > 1 and any(symbols == _symbols(each) for each in expressions)


def _symbols(text: str) -> Counter[str]:
    try:
        tokens = tokenize(text)
    except ExpressionError:
        return Counter()
    return Counter(
        str(Fraction(token)) if kind == "number" else token
        for kind, token in tokens
        if token not in _NO_MATTER and kind != "end"
    )


def _expressions(question: str) -> Iterator[str]:
    """Yield the mathematical expressions of a question, and what reads as one within them."""
    for sentence in _BETWEEN.split(question):
        run = list[str]()
        for word in [*sentence.split(), "."]:
            if _is_mathematical(word):
                run.append(word)
                continue
            for start, end in combinations(range(min(len(run), MAX_RUN) + 1), 2):
                text = " ".join(run[start:end])
                if (tree := try_parse(text)) is not None and tree[0] not in ("number", "name"):
                    yield text
            run = []


def _is_mathematical(word: str) -> bool:
    known = word in FUNCTIONS or word in CONSTANTS or word in GREEK
    return known or (len(word) <= 2 and word.isalpha()) or _MATHEMATICAL.search(word) is not None


def _size(tree: Tree) -> int:
    return sum(1 for _ in subtrees(tree))
