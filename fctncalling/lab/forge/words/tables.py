"""Tables of the words: frames per function, names of kinds and results, patterns, read once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fctncalling.lab.forge.words.grammar import SENTENCE_MOODS, Frame, Sequence, parse, parse_frame

_FOLDER = Path(__file__).parent
Frames = dict[str, tuple[Frame, ...]]


@dataclass(frozen=True)
class KindWords:
    """Names of values of one kind."""

    noun: str
    plural: str
    said: tuple[str, ...]  # {} stands for the value
    vague: tuple[str, ...]  # where the value is left out
    state: tuple[str, ...]  # where only the world holds it
    reference: tuple[str, ...]  # instead of "that NOUN"
    quoted: bool
    money: bool
    date: bool
    person: bool


@dataclass(frozen=True)
class ResultWords:
    """Names of one part of a function's result, as it is called afterwards."""

    main: str  # noun of a result that the call is about; "" for a part or an item of it
    ways: tuple[Sequence, ...]  # phrases with slots for the arguments of that call


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text("utf-8"))


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return the table of a name as it is written."""
    return _read(_FOLDER / f"{name}.toml")


def _lines(text: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.strip().splitlines() if entry.strip())


@cache
def frames() -> dict[str, Frames]:
    """Return function -> form -> frames."""
    return {
        function: {
            form: tuple(parse_frame(form, line) for line in _lines(forms.get(form, "")))
            for form in SENTENCE_MOODS
        }
        for file in sorted((_FOLDER / "frames").glob("*.toml"))
        for function, forms in _read(file).items()
    }


@cache
def patterns(name: str) -> dict[str, tuple[Sequence, ...]]:
    """Return list name -> its wordings, of the table of that name."""
    return {key: tuple(map(parse, _lines(text))) for key, text in read_table(name).items()}


@cache
def kind_words(kind: str) -> KindWords:
    """Return how values of a kind are named; of an unknown kind by its own name."""
    entry = read_table("kinds").get(kind, {})
    entry = read_table("kinds")[entry["like"]] if "like" in entry else entry
    noun = entry.get("noun", kind.replace("_", " "))
    return KindWords(
        noun,
        entry.get("plural", f"{noun}s"),
        _lines(entry.get("said", "")) or ("{}",),
        _lines(entry.get("vague", "")),
        _lines(entry.get("state", "")),
        _lines(entry.get("reference", "")),
        quoted=entry.get("quoted", False),
        money=entry.get("money", False),
        date=entry.get("date", False),
        person=entry.get("person", False),
    )


@cache
def result_words() -> dict[str, ResultWords]:
    """Return "function.path" -> how that part of the result is named."""
    return {
        place: ResultWords(entry.get("main", ""), tuple(map(parse, _lines(entry["ways"]))))
        for place, entry in read_table("results").items()
    }
