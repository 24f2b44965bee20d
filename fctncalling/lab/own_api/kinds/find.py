"""Kinds of all parameters of an API, with what scenarios show and the user's own file says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from fctncalling.lab.own_api.api import OwnApi
from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind
from fctncalling.lab.own_api.kinds.evidence import infer_argument_kind
from fctncalling.lab.own_api.kinds.overrides import override_kinds
from fctncalling.lab.own_api.kinds.scenario_values import with_scenario_values
from fctncalling.lab.own_api.kinds.words_of_name import name_words


def argument_kinds(
    api: OwnApi, overrides: Path | None = None
) -> dict[tuple[str, str], ArgumentKind]:
    """Return the kind of each (function, parameter); SpecificationError for a wrong --kinds."""
    found: dict[tuple[str, str], ArgumentKind] = {}
    for function in api.functions:
        needed = function.parameters.get("required", ())
        for name, doc in function.parameters.get("properties", {}).items():
            schema = api.schemas.get((function.name, name), doc)
            found[function.name, name] = infer_argument_kind(name, schema, required=name in needed)
            found[function.name, name] = _searched(found[function.name, name], function.name)
    found = with_scenario_values(_of_one_noun(_shared(found)), api.scenarios)
    return found if overrides is None else override_kinds(found, overrides)


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


def _of_one_noun(
    kinds: dict[tuple[str, str], ArgumentKind],
) -> dict[tuple[str, str], ArgumentKind]:
    """Return kinds where a guessed text is numbered as the thing of its noun is: bed, to_bed."""
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
        if like is None or not kind.guessed or kind.kind not in ("free_text", "identifier"):
            return kind
        shape = (like.pattern, like.format, like.examples)
        pattern, form, examples = shape
        return replace(
            kind,
            kind="identifier",
            topic="",
            guessed=False,
            pattern=pattern,
            format=form,
            examples=examples,
            evidence=like.evidence,
        )

    return {key: numbered(key[1], kind) for key, kind in kinds.items()}


def _noun(name: str) -> str:
    """Return the noun of a parameter's name, in the singular: "to_bed", "bed_ids" -> "bed"."""
    words = [each for each in name_words(name).split() if each not in ("id", "ids", "number")]
    return words[-1].removesuffix("s") if words else ""


def _searched(kind: ArgumentKind, function: str) -> ArgumentKind:
    """Return the kind of a text that is searched for, not sent."""
    searches = re.match(r"(?:find|search|look|query)\b", name_words(function))
    is_message = kind.kind == "free_text" and kind.topic in ("message", "note")
    return replace(kind, topic="query") if searches and is_message else kind


def guessed_kind_notes(kinds: dict[tuple[str, str], ArgumentKind]) -> list[str]:
    """Return a line for each kind that the name alone says."""
    return [
        f"{function}: {parameter}: {_told(kind)}: guessed from its name; --kinds FILE corrects it"
        for (function, parameter), kind in kinds.items()
        if kind.guessed
    ]


def _told(kind: ArgumentKind) -> str:
    return f"{kind.kind} ({kind.topic})" if kind.topic else kind.kind
