"""BFCL's AST checker: compares decoded calls with the accepted values of each parameter.

The record is what a decoder gives: a list of {function name: {parameter: value}}, or None where
decoding failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fctncalling.checkers.python_values import Accepted, Fault, python_argument_fault
from fctncalling.data.types import FunctionDoc

ArgumentChecker = Callable[[str, Any, Mapping[str, Any], Accepted], "Fault | None"]
"""(parameter, decoded value, parameter doc, accepted values) -> why an argument of a language is
refused.
"""

Truth = Sequence[Mapping[str, Mapping[str, Accepted]]]
"""BFCL's ground truth of one entry: one {function: {parameter: [accepted values]}} for each
expected call.
"""

DECODER_FAILED = Fault("ast_decoder:decoder_failed", "the answer decodes to no calls")
WRONG_FORMAT = Fault(
    "ast_decoder:decoder_wrong_output_format", "the answer decodes, but not to a list of calls"
)


def format_fault(record: Any) -> Fault | None:
    """Return the fault of a record that is not a list of one-key dicts.

    An empty list is valid.
    """
    if record is None:
        return DECODER_FAILED
    if type(record) is not list:
        return WRONG_FORMAT
    for call in record:
        if type(call) is not dict or len(call) != 1 or type(next(iter(call.values()))) is not dict:
            return WRONG_FORMAT
    return None


class CallChecker:
    """Checker of one task's calls, given its function docs, language and spelling of names."""

    def __init__(
        self,
        functions: Sequence[FunctionDoc],
        *,
        argument_fault: ArgumentChecker = python_argument_fault,
        underscore_to_dot: bool = False,
    ) -> None:
        self._functions = functions
        self._argument_fault = argument_fault
        self._underscore_to_dot = underscore_to_dot

    def simple_fault(self, record: Sequence[Mapping[str, Any]], truth: Truth) -> Fault | None:
        """Return the fault of a record that is not the one expected call."""
        if len(record) != 1:
            return Fault(
                "simple_function_checker:wrong_count", f"expected 1 call, got {len(record)}"
            )
        return self._call_fault(self._functions[0], record[0], truth[0])

    def multiple_fault(self, record: Sequence[Mapping[str, Any]], truth: Truth) -> Fault | None:
        """Return the fault of a record that does not call the right one of several functions."""
        if len(record) != len(truth):
            message = f"expected {len(truth)} calls, got {len(record)}"
            return Fault("multiple_function_checker:wrong_count", message)
        return self._call_fault(self._doc_of(truth[0]), record[0], truth[0])

    def parallel_fault(self, record: Sequence[Mapping[str, Any]], truth: Truth) -> Fault | None:
        """Return the fault of a record that lacks one of the expected calls, in any order.

        Greedy as in BFCL: each expected call takes the first call left that passes, even where
        another would need it.
        """
        name = "parallel_function_checker_no_order"
        if len(record) != len(truth):
            return Fault(f"{name}:wrong_count", f"expected {len(truth)} calls, got {len(record)}")
        left = list(record)
        for expected in truth:
            doc = self._doc_of(expected)
            faults: list[Fault] = []
            for index, call in enumerate(left):
                fault = self._call_fault(doc, call, expected)
                if fault is None:
                    del left[index]
                    break
                faults.append(fault)
            else:
                message = "; ".join(f"{fault.error_type}: {fault.message}" for fault in faults)
                return Fault(f"{name}:cannot_find_match", f"no call matches {doc.name}: {message}")
        return None

    def _doc_of(self, expected: Mapping[str, Any]) -> FunctionDoc:
        name = next(iter(expected))
        for doc in self._functions:
            if doc.name == name:
                return doc
        names = ", ".join(doc.name for doc in self._functions) or "none"
        raise ValueError(
            f'ground truth expects "{name}", which no function doc describes; documented: {names}'
        )

    def _call_fault(
        self,
        doc: FunctionDoc,
        call: Mapping[str, Any],
        expected: Mapping[str, Mapping[str, Accepted]],
    ) -> Fault | None:
        accepted = next(iter(expected.values()))
        # Interfaces whose function names cannot hold a dot are offered, and expected to answer, an
        # underscore.
        name = doc.name.replace(".", "_") if self._underscore_to_dot else doc.name
        if name not in call:
            return Fault(
                "simple_function_checker:wrong_func_name",
                f"expected {name!r}, got {next(iter(call))!r}",
            )
        arguments: Mapping[str, Any] = call[name]
        for parameter in doc.parameters.get("required", ()):
            if parameter not in arguments:
                return Fault(
                    "simple_function_checker:missing_required",
                    f"parameter {parameter!r} is missing",
                )
        documented = doc.parameters.get("properties", {})
        for parameter, value in arguments.items():
            if parameter not in documented or parameter not in accepted:
                return Fault(
                    "simple_function_checker:unexpected_param",
                    f"parameter {parameter!r} is not expected",
                )
            fault = self._value_fault(doc, parameter, value, accepted[parameter])
            if fault:
                return fault
        for parameter, values in accepted.items():
            if parameter not in arguments and "" not in values:
                message = f"parameter {parameter!r} has no default that is accepted, and is missing"
                return Fault("simple_function_checker:missing_optional", message)
        return None

    def _value_fault(
        self, doc: FunctionDoc, parameter: str, value: Any, accepted: Accepted
    ) -> Fault | None:
        documented = doc.parameters["properties"][parameter]
        try:
            return self._argument_fault(parameter, value, documented, accepted)
        except ValueError as error:
            raise ValueError(f"function {doc.name}, parameter {parameter}: {error}") from None


def contains_call(record: Any) -> bool:
    """Whether a decoded answer contains a well-formed call.

    Text that does not decode counts as none.
    """
    return format_fault(record) is None and len(record) > 0


def irrelevance_fault(record: Any) -> Fault | None:
    """Return the fault of an answer that calls a function where none is relevant."""
    if contains_call(record):
        return Fault("irrelevance_error:decoder_success", "no call was expected")
    return None


def missing_call_fault(record: Any) -> Fault | None:
    """Return the fault of an answer without a call where a function is relevant."""
    if contains_call(record):
        return None
    return Fault("relevance_error:decoder_failed", "a call was expected")
