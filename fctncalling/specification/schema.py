"""JSON Schema as one plain tree: references followed, allOf merged, alternatives separate.

A circle of references, and what lies deeper than MAX_DEPTH, ends as an object of which nothing is
known. The tree keeps `oneOf` only where the alternatives are objects with keys of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from fctncalling.specification.api import (
    MAX_DESCRIPTION,
    SpecificationError,
    SpecificationNotes,
    shown,
)
from fctncalling.specification.document import ReferenceResolver
from fctncalling.specification.type_text import JSON_TYPES, schema_of_type

MAX_DEPTH = 8
MAX_KEYS = 1_000  # of one object
MAX_PARTS_DEPTH = 40  # of allOf in allOf
MAX_EXAMPLES = 50
MAX_NODES = 5_000  # of one parameter or body: references shared many times over unfold
MAX_NODES_OF_ALL = 25_000  # three times what the largest public documents hold
MAX_ENUM = 1_000
MAX_VALUE = 2_000  # characters of a default, an example or a listed value
MAX_BOUND = 1e30
_KEPT = tuple(
    "description title enum default format pattern examples minLength maxLength minItems maxItems "
    "uniqueItems".split()
)
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


@dataclass
class SchemaReader:
    """Reader of one document's schemas; notes what had to be left open."""

    references: ReferenceResolver
    place: str
    notes: SpecificationNotes = field(default_factory=SpecificationNotes)
    first_type: bool = True  # of several types the first is asked for; else any value is taken
    _nodes: int = 0
    _nodes_of_all: int = 0

    def read(self, schema: Any, where: str) -> dict[str, Any]:
        """Return a schema as a plain tree; SpecificationError for a broken reference."""
        self._nodes = 0
        return self._read(schema, where, ())

    def _read(self, schema: Any, where: str, above: tuple[str, ...]) -> dict[str, Any]:
        self._count(1)
        try:
            schema, reference = self.references.followed(schema, where)
        except SpecificationError as error:
            if "leads back" not in str(error):
                raise
            return self._left_open(where, "refers to itself")
        if schema is True or schema is None:
            return {}
        if not isinstance(schema, Mapping):
            return self._left_open(where, f"no schema but {shown(schema)}")
        if reference and reference in above:
            return self._left_open(where, f"{reference} holds itself", schema)
        if len(above) >= MAX_DEPTH or self._is_full:
            self.notes.left_out["schemas that nest too deep"] += 1
            return self._left_open(where, "nests too deep", schema)
        return self._tree(self._merged(schema, where, (*above, reference)), where, above, reference)

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        self._nodes_of_all += nodes

    @property
    def _is_full(self) -> bool:
        return self._nodes > MAX_NODES or self._nodes_of_all > MAX_NODES_OF_ALL

    def _tree(
        self, schema: Mapping[str, Any], where: str, above: tuple[str, ...], reference: str
    ) -> dict[str, Any]:
        inner = (*above, reference)
        schema = self._with_json_type(schema, where)
        result = {key: schema[key] for key in _KEPT if key in schema} | self._bounds(schema, where)
        self._tidy(result, schema, where)
        if kind := self._type(schema, where):
            result["type"] = kind
        if isinstance(properties := schema.get("properties"), Mapping):
            if len(properties) > MAX_KEYS:
                self.notes.add(f"{where}: {len(properties)} keys: the first {MAX_KEYS} are read")
            result["properties"] = {
                str(name): self._read(each, f"{where}.{name!s:.60}", inner)
                for name, each in islice(properties.items(), MAX_KEYS)
                if not (isinstance(each, Mapping) and each.get("readOnly") is True)
            }
            needed = set(text_list(schema.get("required"))) | {
                name for name, each in properties.items() if _mapping(each).get("required") is True
            }
            result["required"] = [name for name in result["properties"] if name in needed]
        if kind == "array":
            items = schema.get("items", schema.get("prefixItems"))
            items = items[0] if isinstance(items, list) and items else items
            result["items"] = self._read(items, f"{where}[]", inner)
        return self._with_alternatives(result, schema, where, inner)

    def _with_alternatives(
        self, result: dict[str, Any], schema: Mapping[str, Any], where: str, above: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return a schema joined with its oneOf or anyOf."""
        for key in ("oneOf", "anyOf"):
            given = schema.get(key)
            if not isinstance(given, list):
                continue
            choices = [self._read(each, where, above) for each in given if not _is_null(each)]
            choices = [each for each in choices if each]
            if len(choices) == 1:
                return _joined(choices[0], result)
            if choices:
                result = self._of_choices(result, choices, where)
        return result

    def _of_choices(
        self, result: dict[str, Any], choices: list[dict[str, Any]], where: str
    ) -> dict[str, Any]:
        if all("enum" in each for each in choices):
            values = [value for each in choices for value in each["enum"]]
            kinds = {each.get("type") for each in choices}
            found = {**result, "enum": values}
            return {**found, "type": kinds.pop()} if len(kinds) == 1 else found
        if all("properties" in each for each in choices):
            shared = {key: result[key] for key in _OBJECT if key in result}
            whole = [_joined(each, shared) for each in choices]
            return {**result, **_union(whole), "oneOf": whole}
        if "properties" in result:  # alternatives that only demand: anyOf: [{required: [a]}, ...]
            return result
        scalars = [each for each in choices if each.get("type") not in ("array", "object", None)]
        chosen = (scalars or choices)[0]
        kinds = {each.get("type") for each in choices}
        if len(kinds) > 1:
            self.notes.add(
                f"{where}: may be of several types: {chosen.get('type', 'the first')} is asked for"
            )
            chosen = chosen if self.first_type else {}
        return _joined(chosen, result)

    def _merged(
        self, schema: Mapping[str, Any], where: str, above: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return a schema with the parts of its allOf in it, later ones over earlier ones."""
        parts = schema.get("allOf")
        own = {key: each for key, each in schema.items() if key != "allOf"}
        if not isinstance(parts, list):
            return own
        merged: dict[str, Any] = {}
        for part in parts:
            if self._is_full or len(above) > MAX_PARTS_DEPTH:
                self.notes.add(f"{where}: its allOf is too large: only the first parts are read")
                break
            found, reference = self.references.followed(part, where)
            if isinstance(found, Mapping) and (not reference or reference not in above):
                inner = self._merged(found, where, (*above, reference))
                merged = _joined(merged, inner, keep_order=True)
                self._count(1 + len(_mapping(merged.get("properties"))))
            elif reference:
                self.notes.add(f"{where}: {reference} holds itself: left out")
        return _joined(merged, own, keep_order=True)

    def _bounds(self, schema: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the bounds that are numbers; OpenAPI 3.0 has flags for exclusive ones."""
        found = {key: schema[key] for key in _BOUNDS if _is_number(schema.get(key))}
        for key in [key for key, bound in found.items() if not abs(bound) <= MAX_BOUND]:
            self.notes.add(f"{where}: {key} {found.pop(key):.3g} is no bound: not kept to")
        for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if schema.get(flag) is True and bound in found:
                found[flag] = found.pop(bound)
        lows = [found[key] for key in ("minimum", "exclusiveMinimum") if key in found]
        highs = [found[key] for key in ("maximum", "exclusiveMaximum") if key in found]
        low, high = max(lows, default=None), min(highs, default=None)
        if low is not None and high is not None and low > high:
            self.notes.add(f"{where}: bounds {low} to {high} leave no value: not kept to")
            return {}
        return found

    def _tidy(self, result: dict[str, Any], schema: Mapping[str, Any], where: str) -> None:
        """Mend what contradicts itself or is written in a former form."""
        for key in ("description", "title", "format", "pattern"):
            if key in result:
                result[key] = text_of(result[key])
                if not result[key]:
                    del result[key]
        for key in ("minItems", "maxItems"):
            if key in result and not (_is_number(result[key]) and 0 <= result[key] <= MAX_BOUND):
                del result[key]
            elif key in result:
                result[key] = int(result[key])
        if "const" in schema:
            result["enum"] = [schema["const"]]
        if "enum" in result:
            values = [each for each in as_list(result["enum"]) if each is not None and each != ""]
            result["enum"] = [each for each in values[:MAX_ENUM] if _is_short(each)]
            if len(values) > len(result["enum"]):
                left_out = len(values) - len(result["enum"])
                self.notes.add(f"{where}: {left_out} of its {len(values)} listed values left out")
            if not result["enum"]:
                del result["enum"]
        examples = result.pop("examples", None)
        examples = list(examples.values()) if isinstance(examples, Mapping) else examples
        examples = [each["value"] if _is_example(each) else each for each in as_list(examples)]
        if "example" in schema:
            examples = [schema["example"], *examples]
        examples = [each for each in examples[:MAX_EXAMPLES] if _is_short(each)]
        if examples:
            result["examples"] = examples
        if result.get("default", 0) is None:
            del result["default"]
        if not _is_short(result.get("default")):
            self.notes.add(f"{where}: its default is too long, or no number: left out")
            del result["default"]
        if "default" in result and "enum" in result and result["default"] not in result["enum"]:
            self.notes.add(f"{where}: default {shown(result['default'])} is not in its enum")
            del result["default"]

    def _with_json_type(self, schema: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """Return a schema whose type is one of JSON's, or none: Python's and prose are read."""
        kind = schema.get("type")
        if isinstance(kind, list) or kind in (*JSON_TYPES, None, "any", "null"):
            return schema
        rest = {key: each for key, each in schema.items() if key != "type"}
        meant = schema_of_type(kind) if isinstance(kind, str) else None
        if meant is None:
            self.notes.add(f"{where}: type {shown(kind)} is not known: any value is taken")
        return {**(meant or {}), **rest}

    def _type(self, schema: Mapping[str, Any], where: str) -> str | None:
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [each for each in kind if each != "null"]
            if len(kinds) > 1:
                self.notes.add(f"{where}: may be of several types: {shown(kinds[0])} is asked for")
            kind = kinds[0] if len(kinds) == 1 or (kinds and self.first_type) else None
        meant = schema_of_type(kind) if isinstance(kind, str) else None
        return (meant or {}).get("type") or _type_of_rest(schema)

    def _left_open(
        self, where: str, why: str, schema: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        self.notes.add(f"{where}: {why}: left open")
        description = text_of((schema or {}).get("description"))
        return {"type": "object"} | ({"description": description} if description else {})


_OBJECT = ("properties", "required")


def _type_of_rest(schema: Mapping[str, Any]) -> str | None:
    """Return the type that a schema without one means."""
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    kinds = {type(each) for each in values} if isinstance(values, list) else set()
    if len(kinds) == 1:
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        return names.get(kinds.pop())
    if "pattern" in schema or "format" in schema or "maxLength" in schema:
        return "string"
    return "number" if "minimum" in schema or "maximum" in schema else None


def _joined(
    one: Mapping[str, Any], over: Mapping[str, Any], *, keep_order: bool = False
) -> dict[str, Any]:
    """Return two schemas as one: what `over` says counts, properties and required of both."""
    joined = {**one, **over}
    if "properties" in one and "properties" in over:
        first, second = (one, over) if keep_order else (over, one)
        joined["properties"] = {**_mapping(first["properties"]), **_mapping(second["properties"])}
    required = [*text_list(one.get("required")), *text_list(over.get("required"))]
    if required:
        joined["required"] = list(dict.fromkeys(required))
    return joined


def _union(choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an object with the keys of all alternatives; demanded is what all demand.

    A key that is a fixed value in each (a discriminator) has all of them.
    """
    properties: dict[str, Any] = {}
    for choice in choices:
        for name, each in choice["properties"].items():
            old = properties.get(name, each)
            if old is not each and "enum" in old and "enum" in each:
                each = {**old, "enum": _distinct([*old["enum"], *each["enum"]])}
            properties[name] = each if name not in properties or "enum" in each else old
    demanded = [set(text_list(each.get("required"))) for each in choices]
    needed = [name for name in properties if all(name in each for each in demanded)]
    return {"type": "object", "properties": properties, "required": needed}


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and an empty one for what is none."""
    return value if isinstance(value, list) else []


def text_list(value: Any) -> list[str]:
    """Return the texts of a list, none of what is no list."""
    return [each for each in as_list(value) if isinstance(each, str)]


def text_of(value: Any) -> str:
    """Return a text as far as anybody reads it, and an empty one for what is none."""
    return value[: 4 * MAX_DESCRIPTION] if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_short(value: Any) -> bool:
    """Whether a value fits into a task's document: neither long nor without a size."""
    if _is_number(value):
        return bool(abs(value) <= MAX_BOUND)
    return not isinstance(value, str | list | dict) or len(shown(value, MAX_VALUE)) < MAX_VALUE


def _distinct(values: list[Any]) -> list[Any]:
    try:
        return list(dict.fromkeys(values))
    except TypeError:  # lists and objects
        return values


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (
        schema.get("type") == "null"
        or schema.get("enum") == [None]
        or schema.get("const", 0) is None
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_example(value: Any) -> bool:
    """Whether an example is OpenAPI's object around the value."""
    keys = {"value", "summary", "description", "externalValue"}
    return isinstance(value, Mapping) and "value" in value and value.keys() <= keys
