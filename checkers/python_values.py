"""BFCL's type and value rules for one Python argument against its accepted values.

Every rule returns None where the argument passes, else the first Fault, in BFCL's own vocabulary.
An accepted value of "" marks a parameter that may be omitted; BFCL leaves it among the values, and
some rules below meet it there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Accepted = Sequence[Any]
"""The values a ground truth accepts for one parameter."""

# "number", "object" and the Python spellings are not BFCL's: task files of users hold them.
PYTHON_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
    "number": float,
    "object": dict,
    "str": str,
    "int": int,
    "bool": bool,
    "list": list,
}
_SEQUENCES = ("array", "tuple", "list")
_SCALARS = {name: kind for name, kind in PYTHON_TYPES.items() if kind in (str, int, float, bool)}
_NEGLIGIBLE = str.maketrans("", "", " ,./-_*^")


class Fault(NamedTuple):
    """Fault of a call that does not match: BFCL's error type and a message."""

    error_type: str
    message: str


class PreparedArgument(NamedTuple):
    """One argument prepared for comparison: its value and the classes its type allows."""

    value: Any
    expected: type
    item: type | None = None  # the class of each item, where the declared type is a sequence


def python_argument_fault(
    parameter: str, value: Any, declared: Mapping[str, Any], accepted: Accepted
) -> Fault | None:
    """Return the fault of a Python argument. Raises ValueError for an unknown type."""
    if type(value) is _SCALARS.get(declared.get("type", "")) and value in accepted:
        return None  # whatever rule applies, it lets pass what stands among the accepted values
    return argument_fault(parameter, prepare_python_argument(value, declared), accepted)


def prepare_python_argument(value: Any, declared: Mapping[str, Any]) -> PreparedArgument:
    """Prepare a Python argument for comparison: its value and the classes its type allows.

    Two conversions are forgiven, at the top level only: a tuple where "tuple" is declared, an int
    where "float" is. Raises ValueError for a documented type that is none of ours.
    """
    name = declared.get("type")
    item = None
    if name in _SEQUENCES and isinstance(declared.get("items"), Mapping):
        item = _python_class(declared["items"].get("type"))
    if name == "tuple" and type(value) is tuple:
        value = list(value)
    elif name in ("float", "number") and type(value) is int:
        with contextlib.suppress(OverflowError):  # it stays an int, and is refused as one
            value = float(value)
    return PreparedArgument(value, _python_class(name), item)


def _python_class(name: Any) -> type:
    if name not in PYTHON_TYPES:
        raise ValueError(f"documented type {name!r}: expected one of {', '.join(PYTHON_TYPES)}")
    return PYTHON_TYPES[name]


def argument_fault(parameter: str, argument: PreparedArgument, accepted: Accepted) -> Fault | None:
    """Return the fault of a prepared argument: of its type first, then of its value."""
    fault = type_fault(parameter, argument, accepted)
    if fault:
        return fault
    value, expected, item = argument
    if expected is list and item is not dict and value in accepted:
        return None
    accepted_type = class_of_first_accepted(accepted)
    # Where the ground truth's class is not the documented one it names a variable, which is
    # compared raw.
    if accepted_type is None or accepted_type is expected:
        if expected is dict:
            return dict_fault(parameter, value, accepted)
        if expected is list and item is dict:
            return list_of_dict_fault(parameter, value, accepted)
        if expected is str:
            return string_fault(parameter, value, accepted)
        if expected is list:
            return list_fault(parameter, value, accepted)
    return None if value in accepted else _refused("value_error:others", parameter, value, accepted)


def type_fault(parameter: str, argument: PreparedArgument, accepted: Accepted) -> Fault | None:
    """Return the fault of an argument's type; classes are compared exactly (bool is not int).

    The class of the first accepted value is good as well: a ground truth may name a variable where
    the doc declares a number. Items are tried against each accepted list as a whole, one level
    deep.
    """
    value, expected, item = argument
    if type(value) is expected:
        if item is None or any(_items_fit(parameter, value, item, choice) for choice in accepted):
            return None
        return _refused("type_error:nested", parameter, value, accepted)
    if class_of_first_accepted(accepted) is type(value):
        return None
    message = (
        f"parameter {parameter!r}: expected {expected.__name__}, got {type(value).__name__} "
        f"{short_repr(value)}"
    )
    return Fault("type_error:simple", message)


