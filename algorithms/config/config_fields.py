"""Settings as dataclass fields: an annotation gives the bounds, the docstring below it the help.

lr: Annotated[float, Setting("[0, inf)", basic=True)] = 8e-5
\"\"\"Learning rate of the language model.\"\"\"
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import difflib
import inspect
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Self

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


@dataclass(frozen=True)
class Setting:
    """Facts of a setting: an annotation gives the first ones, the field and its class the last."""

    interval: str = ""  # such as "(0, 1]" or "[1, inf)"
    choices: tuple[str, ...] = ()  # a Literal has its own
    group: str = ""  # the help's heading, of this setting and of those after it
    basic: bool = False  # it stands before all others
    has_flag: bool = True  # false: --config and Python alone have it
    const: Any = None  # the value of the flag without one; None: it needs one
    metavar: str = ""
    alias: str = ""  # another name
    # a word that is no value, in lower case -> the value that its writer may mean
    meant: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # other word, in lower case -> value
    synonyms: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    own: bool = False  # MODULE:NAME is a value too
    many: bool = False  # several texts, held as one
    separator: str = ","  # between them
    names: str = ""  # what {names} stands for in the docstring

    name: str = ""
    base: type[Any] = str  # int, float, bool or str
    optional: bool = False  # "none" is a value
    default: Any = None
    sentence: str = ""  # the docstring

    @property
    def label(self) -> str:
        """Name as messages have it: that of the flag, else of the entry in a file of --config."""
        return f"--{self.name}" if self.has_flag else self.name

    @property
    def expected(self) -> str:
        """Expected values, in words: "a number in (0, 1] or none", "one of auto, cpu"."""
        words = "one of " + ", ".join(self.choices) if self.choices else NOUNS[self.base]
        words += ", or MODULE:NAME of your own" if self.own else ""
        words += f" in {self.interval}" if self.interval else ""
        return words + (" or none" if self.optional else "")

    @property
    def shown_metavar(self) -> str:
        """Metavar of the help: its own, the choices, or a word for their kind."""
        if self.choices and not self.metavar:
            return "{" + ",".join((*self.choices, *(["MODULE:NAME"] if self.own else []))) + "}"
        ends = ENDS.items() if self.base is str else ()
        by_name = (word for end, word in ends if self.name.endswith(end))
        return self.metavar or next(by_name, METAVARS[self.base])

    def mistake(self, value: Any) -> str:
        """Return the error message for a wrong value, with what may be meant where that is near."""
        word = str(value).lower().replace("-", "_")
        lowered = {choice.lower(): choice for choice in self.choices}
        near = difflib.get_close_matches(word, lowered, n=1, cutoff=0.75)
        meant = lowered.get(word) or self.meant.get(word) or (lowered[near[0]] if near else "")
        hint = f"; is {meant} meant?" if meant else ""
        return f"got {format_value(value)}, expected {self.expected}{hint}"

    def parse(self, text: str) -> Any:
        """Parse a command-line text to the setting's value.

        Argparse's error, naming value and range, where it is none of ours.
        """
        text = self.synonyms.get(text.lower(), text) or "none"
        value: Any = text  # of the wrong type where it cannot be converted, so it does not fit
        if self.optional and text.lower() in NONE_WORDS:
            value = None
        elif self.base is bool:
            value = BOOLEANS.get(text.lower(), text)
        else:
            with suppress(ValueError):
                value = self.base(text)
        if not self.accepts(value):
            raise argparse.ArgumentTypeError(self.mistake(text))
        return value

    def joined(self, values: Any) -> Any:
        """Return several texts as the one that holds them; none clears those before it."""
        if not (self.many and isinstance(values, list)):
            return values
        cleared = max((place for place, value in enumerate(values) if value is None), default=-1)
        return self.separator.join(map(str, values[cleared + 1 :])) or None

    def accepts(self, value: Any) -> bool:
        """Whether the setting accepts a value: its type and its range."""
        if value is None:
            return self.optional
        kinds = (int, float) if self.base is float else self.base
        # True is an int to Python, not to us
        if not isinstance(value, kinds) or isinstance(value, bool) != (self.base is bool):
            return False
        if isinstance(value, str):
            named = self.own and ":" in value.strip(":")
            return named or not self.choices or value in self.choices
        if not self.interval:
            return True
        low, high = (float(bound) for bound in self.interval[1:-1].split(","))
        above = value >= low if self.interval[0] == "[" else value > low
        below = value <= high if self.interval[-1] == "]" else value < high
        return above and below  # NaN lies in none


class Settings:
    """Base class of dataclasses of settings."""

    @classmethod
    def from_args(cls, namespace: argparse.Namespace) -> Self:
        """Return the settings from parsed command-line arguments (args).

        What they leave open has its default; arguments that are no field of ours are left to
        others.
        """
        args = vars(namespace)
        known = (each for each in settings_of(cls) if each.name in args)  # type: ignore[arg-type]
        return cls(**{setting.name: setting.joined(args[setting.name]) for setting in known})


@cache
def settings_of(config_class: type[Any]) -> tuple[Setting, ...]:
    """Return the settings of a dataclass, in the order of its fields."""
    hints = typing.get_type_hints(config_class, include_extras=True)
    sentences = {
        name: text for each in config_class.__mro__[:-1] for name, text in _docstrings(each).items()
    }
    settings: list[Setting] = []
    group = "settings"
    for field in dataclasses.fields(config_class):
        hint, facts = hints[field.name], Setting()
        if typing.get_origin(hint) is typing.Annotated:
            hint, facts = typing.get_args(hint)
        is_literal = typing.get_origin(hint) is typing.Literal
        parts = typing.get_args(hint) or (hint,)
        settings.append(
            dataclasses.replace(
                facts,
                choices=parts if is_literal else facts.choices,
                group=(group := facts.group or group),
                const=True if hint is bool else facts.const,
                name=field.name,
                base=str if is_literal else parts[0],
                optional=types.NoneType in parts,
                default=field.default,
                sentence=sentences.get(field.name, "").replace("{names}", facts.names),
            )
        )
    return tuple(settings)


def _docstrings(config_class: type[Any]) -> dict[str, str]:
    """Return the docstring of each field of a class; empty if the source is unavailable."""
    try:
        tree: Any = ast.parse(inspect.getsource(config_class)).body[0]
    except (OSError, TypeError, SyntaxError):  # a class of an interpreter's prompt, say
        return {}
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(tree.body)
        if (type(field), type(text)) == (ast.AnnAssign, ast.Expr)
    }


def add_arguments(parser: argparse.ArgumentParser, *config_classes: Any) -> None:
    """Add arguments of the command line to a parser, one for each setting that has a flag.

    Parsed arguments are those that are given, and no defaults.
    """
    groups = {BASIC: parser.add_argument_group(BASIC)}
    for setting in (each for known in map(settings_of, config_classes) for each in known):
        title = BASIC if setting.basic else setting.group
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        if not setting.has_flag:
            continue
        options: dict[str, Any] = {"nargs": None if setting.const is None else "?"}
        if setting.many:
            options = {"nargs": "+", "action": "extend"}
        # of a text the metavar tells
        expected = "" if setting.base is str else f" Expected: {setting.expected}."
        text = f"{setting.sentence}{expected} Default: {format_value(setting.default)}."
        groups[title].add_argument(
            *(f"--{name}" for name in filter(None, (setting.name, setting.alias))),
            dest=setting.name,
            type=setting.parse,
            const=setting.const,
            default=argparse.SUPPRESS,
            metavar=setting.shown_metavar,
            help=text.replace("%", "%%"),
            **options,
        )


def check_ranges(config: Any) -> None:
    """Check ranges and types of all settings, after resolving synonyms.

    SettingError for the first that is wrong.
    """
    for setting in settings_of(config.__class__):
        value = getattr(config, setting.name)
        if str(value).lower() in setting.synonyms:
            value = setting.synonyms[str(value).lower()]
            setattr(config, setting.name, value)
        if not setting.accepts(value):
            raise SettingError(f"{setting.label}: {setting.mistake(value)}")


def format_value(value: Any) -> str:
    """Format a setting's value for a message.

    Text in quotes, none and booleans as the command line writes them.
    """
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
