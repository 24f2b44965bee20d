"""Evaluator of Python expressions without `eval`.

Literals, arithmetic, subscripts, comparisons, allowed calls.

What is covered: every expression a person would write as an argument (`2 * 3`, "a" + "b", [0] * 5,
x["k"] of an allowed call's result, `1 if 2 > 1 else 0`), with CPython's own results and error
texts. What is not: attributes, names, lambdas, comprehensions, f-strings, assignments. Sizes are
bounded before anything is computed, and with them the time: some 25 milliseconds for one text.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from fctncalling.envs.python_source.call_source import (
    BITS_PER_WEIGHT,
    CHARS_PER_WEIGHT,
    MAX_WEIGHT,
    LimitExceeded,
    value_size,
)

MAX_DEPTH = 150  # nested operations; two interpreter frames each
MAX_BITS = 20_000  # of an integer: six thousand digits, more than Python prints

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.MatMult: operator.matmul,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}
PURE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (abs, bool, float, int, len, max, min, str, sum)
}
"""Built-ins that may be called: results no larger than their arguments, no effect."""

_WIDE_FORMAT = re.compile(r"\*|\d{4}")
_WIDE_FIELD = re.compile(r"\d{3}")
_VALUE, _WIDE_VALUE = 100, 1000  # what a value weighs that a format writes out


class Evaluator:
    """Evaluator of the Python expressions of one text within a size budget.

    `call` resolves a callee node to what may be called; it raises where nothing may be.
    """

    def __init__(
        self,
        resolve: Callable[[ast.expr, Evaluator], Callable[..., Any]] | None = None,
        allowance: int = MAX_WEIGHT,
    ) -> None:
        self._resolve = resolve or resolve_allowed_builtin
        self.left = allowance  # what the results may still weigh
        # whether a tool's result goes into another call: a live object, perhaps
        self.hands_on = False
        self._depth = 0

    @property
    def is_nested(self) -> bool:
        """Whether the evaluated node is part of a larger expression."""
        return self._depth > 1

    def value(self, node: ast.expr) -> Any:
        """Evaluate an expression node; raises Python's errors, or LimitExceeded."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise TypeError(
                f"a {type(node).__name__} expression is not allowed here: expected literals and "
                "arithmetic"
            )
        if self._depth >= MAX_DEPTH:
            raise LimitExceeded(f"expressions nested deeper than {MAX_DEPTH} are not evaluated")
        self._depth += 1
        try:
            return method(node)
        finally:
            self._depth -= 1

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        raise NameError(f"name '{node.id}' is not defined")

    def _attribute(self, node: ast.Attribute) -> Any:
        owner = type(self.value(node.value)).__name__
        raise AttributeError(f"'{owner}' object has no attribute '{node.attr}'")

    def _list(self, node: ast.List) -> list[Any]:
        return self._items(node.elts)

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._items(node.elts))

    def _set(self, node: ast.Set) -> set[Any]:
        self.charge(len(node.elts) ** 2 // 40)  # integers of one hash are each compared with all
        return set(self._items(node.elts))

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        items: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                items.extend(self.value(node.value))
            else:
                items.append(self.value(node))
        return items

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.value(value))
            else:
                result[self.value(key)] = self.value(value)
        return result

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self.value(node.operand))

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        self.charge(result_size_bound(type(node.op), left, right))
        return _BINARY[type(node.op)](left, right)

    def _boolop(self, node: ast.BoolOp) -> Any:
        result = None
        for operand in node.values:
            result = self.value(operand)
            if bool(result) is isinstance(node.op, ast.Or):
                break
        return result

    def _compare(self, node: ast.Compare) -> Any:
        left, result = self.value(node.left), True
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand)
            self.charge(value_size((left, right), self.left))
            result = _COMPARISONS[type(op)](left, right)
            if not result:
                break
            left = right
        return result

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _subscript(self, node: ast.Subscript) -> Any:
        container = self.value(node.value)
        return container[self.value(node.slice)]

    def _slice(self, node: ast.Slice) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.value(part) for part in parts))

    def _call(self, node: ast.Call) -> Any:
        function = self._resolve(node.func, self)
        positional = self._items(node.args)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            keywords.update(value if keyword.arg is None else {keyword.arg: value})
        return function(*positional, **keywords)

    def with_size_charge(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a built-in so that it charges its arguments' size before it runs."""

        def run(*positional: Any, **keywords: Any) -> Any:
            weight = sum(map(value_size, (*positional, *keywords.values())))
            start = keywords.get("start", positional[1] if len(positional) > 1 else 0)
            # Lists are added one upon the other.
            copies = function is sum and not isinstance(start, int | float)
            self.charge(weight * weight if copies else weight)
            return function(*positional, **keywords)

        return run

    def charge(self, weight: int) -> None:
        """Charge the size budget; raises LimitExceeded if it is used up."""
        if weight > self.left:
            self.left = 0  # weighing took its time, too
            raise LimitExceeded("the result would be too large")
        self.left -= weight


def resolve_allowed_builtin(node: ast.expr, evaluator: Evaluator) -> Callable[..., Any]:
    """Return the allowed built-in function that a callee names.

    Raises what Python raises for an unknown or uncallable one.
    """
    if isinstance(node, ast.Name) and node.id in PURE_FUNCTIONS:
        return evaluator.with_size_charge(PURE_FUNCTIONS[node.id])
    raise TypeError(f"'{type(evaluator.value(node)).__name__}' object is not callable")


def result_size_bound(op: type[ast.operator], left: Any, right: Any) -> int:
    """Return an upper bound of the size of `left op right` without computing it.

    Raises LimitExceeded over MAX_BITS.
    """
    if isinstance(left, int) and isinstance(right, int):
        bits = {
            ast.Mult: left.bit_length() + right.bit_length(),
            ast.Pow: left.bit_length() * max(right, 0) if abs(left) > 1 else 1,
            ast.LShift: left.bit_length() + max(right, 0) if left else 1,
        }.get(op, max(left.bit_length(), right.bit_length()) + 1)
        if bits > MAX_BITS:
            raise LimitExceeded(f"integers of more than {MAX_BITS} bits are not computed")
        return 1 + bits // BITS_PER_WEIGHT
    if op is ast.Mult and isinstance(left, int):
        left, right = right, left
    if op is ast.Mult and isinstance(right, int):
        repeated = max(right, 1)
        if isinstance(left, str):
            return 1 + len(left) * repeated // CHARS_PER_WEIGHT
        return value_size(left) * repeated
    if op is ast.Mod and isinstance(left, str | bytes):
        template = left if isinstance(left, str) else left.decode("latin-1")
        if _WIDE_FORMAT.search(template):
            raise LimitExceeded(
                "formats with a width of four digits, or a given one, are not computed"
            )
        field_size = _WIDE_VALUE if _WIDE_FIELD.search(template) else _VALUE
        return value_size(left) * (1 + value_size(right)) + field_size * template.count("%")
    return value_size(left) + value_size(right)
