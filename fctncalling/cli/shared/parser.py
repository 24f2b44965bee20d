"""ArgumentParser with one-line errors and did-you-mean."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn


class OneLineParser(argparse.ArgumentParser):
    """One-line parser of arguments: its errors have one line, and point to --help.

    `names_elsewhere`: flag name of other programs, without dashes -> the flag here. `former_flags`:
    what is no flag, without dashes -> since when, and what is there now.
    """

    names_elsewhere: Mapping[str, str] = MappingProxyType({})
    former_flags: Mapping[str, str] = MappingProxyType({})
    _first_word = ""  # of the command line

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "allow_abbrev": False})

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """Parse, and remember how the command line began, for the hints of errors."""
        self._first_word = next(iter(sys.argv[1:] if args is None else args), "")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print an error in one line and exit with 2."""
        required = re.fullmatch("one of the arguments (.*) is required", message)
        message = f"expected {self.prog} {required[1]}" if required else message
        unknown, _, words = message.partition("unrecognized arguments: ")
        word = "" if unknown or not words else words.split()[0].partition("=")[0]
        name = word.lstrip("-").lower().replace("-", "_")
        name = self.names_elsewhere.get(name, name)
        if fate := self.former_flags.get(name):
            message += f": the flag {fate}"
            word = ""
        near = self._flag_of_path(message) or (word and self._nearest(word))
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if not near and choice:
            choices = {each.strip("' ").lower(): each.strip("' ") for each in choice[2].split(",")}
            close = difflib.get_close_matches(choice[1].lower(), choices, n=1, cutoff=0.6)
            near = choices[close[0]] if close else ""
        hint = f"; is {near} meant?" if near else ""
        every = "--help-all" if "--help-all" in self._option_string_actions else "--help"
        print(f"error: {message}{hint} ({every} lists every flag)", file=sys.stderr)
        raise SystemExit(2)

    def _flag_of_path(self, message: str) -> str:
        """Return the flag, with its value, that a path without one was meant for; "" for none."""
        word = self._first_word
        if word[:1] in ("", "-") or not message.startswith(("unrecognized", "the following")):
            return ""
        is_json = word.endswith((".json", ".jsonl"))  # which no model is
        names = ("input", *["model"][is_json:], "checkpoint", "dataset_path")
        flags = [f"--{name}" for name in names]
        flags.sort(key=lambda flag: flag not in re.split("[ ,]", message))  # required ones first
        known = next(filter(self._option_string_actions.__contains__, flags), None)
        taken = "unrecognized" in message and word not in message.split()
        return f"{known} {word}" if known and not taken else ""

    def _nearest(self, word: str) -> str:
        """Return the flag closest to a word; "" if none is close."""
        name = word.lstrip("-").lower().replace("-", "_")
        known = list(self._option_string_actions)
        flag = f"--{self.names_elsewhere.get(name, name)}"
        if flag in known:
            return flag
        close = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
        longer = [each for each in known if each.startswith(word)]
        return next(iter([*close, *longer[: len(longer) == 1]]), "")


def add_flag(
    parser: argparse._ActionsContainer,
    name: str,
    kind: Callable[[str], Any],
    metavar: str | None,
    text: str,
    default: Any = None,
    **options: Any,
) -> None:
    """Add a flag with a value to a parser: its type, metavar and help."""
    parser.add_argument(name, type=kind, metavar=metavar, help=text, default=default, **options)


def add_input(
    parser: argparse._ActionsContainer,
    flag: str,
    metavar: str,
    text: str,
    *,
    kind: Callable[[str], Any] = Path,
    many: bool = False,
    required: bool = True,
) -> None:
    """Add the input of a command: a positional path, or the path of its former flag."""
    group = parser.add_mutually_exclusive_group(required=required)
    shared: dict[str, Any] = {"action": InputAction, "type": kind, "metavar": metavar}
    shared["default"] = () if many else None
    group.add_argument(flag.lstrip("-"), nargs="*" if many else "?", help=text, **shared)
    group.add_argument(flag, nargs="+" if many else None, help=argparse.SUPPRESS, **shared)


class InputAction(argparse.Action):
    """Action of an input, which a path that is not given leaves as its flag set it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option: object = None,
    ) -> None:
        if values is not self.default:
            setattr(namespace, self.dest, values)


def add_switch(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    """Add a switch, a flag without a value, to a parser."""
    parser.add_argument(name, action="store_true", help=text)


def add_json_switch(parser: argparse._ActionsContainer) -> None:
    """Add the switch --json to a parser."""
    add_switch(parser, "--json", "print JSON instead of text")


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings in one line, without the place in our code, which is of no use to a user."""
    usual = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = usual


def print_error(reason: object) -> int:
    """Print why a command cannot go on, in one line of standard error; return its exit code, 2."""
    print(f"error: {reason}", file=sys.stderr)
    return 2


class BasicHelpAction(argparse.Action):
    """Action of --help that lists the basic groups of flags, and counts the others."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: object,
        values: object,
        option: object = None,
    ) -> NoReturn:
        more = "More settings, which --help-all explains:"
        for group in parser._action_groups:
            if group._group_actions and group.title not in self.const:
                more += f"\n  {group.title} ({len(group._group_actions)})"
                for action in group._group_actions:
                    action.help = argparse.SUPPRESS
        parser.epilog = f"{more}\n\n{parser.epilog}"
        parser.print_help()
        raise SystemExit(0)


TRAIN = (
    *("torch", "transformers", "tokenizers", "safetensors", "accelerate", "peft"),
    *("tensorboard", "matplotlib", "rich", "tqdm", "yaml"),
)
"""Import names of the extra's libraries; the package alone installs none of them."""


def missing_library_message(error: ModuleNotFoundError) -> str | None:
    """Return the message of a missing optional library: how to install it; else None."""
    library = (error.name or "").partition(".")[0]
    if library not in TRAIN:
        return None
    return f"this command needs the library {library}: pip install 'fctncalling[train]'"


def missing_training_message(command: str, error: ImportError) -> str:
    """Return the message of a command that cannot import the training libraries."""
    return f"{command} needs the training libraries ({error}): pip install 'fctncalling[train]'"
