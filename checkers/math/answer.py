r"""Checkers of free-form answers: exact numbers, AIME's integers, symbolic equality.

Never by luck with strings: two texts are compared as what they mean, and identical texts count as
equal only where neither has a meaning this project knows (a word, say). A numeric answer is a
number that is written out: what would have to be computed first, such as the question's own
expression, is none. A percent sign divides by a hundred. A restated question is equal to the right
answer, and yet no answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Literal

from fctncalling.checkers.math.canonical import (
    canonical_form,
    divides_by_sum,
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
    parse,
    tokenize,
    try_parse,
)
from fctncalling.checkers.math.symbolic import SymbolicComparer
from fctncalling.data.types import Verdict

Form = Literal["numeric", "symbolic", "aime"]
MAX_RESPONSE_CHARACTERS = 1_000_000
MAX_BITS = 4096  # of a number that is computed exactly
_AIME = re.compile(r"\d{1,3}", re.ASCII)
_LITERAL = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_FRACTION = re.compile(r"([+-]?)(?:\\[dt]?frac\{(\d+)\}\{(\d+)\}|(\d+)\s*/\s*(\d+))", re.ASCII)
_PERCENT = re.compile(r"\s*\\?%$")
_MAX_DIGITS = 1000
_GSM8K = re.compile(r"####[ \t]*([^\n]+)")
MAX_RUN = 24  # words of a question that are looked at as one expression
_BETWEEN = re.compile(r"[$?;:=]|\\[()\[\]]|[.,](?=\s|$)")
_MATHEMATICAL = re.compile(r"[\d+*/^\\(){}|!%\u2212\u00d7\u00b7\u00f7\u221a\u03c0-]")
_NO_MATTER = frozenset("(){}[]*")  # signs that can stand or be left out


def check_answer(
    response: str,
    accepted: Sequence[str],
    form: Form,
    *,
    tolerance: float = 0.0,
    time_limit_s: float = 5.0,
    comparer: SymbolicComparer | None = None,
) -> Verdict:
    """Check a response's final answer: whether it equals an accepted one.

    The final answer is the last \\boxed{...}, else what follows the last "####", else the whole
    response. `tolerance` is relative, for numeric answers; `time_limit_s` bounds one symbolic
    comparison, in seconds; pass a `comparer` to keep one interpreter for many answers.
    """
    answer = extract_final_answer(response)
    judges: dict[Form, Callable[[str], bool | None]] = {
        "numeric": lambda truth: numeric_equal(answer, truth, tolerance=tolerance),
        "aime": lambda truth: aime_equal(answer, truth),
        "symbolic": lambda truth: symbolic_equal(
            answer, truth, time_limit_s=time_limit_s, comparer=comparer
        ),
    }
    verdicts = []
    for truth in accepted:
        verdicts.append(judges[form](truth))
        if verdicts[-1]:
            return Verdict(True, 1.0)
    if None in verdicts:
        return Verdict(
            False,
            0.0,
            "answer:undecided",
            f"{answer!r:.100} was not decided within {time_limit_s:g} s",
        )
    return Verdict(
        False, 0.0, "answer:wrong", f"{answer!r:.100} is not {' or '.join(map(repr, accepted))}"
    )


def extract_final_answer(response: str) -> str:
    r"""Extract a response's final answer: the last \boxed{...}, what follows "####", or all."""
    response = response[-MAX_RESPONSE_CHARACTERS:]
    start = max(response.rfind("\\boxed{"), response.rfind("\\fbox{"))
    if start >= 0:
        inside = _balanced(response[response.index("{", start) :])
        if inside is not None:
            return inside.strip()
    marked = _GSM8K.findall(response)
    return (marked[-1] if marked else response).strip()


def _balanced(text: str) -> str | None:
    depth = 0
    for position, character in enumerate(text):
        if text[position - 1 : position] == "\\":  # an escaped brace of a set
            continue
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return text[1:position]
    return None


def aime_equal(answer: str, truth: str) -> bool:
    """Whether two answers are the same integer from 0 to 999."""
    answer, truth = answer.strip().strip("$").strip(), truth.strip()
    return bool(_AIME.fullmatch(answer) and _AIME.fullmatch(truth)) and int(answer) == int(truth)


def numeric_equal(answer: str, truth: str, *, tolerance: float = 0.0) -> bool:
    """Whether an answer is numerically equal to the truth, exactly or within a tolerance.

    The truth may be an expression; the answer is a literal (see `parse_number_literal`), a fraction
    or in percent only where the truth is written so.
    """
    left, right = parse_number_literal(answer, like=truth), exact_number(truth)
    if left is None or right is None:
        return False
    return abs(left - right) <= Fraction(tolerance) * abs(right)


def parse_number_literal(text: str, *, like: str = "") -> Fraction | None:
    """Parse a number that is written out; None if it would have to be computed.

    A literal is a sign, digits, thousands separators, decimals, an exponent. Where the text that it
    is to be `like` is a fraction of whole numbers, or ends with a percent sign, it may be such a
    fraction, or end so, too.
    """
    text, like = _bare(text), _bare(like)
    if len(text) > _MAX_DIGITS:
        return None
    scale = Fraction(1)
    if _PERCENT.search(text):
        if not _PERCENT.search(like):
            return None
        text, like, scale = _PERCENT.sub("", text), _PERCENT.sub("", like), Fraction(1, 100)
    fraction = _FRACTION.fullmatch(text)
    if fraction is not None and _FRACTION.fullmatch(like):
        sign, *parts = (part for part in fraction.groups() if part is not None)
        above, below = map(int, parts)
        return Fraction(-above if sign == "-" else above, below) * scale if below else None
    if not _LITERAL.fullmatch(text) or not any(map(str.isdigit, text.partition("e")[0])):
        return None
    try:
        return Fraction(text.replace(",", "").replace("E", "e").rstrip(".")) * scale
    except ValueError:
        return None


