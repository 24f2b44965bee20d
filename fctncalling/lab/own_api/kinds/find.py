"""Kinds of all parameters of an API, with values from scenarios and from the user's file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fctncalling.lab.own_api.api_part import tell_passed_over
from fctncalling.lab.own_api.english import spaced_words
from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind, KindTable
from fctncalling.lab.own_api.kinds.evidence import FORMS, infer_argument_kind
from fctncalling.lab.own_api.kinds.free_texts import FROM_NOUNS, with_fitting_texts
from fctncalling.lab.own_api.kinds.pattern_text import matches_pattern
from fctncalling.lab.own_api.kinds.value_tables import library
from fctncalling.specification.api import OwnApi, SpecificationError


def argument_kinds(api: OwnApi, overrides: Path | None = None) -> KindTable:
    """Return the kind of each (function, parameter); SpecificationError for a wrong --kinds."""
    library("regex")  # strangers' patterns are matched in bounded time
    found: KindTable = {}
    for function in api.functions:
        needed = function.parameters.get("required", ())
        for name, doc in function.parameters.get("properties", {}).items():
            schema = api.schemas.get((function.name, name), doc)
            kind = infer_argument_kind(name, schema, required=name in needed)
            found[function.name, name] = _searched(kind, function.name)
    found = with_scenario_values(_of_one_noun(_shared(found)), api.scenarios)
    found = with_fitting_texts(found, api)
    return found if overrides is None else override_kinds(found, overrides, api.not_chosen)


_NOT_SHARED = frozenset({"boolean", "array", "object", "one_of", "unknown", "client"})


def _shared(kinds: KindTable) -> KindTable:
    """Return kinds with guessed ones replaced by those of the same name elsewhere."""
    sure = {
        (name, kind.type): kind
        for (_, name), kind in reversed(kinds.items())
        if not kind.guessed and kind.kind not in _NOT_SHARED
    }
    found = dict(kinds)
    for key, kind in kinds.items():
        if kind.guessed and (like := sure.get((key[1], kind.type))):
            own = {name: getattr(kind, name) for name in ("default", "required", "description")}
            found[key] = replace(like, **own)
    return found


_MAY_BE_NUMBERED = frozenset({"free_text", "identifier", "unknown"})


def _of_one_noun(kinds: KindTable) -> KindTable:
    """Return kinds with guessed texts numbered like others of the same noun: bed, to_bed."""
    known = {
        _noun(name): kind
        for (_, name), kind in reversed(kinds.items())
        if kind.kind == "identifier" and (kind.pattern or kind.examples) and _noun(name)
    }

    def numbered(name: str, kind: ArgumentKind) -> ArgumentKind:
        like = known.get(_noun(name))
        if kind.item is not None:
            item = numbered(name, kind.item)
            return kind if item is kind.item else replace(kind, item=item, guessed=False)
        if like is None or not kind.guessed or kind.kind not in _MAY_BE_NUMBERED:
            return kind
        shape = {
            each: getattr(like, each) for each in ("pattern", "format", "examples", "evidence")
        }
        return replace(kind, kind="identifier", topic="", guessed=False, **shape)

    return {key: numbered(key[1], kind) for key, kind in kinds.items()}


def _noun(name: str) -> str:
    """Return the noun of a parameter's name, in the singular: "to_bed", "bed_ids" -> "bed"."""
    words = [each for each in spaced_words(name).split() if each not in ("id", "ids", "number")]
    return words[-1].removesuffix("s") if words else ""


def _searched(kind: ArgumentKind, function: str) -> ArgumentKind:
    """Return the kind of a text that is searched for, not sent."""
    searches = re.match(r"(?:find|search|look|query)\b", spaced_words(function))
    is_message = kind.kind == "free_text" and kind.topic in ("message", "note")
    return replace(kind, topic="query") if searches and is_message else kind


def guessed_kind_notes(kinds: KindTable) -> list[str]:
    """Return a line for each kind with guessed values."""
    return [
        f"{function}: {parameter}: {_told(kind)}: values guessed from "
        f"{FROM_NOUNS if FROM_NOUNS in kind.evidence else 'its name'}; --kinds FILE corrects them"
        for (function, parameter), kind in kinds.items()
        if kind.guessed and kind.can_be_asked
    ]


def _told(kind: ArgumentKind) -> str:
    return f"{kind.kind} ({kind.topic})" if kind.topic else kind.kind


KINDS = tuple(
    "enum integer number quantity_with_unit boolean date time datetime month year email phone "
    "identifier person_name place free_text url standard client unknown".split()
)
_FIELDS = tuple(
    "kind values minimum maximum pattern format examples topic unit ordered min_items "
    "max_items".split()
)
_LISTS = ("values", "examples")


def override_kinds(
    kinds: KindTable, path: Path, not_chosen: Mapping[str, Collection[str]] | None = None
) -> KindTable:
    """Return kinds with those of a file in place; SpecificationError if one is not sound.

    `not_chosen`: parameters by function that only the whole API has; they are passed over.

    `"*"` in place of a function means every function that has the parameter.
    """
    found, lacked, passed_over = dict(kinds), not_chosen or {}, set[str]()
    for function, parameters in _read(path).items():
        if not isinstance(parameters, dict):
            raise SpecificationError(f"--kinds {path}: {function}: expected an object")
        for parameter, given in parameters.items():
            places = [key for key in kinds if key[1] == parameter and function in ("*", key[0])]
            where = f"--kinds {path}: {function}.{parameter}"
            if not places and any(
                parameter in its and function in ("*", name) for name, its in lacked.items()
            ):
                passed_over.add(f"{function}.{parameter}")
                continue
            if not places:
                raise SpecificationError(f"{where}: there is no such parameter")
            for place in places:
                found[place] = _changed(found[place], given, where)
    tell_passed_over(f"--kinds {path}", passed_over)
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
    if kind.guessed:  # what was guessed is no example of what the user says
        changes.setdefault("examples", ())
    if (new := changes.get("kind")) in FORMS and "format" not in changes:
        changes["format"] = FORMS[new]
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


MOST_KNOWN = 200
_WITH_KNOWN = {"identifier", "person_name", "place", "free_text"}


def with_scenario_values(kinds: KindTable, scenarios: Sequence[Mapping[str, Any]]) -> KindTable:
    """Return kinds with the values of scenarios that a parameter can take.

    Of an identifier those of its shape, wherever they stand; of names and texts those of a field
    of the parameter's own name.
    """
    fields: dict[str, list[str]] = {}
    texts: list[str] = []
    for each in scenarios:
        for name, text in _texts(each, ""):
            texts.append(text)
            fields.setdefault(name, []).append(text)
    unique = list(dict.fromkeys(texts))
    return {key: _with_known(key[1], kind, fields, unique) for key, kind in kinds.items()}


def _with_known(
    name: str, kind: ArgumentKind, fields: Mapping[str, Sequence[str]], texts: Sequence[str]
) -> ArgumentKind:
    if kind.kind not in _WITH_KNOWN or not texts:
        return kind
    if kind.kind == "identifier":
        shape = kind.loose_pattern
        found = [each for each in texts if shape and matches_pattern(shape, each)]
    else:
        found = list(dict.fromkeys(fields.get(name, ())))
    return replace(kind, known=tuple(found[:MOST_KNOWN])) if found else kind


def _texts(value: Any, field: str) -> Iterator[tuple[str, str]]:
    """Yield (field, text) of all texts, keys of a mapping as fields of its name's singular."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if field and isinstance(each, Mapping):
                yield field, str(key)
            yield from _texts(each, str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, field)
