"""OwnApi: a user's functions in one form, from any specification."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.data.unsafe_text import encodable_text

MAX_MESSAGE = 1_000


class SpecificationError(ValueError):
    """Specification that cannot be used; the message names the place and the cure in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message, MAX_MESSAGE))


def one_line(text: str, most: int) -> str:
    """Return a stranger's text on one line that a terminal only shows, cut where it is long."""
    line = " ".join(text[: 4 * most].split())[:most]
    return line if line.isprintable() else repr(line)[1:-1]


def shown(value: Any, most: int = 40) -> str:
    """Return how a value begins, as Python writes it, without the whole of it being written."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) >= most:
            break
    return text[:most]


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield repr(value[:MAX_MESSAGE])
    elif isinstance(value, list | dict):
        yield "[" if isinstance(value, list) else "{"
        for number, each in enumerate(value):
            yield ", " if number else ""
            yield from _pieces(each)
            if isinstance(value, dict):
                yield ": "
                yield from _pieces(value[each])
        yield "]" if isinstance(value, list) else "}"
    else:
        yield repr(value)


@dataclass(frozen=True)
class OwnApi:
    """An API: its functions with BFCL's types, all names unique and such as a call can bear.

    What BFCL's form of a parameter cannot say (patterns, examples, alternatives) is in `schemas`:
    JSON Schema without references, by function and parameter.
    """

    name: str
    functions: tuple[FunctionDoc, ...]
    source: str  # the SPEC text
    tool_class: str | None = None  # "module:Class" of a Python class
    scenarios: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()  # what was guessed or left out, for the user
    schemas: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> how many
    origins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By function: the `name` and `parameters` of its specification (each a `name`, and `in` where
    it stands in a request), and how an operation is sent (see `sender`)."""

    not_chosen: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Parameters of each function that the whole API has and a chosen part lacks."""

    def summary(self) -> str:
        """Return how much was read and what was left out by reason, on one line."""
        every = sorted(self.left_out.items(), key=lambda item: (-item[1], item[0]))
        left_out = ", ".join(f"{count} {why}" for why, count in every) or "nothing"
        return f"{self.source}: {len(self.functions)} functions; left out: {left_out}"

    def own_call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return a call with the names of this API, from those of its specification."""
        if name not in self.origins:
            own = (each for each, origin in self.origins.items() if origin["name"] == name)
            name = next(own, name)
        parameters = self.origins.get(name, {}).get("parameters", {})
        names = {each["name"]: own for own, each in parameters.items()}
        return name, {
            key if key in parameters else names.get(key, key): value
            for key, value in arguments.items()
        }

    @cached_property
    def by_name(self) -> Mapping[str, FunctionDoc]:
        """The functions by their names here."""
        return {each.name: each for each in self.functions}

    def function(self, name: str) -> FunctionDoc:
        """Return the function of a name; KeyError where there is none."""
        return self.by_name[name]


MAX_NAME = 64
_CALLABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")


def argument_name(name: str, taken: Collection[str], otherwise: str) -> str:
    """Return a name that an argument can bear, not among those taken: `callable_name` without dots.

    A function's name may be a path of names, an argument's not.
    """
    return callable_name(name.replace(".", "_"), taken, otherwise)


def callable_name(name: str, taken: Collection[str], otherwise: str) -> str:
    """Return a name such as a call can bear, not among those taken.

    The name itself where it is one; else its letters of the Latin alphabet with underscores
    between; `otherwise` where it has none.
    """
    found = name if is_callable_name(name) else _latin(name) or otherwise
    if keyword.iskeyword(found):
        found += "_"
    return free_name(found[:MAX_NAME], taken)


def is_callable_name(name: str) -> bool:
    """Return whether a call in Python's form can bear a name."""
    sound = bool(_CALLABLE.fullmatch(name)) and len(name) <= MAX_NAME
    return sound and not any(map(keyword.iskeyword, name.split(".")))


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number appended if it is taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def _latin(name: str) -> str:
    """Return a name in the letters A to Z: accents fall, other scripts are left out."""
    letters = [each for each in name if each.isalpha()]
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    if 2 * sum(each.isalpha() for each in plain) < len(letters):
        return ""
    word = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")
    return f"_{word}" if word[:1].isdigit() else word


MAX_DESCRIPTION = 2_000
TYPES = {"object": "dict", "number": "float"}
_KEPT = ("enum", "default", "format", "minimum", "maximum")
MAX_ENUM = 200


def function_doc(
    name: str, description: str, properties: Mapping[str, Mapping[str, Any]], required: list[str]
) -> FunctionDoc:
    """Return a function's doc from the plain schemas of its parameters."""
    parameters = {
        "type": "dict",
        "properties": {each: parameter_doc(schema) for each, schema in properties.items()},
        "required": [each for each in properties if each in required],
    }
    return FunctionDoc(name, shorten_description(description), parameters)


