"""Restated questions: no rewrite of a question's own expression is an answer, its value always
is.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.checkers.math.answer import exact_number, restates_question
from fctncalling.checkers.math.expression import Tree

SUM = "What is 12 * 37?"
SIMPLIFY = "Simplify $(x+1)^2 - x^2$."
CASES = [
    # question, truth, rewrites, answers
    (
        SUM,
        "444",
        "12*37+0|0+12*37|37*12|37*12*1|(12)(37)|x=12*37|--12*37|12*36+12|444+0|444*1|444/1|888/2|"
        r"2*222|\sqrt{197136}|444+x-x|12(37)|44400%|4.44*10^2+0|12 \cdot 37|\frac{12}{1}*37",
        r"444|444.0|(444)|$444$|x = 444|+444|4.44*10^2|4.44\times 10^{2}|444.",
    ),
    (
        SIMPLIFY,
        "2x+1",
        "(x+1)^2-x^2|(x+1)^2-x^2+0|(1+x)^2-x*x|(x+1)(x+1)-x^2|(-x-1)^2-x^2|-x^2+(x+1)^2|x+x+1|"
        r"x^2+2x+1-x^2|-2x+4x+1|2x+1+0|1(2x+1)|2x+2-1|2((x+1)^2-x^2)/2|\sqrt{((x+1)^2-x^2)^2}|"
        r"e^{\ln((x+1)^2-x^2)}|y=(x+1)^2-x^2|(x+1)^2-x^2+y-y|((x+1)^2-x^2)/1",
        r"2x+1|1+2x|1+x*2|2(x+1/2)|x=2x+1|2\cdot x+1",
    ),
    (
        r"Simplify $\sqrt{8}$.",
        r"2\sqrt{2}",
        r"\sqrt{8}|8^{1/2}|8^{0.5}|\sqrt{4*2}|\sqrt{4}\sqrt{2}|\sqrt{2}+\sqrt{2}|1\sqrt{8}",
        r"2\sqrt{2}|\sqrt{2}*2|2*2^{1/2}|4/\sqrt{2}|2^{3/2}",
    ),
    (
        "Factor x^2 - 1.",
        "(x-1)(x+1)",
        "x^2-1|-(1-x^2)|-1+x^2|x*x-1|(2x^2-2)/2",
        "(x+1)(x-1)|(x-1)(x+1)|-(1-x)(x+1)",
    ),
    (
        "Expand 2(x+1).",
        "2x+2",
        "2(x+1)|(x+1)*2|-2(-x-1)|(4x+4)/2|(x+1)+(x+1)",
        "2x+2|2+2x",
    ),
    ("Factor x^2+2x+1.", "(x+1)^2", "x^2+2x+1|1+2x+x^2", "(x+1)^2|(x+1)(x+1)"),
    ("Write (x+1)(x+1) as a power.", "(x+1)^2", "(x+1)(x+1)|(1+x)*(x+1)", "(x+1)^2|(1+x)^2"),
    ("Simplify (x+2)^2/(x+2).", "x+2", "(x+2)^2/(x+2)|(x+2)(x+2)/(x+2)", "x+2|2+x"),
    ("Simplify (4x+4)/2.", "2x+2", "(4x+4)/2|(4+4x)/2", "2x+2|2(x+1)"),
    ("What is 7/2 as a decimal?", "3.5", "7/2|14/4|07/2", "3.5"),
    ("What is 3.5 as a fraction?", "7/2", "14/4|7/2+0", r"7/2|\frac{7}{2}"),
    (r"Which is larger, \sqrt{2} or 1?", r"\sqrt{2}", r"\sqrt{2}*1", r"\sqrt{2}|2^{1/2}"),
    ("Solve x^2 = 4.", "-2, 2", r"\sqrt{4}, -\sqrt{4}|2, 2-4", "2, -2|-2,2"),
    ("Differentiate x e^x.", "e^x(x+1)", "e^x(x+1+0)", "(x+1)e^x|e^x+xe^x"),
    ("Area of a circle of radius 3?", r"9\pi", r"3*3\pi|3^2\pi", r"9\pi|\pi*9"),
    ("Is it odd or even?", "even", "", "even"),
]


@pytest.mark.parametrize(("question", "truth", "rewrites", "answers"), CASES)
def test_rewrites_are_told_from_answers(
    question: str, truth: str, rewrites: str, answers: str
) -> None:
    paid = [
        each
        for each in filter(None, rewrites.split("|"))
        if not restates_question(each, question, truth)
    ]
    refused = [each for each in answers.split("|") if restates_question(each, question, truth)]
    assert (paid, refused) == ([], [])


@pytest.mark.parametrize(
    ("answer", "question", "truth"),
    [
        ("(x+1)^2-|x|^2", SIMPLIFY, "2x+1"),
        ("(x+1)^2-|-x|^2", SIMPLIFY, "2x+1"),
        ("|x|^2-1", "Factor x^2 - 1.", "(x-1)(x+1)"),
        ("(x^4-1)/(x^2+1)", "Factor x^2 - 1.", "(x-1)(x+1)"),
        ("|x|^4", "Simplify x^2 * x^2.", "x^4"),
    ],
)
def test_absolute_values_and_quotients_are_seen_through(
    answer: str, question: str, truth: str
) -> None:
    assert restates_question(answer, question, truth)
    assert not restates_question(truth, question, truth)
    assert not restates_question("|x|", r"Simplify $\sqrt{x^2}$.", "|x|")
    assert not restates_question("1/(1+x)", "Simplify x/(x+x^2).", "1/(x+1)")


def written(tree: Tree) -> str:
    """Write a tree, every operation in brackets."""
    kind = tree[0]
    if kind in ("number", "name"):
        return str(tree[1])
    if kind == "negative":
        return f"-({written(tree[1])})"
    return f"({written(tree[1])}){kind}({written(tree[2])})"


ONE, ZERO = ["number", "1"], ["number", "0"]
NUMBERS = st.integers(2, 60).map(lambda value: ["number", str(value)])
SUMS = st.recursive(
    st.builds(lambda sign, *sides: [sign, *sides], st.sampled_from("+-*"), NUMBERS, NUMBERS),
    lambda inner: st.builds(
        lambda sign, *sides: [sign, *sides], st.sampled_from("+-*"), inner, NUMBERS | inner
    ),
    max_leaves=4,
)
X = ["name", "x"]
SQUARE = ["number", "2"]


def unfolded(a: int) -> tuple[Tree, str]:
    shifted = ["+", X, ["number", str(a)]]
    return ["-", ["^", shifted, SQUARE], ["^", X, SQUARE]], f"{2 * a}x+{a * a}"


def collected(a: int) -> tuple[Tree, str]:
    terms = [["*", ["number", str(each)], X] for each in (a, a + 3)]
    return ["+", *terms], f"{2 * a + 3}x"


def multiplied(a: int) -> tuple[Tree, str]:
    factors = [["+", X, ["number", str(each)]] for each in (a, a + 1)]
    return ["*", *factors], f"x^2+{2 * a + 1}x+{a * a + a}"


POLYNOMIALS = st.builds(
    lambda make, a: make(a), st.sampled_from([unfolded, collected, multiplied]), st.integers(1, 9)
)


def rewritten(tree: Tree, data: st.DataObject) -> Tree:
    """Return a tree of the same value; nothing in it is computed."""
    if tree[0] not in ("number", "name"):
        tree = [tree[0], *(rewritten(each, data) for each in tree[1:])]
    how = data.draw(st.integers(0, 9))
    if how == 0 and tree[0] in ("+", "*"):
        return [tree[0], tree[2], tree[1]]
    if how == 1:
        return data.draw(st.sampled_from([["+", tree, ZERO], ["+", ZERO, tree], ["-", tree, ZERO]]))
    if how == 2:
        return data.draw(st.sampled_from([["*", tree, ONE], ["/", tree, ONE], ["^", tree, ONE]]))
    if how == 3:
        return ["negative", ["negative", tree]]
    if how == 4 and tree[0] == "number" and int(tree[1]) > 1:
        return ["+", ["number", str(int(tree[1]) - 1)], ONE]
    if how == 5:
        return ["/", ["*", SQUARE, tree], SQUARE]
    if how == 6 and tree[:1] == ["^"] and tree[2] == SQUARE:
        return ["*", tree[1], tree[1]]
    return tree


@given(SUMS, st.data())
def test_a_sum_pays_as_its_value_and_never_as_itself(tree: Tree, data: st.DataObject) -> None:
    value = exact_number(written(tree))
    assert value is not None
    question = f"What is {written(tree)}?"
    assert restates_question(written(rewritten(tree, data)), question, str(value))
    for answer in (f"{value}", f"{value}.0", f"x = {value}", f"({value})", f"{int(value):,}"):
        assert not restates_question(answer, question, str(value))


@given(POLYNOMIALS, st.data())
def test_a_polynomial_pays_as_its_simple_form_and_never_as_itself(
    polynomial: tuple[Tree, str], data: st.DataObject
) -> None:
    tree, truth = polynomial
    question = f"Simplify ${written(tree)}$."
    assert restates_question(written(rewritten(tree, data)), question, truth)
    assert not restates_question(truth, question, truth)
    assert not restates_question("+".join(reversed(truth.split("+"))), question, truth)


@given(st.integers(1, 99), st.integers(2, 99))
def test_a_fraction_pays_in_lowest_terms(above: int, below: int) -> None:
    truth = Fraction(above, below)
    lowest = str(truth) == f"{above}/{below}" or truth.denominator == 1
    assert restates_question(f"{above}/{below}", "What is left?", str(truth)) != (
        lowest and truth.denominator > 1
    )
    assert not restates_question(str(truth), "What is left?", str(truth))
