"""Result texts as BFCL writes them, within an episode's allowance."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fctncalling.envs.python_source.value_size import CHARS_PER_WEIGHT, LimitExceeded, size_of
from fctncalling.envs.tools.bfcl.long_context import JsonCachedList

MAX_RESULT_WEIGHT = 200_000
"""Of one result: some two million characters, before anything is written out."""
MAX_RESULTS_CHARS = 20_000_000
"""Of all results of an episode: they are kept for the checker."""
MAX_EPISODE_WEIGHT = 2_000_000
"""Of what the calls of an episode compute and hand from tool to tool, for tools may keep all of it.
"""

_JSON = json.JSONEncoder(check_circular=False)  # what holds itself is found to nest too deep
# The standard library's, where it is written in C.
_MAKE_ENCODER = getattr(json.encoder, "c_make_encoder", None)


@dataclass
class Allowance:
    """Size budget of one episode's calls, so that they cannot fill the memory."""

    characters: int = MAX_RESULTS_CHARS
    weight: int = MAX_EPISODE_WEIGHT


def result_text(value: Any, allowance: Allowance) -> str:
    """Return a tool's return value as BFCL writes it; raises LimitExceeded for too large a text."""
    most = min(MAX_RESULT_WEIGHT, allowance.characters)
    if size_of(value, most) > most:
        allowance.characters -= min(most * CHARS_PER_WEIGHT, allowance.characters)
        raise LimitExceeded("the result is too large, or nests too deep, to be shown")
    if type(value) is dict:
        try:
            return _json_text(value)
        except (
            Exception
        ):  # BFCL falls back on any failure: Decimals, keys that are tuples, cycles, huge integers
            return str(value)
    return str(value)


def _json_encoder() -> Callable[[Any], str]:
    """Return `_JSON.encode` for containers, which else makes C's encoder anew each time."""
    if _MAKE_ENCODER is None:
        return _JSON.encode
    string, join = json.encoder.encode_basestring_ascii, "".join
    chunks = _MAKE_ENCODER(None, _JSON.default, string, None, ": ", ", ", False, False, True)
    return lambda value: join(chunks(value, 0))


_container_text = _json_encoder()


def _json_text(value: dict[Any, Any]) -> str:
    if JsonCachedList not in map(type, value.values()) or {*map(type, value)} != {str}:
        return _container_text(value)
    listed = (
        f"{_JSON.encode(k)}: {v.json_text() if type(v) is JsonCachedList else _JSON.encode(v)}"
        for k, v in value.items()
    )
    return f"{{{', '.join(listed)}}}"
