"""Frames of functions: a verb, a noun phrase and a pool of parameters, read from the tables.

A frame is not a function: `made_functions` draws many from one, with other names, other
descriptions and other parameters of the pool.

    domain travel: We are planning a trip. | I am putting together an itinerary.
    find hotel | hotels ; places to stay | in a city, with filters for dates and price
    - @city
    - nights int(1,14) | number of nights to stay | for {} nights

A clause `0 = from rest` says one value in words, and `count(4=quarterly/every quarter)` each of
them. A mode (compute, look, find or act) says how it is asked for. `{slot}` in the noun phrase is a
parameter that is always there; `{slot:a movie}` says what the description calls it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache

from fctncalling.lab.forge.single_turn.category_profiles import domain_table_names, table_lines
from fctncalling.lab.forge.single_turn.value_kinds import TYPES, ValueKind

MODES = ("compute", "look", "find", "act", "code")
_KIND = re.compile(r"([a-z]+)(?::([a-z_]+))?(?:\(([^)]*)\))?$")
_PARAMETER = re.compile(
    r"- (\S+) ([a-z]+(?::[a-z_]+)?(?:\([^)]*\))?)(\?)?(?:=([^|]*?))?\s*\|([^|]*)\|([^|]*)$"
)
_SPOKEN = re.compile(r"(-?\d[\d.]*) = (.+)$")
_SLOT = re.compile(r"\{(\w+)(?::([^}]*))?\}")

_GENERIC = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^are:", ""),
        (r"\b(?:the|an?) (an?|the|some|one) ", r"\1 "),  # "the a key"
        (r'"(an? [a-z]+|something to do)"', r"\1"),
        (r"\b(?:the )?(text|word|subject) a \1", r"a \1"),
        (r"\btitled a title", "with a title"),
        (r"\b(?<!an )order with", "an order with"),
        (r"\b(?<!a )patient with", "a patient with"),
        (r"\b(?:an?|the) (project|application) \1", r"a \1"),
        (r"\b(a) (?=a)", r"\1n "),
        (r"\bmy ", "the "),
        (r"\b(temperature) degrees", r"\1"),
        (r"\bto base of", "to a base of"),
        (r"\ba sport court", "a sports court"),
        (r"^(?:pieces|kinds) of ", ""),
        (r"\bto some by some pixels", "to a given width and height"),
    )
)
"""What a description says where values have been taken out of the words of a request."""

_COMPUTING = frozenset({"calculate", "compute", "estimate"})
_ORDERING = frozenset(
    {"book", "reserve", "order", "buy", "schedule", "request", "hire", "rent", "send", "purchase"}
)


_OF_NUMBERS = frozenset({"math", "statistics", "physics", "chemistry", "astronomy", "biology"})
"""Domains in which a result may be wanted in scientific notation."""


class TableError(ValueError):
    """A table of frames that cannot be read; the message names table, line and what is wrong."""


@dataclass(frozen=True)
class ParameterFrame:
    """A parameter of a pool, and the clauses in which a user says its value."""

    names: tuple[str, ...]
    kind: ValueKind
    description: str
    clauses: tuple[str, ...]
    spoken: tuple[tuple[float, str], ...] = ()  # a number, and the clause that says it in words
    optional: bool = False
    default: str | None = None  # as it is written; None where there is none
    members: tuple[ParameterFrame, ...] = ()  # of a dict

    @property
    def name(self) -> str:
        """What the frame calls the parameter; a doc may use another of its names."""
        return self.names[0]


@dataclass(frozen=True)
class FunctionTemplate:
    """Function to be made: what it does, and the pool its parameters come from."""

    mode: str
    verbs: tuple[str, ...]
    noun: str
    domain: str
    phrases: tuple[str, ...]
    tail: str
    parameters: tuple[ParameterFrame, ...]
    family: str = ""  # the noun with its aspect left out, of frames that are aspects of one thing
    aspect: str = ""

    @property
    def slots(self) -> frozenset[str]:
        """Parameters that stand inside the noun phrase."""
        return frozenset(found[1] for found in _SLOT.finditer(self.phrases[0]))

    def generic_words(self) -> dict[str, str]:
        """Return what the description calls the values of slots, where it has a word for them."""
        found = _SLOT.finditer(self.phrases[0])
        return {slot[1]: slot[2] for slot in found if slot[2]}

    def generic(self) -> str:
        """Return the noun phrase of the description: what a slot stands for in place of a value."""
        text = _SLOT.sub(lambda found: found[2] or f"a given {found[1]}", self.phrases[0])
        for pattern, replacement in _GENERIC:
            text = pattern.sub(replacement, text)
        return text


@dataclass(frozen=True)
class Domain:
    """Frames that belong together, and what a user may say about why."""

    name: str
    contexts: tuple[str, ...]
    frames: tuple[FunctionTemplate, ...] = field(repr=False)


def fill_phrase(phrase: str, texts: dict[str, str]) -> str:
    """Return a noun phrase with the texts of its slots."""
    return _SLOT.sub(lambda found: texts[found[1]], phrase)


@cache
def shared_parameters_by_name() -> dict[str, ParameterFrame]:
    """Return the parameters that tables name by `@name`."""
    shared = {}
    for number, line in table_lines("parameters"):
        parameter = _parameter(line, f"parameters.txt line {number}")
        shared[parameter.name] = parameter
    return shared


def common_optional_parameters(frame: FunctionTemplate) -> tuple[ParameterFrame, ...]:
    """Return optional parameters that any function of a mode may have.

    A computation has them where it is one of numbers, an action where others take part in it.
    """
    expected = {"compute": _COMPUTING, "act": _ORDERING}.get(frame.mode)
    fits = expected is None or not expected.isdisjoint(frame.verbs)
    of_mode = _common_of_mode(frame.mode) if fits else ()
    if frame.mode == "compute" and fits and frame.domain in _OF_NUMBERS:
        return (*of_mode, shared_parameters_by_name()["notation"])
    return of_mode


@cache
def _common_of_mode(mode: str) -> tuple[ParameterFrame, ...]:
    names = {
        "compute": ("precision", "show_steps", "rounding"),
        "look": ("language", "detailed", "format", "include_sources", "timeout"),
        "find": ("limit", "sort_by", "language", "page", "newest_first", "compact"),
        "act": ("notify", "note", "priority", "confirm_by", "reference"),
    }
    return tuple(shared_parameters_by_name()[name] for name in names[mode])


@cache
def domains() -> tuple[Domain, ...]:
    """Return every domain of the tables. Raises TableError for a line that cannot be read."""
    return tuple(domain for name in domain_table_names() for domain in _domains_of(name))


@cache
def code_domains() -> tuple[Domain, ...]:
    """Return the domains of functions in Java and JavaScript."""
    return tuple(_domains_of("code"))


def _domains_of(table: str) -> list[Domain]:
    found: list[Domain] = []
    name, contexts = "", tuple[str, ...]()
    frames: list[FunctionTemplate] = []
    heads: list[str] = []
    pool: list[ParameterFrame] = []

    def close() -> None:
        frames.extend(frame for head in heads for frame in _frames(head, name, tuple(pool)))
        heads.clear()
        pool.clear()

    for number, line in table_lines(table):
        place = f"{table}.txt line {number}"
        if line.startswith("-- "):
            member = _parameter(line[1:], place)
            pool[-1] = replace(pool[-1], members=(*pool[-1].members, member))
        elif line.startswith("- "):
            pool.append(_parameter(line, place))
        elif line.startswith("domain "):
            close()
            if name:
                found.append(Domain(name, contexts, tuple(frames)))
            frames.clear()
            name, _, rest = line.removeprefix("domain ").partition(":")
            contexts = tuple(text.strip() for text in rest.split("|") if text.strip())
        elif line.split()[0] in MODES:
            if pool:
                close()
            heads.append(line)
        else:
            raise TableError(f"{place}: expected domain, {', '.join(MODES)} or -, found {line!r}")
    close()
    return [*found, Domain(name, contexts, tuple(frames))]


def _frames(head: str, domain: str, pool: tuple[ParameterFrame, ...]) -> list[FunctionTemplate]:
    """Return the frames of a head line: one, or for `aspect=phrase, ...` one of each."""
    what, phrases, tail = (part.strip() for part in head.split("|"))
    mode, verbs, noun = what.split()
    listed = tuple(phrase.strip() for phrase in phrases.split(" ; "))
    frame = FunctionTemplate(mode, tuple(verbs.split("/")), noun, domain, listed, tail, pool)
    if "=" not in phrases:
        return [frame]
    whole, _, aspects = phrases.partition(" << ")
    frames = []
    for aspect in aspects.split(","):
        key, _, phrase = aspect.strip().partition("=")
        named = replace(frame, noun=noun.replace("*", key), family=noun, aspect=key)
        frames.append(replace(named, phrases=(whole.replace("*", phrase),)))
    return frames


def _parameter(line: str, place: str) -> ParameterFrame:
    if line.startswith("- @"):
        name = line.removeprefix("- @").strip()
        if name not in shared_parameters_by_name():
            raise TableError(f'{place}: no shared parameter is called "{name}"')
        return shared_parameters_by_name()[name]
    found = _PARAMETER.match(line)
    kind = _KIND.match(found[2].strip()) if found else None
    if found is None or kind is None:
        raise TableError(f"{place}: expected `- name kind | description | clauses`, found {line!r}")
    args = tuple(arg.strip() for arg in kind[3].split(",")) if kind[3] else ()
    clauses = [clause.strip() for clause in found[6].split(" ; ") if clause.strip()]
    spoken = [said for said in map(_SPOKEN.match, clauses) if said]
    return ParameterFrame(
        names=tuple(found[1].split("/")),
        kind=ValueKind(kind[1], kind[2] or "", args),
        description=found[5].strip(),
        clauses=tuple(clause for clause in clauses if not _SPOKEN.match(clause)),
        spoken=tuple((float(said[1]), said[2]) for said in spoken),
        optional=found[3] is not None,
        default=found[4],
    )


def default_value(parameter: ParameterFrame) -> object:
    """Return a parameter's default as the doc holds it; None where there is none."""
    text = parameter.default
    if text is None:
        return None
    match TYPES.get(parameter.kind.name, "string"):
        case "integer":
            return int(text)
        case "float":
            return float(text)
        case "boolean":
            return text == "true"
    return text