def _bare(text: str) -> str:
    """Strip blanks and dollar signs from a text, and make its minus ASCII."""
    return text.strip().removeprefix("\\$").strip("$").strip().replace("\u2212", "-")


def exact_number(text: str) -> Fraction | None:
    """Return the rational number that a text denotes; None for names, roots and functions.

    None also for a text that is no expression.
    """
    try:
        return _rational(parse(text.strip().removeprefix("\\$").removeprefix("$")))
    except (ExpressionError, ZeroDivisionError):
        return None


def _rational(tree: Tree) -> Fraction:
    kind = tree[0]
    if kind == "number":
        return Fraction(tree[1])
    if kind == "negative":
        return -_rational(tree[1])
    if kind not in ("+", "-", "*", "/", "^"):
        raise ExpressionError("not a rational number")
    left, right = _rational(tree[1]), _rational(tree[2])
    if kind == "^":
        bits = max(left.numerator.bit_length(), left.denominator.bit_length())
        if right.denominator != 1 or bits * abs(right) > MAX_BITS:
            raise ExpressionError("not a rational number of sensible size")
        return left ** int(right)
    if kind != "/":
        return {"+": left + right, "-": left - right, "*": left * right}[kind]
    return left / right


def symbolic_equal(
    answer: str, truth: str, *, time_limit_s: float = 5.0, comparer: SymbolicComparer | None = None
) -> bool | None:
    """Whether two expressions are symbolically equal; None if undecided in time.

    Rational numbers are compared here and exactly; the rest by SymPy, an optional extra, in a
    process of its own.
    """
    trees = [try_parse(answer), try_parse(truth)]
    if None in trees:
        return trees == [None, None] and " ".join(answer.split()) == " ".join(truth.split())
    left, right = exact_number(answer), exact_number(truth)
    if left is not None and right is not None:
        return left == right
    if trees[0] == trees[1]:
        return True
    assert trees[0] is not None
    assert trees[1] is not None
    if comparer is not None:
        return comparer.equal(trees[0], trees[1], time_limit_s=time_limit_s)
    with SymbolicComparer() as own:
        return own.equal(trees[0], trees[1], time_limit_s=time_limit_s)


def restates_question(answer: str, question: str, truth: str = "") -> bool:
    r"""Whether an answer only restates the question, though equal to the truth.

    A number has to be written out: digits, a fraction in lowest terms, or m * 10^n. Any other
    expression must not be unfinished (`is_unsimplified`), nor one of the question, however its sums
    and products are written; but it may be shorter than there, or written as the truth is.
    """
    tree = try_parse(answer)
    if tree is None:
        return False
    expressions, wanted = list(_expressions(question)), try_parse(truth)
    if _has_words_of(answer, expressions) and not _has_words_of(answer, [truth]):
        return True
    if exact_number(truth) is not None:
        percent = "%" if truth.rstrip().endswith("%") else ""
        return parse_number_literal(answer, like=percent) is None and not _is_written_out(tree)
    forms_of_truth = set(map(canonical_form, tuple_elements(wanted))) if wanted else set()
    trees = [parsed for text in expressions if (parsed := try_parse(text)) is not None]
    sizes = {
        form: _size(asked)
        for asked in trees
        if (form := canonical_form(asked)) not in forms_of_truth
    }
    if divides_by_sum(tree) and wanted and not divides_by_sum(wanted):
        return True  # the truth tells that the quotient can be had
    return any(
        not _is_written_out(part)
        and (is_unsimplified(part) or sizes.get(canonical_form(part), math.inf) <= _size(part))
        for part in tuple_elements(tree)
    )


def _is_written_out(tree: Tree) -> bool:
    """Whether an expression is a number in the form that ends a calculation."""
    if tree[0] == "negative":
        tree = tree[1]
    match tree:
        case ["number", _]:
            return True
        case ["/", ["number", above], ["number", below]]:
            values = Fraction(above), Fraction(below)
            whole = all(value.denominator == 1 for value in values)
            return whole and values[1] > 1 and math.gcd(int(values[0]), int(values[1])) == 1
        case ["*", ["number", mantissa], ["^", ["number", "10"], exponent]]:
            exponent = exponent[1] if exponent[0] == "negative" else exponent
            return 1 <= Fraction(mantissa) < 10 and exponent[0] == "number"
    return False


def _has_words_of(answer: str, expressions: list[str]) -> bool:
    """Whether an answer has the symbols of one of the expressions, in any order."""
    symbols = _symbols(answer)
    return sum(symbols.values()) > 1 and symbols in map(_symbols, expressions)


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
    """Yield the mathematical expressions of a question, and every part that parses as one."""
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
    is_name = word in FUNCTIONS or word in CONSTANTS or word in GREEK
    return is_name or (len(word) <= 2 and word.isalpha()) or _MATHEMATICAL.search(word) is not None


def _size(tree: Tree) -> int:
    return sum(1 for _ in subtrees(tree))
