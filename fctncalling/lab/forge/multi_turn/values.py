"""Values and initial states, drawn from the templates of `values.toml` and `worlds.toml`."""

from __future__ import annotations

import random
import re
import string
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fctncalling.lab.own_api.english import lower_first

_FOLDER = Path(__file__).parent
_SLOT = re.compile(r"<([^<>]+)>")
_CASES: Mapping[str, Callable[[str], str]] = {
    "lower": str.lower,
    "small": lower_first,
    "capital": lambda text: text[:1].upper() + text[1:],
}


@cache
def read_toml(name: str) -> dict[str, Any]:
    """Return a table of this folder."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def make_world(draw: random.Random, classes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return an `initial_config` of the classes; one person owns it all."""
    owner = {"first": draw_value("first_names", draw), "last": draw_value("last_names", draw)}
    return {name: _world(name, _Filling(draw, dict(owner))) for name in classes}


def _world(name: str, filling: _Filling) -> dict[str, Any]:
    for key, template in read_toml("worlds")[name].items():
        filling.above[key] = filling.filled(template)
    return filling.above


def draw_value(name: str, draw: random.Random) -> Any:
    """Return a value of a name in `values.toml`; KeyError for any other name."""
    if name not in read_toml("values"):
        raise KeyError(f"values.toml has no {name}")
    return _Filling(draw, {}).filled(f"<{name}>")


@cache
def _ways(name: str) -> Sequence[Any]:
    entry = read_toml("values")[name]
    return _alternatives(entry) if isinstance(entry, str) else entry


@cache
def _alternatives(text: str) -> list[str]:
    return " ".join(text.split()).split(" | ")


@cache
def _read_slot(slot: str) -> tuple[Sequence[str], str, str]:
    """Return the name of a slot, the case of its letters, and the tag that keeps its value."""
    slot, _, tag = slot.partition("#")
    name, _, case = slot.partition(":")
    return name.split(), case, tag


@cache
def _parts(text: str) -> list[str]:
    """Return a text's plain parts and, between them, its slots."""
    return _SLOT.split(text)


class _Filling:
    """Filling of a template, with the values that are drawn once for it (`tags`)."""

    def __init__(
        self, draw: random.Random, tags: dict[str, Any], above: dict[str, Any] | None = None
    ) -> None:
        self._draw = draw
        self._tags = tags
        self.above = {} if above is None else above  # what the class has so far

    def filled(self, template: Any, beside: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """Return a template with its slots filled; a slot alone keeps its type."""
        match template:
            case str():
                return self._text(self._one(_alternatives(template)))
            case {"one_of": options}:
                return self.filled(self._one(options))
            case {"all": tables}:
                made = dict[str, Any]()
                for table in tables:
                    made.update(self.filled(table, made))
                return made
            case {"times": times, "key": key, "each": each}:
                return self._table(self.filled(times), key, each, beside)
            case {"times": times, "each": each}:
                return [self._inner(n).filled(each) for n in range(1, self.filled(times) + 1)]
            case dict():
                return {str(self.filled(key)): self.filled(v) for key, v in template.items()}
            case list():
                return [self.filled(each) for each in template]
        return template

    def _table(self, times: int, key: str, each: Any, beside: Mapping[str, Any]) -> dict[str, Any]:
        made = dict[str, Any]()
        while len(made) < times:
            inner = self._inner(len(made) + 1)
            name = str(inner.filled(key))
            if name not in made and name not in beside:
                made[name] = inner.filled(each)
        return made

    def _inner(self, number: int) -> _Filling:
        """Return the filling of one entry of several, with separate tags."""
        return _Filling(self._draw, {**self._tags, "n": number}, self.above)

    def _one(self, options: Sequence[Any]) -> Any:
        return options[int(self._draw.random() * len(options))]

    def _text(self, text: str) -> Any:
        parts = _parts(text)
        if len(parts) == 1:
            return text
        if len(parts) == 3 and not parts[0] and not parts[2]:
            return self._slot(parts[1])
        return "".join(
            str(self._slot(part)) if index % 2 else part for index, part in enumerate(parts)
        )

    def _slot(self, slot: str) -> Any:
        words, case, tag = _read_slot(slot)
        name = words[0]
        if name in self._tags:
            value = self._tags[name]
        elif name in read_toml("values"):
            way = self._one(_ways(name))
            value = self._text(way) if isinstance(way, str) else self._inner(0).filled(way)
        else:
            value = self._drawn(words)
        if tag:
            self._tags[tag] = value
        return _CASES[case](value) if case else value

    def _drawn(self, words: Sequence[str]) -> Any:
        draw = self._draw
        match words:
            case ["int", low, high, *step]:
                return draw.randrange(int(low), int(high) + 1, *map(int, step))
            case ["whole", low, high, step]:
                return float(draw.randrange(int(low), int(high) + 1, int(step)))
            case ["float", low, high, digits]:
                return round(draw.uniform(float(low), float(high)), int(digits))
            case ["near", tag, share]:
                return round(self._tags[tag] * draw.uniform(1 - float(share), 1 + float(share)), 2)
            case ["code", length]:
                rest = draw.choices(string.ascii_lowercase + string.digits, k=int(length) - 1)
                return draw.choice(string.ascii_lowercase) + "".join(rest)
            case [("key" | "item"), "of", name]:
                return self._one(list(self.above[name]))
            case ["keys", "of", name, low, high]:
                return draw.sample(list(self.above[name]), draw.randint(int(low), int(high)))
            case ["size", "of", name]:
                return len(self.above[name])
            case [("newline" | "none") as name]:
                return "\n" if name == "newline" else None
        [formula] = words
        first, sign, other = re.split("([+-])", formula)
        distance = self._tags[other] if other in self._tags else int(other)
        return self._tags[first] + (distance if sign == "+" else -distance)