def parameter_doc(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain schema as BFCL writes parameters."""
    kind = schema.get("type", "any")
    result: dict[str, Any] = {
        "type": TYPES.get(kind, kind),
        "description": shorten_description(_described(schema)),
    }
    result |= {key: schema[key] for key in _KEPT if key in schema}
    if len(result.get("enum", ())) > MAX_ENUM:
        del result["enum"]
    if "properties" in schema:
        result["properties"] = {
            name: _without_empty_description(parameter_doc(each))
            for name, each in schema["properties"].items()
        }
        if schema.get("required"):
            result["required"] = list(schema["required"])
    if "items" in schema:
        result["items"] = _without_empty_description(parameter_doc(schema["items"]))
    return result


def _without_empty_description(doc: dict[str, Any]) -> dict[str, Any]:
    return doc if doc["description"] else {key: doc[key] for key in doc if key != "description"}


def shorten_description(text: str) -> str:
    """Return a description on one line, cut where it is long."""
    line = " ".join(encodable_text(text[: 4 * MAX_DESCRIPTION]).split())
    return line if len(line) <= MAX_DESCRIPTION else f"{line[: MAX_DESCRIPTION - 4]} ..."


def _described(schema: Mapping[str, Any]) -> str:
    text = schema.get("description") or ""
    alternatives = schema.get("oneOf", ())
    if not alternatives:
        return text
    told = "; or ".join(
        f"{shorten_description(each.get('description', '')).rstrip('.')} "
        f"(keys {', '.join(each['properties'])})".strip()
        for each in alternatives
    )
    return f"{text} One of: {told}.".strip()


MAX_FUNCTIONS = 3_000
MAX_ARGUMENTS = 500  # of one function
MAX_NOTES = 200
MAX_NOTE = 300  # characters


@dataclass
class SpecificationNotes:
    """Notes on what was guessed or left out: each once, the first MAX_NOTES kept, all counted."""

    kept: list[str] = field(default_factory=list)
    further: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # by reason
    _seen: set[int] = field(default_factory=set)

    def leave_out(self, reason: str, where: str, count: int = 1) -> None:
        """Count what is left out for a reason, with a note that names its place."""
        if count:
            self.left_out[reason] += count
            self.add(f"{where}: left out: {reason}")

    def add(self, text: str) -> None:
        """Add a note."""
        line = one_line(text, MAX_NOTE)
        if hash(line) in self._seen:
            return
        self._seen.add(hash(line))
        if len(self.kept) < MAX_NOTES:
            self.kept.append(line)
        else:
            self.further += 1

    def extend(self, others: SpecificationNotes) -> None:
        """Add the notes of another reader."""
        for line in others.kept:
            self.add(line)
        self.further += others.further
        self.left_out.update(others.left_out)

    def lines(self) -> tuple[str, ...]:
        """Return the notes, and how many more there are."""
        return (*self.kept, *([f"{self.further} further notes"] if self.further else ()))


@dataclass
class CollectedFunctions:
    """Functions of one specification."""

    spec: str
    first_type: bool = True  # of a value of several types; see `SchemaReader`
    functions: dict[str, FunctionDoc] = field(default_factory=dict)
    notes: SpecificationNotes = field(default_factory=SpecificationNotes)
    schemas: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    origins: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(
        self,
        name: str,
        description: str,
        properties: Mapping[str, Mapping[str, Any]],
        required: list[str],
        where: str,
        *,
        otherwise: str = "",
        origin: Mapping[str, Any] | None = None,
        places: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Add a function under a name that a call can bear; SpecificationError for too many.

        `origin`: how it is sent; `places`: where each parameter then stands, by its name here.
        """
        if len(self.functions) >= MAX_FUNCTIONS:
            cure = "give those that a model is to call"
            raise SpecificationError(f"{self.spec}: more than {MAX_FUNCTIONS} functions: {cure}")
        if len(properties) > MAX_ARGUMENTS:
            self.notes.leave_out(f"more than {MAX_ARGUMENTS} arguments", where)
            return
        otherwise = otherwise or f"function_{len(self.functions) + 1}"
        own = callable_name(name, self.functions, otherwise)
        if own != name:
            why = "is there twice" if name in self.functions else "is no name for a call"
            self.notes.add(f"{where}: {shown(name, 60)} {why}: called {own}")
        if not description.strip():
            self.notes.add(f"{where}: has no description: {own} is all that is known of it")
        kept = self._parameters(properties, where)
        demanded = set(required)
        needed = [each for each, old in kept.items() if old in demanded]
        for missing in [each for each in required if each not in properties]:
            self.notes.add(f"{where}: {shown(missing)} is demanded but not described: left out")
        schemas = {each: properties[old] for each, old in kept.items()}
        for parameter, schema in schemas.items():
            self.schemas[own, parameter] = schema
            if schema.get("type", "any") == "any":
                self.notes.add(f"{where}: {parameter}: any value is taken")
        self.functions[own] = function_doc(own, description, schemas, needed)
        self.origins[own] = {
            "name": name,
            **(origin or {}),
            "parameters": {
                new: {"name": old, **(places or {}).get(old, {})} for new, old in kept.items()
            },
        }

    def _parameters(self, properties: Mapping[str, Any], where: str) -> dict[str, str]:
        """Return the parameters by names that a call can bear -> their own."""
        kept: dict[str, str] = {}
        for old in properties:
            new = argument_name(old, kept, f"argument_{len(kept) + 1}")
            kept[new] = old
            if new != old:
                self.notes.add(f"{where}: parameter {shown(old, 60)} is called {new}")
        return kept

    def api(self, name: str, *, may_be_empty: bool = False, **more: Any) -> OwnApi:
        """Return the API; SpecificationError where it has no function and is to have one."""
        api = OwnApi(
            one_line(name, MAX_NAME),
            tuple(self.functions.values()),
            self.spec,
            notes=self.notes.lines(),
            schemas=self.schemas,
            left_out=self.notes.left_out,
            origins=self.origins,
            **more,
        )
        if not self.functions and not may_be_empty:
            told = f" ({api.summary()})" if api.left_out else ""
            raise SpecificationError(f"{self.spec}: describes no function{told}")
        return api
