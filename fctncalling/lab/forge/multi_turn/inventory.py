"""Inventory of a world by kind, read from the tools' attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.envs.tools.bfcl.directory_tree import Directory, File
from fctncalling.lab.forge.multi_turn.values import read_toml
from fctncalling.lab.forge.plan import Source

State = Mapping[str, Mapping[str, Any]]

_TABLE = read_toml("inventory")
REFERENCE_KINDS = frozenset(kind for kind, entry in _TABLE.items() if "exists" in entry)
"""Kinds of which only what exists makes sense: names and numbers of things."""


def look_up(kind: str, state: State) -> Source:
    """Return the attribute of `initial_config` that a look-up of a kind shows; none if no path."""
    attribute = _TABLE[kind].get("look_up")
    owners = [name for name, attributes in state.items() if attribute in attributes]
    return Source(path=(owners[0], attribute) if owners else ())


def nameable_values(kind: str, state: State) -> list[Any]:
    """Return the values of a kind that a call may name now.

    None of a kind that is not listed or of a class that the task lacks.
    """
    paths = _TABLE.get(kind, {}).get("exists", "").split()
    left_out = [v for path in paths if path[0] == "-" for v in values_at(path[1:], state)]
    found = [v for path in paths if path[0] != "-" for v in values_at(path, state)]
    return [value for value in dict.fromkeys(found) if value not in left_out]


def values_at(
    path: str, state: State, names: Mapping[str, str] = MappingProxyType({})
) -> list[Any]:
    """Return the values at a path of a state or of BFCL's tables; none if the class is absent.

    names: what keys in braces stand for.
    """
    owner, *keys = path.split(".")
    owner, _, table = owner.partition("/")
    if owner not in state:
        return []
    found: list[Any] = [load_bfcl_table(table) if table else state[owner]]
    for key in keys:
        if key.isdigit():
            found = found[int(key) : int(key) + 1]
        elif key.startswith("said_"):
            words = other_words(key.removeprefix("said_"))[1]
            found = [words[value] for value in found if value in words]
        elif key == "+":
            found = [name for below in found for name, each in below.items() if each.contents]
        elif key in "*^":
            found = [each for below in found for each in _entries(below, key)]
        else:
            name = names[key[1:-1]] if key[0] == "{" else key
            found = [_below(item, name) for item in found]
    return found


def _entries(below: Any, key: str) -> Iterable[Any]:
    below = below.contents if isinstance(below, Directory) else below
    return below.values() if key == "*" and isinstance(below, Mapping) else below


def _below(item: Any, key: str) -> Any:
    if isinstance(item, Directory) and key in ("files", "folders"):
        sort = File if key == "files" else Directory
        return {name: each for name, each in item.contents.items() if isinstance(each, sort)}
    return item[key] if isinstance(item, Mapping) else getattr(item, key)


@cache
def rows(name: str) -> list[list[Any]]:
    """Return pairs of values that belong together: of BFCL's tables, or of `couplings.toml`."""
    if name == "city_distances":
        city_of = {
            code: city for city, code in load_bfcl_table("vehicle_control")["zipcodes"].items()
        }
        pairs = rows("vehicle_control.distances_km")
        return [[city_of[e] for e in pair] for pair in pairs if set(pair) <= set(city_of)]
    table, _, key = name.partition(".")
    listed = load_bfcl_table(table)[key] if key else read_toml("couplings")["rows"][name]
    return [row[:2] for row in listed]


@cache
def other_words(kind: str) -> tuple[str, Mapping[Any, str]]:
    """Return (kind of the words, value -> words) of a kind said in other words; "" for others."""
    entry = _TABLE.get(kind, {})
    words = entry.get("words", {})
    if isinstance(words, str):
        table, key = words.split(".")
        words = load_bfcl_table(table)[key]
    return entry.get("said", ""), {value: word for word, value in words.items()}
