"""Calls and values as Python source, and the size of values once written out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any


def render_call(name: str, arguments: Mapping[Any, Any]) -> str:
    """Render a call as the string that BFCL executes, `name(k=repr(v), ...)`.

    BFCL's one surprise: a dict whose values are all dicts is taken for a nested call, and the other
    dicts' keys are put between quotes as they are. An empty dict, on which BFCL fails, is written
    as one.
    """
    return f"{name}({', '.join(f'{key}={_argument(value)}' for key, value in arguments.items())})"


def _argument(value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return repr(value)
    if all(isinstance(item, dict) for item in value.values()):
        name, arguments = next(iter(value.items()))
        return render_call(name, arguments)
    return "{" + ", ".join(f"'{key}': {_argument(item)}" for key, item in value.items()) + "}"


def python_literal(value: Any) -> str:
    """Return a value as a Python literal; ValueError if it has none."""
    match value:
        case None | bool() | int() | str() | bytes():
            return repr(value)
        case float() if math.isfinite(value):
            return repr(value)
        case float():
            return "1e999-1e999" if math.isnan(value) else "1e999" if value > 0 else "-1e999"
        case list():
            return f"[{', '.join(map(python_literal, value))}]"
        case tuple():
            return f"({', '.join(map(python_literal, value))}{',' if len(value) == 1 else ''})"
        case dict():
            return (
                "{"
                + ", ".join(
                    f"{python_literal(key)}: {python_literal(item)}" for key, item in value.items()
                )
                + "}"
            )
    raise ValueError(f"a {type(value).__name__} has no literal that decodes to it: {value!r}")


MAX_NESTED = 100
"""Containers inside each other, of one answer or value: several times what any function takes."""
MAX_WEIGHT = 50_000
"""Of all results of one evaluation together: items, characters / 10, integers' bits / 16."""
CHARS_PER_WEIGHT = 10
BITS_PER_WEIGHT = 16

_CONTAINERS = (list, tuple, dict, set, frozenset)
_WEIGHTLESS = frozenset({float, bool, type(None)})
_LONG = 32  # items, from which on those of one kind are counted at once


class LimitExceeded(ValueError):
    """Error of a value too large to compute, pass on or display."""


def value_size(value: Any, most: int = MAX_WEIGHT) -> int:
    """Return the size of a value, in the unit of MAX_WEIGHT.

    `most` + 1 for more, and for too deep nesting.

    What holds itself counts once there, as it is written `[...]`.

    Nested calls hand live objects from tool to tool, so that a state of a few kilobytes may unfold
    to more than a memory holds, and may hold itself. Whatever copies, compares, formats or encodes
    such a value weighs it first.
    """
    try:
        return most - _left((value,), most, set())
    except LimitExceeded:
        return most + 1


def nesting_depth(value: Any) -> int:
    """Return the nesting depth of a value's containers; 0 for a scalar."""
    pending, visited, deepest = [iter((value,))], set[int](), 0
    while pending:
        for item in pending[-1]:
            if isinstance(item, _CONTAINERS) and id(item) not in visited:
                visited.add(id(item))
                pending.append(iter(item.values() if isinstance(item, dict) else item))
                deepest = max(deepest, len(pending) - 1)
                break
        else:
            pending.pop()
    return deepest


def require_shallow_arguments(tool: Any, arguments: tuple[Any, ...]) -> None:
    """Raise LimitExceeded for arguments nested too deep to copy once a tool stores them."""
    nesting = nesting_depth(arguments)
    if nesting > 1 and nesting + nesting_depth(getattr(tool, "__dict__", {})) > MAX_NESTED:
        raise LimitExceeded(f"tools hold no values nested deeper than {MAX_NESTED}")


def _left(items: Iterable[Any], left: int, path: set[int]) -> int:
    """Subtract the items' size from an allowance.

    Raises LimitExceeded if it is too small.
    """
    for item in items:
        kind = type(item)
        if kind is str:
            left -= 1 + len(item) // CHARS_PER_WEIGHT
        elif kind is int:
            left -= 1 + item.bit_length() // BITS_PER_WEIGHT
        elif isinstance(item, _CONTAINERS) and id(item) not in path:
            left = _left_behind(item, left - 1, path)
        elif isinstance(item, str | bytes):
            left -= 1 + len(item) // CHARS_PER_WEIGHT
        else:
            left -= 1
        if left < 0:
            raise LimitExceeded("the result would be too large")
    return left


def _left_behind(container: Any, left: int, path: set[int]) -> int:
    parts = (container, container.values()) if isinstance(container, dict) else (container,)
    path.add(id(container))
    if len(path) > MAX_NESTED:
        raise LimitExceeded(f"values nested deeper than {MAX_NESTED} are not passed on")
    for part in parts:
        counted = _of_one_kind(part) if len(part) >= _LONG else None
        left = _left(part, left, path) if counted is None else left - counted
    path.discard(id(container))
    return left


def _of_one_kind(items: Collection[Any]) -> int | None:
    """Return the size of many atoms of one type; None for other items."""
    kinds = {*map(type, items)}
    if kinds == {str}:
        return len(items) + sum(map(len, items)) // CHARS_PER_WEIGHT
    if kinds == {int}:
        return len(items) + sum(map(int.bit_length, items)) // BITS_PER_WEIGHT
    return len(items) if kinds <= _WEIGHTLESS else None
