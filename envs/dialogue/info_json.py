"""`info` of an environment as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from fctncalling.data.surrogates import encodable


def info_to_json(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return an `info` as plain dicts, lists, texts and numbers, which `json.dumps` accepts.

    Records (`Call`, `Verdict`) become dicts of their fields, tuples lists, numbers that JSON lacks
    and other objects their `repr`.
    """
    plain: dict[str, Any] = _plain(info)
    return plain


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {encodable(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return encodable(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return repr(value)
