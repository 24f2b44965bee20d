"""Canonical forms of expressions, and a test whether one is fully computed.

A canonical form is the same however sums and products are ordered, bracketed and signed: numbers in
it are computed, like terms and like factors collected. Nothing is expanded and nothing factored, so
that (x+1)^2 and x^2+2x+1 have two forms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from fctncalling.checkers.math.expression import CONSTANTS, Tree

Form = frozenset[Any]
"""Sum: {(monomial, coefficient)}; a monomial is {(base, exponent)}, and an exponent a Form.

For example 3x^2 + 1 is {({(x, 2)}, 3), ({}, 1)}. Sets, as order is of no account, and frozen, as
forms are bases and exponents of other forms.
"""

MAX_BITS = 4096  # of a number that is computed exactly
_OF_NUMBERS = ("factorial", "binom", "abs")  # functions of numbers that are numbers again
_INVERSES = {("exp", "ln"), ("ln", "exp"), ("exp", "log"), ("log", "exp")}
_INVERSES |= {(name, f"arc{name}") for name in ("sin", "cos", "tan")}
_PARTS = ("tuple", "set", "interval")


def canonical_form(tree: Tree) -> Form:
    """Return the canonical form of an expression."""
    kind = tree[0]
    if kind == "number":
        return _constant(Fraction(tree[1]))
    if kind == "negative":
        return _scaled(canonical_form(tree[1]), Fraction(-1))
    if kind in ("+", "-"):
        right = canonical_form(tree[2])
        return _sum(canonical_form(tree[1]), _scaled(right, Fraction(-1)) if kind == "-" else right)
    if kind == "*":
        return _product(canonical_form(tree[1]), canonical_form(tree[2]))
    if kind == "/":
        return _product(
            canonical_form(tree[1]), _power(canonical_form(tree[2]), _constant(Fraction(-1)))
        )
    if power := _as_power(tree):
        return _power(canonical_form(power[0]), canonical_form(power[1]))
    inner = [canonical_form(part) if isinstance(part, list) else part for part in tree[1:]]
    return _atom_power((kind, frozenset(inner) if kind == "set" else tuple(inner)), _ONE)


def rational_value(form: Form) -> Fraction | None:
    """Return the number that a canonical form denotes; None if it has names or roots."""
    if not form:
        return Fraction(0)
    [(monomial, coefficient), *others] = form
    return None if monomial or others else coefficient


def is_unsimplified(tree: Tree) -> bool:
    """Whether a part of an expression can be computed without an idea.

    Such as 2+3, like terms or factors, a term 0, a factor 1, a root that is a number. Equal sums as
    factors, as in (x+1)(x+1), are taken for an answer.
    """
    kind = tree[0]
    if kind in ("number", "name"):
        return False
    if kind in ("+", "-"):
        terms = list(_operands(tree, ("+", "-")))
        return _meet(term for term, _ in terms) or any(is_unsimplified(term) for term, _ in terms)
    if kind in ("*", "/", "negative"):
        factors = list(_operands(tree, ("*", "/", "negative")))
        return _is_unfinished_product(factors) or any(is_unsimplified(part) for part, _ in factors)
    if power := _as_power(tree):
        base, exponent = map(canonical_form, power)
        # x^0, x^1, 0^x, 1^x; 2^3 or sqrt(4), but not sqrt(2); (x^2)^3 or e^(ln x); |x|^2.
        trivial = rational_value(exponent) in (0, 1) or rational_value(base) in (0, 1)
        computable = None not in (rational_value(base), rational_value(_power(base, exponent)))
        nested = _as_power(power[0]) is not None or _undoes(tree, power[0], power[1])
        needless = power[0][:2] == ["call", "abs"] and _is_even(exponent)
        return trivial or computable or nested or needless or any(map(is_unsimplified, power))
    arguments = [part for part in tree[1:] if isinstance(part, list)]
    of_numbers = all(rational_value(form) is not None for form in map(canonical_form, arguments))
    if kind == "call" and ((tree[1] in _OF_NUMBERS and of_numbers) or _undoes(tree, *arguments)):
        return True
    return any(map(is_unsimplified, arguments))


def tuple_elements(tree: Tree) -> list[Tree]:
    """Return the elements of a tuple, set or interval; any other expression as the only one."""
    if tree[0] not in _PARTS:
        return [tree]
    return [part for part in tree[1:] if isinstance(part, list)]


def divides_by_sum(tree: Tree) -> bool:
    """Whether an expression divides by a sum of unknowns, as in (x^2-1)/(x-1)."""
    return any(
        quotient[0] == "/"
        and any(part[0] in ("+", "-") and _has_unknown(part) for part in subtrees(quotient[2]))
        for quotient in subtrees(tree)
    )


def _has_unknown(tree: Tree) -> bool:
    return any(leaf[0] == "name" and leaf[1] not in CONSTANTS for leaf in subtrees(tree))


def subtrees(tree: Tree) -> Iterator[Tree]:
    """Yield all subtrees of an expression, the expression first."""
    yield tree
    for part in tree[1:]:
        if isinstance(part, list):
            yield from subtrees(part)


def _as_power(tree: Tree) -> tuple[Tree, Tree] | None:
    """Return base and exponent of a power, a root or exp(x); None for anything else."""
    if tree[0] == "^":
        return tree[1], tree[2]
    if tree[:2] == ["call", "sqrt"]:
        return tree[2], ["number", "1/2"]
    if tree[:2] == ["call", "root"]:
        return tree[2], ["/", ["number", "1"], tree[3]]
    if tree[:2] == ["call", "exp"]:
        return ["name", "e"], tree[2]
    return None


def _undoes(outer: Tree, *inner: Tree) -> bool:
    """Whether a function is applied to its inverse: ln e^x, e^(ln x), sin(arcsin x)."""
    return any((_function(outer), _function(argument)) in _INVERSES for argument in inner)


def _function(tree: Tree) -> str:
    power = _as_power(tree)
    if power is not None:
        return "exp" if power[0] == ["name", "e"] else ""
    return str(tree[1]) if tree[0] == "call" else ""


def _operands(
    tree: Tree, kinds: tuple[str, ...], *, below: bool = False
) -> Iterator[tuple[Tree, bool]]:
    """Yield the terms or factors of one sum or product, and whether the factor divides."""
    if tree[0] not in kinds:
        yield tree, below
        return
    yield from _operands(tree[1], kinds, below=below)
    if tree[0] != "negative":
        yield from _operands(tree[2], kinds, below=below != (tree[0] == "/"))


def _meet(terms: Iterable[Tree]) -> bool:
    """Whether two terms of a sum are like terms, or one is 0."""
    seen = set()
    for term in terms:
        form = canonical_form(term)
        [_, alike] = _primitive(form) if form else (0, form)
        if not form or alike in seen:
            return True
        seen.add(alike)
    return False


def _is_unfinished_product(factors: list[tuple[Tree, bool]]) -> bool:
    above, below = (
        [tree for tree, divides in factors if divides == side] for side in (False, True)
    )
    numbers = [
        [Fraction(tree[1]) for tree in side if tree[0] == "number"] for side in (above, below)
    ]
    # 2*3, x*0, x/1, 1*x, 4/6, then x*x and x^2/x.
    if any(len(side) > 1 for side in numbers) or 0 in (*numbers[0], *numbers[1]):
        return True
    if 1 in numbers[1] or (1 in numbers[0] and len(above) > 1):
        return True
    if all(numbers) and not _in_lowest_terms(numbers[0][0], numbers[1][0]):
        return True
    return any(_share_a_base(side) for side in (above, below)) or not _bases(above).isdisjoint(
        _bases(below)
    )


def _in_lowest_terms(above: Fraction, below: Fraction) -> bool:
    return above.denominator == below.denominator == 1 == math.gcd(int(above), int(below))


def _share_a_base(factors: list[Tree]) -> bool:
    bases = [base for base in map(_base, factors) if base is not None and len(base) == 1]
    return len(set(bases)) < len(bases)


def _bases(factors: list[Tree]) -> set[Form]:
    return {base for base in map(_base, factors) if base is not None}


def _base(factor: Tree) -> Form | None:
    """Return the base of a factor that is a power; None for a number, as 2 may precede sqrt(2)."""
    power = _as_power(factor)
    return None if factor[0] == "number" else canonical_form(power[0] if power else factor)


# --- arithmetic of forms
# --------------------------------------------------------------------------------------------------


def _constant(value: Fraction) -> Form:
    return frozenset({(frozenset(), value)} if value else ())


_ONE = _constant(Fraction(1))


def _scaled(form: Form, factor: Fraction) -> Form:
    return frozenset((monomial, coefficient * factor) for monomial, coefficient in form)


def _sum(left: Form, right: Form) -> Form:
    terms = dict(left)
    for monomial, coefficient in right:
        terms[monomial] = terms.get(monomial, Fraction(0)) + coefficient
    return frozenset((monomial, number) for monomial, number in terms.items() if number)


def _product(left: Form, right: Form) -> Form:
    if not left or not right:
        return _constant(Fraction(0))
    # A product by 1 or -1 must leave a sum a sum: -(x+1) is -x-1, whereas 2(x+1) is not expanded.
    for factor, rest in ((left, right), (right, left)):
        if (sign := rational_value(factor)) in (1, -1):
            return _scaled(rest, sign)
    left_coefficient, left_powers = _monomial(left)
    right_coefficient, right_powers = _monomial(right)
    powers = dict(left_powers)
    for base, exponent in right_powers:
        powers[base] = _sum(powers.get(base, frozenset()), exponent)
    return _collected(powers, left_coefficient * right_coefficient)


def _collected(powers: dict[Any, Form], coefficient: Fraction) -> Form:
    """Multiply powers of different bases; powers that are numbers are computed."""
    rest = {}
    for base, exponent in powers.items():
        if base[0] == "call" and base[1][0] == "abs" and _is_even(exponent):  # |x|^2 is x^2
            others = {other: power for other, power in powers.items() if other != base}
            return _product(_power(base[1][1], exponent), _collected(others, coefficient))
        number = rational_value(exponent) if base[0] == "number" else None
        computed = None if number is None else rational_value(_number_power(base[1], number))
        if computed is not None:
            coefficient *= computed
        elif exponent:
            rest[base] = exponent
    if len(rest) == 1 and abs(coefficient) == 1:  # the sum itself, as above: 1*(x+1) is x+1
        [(base, exponent)] = rest.items()
        if base[0] == "sum" and exponent == _ONE:
            return _scaled(base[1], coefficient)
    return frozenset({(frozenset(rest.items()), coefficient)})


def _is_even(exponent: Form) -> bool:
    number = rational_value(exponent)
    return number is not None and number % 2 == 0


def _power(base: Form, exponent: Form) -> Form:
    value, number = rational_value(base), rational_value(exponent)
    if exponent == _ONE:
        return base
    if number is None or not base:
        return (
            _atom_power(("sum", base), exponent) if len(base) != 1 else _of_monomial(base, exponent)
        )
    if value is not None:
        return _number_power(value, number)
    return _of_monomial(base, exponent)


def _of_monomial(base: Form, exponent: Form) -> Form:
    """Raise a product to a power, or a sum as one factor."""
    coefficient, monomial = _monomial(base)
    number = rational_value(exponent)
    powers = {factor: _product(power, exponent) for factor, power in monomial}
    if coefficient == 1:
        return _collected(powers, Fraction(1))
    if number is None:
        return _product(
            _atom_power(("number", coefficient), exponent), _collected(powers, Fraction(1))
        )
    return _product(_number_power(coefficient, number), _collected(powers, Fraction(1)))


def _atom_power(base: Any, exponent: Form) -> Form:
    return frozenset({(frozenset({(base, exponent)}), Fraction(1))})


def _number_power(value: Fraction, exponent: Fraction) -> Form:
    """Raise a number to a power; the result is a number if it is rational and not too long."""
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    if value == 0 or bits * abs(exponent) > MAX_BITS:
        return _atom_power(("number", value), _constant(exponent))
    whole = value**exponent.numerator
    above = _root(whole.numerator, exponent.denominator)
    below = _root(whole.denominator, exponent.denominator)
    if above is not None and below is not None:
        return _constant(Fraction(above, below))
    return _atom_power(("number", value), _constant(exponent))


def _root(value: int, degree: int) -> int | None:
    """Return the exact root of a whole number; None if it is no whole number."""
    if degree == 1:
        return value
    if value < 0 or degree > MAX_BITS:
        return None
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**degree < value else (low, middle)
    return low if low**degree == value else None


def _monomial(form: Form) -> tuple[Fraction, Any]:
    """Return coefficient and powers of a product; a sum is one factor."""
    if len(form) == 1:
        [(monomial, coefficient)] = form
        return coefficient, monomial
    content, primitive = _primitive(form)
    return content, frozenset({(("sum", primitive), _ONE)})


def _primitive(form: Form) -> tuple[Fraction, Form]:
    """Split a sum into its common factor and the rest.

    The rest's coefficients are whole, have no common divisor, and the first is positive: so 2x+4,
    x+2 and -x-2 are one base times a number.
    """
    coefficients = [coefficient for _, coefficient in form]
    above = math.gcd(*(coefficient.numerator for coefficient in coefficients))
    below = math.lcm(*(coefficient.denominator for coefficient in coefficients))
    _, first = min(form, key=lambda term: _sort_key(term[0]))
    content = Fraction(above, below) * (1 if first > 0 else -1)
    return content, _scaled(form, 1 / content)


def _sort_key(value: Any) -> str:
    """Return a text that orders forms, monomials and bases the same way in every run."""
    if isinstance(value, frozenset):
        return f"{{{' '.join(sorted(map(_sort_key, value)))}}}"
    return f"({' '.join(map(_sort_key, value))})" if isinstance(value, tuple) else str(value)
