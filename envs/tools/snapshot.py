"""Deep copies of plain state, several times faster than `copy.deepcopy`."""

from __future__ import annotations

import copy
from typing import Any

_ATOMIC = frozenset({str, int, float, bool, type(None), complex, bytes, type(...)})


def snapshot(value: Any, memo: dict[int, Any]) -> Any:
    """Return a snapshot of a value: a deep copy that keeps shared and cyclic parts.

    Parts are shared, or cyclic, within one `memo`.

    A memo knows objects by their identity, so what it has seen must live as long as it does. As
    with `copy.deepcopy`, immutable atoms are themselves: a NaN inside a container stays equal to
    its copy.
    """
    kind = type(value)
    if kind in _ATOMIC:
        return value
    if (
        kind is not dict
        and kind is not list
        and (kind is not set or not _ATOMIC.issuperset(map(type, value)))
    ):
        return copy.deepcopy(value, memo)
    known = memo.get(id(value))
    if known is not None:
        return known
    if kind is set:
        return memo.setdefault(id(value), value.copy())
    if kind is list:
        twins: list[Any] = []
        memo[id(value)] = twins
        twins.extend(each if type(each) in _ATOMIC else snapshot(each, memo) for each in value)
        return twins
    twin: dict[Any, Any] = {}
    memo[id(value)] = twin
    for key, each in value.items():
        twin[key if type(key) in _ATOMIC else snapshot(key, memo)] = (
            each if type(each) in _ATOMIC else snapshot(each, memo)
        )
    return twin
