"""The user's own word on kinds: --kinds FILE, JSON or TOML, {function: {parameter: {...}}}."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from fctncalling.lab.own_api.api import SpecificationError
from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind

# Fmt: skip.
KINDS = (
    "enum",
    "integer",
    "number",
    "quantity_with_unit",
    "boolean",
    "date",
    "time",
    "datetime",
    "month",
    "year",
    "email",
    "phone",
    "identifier",
    "person_name",
    "place",
    "free_text",
    "url",
    "unknown",
)
# Fmt: skip.
_FIELDS = (
    "kind",
    "values",
    "minimum",
    "maximum",
    "pattern",
    "format",
    "examples",
    "topic",
    "unit",
    "ordered",
    "min_items",
    "max_items",
)
_LISTS = ("values", "examples")


def override_kinds(
    kinds: Mapping[tuple[str, str], ArgumentKind], path: Path
) -> dict[tuple[str, str], ArgumentKind]:
    """Return kinds with those of a file in place; SpecificationError where one is not sound.

    `"*"` in place of a function means every function that has the parameter.
    """
    found = dict(kinds)
    for function, parameters in _read(path).items():
        if not isinstance(parameters, dict):
            raise SpecificationError(f"--kinds {path}: {function}: expected an object")
        for parameter, given in parameters.items():
            places = [key for key in kinds if key[1] == parameter and function in ("*", key[0])]
            where = f"--kinds {path}: {function}.{parameter}"
            if not places:
                raise SpecificationError(f"{where}: there is no such parameter")
            for place in places:
                found[place] = _changed(found[place], given, where)
    return found


def _changed(kind: ArgumentKind, given: Any, where: str) -> ArgumentKind:
    changes: Any = {"kind": given} if isinstance(given, str) else given
    if not isinstance(changes, dict) or not changes.keys() <= set(_FIELDS):
        raise SpecificationError(
            f"{where}: expected a kind, or an object of {', '.join(_FIELDS)}, found {given!r:.60}"
        )
    if changes.get("kind", kind.kind) not in (*KINDS, kind.kind):
        raise SpecificationError(
            f"{where}: kind {changes['kind']!r:.40}: expected one of {', '.join(KINDS)}"
        )
    changes = {key: tuple(each) if key in _LISTS else each for key, each in changes.items()}
    if "values" in changes:
        changes.setdefault("kind", "enum")
    assert set(changes) <= {each.name for each in fields(kind)}
    form = {"date": "%Y-%m-%d", "time": "%H:%M", "datetime": "%Y-%m-%dT%H:%M:%S", "year": "%Y"}
    if (new := changes.get("kind")) in form and "format" not in changes:
        changes["format"] = form[new]
    return replace(kind, **changes, guessed=False, evidence="FILE")


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise SpecificationError(f"--kinds {path}: cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise SpecificationError(f"--kinds {path}: expected an object of functions")
    return found
