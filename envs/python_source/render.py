"""Calls and values as Python source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def render_call(name: str, arguments: Mapping[Any, Any]) -> str:
    """Return the call string BFCL executes for decoded arguments, `name(k=repr(v), ...)`.

    BFCL's one surprise: a dict whose values are all dicts is taken for a nested call, and the other
    dicts' keys are put between quotes as they are. An empty dict, on which BFCL fails, is written
    as one.
    """
    return f"{name}({', '.join(f'{key}={_argument(value)}' for key, value in arguments.items())})"


def _argument(value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return repr(value)
    if all(isinstance(each, dict) for each in value.values()):
        name, arguments = next(iter(value.items()))
        return render_call(name, arguments)
    return "{" + ", ".join(f"'{key}': {_argument(each)}" for key, each in value.items()) + "}"


def literal(value: Any) -> str:
    """Return the Python source of a value that decodes to it; ValueError where there is none."""
    match value:
        case None | bool() | int() | str() | bytes():
            return repr(value)
        case float() if math.isfinite(value):
            return repr(value)
        case float():
            return "1e999-1e999" if math.isnan(value) else "1e999" if value > 0 else "-1e999"
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case tuple():
            return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
        case dict():
            return (
                "{"
                + ", ".join(f"{literal(key)}: {literal(each)}" for key, each in value.items())
                + "}"
            )
    raise ValueError(f"a {type(value).__name__} has no literal that decodes to it: {value!r}")
