"""Oracle: calls of a task's ground truth, for demonstrations, canaries and tests."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.python_source.call_source import parse_expression

OMITTED = ""  # BFCL's mark, among accepted values, for a parameter that may be left out


def oracle_calls(task: Task) -> list[list[Call]]:
    """Return the calls of a task's ground truth by turn; a turn may have none.

    Single turn: of each parameter's accepted values the first one that is not the mark for "may be
    left out". A category without ground truth expects no call, except relevance, where the first
    function is called as it is documented (which call it is is not checked). Raises ValueError for
    a ground truth that cannot be written as calls.
    """
    if task.is_multi_turn:
        docs = {doc.name: doc for doc in task.functions}
        return [
            [parse_call_string(text, docs) for text in turn] for turn in task.ground_truth or ()
        ]
    if task.kind == "agentic":
        return [[] for _ in task.question]  # answered by a message, whichever calls lead to it
    if task.ground_truth is None:
        called = task.functions[:1] if task.category.endswith("_relevance") else ()
        return [[Call(doc.name, {}) for doc in called]]
    return [[_expected(task, *item) for call in task.ground_truth for item in call.items()]]


def _expected(task: Task, name: str, accepted: Mapping[str, Any]) -> Call:
    parameters = next((doc.parameters for doc in task.functions if doc.name == name), {})
    documented, required = parameters.get("properties", {}), parameters.get("required", ())
    arguments = {}
    for key, values in accepted.items():
        if _has_value(values) and (key in documented or OMITTED not in values):
            arguments[key] = _first(values)
        elif key in required and values:
            arguments[key] = values[0]  # the mark alone is accepted, and the doc wants a value
    return Call(name, arguments)


def parse_call_string(text: str, docs: Mapping[str, FunctionDoc]) -> Call:
    """Parse a call string to a Call, positional arguments under their documented names.

    Decoders drop those. Raises ValueError where it is no single call of literals.
    """
    try:
        node = parse_expression(text.strip())
        if not isinstance(node, ast.Call):
            raise ValueError("no call")
        name = ast.unparse(node.func)
        names = list(docs[name].parameters.get("properties", {})) if node.args else []
        if len(node.args) > len(names):
            raise ValueError(f"{len(node.args)} positional arguments for parameters {names}")
        arguments = {
            key: ast.literal_eval(value) for key, value in zip(names, node.args, strict=False)
        }
        for keyword in node.keywords:
            arguments[str(keyword.arg)] = ast.literal_eval(keyword.value)
    except (ValueError, SyntaxError, KeyError) as error:
        raise ValueError(
            f"ground truth {text!r} cannot be written as one call of literals: {error}"
        ) from None
    return Call(name, arguments)


def _has_value(accepted: Any) -> bool:
    return (
        not isinstance(accepted, Sequence)
        or isinstance(accepted, str)
        or any(value != OMITTED for value in accepted)
    )


def _first(accepted: Any, omit: bool = False) -> Any:
    if not isinstance(accepted, list):
        return accepted  # a few ground truths hold the value itself where a list belongs
    return unwrap_accepted_value(next(value for value in accepted if value != OMITTED), omit=omit)


def unwrap_accepted_value(value: Any, *, omit: bool = False) -> Any:
    """Pick a value from an accepted one, in which dicts hold lists of accepted values.

    omit: without the keys that are left out first.
    """
    if isinstance(value, dict):
        return {
            key: _first(inner, omit)
            for key, inner in value.items()
            if _has_value(inner) and not (omit and isinstance(inner, list) and inner[0] == OMITTED)
        }
    if isinstance(value, list):
        return [
            unwrap_accepted_value(item, omit=omit) if isinstance(item, dict) else item
            for item in value
        ]
    return value
