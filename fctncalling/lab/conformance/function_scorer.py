"""Function as a scorer or parser: `module:function` called on each line of standard input.

It runs in a process of its own, with the working folder on Python's path. What it prints goes to
standard error; an exception is no verdict on that answer.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""How a function is named."""


def load_function(name: str) -> Callable[..., Any]:
    """Return a function by `module:function`; raises ImportError, naming the missing part."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    found = getattr(import_module(module), attribute, None)
    if not callable(found):
        raise ImportError(f"{module} has no function {attribute}")
    function: Callable[..., Any] = found
    return function


PAIRS = {"valid": ("task", "answer"), "calls": ("text", "tools")}
"""What is asked for -> the fields of a line that a function of two arguments gets."""


def call_scorer(
    function: Callable[..., Any], record: Mapping[str, Any], field: str = "valid"
) -> Any:
    """Call a function with the record, or with two of its fields; return its verdict or calls."""
    takes = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    first, second = PAIRS[field]
    told = function(record[first], record[second]) if len(takes) == 2 else function(dict(record))
    told = told.get(field) if isinstance(told, Mapping) else told
    # NumPy's truth values, known by name: a scorer need not have NumPy.
    is_numpy = type(told).__module__ == "numpy" and type(told).__name__ in ("bool_", "bool")
    return bool(told) if is_numpy else told


def main() -> int:
    """Answer every line; return 0, or 1 with one line if there is no such function."""
    field = sys.argv[2]
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as verdicts:
        os.dup2(2, 1)
        try:
            function = load_function(sys.argv[1])
        except Exception as error:
            print(f"{sys.argv[1]}: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
        for line in sys.stdin:
            record = json.loads(line)
            told: dict[str, Any] = {"id": record["id"], field: None}
            try:
                told[field] = call_scorer(function, record, field)
            except Exception as error:
                told["error"] = f"{type(error).__name__}: {error}"[:200]
            print(json.dumps(told, default=repr), file=verdicts, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
