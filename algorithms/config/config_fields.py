"""Dataclass fields as command-line flags with ranges and help."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

NONE_WORDS = ("none", "null", "off")
BOOLEANS = {
    **dict.fromkeys(("true", "yes", "1", "on"), True),
    **dict.fromkeys(("false", "no", "0", "off"), False),
}
BASIC = "basic settings"  # the group of the help that comes first
METAVARS = {int: "N", float: "X", bool: "true|false", str: "TEXT"}
ENDS = {"_path": "FILE", "_dir": "FOLDER", "_url": "URL", "_name": "NAME", "_address": "HOST:PORT"}
NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class SettingError(ValueError):
    """Error of a setting out of its range; the message names flag, value and range."""


def setting(default: Any, sentence: str, **facts: Any) -> Any:
    """Define a setting: a dataclass field with its default, sentence and other facts."""
    return dataclasses.field(default=default, metadata={"sentence": sentence, **facts})


def add_arguments(parser: argparse.ArgumentParser, config_class: type[Any]) -> None:
    """Add arguments of the command line to a parser, one for each field of a settings class."""
    groups: dict[str, Any] = {str(group.title): group for group in parser._action_groups}
    for title in (BASIC, *(flag.group for flag in flags(config_class) if not flag.basic)):
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
    for flag in flags(config_class):
        options: dict[str, Any] = {} if flag.const is None else {"nargs": "?", "const": flag.const}
        if flag.many:
            options = {"nargs": "+", "action": partial(_JoinedAction, separator=flag.separator)}
        expected = "" if flag.base is str else f" Expected: {flag.expected}."  # the metavar tells
        sentence = f"{flag.sentence}{expected} Default: {format_value(flag.default)}."
        groups[BASIC if flag.basic else flag.group].add_argument(
            *(f"--{name}" for name in (flag.name, *flag.aliases)),
            dest=flag.name,
            type=flag.parse,
            default=flag.default,
            metavar=flag.metavar or flag.default_metavar,
            help=sentence.replace("%", "%%"),
            **options,
        )


class _JoinedAction(argparse.Action):
    """Argparse action that joins several texts to one, parted by the separator.

    A flag that is given again adds to them, and none clears them.
    """

    def __init__(self, *arguments: Any, separator: str, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._separator = separator

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: Any, option: object = None
    ) -> None:
        before = getattr(namespace, self.dest, None)
        given = [] if before is None or before is self.default else [before]
        joined = self._separator.join((*given, *map(str, values)))
        setattr(namespace, self.dest, None if None in values else joined)


def replace_synonyms(config: Any) -> None:
    """Replace synonyms, former words for a setting's values, by today's values."""
    for flag in flags(type(config)):
        word = str(getattr(config, flag.name)).lower()
        if word in flag.synonyms:
            setattr(config, flag.name, flag.synonyms[word])


def check_ranges(config: Any) -> None:
    """Check the ranges, and types, of all fields; SettingError for the first that is wrong."""
    for flag in flags(type(config)):
        value = getattr(config, flag.name)
        if not flag.accepts(value):
            raise SettingError(
                f"--{flag.name}: got {format_value(value)}, expected "
                f"{flag.expected}{flag.suggestion(value)}"
            )


def flags(config_class: type[Any]) -> list[SettingSpec]:
    """Return the flags of a settings class, of the command line, in the order of its fields."""
    hints = typing.get_type_hints(config_class)
    found, group = [], "settings"
    for field in dataclasses.fields(config_class):
        group = field.metadata.get("group", group)
        found.append(SettingSpec.from_field(field, hints[field.name], group))
    return found


def format_value(value: Any) -> str:
    """Format a setting's value for a message.

    Text in quotes, none and booleans as the command line writes them.
    """
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class SettingSpec:
    """Specification of one setting: type, default, range, choices, help."""

    name: str
    base: type[Any]  # int, float, bool or str
    optional: bool  # "none" is a value
    default: Any
    sentence: str
    interval: str = ""  # such as "(0, 1]" or "[1, inf)"
    choices: tuple[str, ...] = ()
    const: Any = None  # the value of the flag without one; None: it needs one
    group: str = ""  # the help's heading, of this setting and of those after it
    basic: bool = False  # it stands before all others
    metavar: str = ""
    aliases: tuple[str, ...] = ()  # other names
    # a word that is no value, in lower case -> the value that its writer may mean
    meant: Mapping[str, str] = dataclasses.field(default_factory=dict)
    synonyms: Mapping[str, str | None] = dataclasses.field(
        default_factory=dict
    )  # other word -> value
    own: bool = False  # MODULE:NAME is a value too
    many: bool = False  # several texts, held as one
    separator: str = ","  # between them

    @classmethod
    def from_field(cls, field: dataclasses.Field[Any], hint: Any, group: str) -> SettingSpec:
        """Return the specification from a dataclass field made by `setting`."""
        parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        base = next(part for part in parts if part is not types.NoneType)
        facts: dict[str, Any] = dict(field.metadata) | {"group": group}
        facts |= {"const": True} if base is bool else {}
        return cls(field.name, base, types.NoneType in parts, field.default, **facts)

    @property
    def expected(self) -> str:
        """Expected values, in words: "a number in (0, 1] or none", "one of auto, cpu"."""
        words = "one of " + ", ".join(self.choices) if self.choices else NOUNS[self.base]
        words += ", or MODULE:NAME of your own" if self.own else ""
        words += f" in {self.interval}" if self.interval else ""
        return words + (" or none" if self.optional else "")

    @property
    def default_metavar(self) -> str:
        """Default metavar of the help: the choices, or a word for their kind."""
        if self.choices:
            return "{" + ",".join((*self.choices, *(["MODULE:NAME"] if self.own else []))) + "}"
        by_name = (word for end, word in ENDS.items() if self.name.endswith(end))
        return next(by_name, METAVARS[self.base]) if self.base is str else METAVARS[self.base]

    def suggestion(self, value: Any) -> str:
        """Return a suggestion of what a wrong value may have meant, as the end of a message.

        Nothing where none is near.
        """
        word = str(value).lower().replace("-", "_")
        lowered = {choice.lower(): choice for choice in self.choices}
        near = difflib.get_close_matches(word, lowered, n=1, cutoff=0.75)
        meant = lowered.get(word) or self.meant.get(word) or (lowered[near[0]] if near else "")
        return f"; is {meant} meant?" if meant else ""

    def parse(self, text: str) -> Any:
        """Parse a command-line text to the setting's value.

        Argparse's error, naming value and range, where it is none of ours.
        """
        text = self.synonyms.get(text.lower(), text) or "none"
        try:
            value = self._convert(text)
        except ValueError:
            value = text  # of the wrong type, so it does not fit
        if not self.accepts(value):
            raise argparse.ArgumentTypeError(
                f"got {format_value(text)}, expected {self.expected}{self.suggestion(text)}"
            )
        return value

    def accepts(self, value: Any) -> bool:
        """Whether the setting accepts a value: its type and its range."""
        if value is None:
            return self.optional
        if isinstance(value, bool) != (self.base is bool):  # True is an int to Python, not to us
            return False
        if not isinstance(value, (int, float) if self.base is float else self.base):
            return False
        if isinstance(value, str):
            named = self.own and ":" in value.strip(":")
            return named or not self.choices or value in self.choices
        return not self.interval or _inside(value, self.interval)

    def _convert(self, text: str) -> Any:
        if self.optional and text.lower() in NONE_WORDS:
            return None
        if self.base is bool:
            return BOOLEANS.get(text.lower(), text)
        return self.base(text)


def _inside(value: float, interval: str) -> bool:
    """Return whether a number lies in an interval; NaN lies in none."""
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    return above and below
