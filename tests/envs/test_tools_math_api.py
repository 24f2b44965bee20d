"""MathAPI computes and fails exactly as BFCL's, but touches nothing outside its instance and always
ends.
"""

from __future__ import annotations

import copy
import decimal
import math
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mpmath  # type: ignore[import-untyped]
import pytest

from fctncalling.envs.tools.bfcl.math_api import MAX_DIGITS, MAX_ITEMS, MathAPI

NUMBERS = "Both inputs must be numbers"
LIST = "All elements in the list must be numbers"


@pytest.fixture
def tool() -> MathAPI:
    return MathAPI()


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("si_unit_conversion", (1, "m", "nm"), 999999999.9999999),
        ("si_unit_conversion", (True, "km", "m"), 1000.0),
        ("imperial_si_conversion", (100, "celsius", "fahrenheit"), 212.0),
        ("imperial_si_conversion", (212, "fahrenheit", "celsius"), 180 * (5 / 9)),
        ("imperial_si_conversion", (2, "in", "cm"), 5.08),
        ("power", (2, 10), 1024),
        ("power", (2, -1), 0.5),
    ],
)
def test_result_has_bfcl_value_and_type(
    tool: MathAPI, method: str, arguments: tuple[Any, ...], expected: Any
) -> None:
    result = getattr(tool, method)(*arguments)
    assert result == {"result": expected}
    assert type(result["result"]) is type(expected)


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("mean", ([],), "Cannot calculate mean of an empty list"),
        ("mean", (["a"],), LIST),
        ("mean", (5,), LIST),
        ("standard_deviation", ([],), "Cannot calculate standard deviation of an empty list"),
        ("standard_deviation", ([1, "a"],), LIST),
        ("si_unit_conversion", ("1", "m", "km"), "Value must be a number"),
        ("si_unit_conversion", (1, "m", "mile"), "Conversion from 'm' to 'mile' is not supported"),
        (
            "si_unit_conversion",
            (10**400, "cm", "m"),
            "Conversion resulted in a value too large to represent",
        ),
        ("imperial_si_conversion", ("1", "cm", "cm"), "Value must be a number"),
        (
            "imperial_si_conversion",
            (1, "cm", "ft"),
            "Conversion from 'cm' to 'ft' is not supported",
        ),
        (
            "imperial_si_conversion",
            (10**400, "cm", "in"),
            "Conversion resulted in a value too large to represent",
        ),
        ("add", (1, "a"), NUMBERS),
        ("subtract", ("a", "b"), NUMBERS),
        ("multiply", ("a", 2), NUMBERS),
        ("divide", (1, 0.0), "Cannot divide by zero"),
        ("divide", ("a", 1), NUMBERS),
        ("power", ("a", 1), NUMBERS),
        ("square_root", (-1, "x"), "Cannot calculate square root of a negative number"),
        (
            "square_root",
            ("4", 5),
            "Input must be a number or computation resulted in an invalid operation",
        ),
        (
            "square_root",
            (4, 5.0),
            "Input must be a number or computation resulted in an invalid operation",
        ),
        ("absolute_value", ("a",), "Input must be a number"),
        ("round_number", ("a",), "First input must be a number, second input must be an integer"),
        (
            "round_number",
            (1.5, 1.5),
            "First input must be a number, second input must be an integer",
        ),
        ("percentage", (1, 0), "Whole value cannot be zero"),
        ("percentage", ("a", 1), NUMBERS),
        ("min_value", ([],), "Cannot find minimum of an empty list"),
        ("max_value", (None,), "Cannot find maximum of an empty list"),
        ("sum_values", ({},), "Cannot calculate sum of an empty list"),
        ("min_value", ([1, "a"],), LIST),
        ("max_value", ([1, "a"],), LIST),
        ("sum_values", (["a", "b"],), LIST),
    ],
)
def test_mistake_answers_with_bfcl_error(
    tool: MathAPI, method: str, arguments: tuple[Any, ...], expected: str
) -> None:
    assert getattr(tool, method)(*arguments) == {"error": expected}


@pytest.mark.parametrize(
    ("method", "arguments", "text"),
    [
        ("power", (0.0, -1), "0.0 cannot be raised to a negative power"),
        ("power", (10.0, 400), "(34, 'Numerical result out of range')"),
        ("standard_deviation", ([1e200, -1e200],), "(34, 'Numerical result out of range')"),
        ("multiply", (10**400, 1.0), "int too large to convert to float"),
        ("mean", ([10**400],), "integer division result too large for a float"),
        ("square_root", (4, 0), "valid range for prec is [1, MAX_PREC]"),
        ("add", (1,), "MathAPI.add() missing 1 required positional argument: 'b'"),
        ("add", (1, 2, 3), "MathAPI.add() takes 3 positional arguments but 4 were given"),
    ],
)
def test_other_failures_raise_the_interpreter_text(
    tool: MathAPI, method: str, arguments: tuple[Any, ...], text: str
) -> None:
    with pytest.raises((ArithmeticError, TypeError, ValueError)) as raised:
        getattr(tool, method)(*arguments)
    assert str(raised.value) == text


