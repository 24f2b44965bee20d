"""Settings declared once: a dataclass field that carries its sentence, its range and its command line flag."""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Any

NONE_WORDS = ("none", "null", "off")
TRUE_WORDS, FALSE_WORDS = ("true", "yes", "1", "on"), ("false", "no", "0", "off")
NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class SettingError(ValueError):
    """A setting out of its range; the message names flag, value and range."""


def setting(
    default: Any,
    sentence: str,
    *,
    within: str = "",
    choices: tuple[str, ...] = (),
    bare: str | None = None,
) -> Any:
    """Return a dataclass field with its sentence (and unit), and the values it may take.

    within is an interval such as "(0, 1]" or "[1, inf)"; bare is the value of the flag given without one.
    """
    return dataclasses.field(
        default=default,
        metadata={"sentence": sentence, "within": within, "choices": choices, "bare": bare},
    )


def add_arguments(parser: argparse.ArgumentParser, config_class: type[Any]) -> None:
    """Add one flag a field to the parser, named as the field, with its default, range and sentence as help."""
    for flag in flags(config_class):
        options: dict[str, Any] = {} if flag.bare is None else {"nargs": "?", "const": flag.bare}
        sentence = f"{flag.sentence} Expected: {flag.expected}. Default: {shown(flag.default)}."
        parser.add_argument(
            f"--{flag.name}",
            type=flag.parse,
            default=flag.default,
            metavar="VALUE",
            help=sentence.replace("%", "%%"),
            **options,
        )


def check(config: Any) -> None:
    """Raise SettingError for the first field of a dataclass whose value is of the wrong type or out of its range."""
    for flag in flags(type(config)):
        value = getattr(config, flag.name)
        if not flag.fits(value):
            raise SettingError(f"--{flag.name}: got {shown(value)}, expected {flag.expected}")


def flags(config_class: type[Any]) -> list[Flag]:
    """Return the flags of a dataclass made of settings, in the order of its fields."""
    hints = typing.get_type_hints(config_class)
    return [Flag.of(field, hints[field.name]) for field in dataclasses.fields(config_class)]


def shown(value: Any) -> str:
    """Return a value as a message should show it: text in quotes, none and booleans as the command line writes them."""
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Flag:
    """One setting as the command line sees it."""

    name: str
    base: type[Any]  # int, float, bool or str
    optional: bool  # "none" is a value
    default: Any
    sentence: str
    within: str
    choices: tuple[str, ...]
    bare: Any  # the value of the flag without one; None: it needs one

    @classmethod
    def of(cls, field: dataclasses.Field[Any], hint: Any) -> Flag:
        """Return the flag of a field whose type is int, float, bool, str or one of them or None."""
        parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        base = next(part for part in parts if part is not types.NoneType)
        facts: dict[str, Any] = dict(field.metadata) | ({"bare": True} if base is bool else {})
        return cls(field.name, base, types.NoneType in parts, field.default, **facts)

    @property
    def expected(self) -> str:
        """What the setting may hold, in words: "a number in (0, 1] or none", "one of auto, cpu"."""
        words = "one of " + ", ".join(self.choices) if self.choices else NOUNS[self.base]
        return (
            words
            + (f" in {self.within}" if self.within else "")
            + (" or none" if self.optional else "")
        )

    def parse(self, text: str) -> Any:
        """Return the value a text stands for; argparse's error, naming value and range, where it is none of ours."""
        try:
            value = self._convert(text)
        except ValueError:
            value = text  # of the wrong type, so it does not fit
        if not self.fits(value):
            raise argparse.ArgumentTypeError(f"got {shown(text)}, expected {self.expected}")
        return value

    def fits(self, value: Any) -> bool:
        """Return whether the value has the right type and lies in its range."""
        if value is None:
            return self.optional
        if isinstance(value, bool) != (self.base is bool):  # True is an int to Python, not to us
            return False
        if not isinstance(value, (int, float) if self.base is float else self.base):
            return False
        if self.choices and value not in self.choices:
            return False
        return not self.within or _inside(value, self.within)

    def _convert(self, text: str) -> Any:
        if self.optional and text.lower() in NONE_WORDS:
            return None
        if self.base is bool:
            return (
                True
                if text.lower() in TRUE_WORDS
                else False
                if text.lower() in FALSE_WORDS
                else text
            )
        return self.base(text)


def _inside(value: float, interval: str) -> bool:
    """Return whether a number lies in an interval; NaN lies in none."""
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    return above and below
