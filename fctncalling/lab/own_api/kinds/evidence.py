"""Kind of one parameter, by the strongest evidence for it.

In this order: enum and const, structure, number, format, what a client sets, a standard's words,
examples, default, pattern, description, name.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

from fctncalling.lab.own_api.english import singular, spaced_words
from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind
from fctncalling.lab.own_api.kinds.clues import (
    MOST_READ,
    DescriptionClues,
    description_clues,
    first_clause,
    infer_kind_from_words,
    kind_tables,
)
from fctncalling.lab.own_api.kinds.pattern_text import (
    is_in_words,
    is_python_regex,
)
from fctncalling.lab.own_api.kinds.scalar_kind import MISSING, NUMBERS
from fctncalling.lab.own_api.kinds.standards import standard_of
from fctncalling.specification.api import MAX_DESCRIPTION, TYPES

_UNASKABLE = {"binary", "byte", "password"}
FORMS = {"date": "%Y-%m-%d", "time": "%H:%M", "datetime": "%Y-%m-%dT%H:%M:%S", "year": "%Y"}
"""Form of dates and times where a document gives none."""
UNDRAWN = "no value that is drawn fits its own schema"


def infer_argument_kind(name: str, schema: Mapping[str, Any], *, required: bool) -> ArgumentKind:
    """Return the kind of a parameter by its plain schema (types of JSON Schema or BFCL's).

    Unknown where no value that is drawn fits the schema.
    """
    json_type = str(schema.get("type", "any"))
    pattern = schema.get("pattern")
    base = ArgumentKind(
        "unknown",
        TYPES.get(json_type, json_type),
        default=schema.get("default", MISSING),
        required=required,
        description=str(schema.get("description") or schema.get("title") or "")[:MAX_DESCRIPTION],
        pattern=pattern if isinstance(pattern, str) and is_python_regex(pattern) else None,
        shortest=_length(schema.get("minLength")) or 0,
        longest=_length(schema.get("maxLength")),
    )
    parameter = _Parameter(name, schema, base)
    if "x-kind" in schema:
        return parameter.annotated()
    for find in _IN_ORDER:
        kind = find(parameter)
        if kind is not None:
            return kind if _can_be_drawn(kind) else replace(base, evidence=UNDRAWN)
    return base


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


@dataclass(frozen=True)
class _Parameter:
    """Parameter with the evidence for its kind; each method reads one sort of it."""

    name: str
    schema: Mapping[str, Any]
    base: ArgumentKind

    @cached_property
    def words(self) -> str:
        return spaced_words(self.name)

    @cached_property
    def clues(self) -> DescriptionClues:
        return description_clues(self.base.description, self.name)

    def kind(self, kind: str, evidence: str, **fields: Any) -> ArgumentKind:
        return replace(self.base, kind=kind, evidence=evidence, **fields)

    def annotated(self) -> ArgumentKind:
        """Return the kind that a schema names: `"x-kind": "KIND TOPIC"`."""
        kind, _, topic = self.schema["x-kind"].partition(" ")
        return self.kind(
            kind,
            "x-kind",
            topic=topic,
            format=FORMS.get(kind, ""),
            minimum=self.schema.get("minimum"),
            maximum=self.schema.get("maximum"),
            step=self.schema.get("multipleOf"),
            values=tuple(self.schema.get("enum", ())),
            examples=tuple(self.schema.get("examples", ())),
        )

    def from_enum(self) -> ArgumentKind | None:
        values = self.schema.get("enum")
        if self.base.type in ("array", "dict", "boolean") or not isinstance(values, list):
            return None
        if not values or any(isinstance(each, list | dict) for each in values):
            return None
        texts = [each for each in values if isinstance(each, str)]
        about = first_clause(self.base.description)
        named = standard_of(self.words, about, texts, lambda text: True)
        topic = named if named and len(texts) == len(values) else ""
        return self.kind("enum", "enum", values=tuple(values), topic=topic)

    def from_structure(self) -> ArgumentKind | None:
        base, alternatives = self.base, self.schema.get("oneOf")
        if base.type in ("array", "tuple"):
            return self._array()
        if base.type == "boolean":
            return self.kind("boolean", "type")
        if base.type != "dict":
            return None
        properties = _properties(self.schema, base.required)
        if alternatives:
            forms = tuple(infer_argument_kind(self.name, e, required=True) for e in alternatives)
            return self.kind("one_of", "oneOf", alternatives=forms, properties=properties)
        return self.kind("object" if properties else "unknown", "type", properties=properties)

    def _array(self) -> ArgumentKind:
        inner = dict(self.schema.get("items") or {})
        inner.setdefault("type", "string" if not inner.get("properties") else "object")
        inner.setdefault("description", self.base.description)
        item = infer_argument_kind(singular(self.name), inner, required=self.base.required)
        most = min(self.schema.get("maxItems") or 3, 3, len(item.values) or 3)
        least = min(max(1, self.schema.get("minItems") or 1), 5)
        ordered = self.clues.ordered
        if ordered is None:
            ordered = item.kind in NUMBERS and not self.schema.get("uniqueItems")
        sizes = {"min_items": least, "max_items": max(least, most), "ordered": ordered}
        return self.kind("array", item.evidence, item=item, guessed=item.guessed, **sizes)

    def from_number(self) -> ArgumentKind | None:
        base, clues, words = self.base, self.clues, self.words
        if base.type not in ("integer", "float"):
            return None
        is_integer, about = base.type == "integer", base.description.lower()
        if axis := _AXIS.search(words):
            topic, bound = ("latitude", 90.0) if axis[0][:3] == "lat" else ("longitude", 180.0)
            low, high = self.schema.get("minimum", -bound), self.schema.get("maximum", bound)
            return self.kind("number", "name", topic=topic, minimum=low, maximum=high)
        if _UNIX.search(about) or (is_integer and _AT.search(words)):
            return self.kind("integer", "description", topic="unix_time")
        low, high, evidence = self._bounds()
        if low is not None and low < 1 and (_AT_MOST.search(words) or clues.minimum == 1):
            low = 1  # a page of nothing
        is_count = re.search(r"\bpage\b", words) or _AT_MOST.search(words)
        numbers = is_integer and low is None and not is_count
        if numbers and not clues.unit and _NUMBER_OF_ONE.search(about):
            return self.kind("identifier", "description")
        if numbers and re.search(r"\b(?:id|number|no|code)$", words):
            return self.kind("identifier", "name", guessed=not base.description)
        if re.search(r"\byear$", words) and is_integer and high is None:
            return self.kind("year", "name", format=FORMS["year"])
        low, high = self._within_reason(low, high)
        kind = "quantity_with_unit" if clues.unit else "integer" if is_integer else "number"
        shown = (*self.schema.get("examples", ()), self.schema.get("default"))
        counts = _COUNT.search(words) and not any(isinstance(each, float) for each in shown)
        fields = {"minimum": low, "maximum": high, "unit": clues.unit}
        return self.kind(kind, evidence or "type", topic="count" if counts else "", **fields)

    def _bounds(self) -> tuple[float | None, float | None, str]:
        """Return the bounds of the schema, else those of the description, and their source."""
        low, high = self.schema.get("minimum"), self.schema.get("maximum")
        step = 1 if self.base.type == "integer" else 0.05
        if (above := self.schema.get("exclusiveMinimum")) is not None:
            low = above + step
        if (below := self.schema.get("exclusiveMaximum")) is not None:
            high = below - step
        told = (self.clues.minimum, self.clues.maximum)
        if low is None and high is None:
            return (*told, "" if told == (None, None) else "description")
        return low, high, "bounds"

    def _within_reason(
        self, low: float | None, high: float | None
    ) -> tuple[float | None, float | None]:
        """Return bounds that a person's request would keep to, if one side is open."""
        shown = (*self.schema.get("examples", ()), self.base.default)
        hints = [each for each in shown if isinstance(each, int | float)]
        if high is None and hints:
            high = max(12, max(hints) * 4)
        if low is None and high is not None and high > 1:
            low = 1
        return low, high

    def from_format(self) -> ArgumentKind | None:
        given, formats, about = (
            self.schema.get("format"),
            kind_tables()["formats"],
            self.base.description,
        )
        if given in _UNASKABLE or re.search(r"\bbase-?64", about[:MOST_READ], re.IGNORECASE):
            return self.kind("unknown", "format")
        if given not in formats:
            return None
        kind, form = formats[given]
        if kind == "standard":
            return self.kind(kind, "format", topic=form)
        shaped = kind_of_shape(self.base, example_texts(self.schema), "format")
        if shaped is not None and shaped.kind == kind:
            return replace(shaped, format=shaped.format or form)
        if self.clues.moment == kind and self.clues.format:
            form = self.clues.format
        return self.kind(kind, "format", format=form)

    def from_client(self) -> ArgumentKind | None:
        """Return the kind of an optional parameter that a client sets; None for others."""
        if self.base.required:
            return None
        table, inner = kind_tables(), self.schema.get("items") or self.schema
        is_shape = re.search(table["answer_shape"], self.words)
        if is_shape or ("enum" not in inner and re.search(table["answer_parts"], self.words)):
            is_open = self.base.type in ("array", "string", "any") and not example_texts(inner)
            if is_shape or (is_open and not self.clues.values):
                return self.kind("client", "name")
        if self.base.type in ("array", "dict", "boolean"):
            return None
        if re.search(rf"\b(?:{table['client']})$", self.words):
            return self.kind("client", "name")
        is_told = re.search(table["client_about"], first_clause(self.base.description))
        return self.kind("client", "description") if is_told else None

    def from_standard(self) -> ArgumentKind | None:
        shown = example_texts(self.schema) or list(self.clues.examples)
        if isinstance(self.base.default, str) and self.base.default:
            shown.append(self.base.default)
        meant, _ = infer_kind_from_words(self.name, "")
        is_other = meant and meant.kind in ("phone", "email", "url", "date", "datetime")
        about = "" if is_other else first_clause(self.base.description)
        topic = standard_of(self.words, about, shown, self.base.takes_single)
        evidence = "examples" if shown else "name"
        return None if topic is None else self.kind("standard", evidence, topic=topic)

    def from_examples(self) -> ArgumentKind | None:
        examples = [each for each in example_texts(self.schema) if self.base.takes_single(each)]
        return kind_like_examples(self.base, self.name, examples, "examples") if examples else None

    def from_default(self) -> ArgumentKind | None:
        default = self.base.default
        if not isinstance(default, str) or self.clues.values:
            return None
        return kind_of_shape(self.base, [default], "default")

    def from_pattern(self) -> ArgumentKind | None:
        pattern = self.base.pattern
        if pattern is None:
            return None
        meant, _ = infer_kind_from_words(self.name, self.base.description)
        is_loose = meant is None and self.base.takes_single("early umber")
        if is_loose or not re.search(r"\\d|0-9|A-Z|\{\d", pattern):
            return None  # such as ".+": says nothing
        return self.kind("identifier", "pattern", examples=self.clues.examples)

    def from_list(self) -> ArgumentKind | None:
        """Return the kind of a value that a description lists."""
        listed = tuple(each for each in self.clues.values if self.base.takes_single(each))
        is_list = all(re.search(r"[a-zA-Z0-9]", each) and "[" not in each for each in listed)
        meant, _ = infer_kind_from_words(self.name, "")
        is_certain = meant and meant.kind in ("identifier", "person_name", "place", "email")
        is_searched = meant and meant.topic == "query"
        if not listed or not is_list or is_certain or is_searched:
            return None  # marks, or names of parameters
        return self.kind("enum", "description", values=listed)

    def from_description(self) -> ArgumentKind | None:
        clues = self.clues
        if clues.moment:
            return self.kind(clues.moment, "description", format=clues.format)
        if re.search(r"\buuid\b", self.base.description, re.IGNORECASE):
            return self.kind("identifier", "description", format="uuid")
        if clues.examples:
            return kind_like_examples(self.base, self.name, clues.examples, "description")
        return None

    def from_name(self) -> ArgumentKind | None:
        meant, by_name = infer_kind_from_words(self.name, self.base.description)
        evidence = "name" if by_name else "description"
        if meant is None:  # it may be anything: said only where a value must be, as a plain name
            is_code = re.search(rf"\b(?:{kind_tables()['code']})$", self.words)
            if self.base.required and not is_code:
                return self.kind("identifier", "type", topic="slug", guessed=True)
            return self.kind("unknown", "type", guessed=True)
        fields = {"topic": meant.topic, "format": FORMS.get(meant.kind, "")}
        if meant == ("identifier", "postcode"):
            fields = {"pattern": self.base.pattern or "^[0-9]{5}$"}
        guessed = by_name or meant.kind == "identifier"
        return self.kind(meant.kind, evidence, guessed=guessed, **fields)


LONGEST_EXAMPLE = 60
_MARKUP = re.compile(r"[<>{}\n]|^\W*$")
_FOR_MACHINES = re.compile(r"[=?&|\\\"]|%\d\d")


def example_texts(schema: Mapping[str, Any]) -> list[str]:
    """Return the examples that a person would write: short ones, on one line, without markup."""
    texts = [html.unescape(each) for each in schema.get("examples", ()) if isinstance(each, str)]
    texts = [each.strip().strip('"') for each in texts]
    return [each for each in texts if 1 < len(each) <= LONGEST_EXAMPLE and not _MARKUP.search(each)]


def kind_like_examples(
    base: ArgumentKind, name: str, examples: Sequence[str], evidence: str
) -> ArgumentKind:
    """Return the kind of values like these: of their shape, else of their name's topic."""
    if shaped := kind_of_shape(base, examples, evidence):
        return shaped
    own = replace(base, examples=tuple(examples), evidence=evidence)
    kind, topic = infer_kind_from_words(name, base.description)[0] or ("", "")
    if any(map(_FOR_MACHINES.search, examples)):  # a query, an expression: nobody's own words
        if kind == "free_text":
            return replace(base, kind=kind, topic=topic, evidence="name")
        return replace(own, kind="free_text" if base.required else "unknown", topic="example")
    if kind in ("phone", "email", "url"):
        return replace(own, kind=kind)
    if kind in ("date", "time", "datetime"):
        shapes = (kind_of_shape(base, [each], evidence) for each in examples)
        return next(filter(None, shapes), None) or replace(own, kind="free_text", topic="example")
    is_word = kind in ("person_name", "place", "free_text")
    digits = all(re.search(r"\d", each) for each in examples)
    is_code = all(" " not in each and len(each) > 1 and not is_in_words(each) for each in examples)
    is_numbered = kind == "identifier" and evidence == "description" and digits
    if is_numbered or (is_code and (digits or not is_word)):
        return replace(own, kind="identifier")
    if is_word:
        return replace(own, kind=kind, topic=topic)
    if all(re.fullmatch(r"[A-Z][a-z]+", each) for each in examples) and evidence == "description":
        return replace(own, kind="free_text", topic="proper")  # a thing's own name, such as Birch
    return replace(own, kind="free_text", topic="example")


def kind_of_shape(
    base: ArgumentKind, examples: Sequence[str], evidence: str
) -> ArgumentKind | None:
    """Return the kind that all examples have the shape of."""
    for pattern, kind, form in kind_tables()["shapes"] if examples else ():
        if all(re.fullmatch(pattern, each, re.IGNORECASE) for each in examples):
            shape = replace(base, kind=kind, examples=tuple(examples), evidence=evidence)
            return replace(shape, **{"topic" if kind == "standard" else "format": form})
    return None


def _properties(schema: Mapping[str, Any], required: bool) -> dict[str, ArgumentKind]:
    """Return the kinds of an object's keys; optional ones of unknown kind are unknown."""
    needed = schema.get("required", ())
    kinds = {
        key: infer_argument_kind(key, each, required=key in needed)
        for key, each in schema.get("properties", {}).items()
    }
    if required:
        return kinds
    is_any = {key for key, kind in kinds.items() if kind.guessed and kind.topic == "slug"}
    return {k: replace(each, kind="unknown") if k in is_any else each for k, each in kinds.items()}


_NUMBER_OF_ONE = re.compile(
    r"^(?:the |its |their |[a-z]+'s )?(?:[a-z]+ ){0,2}(?:number|no\.|id)"
    r"(?! of (?:all |the )?[a-z]+s\b)"
)
"""Description of a number that says which one: "membership number", but not "number of bags"."""
_AXIS = re.compile(r"\b(?:lat|latitude|lon|lng|longitude)$")
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


_IN_ORDER = (
    _Parameter.from_enum,
    _Parameter.from_client,
    _Parameter.from_structure,
    _Parameter.from_number,
    _Parameter.from_format,
    _Parameter.from_list,
    _Parameter.from_standard,
    _Parameter.from_examples,
    _Parameter.from_default,
    _Parameter.from_pattern,
    _Parameter.from_description,
    _Parameter.from_name,
)
"""Sorts of evidence, the strongest first."""