def _items_fit(parameter: str, items: Any, item: type, alternative: Any) -> bool:
    # BFCL tests only alternatives that are lists; any other, the "" of an optional parameter too,
    # lets the type pass.
    if type(alternative) is not list or {item}.issuperset(map(type, items)):
        return True
    return all(
        type_fault(parameter, PreparedArgument(entry, item), alternative) is None for entry in items
    )


def class_of_first_accepted(accepted: Accepted) -> type | None:
    """Return the class of the first accepted value other than "", the mark of omission.

    None if there is none.
    """
    return next((type(value) for value in accepted if value != ""), None)


def standardize_string(text: str) -> str:
    """Lower a string and drop blanks and , . / - _ * ^ as BFCL does to compare it."""
    return text.translate(_NEGLIGIBLE).lower().replace("'", '"')


def _loose(value: Any) -> Any:
    return standardize_string(value) if type(value) is str else value


def string_fault(parameter: str, value: str, accepted: Accepted) -> Fault | None:
    """Return the fault of a string argument.

    The mark of omission is an accepted value too, so a string that reduces to "" passes.
    """
    if standardize_string(value) in [
        standardize_string(text) for text in accepted if type(text) is str
    ]:
        return None
    return _refused("value_error:string", parameter, value, accepted)


def list_fault(parameter: str, value: Sequence[Any], accepted: Accepted) -> Fault | None:
    """Return the fault of a list argument; order counts.

    Top-level strings are standardised, deeper values compared raw. The mark of omission, read as a
    sequence, is the empty list: an optional array may be given empty.
    """
    alternatives = [
        [_loose(item) for item in values]
        for values in accepted
        if isinstance(values, list | tuple | str)
    ]
    if [_loose(item) for item in value] in alternatives:
        return None
    return _refused("value_error:list/tuple", parameter, value, accepted)


def dict_fault(parameter: str, value: Any, accepted: Accepted) -> Fault | None:
    """Return the fault of a dict argument; of several alternatives the last one's, as in BFCL."""
    fault: Fault | None = Fault(
        "dict_checker:unclear", f"parameter {parameter!r}: no dict is acceptable"
    )
    for alternative in accepted:
        if alternative == "":
            continue
        fault = _alternative_fault(parameter, value, alternative)
        if fault is None:
            return None
    return fault


def _alternative_fault(parameter: str, value: Any, alternative: Any) -> Fault | None:
    if not isinstance(value, Mapping) or not isinstance(alternative, Mapping):
        return _refused("dict_checker:unclear", parameter, value, [alternative])
    # BFCL looks for missing keys even after a wrong one, and reports what it found last. A ground
    # truth that holds a plain string instead of a list is read character by character, and "" is in
    # any string.
    for key, accepted in alternative.items():
        if key not in value and "" not in accepted:
            return Fault("value_error:dict_key", f"parameter {parameter!r}: key {key!r} is missing")
    for key, argument in value.items():
        if key not in alternative:
            return Fault(
                "value_error:dict_key",
                f"parameter {parameter!r}: key {short_repr(key)} is not expected",
            )
        accepted = alternative[key]
        if type(accepted) is list and argument in accepted:
            continue
        if _loose(argument) not in [_loose(item) for item in accepted]:
            return _refused("value_error:dict_value", f"{parameter}[{key!r}]", argument, accepted)
    return None


def list_of_dict_fault(parameter: str, value: Sequence[Any], accepted: Accepted) -> Fault | None:
    """Return the fault of a list of dicts, compared pairwise; the last alternative's."""
    fault: Fault | None = Fault(
        "list_dict_checker:unclear", f"parameter {parameter!r}: no list is acceptable"
    )
    for alternative in accepted:
        if len(value) != len(alternative):
            message = (
                f"parameter {parameter!r}: expected {len(alternative)} dicts, got {len(value)}"
            )
            fault = Fault("value_error:list_dict_count", message)
            continue
        pairs = zip(value, alternative, strict=True)
        fault = next(
            filter(None, (dict_fault(parameter, item, [truth]) for item, truth in pairs)), None
        )
        if fault is None:
            return None
    return fault


def _refused(error_type: str, parameter: str, value: Any, accepted: Accepted) -> Fault:
    return Fault(
        error_type,
        f"parameter {parameter!r}: {short_repr(value)} is none of {short_repr(list(accepted))}",
    )


def short_repr(value: Any) -> str:
    """Return the repr of a value for a message, cut to 200 characters.

    A value that has no repr, such as too long an integer, is described.
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError) as error:
        return f"<{type(value).__name__} without a text: {error}>"
    return text if len(text) <= 200 else f"{text[:197]}..."