@pytest.mark.parametrize("digits", [-3, 0, 1, 2, 7, 14, 15, 16, 30, 200])
@pytest.mark.parametrize(("value", "base"), [(10, 2), (0.1, 7), (1e300, 3), (2, 0.5), (-5, 10)])
def test_logarithm_equals_mpmath_at_that_global_precision(
    tool: MathAPI, value: float, base: float, digits: int
) -> None:
    got = str(tool.logarithm(value, base, digits))
    with mpmath.workdps(15):
        mpmath.mp.dps = digits
        assert got == str({"result": mpmath.log(value) / mpmath.log(base)})


def test_precision_asked_for_holds_for_later_arithmetic_of_the_same_instance(tool: MathAPI) -> None:
    root = tool.square_root(2, 40)["result"]
    assert str(tool.add(root, 0)["result"]) == str(
        root
    )  # 40 digits survive, 28 would be decimal's default
    assert len(str(MathAPI().add(root, 0)["result"])) == 29
    logarithm = tool.logarithm(10, 2, 40)["result"]
    assert str(tool.absolute_value(logarithm)) == str({"result": logarithm})


def test_no_precision_outside_the_instance_changes(tool: MathAPI) -> None:
    before = (mpmath.mp.dps, mpmath.mp.prec, decimal.getcontext().prec)
    tool.logarithm(10, 2, 77)
    tool.square_root(2, 99)
    assert (mpmath.mp.dps, mpmath.mp.prec, decimal.getcontext().prec) == before
    assert str(MathAPI().logarithm(10, 2, 5)) == "{'result': mpf('3.3219299')}"


def test_threads_do_not_change_each_other_results() -> None:
    def texts(digits: int) -> set[str]:
        tool = MathAPI()
        return {
            str(tool.logarithm(10, 3, digits)) + str(tool.square_root(3, digits))
            for _ in range(100)
        }

    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(texts, range(5, 25))):
            assert found == texts(number + 5)


def test_copies_and_pickles_keep_the_precision(tool: MathAPI) -> None:
    tool.square_root(2, 40)
    root = tool.square_root(2, 40)["result"]
    tool.logarithm(10, 2, 40)
    for twin in (copy.deepcopy(tool), pickle.loads(pickle.dumps(tool))):
        assert twin.add(root, 0) == {"result": root}
        tool.square_root(2, 3)
        assert twin.add(root, 0) == {"result": root}


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("round_number", (12345, -(10**12))),
        ("logarithm", (10, 2, 10**12)),
        ("logarithm", ("1e1000000000", 2, 5)),
        ("logarithm", ("1E+1_000_000_000", 2, 5)),
        ("square_root", (2, 10**12)),
        ("add", ("x" * MAX_ITEMS, "x")),
    ],
)
def test_runaway_arguments_end_at_once(
    tool: MathAPI, method: str, arguments: tuple[Any, ...]
) -> None:
    started = time.process_time()
    getattr(tool, method)(*arguments)
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(("base", "exponent"), [(3, 10**12), (-(10**4000), 10**4000)])
def test_runaway_power_raises_what_printing_its_result_would(
    tool: MathAPI, base: int, exponent: int
) -> None:
    with pytest.raises(ValueError, match=r"^Exceeds the limit \(4300 digits\)") as raised:
        tool.power(base, exponent)
    with pytest.raises(ValueError, match="Exceeds the limit") as printed:
        str(10**5000)
    assert str(raised.value) == str(printed.value)


def test_bounds_refuse_no_ordinary_result(tool: MathAPI) -> None:
    assert tool.power(2, 10**6) == {"result": 2**10**6}
    assert tool.power(-1, 10**12 + 1) == {"result": -1}
    assert tool.power(0, 10**12) == {"result": 0}
    with pytest.raises(ZeroDivisionError, match=r"0\.0 cannot be raised to a negative power"):
        tool.power(0, -(10**12))
    assert len(str(tool.square_root(2, MAX_DIGITS)["result"])) == MAX_DIGITS + 1
    assert math.isclose(float(tool.logarithm("1e10000", 10, 20)["result"]), 10000)


@pytest.mark.parametrize(
    "number", [0, 1, 4, 5, 6, 45, 55, 999, 5000, 49999999, -5, -6, -15, 10**30, True]
)
def test_rounding_to_tens_equals_python(tool: MathAPI, number: int) -> None:
    for places in range(-40, 3):
        assert tool.round_number(number, places) == {"result": round(number, places)}
