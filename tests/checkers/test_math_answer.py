"""Free-form answers are judged by what they mean: equal in value is equal,
alike in writing is not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction

import pytest

from fctncalling.checkers.math.answer import (
    aime_equal,
    check_answer,
    exact_number,
    extract_final_answer,
    numeric_equal,
    parse_number_literal,
    restates_question,
    symbolic_equal,
)
from fctncalling.checkers.math.expression import ExpressionError, parse
from fctncalling.checkers.math.symbolic import SymbolicComparer


@pytest.fixture(scope="module")
def comparer() -> Iterator[SymbolicComparer]:
    pytest.importorskip("sympy")
    with SymbolicComparer() as made:
        yield made


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", "72"),
        ("$72$", "72"),
        ("72.0", "72"),
        ("1,234.5", "1234.5"),
        ("-3/4", "-3/4"),
        (r"\frac{3}{4}", "3/4"),
        (r"-\dfrac{3}{4}", "-3/4"),
        (r"\frac12", "1/2"),
        ("50%", "1/2"),
        (r"50\%", "1/2"),
        ("2^{10}", "1024"),
        ("3 \\times 10^{-2}", "3/100"),
        ("x = 5", "5"),
        ("(7)", "7"),
        ("7.", "7"),
        ("1000", "1000"),
        ("\\$5", "5"),
        ("2^-1", "1/2"),
        ("\u22124", "-4"),
    ],
)
def test_numbers_are_read_exactly(text: str, value: str) -> None:
    assert exact_number(text) == Fraction(value)


@pytest.mark.parametrize(
    "text", ["", "x", "1/0", "2^{99999999}", "9^9^9^9", "seven", "1 2", "(1, 2)", r"\sqrt{4}"]
)
def test_what_is_no_number_has_no_value(text: str) -> None:
    assert exact_number(text) is None


def test_equal_numbers_and_tolerances() -> None:
    assert numeric_equal("0.5", r"\frac{1}{2}")
    assert not numeric_equal("0.33", "1/3")
    assert numeric_equal("0.333", "1/3", tolerance=0.01)
    assert not numeric_equal("72", "720")
    assert not numeric_equal("", "")


@pytest.mark.parametrize(
    ("answer", "truth", "equal"),
    [
        ("042", "42", True),
        ("42", "042", True),
        ("$42$", "42", True),
        ("0", "000", True),
        ("42.0", "42", False),
        ("1042", "42", False),
        ("-42", "42", False),
        ("4 2", "42", False),
        ("\uff14\uff12", "42", False),
        ("42x", "42", False),
        ("", "", False),
    ],
)
def test_aime_answers_are_integers_of_three_digits(answer: str, truth: str, equal: bool) -> None:
    assert aime_equal(answer, truth) is equal


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"first \boxed{1}, then \boxed{\frac{1}{2}} end", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        ("so 5 + 5\n#### 10\n", "10"),
        ("#### 1\n#### 2", "2"),
        (" 7 ", "7"),
        (r"\boxed{1", r"\boxed{1"),
        (r"\boxed{}", ""),
    ],
)
def test_the_final_answer_is_the_last_one_marked(response: str, answer: str) -> None:
    assert extract_final_answer(response) == answer


EQUAL = [
    ("x^2 - 1", "(x-1)(x+1)"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt 3}"),
    (r"2\pi", "2pi"),
    (r"\sin^2 x + \cos^2 x", "1"),
    (r"\left(1, \frac12\right)", "(1, 0.5)"),
    ("1, 2", "2, 1"),
    (r"\{1, 2\}", "2, 1"),
    ("[0, 1)", "[0,1)"),
    (r"e^{i\pi}", "-1"),
    (r"\sqrt[3]{27}", "3"),
    ("2xy", "2yx"),
    (r"\ln e^2", "2"),
    (r"\binom{5}{2}", "10"),
    ("5!", "120"),
    (r"|{-3}|", "3"),
    (r"x = \frac{a}{b}", "a/b"),
    (r"(-\infty, 2]", r"(-\infty, 2.0]"),
    ("north", "north"),
    ("a_1", "a_{1}"),
    (r"\text{north}", r"\text{north}"),
    (r"\sin 2x", r"2\sin x\cos x"),
    (r"3\sqrt{2}+1", r"1+\sqrt{18}"),
    (r"\frac{x^2-4}{x-2}", "x+2"),
    (r"\arctan 1", r"\frac{\pi}{4}"),
]
DIFFERENT = [
    ("x^2 + 1", "(x-1)(x+1)"),
    (r"\sqrt{8}", "2.83"),
    ("1, 2", "1, 2, 3"),
    ("(1, 2)", "(2, 1)"),
    ("[0, 1]", "[0, 1)"),
    ("north", "thorn"),
    ("north", "n*o*r*t*h"),
    ("x", "y"),
    ("2", "two"),
    ("1/3", "0.33"),
    (r"\pi", "3.14159"),
    *((r"\infty", other) for other in (r"-\infty", "5", "x", "1/0", "0/0")),
    *((other, "0") for other in ("1/0", "0/0")),
    ("{1, 1}", "1"),
    ("", "0"),
    ("(1, 2)", r"\{1, 2\}"),
    ("50%", "50"),
    ("x = y = 2", "2"),
]


@pytest.mark.parametrize(("answer", "truth"), EQUAL)
def test_equal_in_meaning_is_equal(comparer: SymbolicComparer, answer: str, truth: str) -> None:
    assert symbolic_equal(answer, truth, comparer=comparer) is True
    assert symbolic_equal(truth, answer, comparer=comparer) is True


@pytest.mark.parametrize(("answer", "truth"), DIFFERENT)
def test_alike_in_writing_is_not(comparer: SymbolicComparer, answer: str, truth: str) -> None:
    assert symbolic_equal(answer, truth, comparer=comparer) is False


HOSTILE = [
    "x^(9^9^9)+1",
    "9^9^9^9*x",
    "(x+1)^99999*(y+2)^99999",
    "99999999!+x",
    "__import__('os').system('id')",
    "(" * 900,
    "{" * 900,
    "x" * 1001,
    "x+" * 149 + "x",
    "-" * 299 + "x",
    "^".join(["x"] * 60),
    r"\frac" * 90,
    r"\sqrt" * 190 + "2",
    "exec(1)",
    "lambda x: 1",
    "\x00",
    "x\ud800",
    "sqrt(" * 30 + "x" + "+1)" * 30,
    "10^{10^{10}}x",
    r"\boxed{x}",
]


@pytest.mark.parametrize("answer", HOSTILE)
def test_hostile_answers_are_wrong_within_the_time_limit(
    comparer: SymbolicComparer, answer: str
) -> None:
    comparer.equal(
        ["number", "1"], ["name", "x"]
    )  # warm, so that the limit is all there is to wait for
    start = time.perf_counter()
    assert not symbolic_equal(answer, "x + 17", comparer=comparer, time_limit_s=0.5)
    assert time.perf_counter() - start < 3
    assert symbolic_equal("x+x", "2x", comparer=comparer) is True


def test_an_undecided_comparison_is_told_apart_from_a_wrong_answer(
    comparer: SymbolicComparer,
) -> None:
    nested = "sqrt(" * 12 + "x" + "+y^3)" * 12
    verdict = check_answer(
        f"\\boxed{{(({nested})^7-1)^9}}",
        [f"(({nested})^7+1)^9"],
        "symbolic",
        time_limit_s=1e-4,
        comparer=comparer,
    )
    assert (verdict.valid, verdict.error_type) == (False, "answer:undecided")
    assert comparer.equal(parse("x+x"), parse("2x")) is True


def test_verdicts_name_the_answer_and_the_truth() -> None:
    assert check_answer("so \\boxed{0.5}", ["1/3", "1/2"], "numeric").valid
    assert check_answer("#### 007", ["7"], "aime").valid
    verdict = check_answer("\\boxed{3}", ["4"], "numeric")
    assert (verdict.valid, verdict.score, verdict.error_type) == (False, 0.0, "answer:wrong")
    assert "'3' is not '4'" in verdict.message


def test_what_is_no_expression_is_refused() -> None:
    for text in ("", "1 +", "(1", "1)", "[1, 2, 3]", "hello", r"\foo", "x_", "|x", "1 = 2", r"\{1"):
        with pytest.raises(ExpressionError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "like", "value"),
    [
        ("72", "", "72"),
        ("+72.0", "", "72"),
        ("-1,234.5", "", "-1234.5"),
        ("\u22124", "", "-4"),
        ("1.5e3", "", "1500"),
        (".5", "", "1/2"),
        ("7.", "", "7"),
        ("$72$", "", "72"),
        ("\\$5", "", "5"),
        ("50%", "12 %", "1/2"),
        (r"50\%", "12%", "1/2"),
        ("50%", "0.5", None),
        ("6/8", "3/4", "3/4"),
        (r"\\dfrac{3}{4}".replace("\\\\", "\\"), "3/4", "3/4"),
        ("3/4", "0.75", None),
        ("1/0", "3/4", None),
        ("12 * 37", "444", None),
        ("12*37", "3/4", None),
        (r"\frac{888}{2}", "444", None),
        ("44400%", "444", None),
        ("2^{10}", "1024", None),
        ("(7)", "7", None),
        ("x = 5", "5", None),
        ("1,23", "123", None),
        ("", "", None),
        (".", "", None),
        ("e5", "", None),
        ("9" * 5000, "", None),
        ("1 2", "12", None),
    ],
)
def test_a_number_that_is_written_out_is_a_literal_and_nothing_else_is(
    text: str, like: str, value: str | None
) -> None:
    assert parse_number_literal(text, like=like) == (None if value is None else Fraction(value))


def test_a_restated_question_is_told_from_a_number_and_from_another_expression() -> None:
    assert restates_question("12 * 37", "What is 12*37?")
    assert restates_question(r"\left(12 * 37\right)", "What is 12 * 37?")
    assert not restates_question("5", "What is 5 + 0?")
    assert not restates_question("444", "What is 12 * 37?")
    assert not restates_question(r"2\sqrt{2}", r"Simplify $\sqrt{8}$.")
    assert restates_question(r"\sqrt{8}", r"Simplify $\sqrt{8}$.")
