"""Kind of one parameter, by the strongest evidence for it.

In this order: enum and const, structure, number, format, what a client sets, a standard's words,
examples, default, pattern, description, name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from fctncalling.lab.own_api.english import singular
from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind
from fctncalling.lab.own_api.kinds.clues import (
    MOST_READ,
    DescriptionClues,
    description_clues,
    first_clause,
    infer_kind_from_words,
    kind_tables,
    name_words,
)
from fctncalling.lab.own_api.kinds.examples import (
    example_texts,
    kind_like_examples,
    kind_of_shape,
)
from fctncalling.lab.own_api.kinds.pattern_text import is_python_regex, text_of_pattern
from fctncalling.lab.own_api.kinds.scalar_kind import MISSING
from fctncalling.lab.own_api.kinds.standards import Family, families_of, standard_of
from fctncalling.specification.api import MAX_DESCRIPTION, TYPES

_UNASKABLE = {"binary", "byte", "password"}
_FORMS = {"date": "%Y-%m-%d", "time": "%H:%M", "datetime": "%Y-%m-%dT%H:%M:%S"}
_NUMBER_OF_ONE = re.compile(
    r"^(?:the |its |their |[a-z]+'s )?(?:[a-z]+ ){0,2}(?:number|no\.|id)"
    r"(?! of (?:all |the )?[a-z]+s\b)"
)
"""Description of a number that says which one: "membership number", but not "number of bags"."""
Find = Callable[[str, Mapping[str, Any], ArgumentKind, DescriptionClues], ArgumentKind | None]


def infer_argument_kind(name: str, schema: Mapping[str, Any], *, required: bool) -> ArgumentKind:
    """Return the kind of a parameter by its plain schema (types of JSON Schema or BFCL's).

    Unknown where no value that is drawn fits the schema.
    """
    json_type = str(schema.get("type", "any"))
    pattern, longest = schema.get("pattern"), schema.get("maxLength")
    base = ArgumentKind(
        "unknown",
        TYPES.get(json_type, json_type),
        default=schema.get("default", MISSING),
        required=required,
        description=str(schema.get("description") or schema.get("title") or "")[:MAX_DESCRIPTION],
        pattern=pattern if isinstance(pattern, str) and is_python_regex(pattern) else None,
        shortest=_length(schema.get("minLength")) or 0,
        longest=_length(longest),
    )
    if "x-kind" in schema:
        return _annotated(schema, base)
    clues = description_clues(base.description, name)
    for find in _IN_ORDER:
        found = find(name, schema, base, clues)
        if found is not None:
            return found if _can_be_drawn(found) else replace(base, evidence=UNDRAWN)
    return base


def _annotated(schema: Mapping[str, Any], base: ArgumentKind) -> ArgumentKind:
    """Return the kind that a schema names: `"x-kind": "KIND TOPIC"`."""
    kind, _, topic = schema["x-kind"].partition(" ")
    return replace(
        base,
        kind=kind,
        topic=topic,
        format=_FORMS.get(kind, ""),
        minimum=schema.get("minimum"),
        maximum=schema.get("maximum"),
        step=schema.get("multipleOf"),
        values=tuple(schema.get("enum", ())),
        examples=tuple(schema.get("examples", ())),
        evidence="x-kind",
    )


UNDRAWN = "no value that is drawn fits its own schema"


def _length(given: Any) -> int | None:
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _can_be_drawn(kind: ArgumentKind) -> bool:
    if kind.kind in ("array", "object", "one_of") or not kind.can_be_asked:
        return True
    try:
        kind.draw_single(Random(0))
    except ValueError:
        return False
    return True


def _of_enum(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    values = schema.get("enum")
    if not isinstance(values, list) or not values or base.type in ("array", "dict"):
        return None
    if base.type == "boolean" or any(isinstance(each, list | dict) for each in values):
        return None
    texts = [each for each in values if isinstance(each, str)]
    about = first_clause(base.description)
    named = standard_of(_families(), name_words(name), about, texts, lambda text: True)
    topic = named if named and len(texts) == len(values) else ""
    return replace(base, kind="enum", values=tuple(values), topic=topic or "", evidence="enum")


def _of_structure(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    if base.type in ("array", "tuple"):
        return _array(name, schema, base, clues)
    alternatives = schema.get("oneOf")
    if base.type == "dict" and alternatives:
        each = tuple(infer_argument_kind(name, one, required=True) for one in alternatives)
        whole = _properties(schema, base.required)
        return replace(base, kind="one_of", alternatives=each, properties=whole, evidence="oneOf")
    if base.type == "dict":
        properties = _properties(schema, base.required)
        kind = "object" if properties else "unknown"
        return replace(base, kind=kind, properties=properties, evidence="type")
    return replace(base, kind="boolean", evidence="type") if base.type == "boolean" else None


def _properties(schema: Mapping[str, Any], required: bool) -> dict[str, ArgumentKind]:
    """Return the kinds of an object's keys; what may be anything is no name for one left out."""
    needed = schema.get("required", ())
    found = {
        key: infer_argument_kind(key, each, required=key in needed)
        for key, each in schema.get("properties", {}).items()
    }
    if required:
        return found
    is_any = {key for key, kind in found.items() if kind.guessed and kind.topic == "slug"}
    return {k: replace(each, kind="unknown") if k in is_any else each for k, each in found.items()}


def _array(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind:
    inner = dict(schema.get("items") or {})
    inner.setdefault("type", "string" if not inner.get("properties") else "object")
    if inner["type"] == "any":
        inner["type"] = "string"
    inner.setdefault("description", base.description)
    item = infer_argument_kind(singular(name), inner, required=base.required)
    most = min(schema.get("maxItems") or 3, 3)
    least = min(max(1, schema.get("minItems") or 1), 5)
    if item.values:
        most = min(most, len(item.values))
    numbers = item.kind in ("integer", "number", "quantity_with_unit")
    ordered = (
        clues.ordered if clues.ordered is not None else numbers and not schema.get("uniqueItems")
    )
    return replace(
        base,
        kind="array",
        item=item,
        ordered=bool(ordered),
        min_items=least,
        max_items=max(least, most),
        guessed=item.guessed,
        evidence=item.evidence,
    )


def _of_number(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    if base.type not in ("integer", "float"):
        return None
    words = name_words(name)
    if axis := _AXIS.search(words):
        topic = "latitude" if axis[0].startswith("lat") else "longitude"
        bound = 90.0 if topic == "latitude" else 180.0
        bounds = schema.get("minimum", -bound), schema.get("maximum", bound)
        on_earth = replace(base, kind="number", topic=topic, evidence="name")
        return replace(on_earth, minimum=bounds[0], maximum=bounds[1])
    if _UNIX.search(base.description.lower()) or (base.type == "integer" and _AT.search(words)):
        return replace(base, kind="integer", topic="unix_time", evidence="description")
    if _ZERO_OR_ONE.search(base.description) and base.default in (0, 1, MISSING):
        return replace(base, evidence="description")  # a flag, which no user says as a number
    low, high, evidence = _bounds_of(schema, base.type)
    if low is None and high is None and (clues.minimum is not None or clues.maximum is not None):
        low, high, evidence = clues.minimum, clues.maximum, "description"
    if words.endswith("month") and base.type == "integer":
        return replace(base, kind="integer", minimum=1, maximum=12, evidence="name")
    if low is not None and low < 1 and (_AT_MOST.search(words) or clues.minimum == 1):
        low = 1  # a page of nothing
    head = base.description.lower()
    is_count = re.search(r"\bpage\b", words) or _AT_MOST.search(words)
    numbers = base.type == "integer" and low is None and not is_count
    if numbers and not clues.unit and _NUMBER_OF_ONE.search(head):
        return replace(base, kind="identifier", evidence="description")
    if numbers and re.search(r"\b(?:id|number|no|code)$", words):
        return replace(base, kind="identifier", evidence="name", guessed=not base.description)
    if re.search(r"\byear$", words) and base.type == "integer" and high is None:
        return replace(base, kind="year", format="%Y", evidence="name")
    low, high = _within_reason(low, high, base, schema)
    if clues.unit.endswith("cents") and high is None:
        low, high = max(low or 0, 100), 60_000
    kind = "quantity_with_unit" if clues.unit else {"float": "number"}.get(base.type, "integer")
    counts = _COUNT.search(words) and not any(
        isinstance(each, float) for each in (*schema.get("examples", ()), schema.get("default"))
    )
    return replace(
        base,
        kind=kind,
        minimum=low,
        maximum=high,
        unit=clues.unit,
        topic="count" if counts else "",
        evidence=evidence or "type",
    )


_AXIS = re.compile(r"\b(?:lat|latitude|lon|lng|longitude)$")
_ZERO_OR_ONE = re.compile(r"\b(?:set|equal|true|yes|on)\b[^.]{0,12}[`'\"]?\b[01]\b[`'\"]? ")
_AT_MOST = re.compile(
    r"\b(?:limit|(?:page|batch) size|per page|max(?:imum)? ?results|top|first|n)$"
)
_UNIX = re.compile(r"\bunix\b|\bepoch\b|seconds since|\b1970\b")
_AT = re.compile(
    r"\b(?:[a-z]+ed|seen|sent|expires?) at$|\bts$|\btime ?stamp$|"
    r"\b(?:before|after|since|until) (?:date|time)$"
)
_COUNT = re.compile(
    r"^(?:num|max|min|number|total|n)\b|\b(?:count|limit|tail|head|lines?|pages?|offset|depth|size|top|"
    r"top k|results|items|days|retries|attempts|level|index|port|quantity|steps|thoughts?|number)$"
)
"""Name of a number that counts, whatever type it has: TypeScript's numbers are all `number`."""


def _bounds_of(schema: Mapping[str, Any], kind: str) -> tuple[float | None, float | None, str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    step = 1 if kind == "integer" else 0.05
    if (above := schema.get("exclusiveMinimum")) is not None:
        low = above + step
    if (below := schema.get("exclusiveMaximum")) is not None:
        high = below - step
    return low, high, "" if low is None and high is None else "bounds"


def _within_reason(
    low: float | None, high: float | None, base: ArgumentKind, schema: Mapping[str, Any]
) -> tuple[float | None, float | None]:
    """Return bounds that a person's request would keep to, where one side is open."""
    examples = [each for each in schema.get("examples", ()) if isinstance(each, int | float)]
    default = base.default if isinstance(base.default, int | float) else None
    hints = [each for each in (*examples, default) if each is not None]
    if high is None and hints:
        high = max(12, max(hints) * 4)
    if low is None and high is not None and high > 1:
        low = 1
    return low, high


def _of_format(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    given = schema.get("format")
    if given in _UNASKABLE or re.search(r"\bbase-?64", base.description[:MOST_READ], re.IGNORECASE):
        return replace(base, evidence="format")
    formats = kind_tables()["formats"]
    if given not in formats:
        return None
    kind, form = formats[given]
    if kind == "standard":
        return replace(base, kind=kind, topic=form, evidence="format")
    shaped = kind_of_shape(base, example_texts(schema), "format")
    if shaped is not None and shaped.kind == kind:
        return replace(shaped, format=shaped.format or form)
    if clues.moment == kind and clues.format:
        form = clues.format
    return replace(base, kind=kind, format=form, evidence="format")


def _of_client(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    """Return the kind of what a client sets; what is demanded stays to be asked for."""
    if base.required:
        return None
    table, words = kind_tables(), name_words(name)
    inner = schema.get("items") or schema
    is_shape = re.search(table["answer_shape"], words)
    if is_shape or ("enum" not in inner and re.search(table["answer_parts"], words)):
        is_open = base.type in ("array", "string", "any") and not example_texts(inner)
        if is_shape or (is_open and not clues.values):
            return replace(base, kind="client", evidence="name")
    if base.type in ("array", "dict", "boolean"):
        return None
    by_name = re.search(rf"\b(?:{table['client']})$", words)
    if by_name or re.search(table["client_about"], first_clause(base.description)):
        return replace(base, kind="client", evidence="name" if by_name else "description")
    return None


@cache
def _families() -> tuple[Family, ...]:
    return families_of(kind_tables()["families"])


def _of_standard(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    if base.type not in ("string", "any"):
        return None
    shown = example_texts(schema) or list(clues.examples)
    if isinstance(base.default, str) and base.default:
        shown.append(base.default)
    words = name_words(name)
    own, _ = infer_kind_from_words(name, "")
    is_other = own is not None and own.kind in ("phone", "email", "url", "date", "datetime")
    text = "" if is_other else first_clause(base.description)
    found = standard_of(_families(), words, text, shown, base.takes_single)
    if found is None:
        return None
    return replace(base, kind="standard", topic=found, evidence="examples" if shown else "name")


def _of_examples(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    examples = [each for each in example_texts(schema) if base.takes_single(each)]
    return kind_like_examples(base, name, examples, "examples") if examples else None


def _of_default(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    if not isinstance(base.default, str) or clues.values:
        return None
    return kind_of_shape(base, [base.default], "default")


def _of_pattern(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    pattern = base.pattern
    if pattern is None:
        return None
    if choices := re.fullmatch(r"\^?\(?(?:\?:)?([\w-]+(?:\|[\w-]+)+)\)?\$?", pattern):
        return replace(base, kind="enum", values=tuple(choices[1].split("|")), evidence="pattern")
    meant, _ = infer_kind_from_words(name, base.description)
    if meant and meant.kind in ("phone", "date", "time"):
        form = _FORMS.get(meant.kind, "")
        return replace(base, kind=meant.kind, format=form, evidence="pattern")
    is_loose = meant is None and base.takes_single("early umber")
    if is_loose or not re.search(r"\\d|0-9|A-Z|\{\d", pattern):
        return None  # such as ".+": says nothing
    return replace(base, kind="identifier", examples=clues.examples, evidence="pattern")


def _of_listed(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    listed = tuple(each for each in clues.values if base.takes_single(each))
    is_list = all(re.search(r"[a-zA-Z0-9]", each) and "[" not in each for each in listed)
    listed = listed if is_list else ()  # marks, or names of parameters
    own, _ = infer_kind_from_words(name, "")
    is_certain = own is not None and own.kind in ("identifier", "person_name", "place", "email")
    if base.type == "string" and re.match(r"(?:\w+ )?whether\b", base.description.lower()):
        return replace(base, kind="enum", values=("true", "false"), evidence="description")
    is_searched = own is not None and own.topic == "query"
    if not listed or is_certain or is_searched or base.type not in ("string", "any"):
        return None
    return replace(base, kind="enum", values=listed, evidence="description")


def _of_description(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    if clues.moment:
        return replace(base, kind=clues.moment, format=clues.format, evidence="description")
    if re.search(r"\buuid\b", base.description, re.IGNORECASE):
        return replace(base, kind="identifier", format="uuid", evidence="description")
    if clues.examples:
        return kind_like_examples(base, name, clues.examples, "description")
    if clues.pattern is not None and _agrees(base, clues.pattern):
        return replace(base, kind="identifier", pattern=clues.pattern, evidence="description")
    return None


def _agrees(base: ArgumentKind, pattern: str) -> bool:
    """Return whether a schema takes what is drawn of a description's pattern."""
    texts = [text_of_pattern(pattern, Random(seed)) for seed in range(4)]
    return all(text is not None and base.takes_single(text) for text in texts)


def _of_name(
    name: str, schema: Mapping[str, Any], base: ArgumentKind, clues: DescriptionClues
) -> ArgumentKind | None:
    if base.type not in ("string", "any"):
        return None
    meant, from_name = infer_kind_from_words(name, base.description)
    evidence = "name" if from_name else "description"
    if meant is None:  # it may be anything: said only where a value must be, as a plain name
        unknown = replace(base, guessed=True, evidence="type")
        is_code = re.search(rf"\b(?:{kind_tables()['code']})$", name_words(name))
        is_said = base.required and not is_code
        return replace(unknown, kind="identifier", topic="slug") if is_said else unknown
    topic = meant.topic
    if topic == "query" and re.search(r"\b(?:surname|last name)\b", base.description.lower()):
        return replace(base, kind="person_name", topic="last", evidence="description")
    if meant.kind == "identifier" and topic == "postcode":
        pattern = base.pattern or "^[0-9]{5}$"
        return replace(base, kind="identifier", pattern=pattern, guessed=True, evidence=evidence)
    if meant.kind == "person_name" and re.match(
        r"first names?\b(?!.*\b(?:sur|last|family ))", base.description.lower()
    ):
        topic = "first"
    guessed = from_name or meant.kind == "identifier"
    form = _FORMS.get(meant.kind, "")
    return replace(
        base, kind=meant.kind, topic=topic, format=form, guessed=guessed, evidence=evidence
    )


_IN_ORDER: tuple[Find, ...] = (
    _of_enum,
    _of_client,
    _of_structure,
    _of_number,
    _of_format,
    _of_listed,
    _of_standard,
    _of_examples,
    _of_default,
    _of_pattern,
    _of_description,
    _of_name,
)
