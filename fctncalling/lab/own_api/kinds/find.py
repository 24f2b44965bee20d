"""Kinds of all parameters of an API, with what scenarios show and the user's own file says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fctncalling.lab.own_api.api import OwnApi
from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind
from fctncalling.lab.own_api.kinds.evidence import kind_of
from fctncalling.lab.own_api.kinds.overrides import overridden
from fctncalling.lab.own_api.kinds.scenario_values import with_scenario_values


def argument_kinds(
    api: OwnApi, overrides: Path | None = None
) -> dict[tuple[str, str], ArgumentKind]:
    """Return the kind of each (function, parameter); SpecificationError for a wrong --kinds."""
    found: dict[tuple[str, str], ArgumentKind] = {}
    for function in api.functions:
        needed = function.parameters.get("required", ())
        for name, doc in function.parameters.get("properties", {}).items():
            schema = api.schemas.get((function.name, name), doc)
            found[function.name, name] = kind_of(name, schema, required=name in needed)
    found = with_scenario_values(_shared(found), api.scenarios)
    return found if overrides is None else overridden(found, overrides)


def _shared(kinds: dict[tuple[str, str], ArgumentKind]) -> dict[tuple[str, str], ArgumentKind]:
    """Return kinds where a guessed one is that of the same parameter of another function."""
    sure = {
        (name, kind.type): kind
        for (_, name), kind in reversed(kinds.items())
        if not kind.guessed and kind.kind not in ("boolean", "array", "object", "one_of", "unknown")
    }
    return {
        key: replace(
            sure[key[1], kind.type],
            default=kind.default,
            required=kind.required,
            description=kind.description,
        )
        if kind.guessed and (key[1], kind.type) in sure
        else kind
        for key, kind in kinds.items()
    }


def guess_note(kinds: dict[tuple[str, str], ArgumentKind]) -> list[str]:
    """Return a line for each kind that the name alone says."""
    return [
        f"{function}: {parameter}: {_told(kind)}: guessed from its name; --kinds FILE corrects it"
        for (function, parameter), kind in kinds.items()
        if kind.guessed
    ]


def _told(kind: ArgumentKind) -> str:
    return f"{kind.kind} ({kind.topic})" if kind.topic else kind.kind
