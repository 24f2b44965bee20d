"""BFCL's MathAPI: arithmetic, statistics, units, logarithms, roots (`math_api.py` there).

BFCL sets the precision of mpmath and decimal for the whole process; here each instance has contexts
of its own, so the texts are the same and no other computation is touched.

Deviations, all where BFCL's own would run for minutes or fill the memory:
- `power` of integers with a result of more than MAX_BITS bits raises the text that BFCL ends in
  anyway, for a
  result that long cannot be printed;
- `logarithm` and `square_root` refuse a precision above MAX_DIGITS, `logarithm` a text with an
  exponent above
  MAX_EXPONENT;
- `add` refuses to join sequences of more than MAX_ITEMS items (nested calls could double them
  without end).
`round_number` to a huge negative number of places answers 0 at once, which is exact.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable
from decimal import Context, Decimal, InvalidOperation, localcontext
from typing import Any

from fctncalling.envs.tools import load_bfcl_table

MAX_BITS = 1 << 20
MAX_DIGITS = 1_000
MAX_EXPONENT = 10_000
MAX_ITEMS = 1_000_000

_TABLE = load_bfcl_table("math_api")
_NOT_NUMBERS = "Both inputs must be numbers"
_NOT_ALL_NUMBERS = "All elements in the list must be numbers"
_TOO_LARGE = "Conversion resulted in a value too large to represent"
_UNPRINTABLE = (
    "Exceeds the limit (4300 digits) for integer string conversion; use "
    "sys.set_int_max_str_digits() to increase the limit"
)
_EXPONENT = re.compile(r"e[+-]?(\d+)")
_MPMATH = threading.Lock()
"""Held while mpmath computes: its caches of constants are filled in two steps that threads could
interleave.
"""
_SPARE: list[Any] = []
"""Contexts of instances that are gone: making one takes longer than many a whole episode."""


class MathAPI:
    """BFCL's calculator; its only state is the precision last requested."""

    def __init__(self) -> None:
        self._decimal = Context()
        self._log_digits = 15  # mpmath's default
        self._mpmath: Any = None  # made at the first logarithm, as importing mpmath takes a while

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        """Load no state: the class has none."""

    def __deepcopy__(self, memo: dict[int, Any]) -> MathAPI:
        twin = memo[id(self)] = MathAPI()
        twin.__setstate__(self.__getstate__())
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {"decimal_digits": self._decimal.prec, "log_digits": self._log_digits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        MathAPI.__init__(self)
        self._decimal.prec = state["decimal_digits"]
        self._log_digits = state["log_digits"]

    def _mpmath_context(self) -> Any:
        if self._mpmath is None:
            from mpmath.ctx_mp import MPContext  # type: ignore[import-untyped]

            self._mpmath = _SPARE.pop() if _SPARE else MPContext()
            self._mpmath.dps = self._log_digits
        return self._mpmath

    def __del__(self) -> None:
        if self._mpmath is not None:
            _SPARE.append(self._mpmath)

    def logarithm(self, value: Any, base: Any, precision: Any) -> dict[str, Any]:
        """Return the logarithm of a value to a base, at a decimal precision.

        Whatever goes wrong becomes an error.
        """
        with _MPMATH:
            context = self._mpmath_context()
            try:
                digits = int(precision)
                if digits > MAX_DIGITS or _has_huge_exponent(value) or _has_huge_exponent(base):
                    return {"error": f"More than {MAX_DIGITS} digits are not supported"}
                context.dps = digits
                self._log_digits = digits
                return {"result": context.log(value) / context.log(base)}
            except Exception as error:  # BFCL answers every failure so, its text can be empty
                return {"error": str(error)}

    def mean(self, numbers: Any) -> dict[str, Any]:
        """Return the arithmetic mean."""
        return self._of_list(numbers, "calculate mean", _mean)

    def standard_deviation(self, numbers: Any) -> dict[str, Any]:
        """Return the population's standard deviation."""
        return self._of_list(numbers, "calculate standard deviation", _standard_deviation)

    def si_unit_conversion(self, value: Any, unit_in: Any, unit_out: Any) -> dict[str, Any]:
        """Convert a length between SI units."""
        if not isinstance(value, int | float):
            return {"error": "Value must be a number"}
        to_meters, from_meters = _TABLE["to_meters"], _TABLE["from_meters"]
        if unit_in not in to_meters or unit_out not in from_meters:
            return {"error": f"Conversion from '{unit_in}' to '{unit_out}' is not supported"}
        try:
            return {"result": value * to_meters[unit_in] * from_meters[unit_out]}
        except OverflowError:
            return {"error": _TOO_LARGE}

    def imperial_si_conversion(self, value: Any, unit_in: Any, unit_out: Any) -> dict[str, Any]:
        """Convert a value between imperial and SI units.

        A unit to itself, known or not, leaves the value as it is.
        """
        if not isinstance(value, int | float):
            return {"error": "Value must be a number"}
        if unit_in == unit_out:
            return {"result": value}
        factors, key = _TABLE["imperial_si_conversion"], f"{unit_in}_to_{unit_out}"
        if key not in factors:
            return {"error": f"Conversion from '{unit_in}' to '{unit_out}' is not supported"}
        try:
            if key == "celsius_to_fahrenheit":
                return {"result": value * factors[key] + 32}
            if key == "fahrenheit_to_celsius":
                return {"result": (value - 32) * factors[key]}
            return {"result": value * factors[key]}
        except OverflowError:
            return {"error": _TOO_LARGE}

    def add(self, a: Any, b: Any) -> dict[str, Any]:
        """Add two numbers; texts and lists are joined."""
        if _num_items(a) + _num_items(b) > MAX_ITEMS:
            return {"error": _NOT_NUMBERS}
        return self._result(lambda: a + b)

    def subtract(self, a: Any, b: Any) -> dict[str, Any]:
        """Subtract two numbers."""
        return self._result(lambda: a - b)

    def multiply(self, a: Any, b: Any) -> dict[str, Any]:
        """Multiply two numbers."""
        if not isinstance(a, int | float) or not isinstance(b, int | float):
            return {"error": _NOT_NUMBERS}
        return {"result": a * b}

    def divide(self, a: Any, b: Any) -> dict[str, Any]:
        """Divide two numbers."""
        if b == 0:
            return {"error": "Cannot divide by zero"}
        return self._result(lambda: a / b)

    def power(self, base: Any, exponent: Any) -> dict[str, Any]:
        """Raise a base to a power, exactly for integers."""
        if isinstance(base, int) and isinstance(exponent, int):
            # A base of b bits is at least 2 ** (b - 1)
            least_bits = max(base.bit_length() - 1, 0) * exponent
            if least_bits > MAX_BITS:
                raise ValueError(_UNPRINTABLE)
        return self._result(lambda: base**exponent)

    def square_root(self, number: Any, precision: Any) -> dict[str, Any]:
        """Return the square root of a number, rounded to a number of significant digits."""
        failure = {
            "error": "Input must be a number or computation resulted in an invalid operation"
        }
        try:
            if number < 0:
                return {"error": "Cannot calculate square root of a negative number"}
            if isinstance(precision, int) and precision > MAX_DIGITS:
                return failure
            self._decimal.prec = precision
            return {"result": Decimal(number, self._decimal).sqrt(self._decimal)}
        except (TypeError, InvalidOperation):
            return failure

    def absolute_value(self, number: Any) -> dict[str, Any]:
        """Return the absolute value of a number."""
        return self._result(lambda: abs(number), "Input must be a number")

    def round_number(self, number: Any, decimal_places: Any = 0) -> dict[str, Any]:
        """Round a number to a number of decimal places.

        Halves go to the even side, integers stay integers, floats floats.
        """
        if (
            isinstance(number, int)
            and isinstance(decimal_places, int)
            and -decimal_places > number.bit_length() + 1
        ):
            return {"result": 0}  # 10 ** places is more than twice the number
        wrong = "First input must be a number, second input must be an integer"
        return self._result(lambda: round(number, decimal_places), wrong)

    def percentage(self, part: Any, whole: Any) -> dict[str, Any]:
        """Return the percentage that a part is of a whole."""
        if whole == 0:
            return {"error": "Whole value cannot be zero"}
        return self._result(lambda: (part / whole) * 100)

    def min_value(self, numbers: Any) -> dict[str, Any]:
        """Return the smallest of some numbers."""
        return self._of_list(numbers, "find minimum", min)

    def max_value(self, numbers: Any) -> dict[str, Any]:
        """Return the largest of some numbers."""
        return self._of_list(numbers, "find maximum", max)

    def sum_values(self, numbers: Any) -> dict[str, Any]:
        """Sum some values."""
        return self._of_list(numbers, "calculate sum", _sum)

    def _result(self, compute: Callable[[], Any], wrong: str = _NOT_NUMBERS) -> dict[str, Any]:
        """Compute at this instance's precision; return an error for a wrong type."""
        try:
            with localcontext(self._decimal):
                return {"result": compute()}
        except TypeError:
            return {"error": wrong}

    def _of_list(self, numbers: Any, task: str, compute: Callable[[Any], Any]) -> dict[str, Any]:
        if not numbers:
            return {"error": f"Cannot {task} of an empty list"}
        return self._result(lambda: compute(numbers), _NOT_ALL_NUMBERS)


def _mean(numbers: Any) -> Any:
    return _sum(numbers) / len(numbers)


def _standard_deviation(numbers: Any) -> float:
    mean = _mean(numbers)
    return math.sqrt(_sum((x - mean) ** 2 for x in numbers) / len(numbers))


def _sum(numbers: Iterable[Any]) -> Any:
    """Sum numbers from left to right, as Python before 3.12.

    The built-in one compensates floats from Python 3.12 on.
    """
    total: Any = 0
    for number in numbers:
        total = total + number
    return total


def _num_items(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _has_huge_exponent(value: Any) -> bool:
    """Whether a text such as "1e1000000000" has an exponent above the bound.

    mpmath would write out its digits.
    """
    if not isinstance(value, str):
        return False
    exponents = _EXPONENT.findall(value.lower().replace("_", "").replace(" ", ""))
    return any(len(digits) > 9 or int(digits) > MAX_EXPONENT for digits in exponents)
