"""Grammar of the frames: how a clause that asks for one function call may be worded.

`frames/*.toml` lists, per function, frames in six forms:

- `do`: a request as a verb phrase ("list the files here"),
- `want`: what the user wants as a noun phrase ("a list of the files"),
- `wish`: a state that the user wants ("the brake released"),
- `know`: an indirect question ("which files there are"),
- `ask`: a direct question without its mark ("which files are there"),
- `say`: a statement that implies the request ("I lost track of the files and need a list"),

and `aim`, what the user is after beyond the tools ("get my bearings").

Notation of a frame:

- `(a|b|)`: one of these, nested as one likes;
- `{x}`: the argument x as a noun phrase, perhaps "it" or "that order"; `{x!}`: its bare value;
  `{x=}`: the same where it is not left out; `{x's}`: its possessive; `{x.view}`: a view of it that
  may use further arguments;
  `{x+liter}`: a number with its unit, plural where due; `{x:on=lit;off=dark}`: a word per value;
- `<name>`: a phrase of the lexicon;
- guards before it: `[x=v]`, `[x!=v]`, `[x]` (given), `[!x]` (left out or False), `[x~kind]`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fctncalling.lab.own_api.english import correct_articles, date_forms, enumerated

OPEN, CLOSE = "\ue000", "\ue001"
"""Marks around every value until a turn is finished: what polishes a sentence leaves it alone."""
SENTENCE_MOODS = ("do", "want", "wish", "know", "ask", "say", "aim")


@dataclass(frozen=True)
class FrameSlot:
    """Place of one argument in a frame."""

    argument: str
    view: str = ""  # "!", "'s", ".name", "+unit" or "" for a noun phrase
    words: tuple[tuple[str, str], ...] = ()  # value -> wording, for a `:` slot


@dataclass(frozen=True)
class Phrase:
    """Reference to a list of the lexicon."""

    name: str


@dataclass(frozen=True)
class Choice:
    """Alternatives, equally likely."""

    options: tuple[Sequence, ...]


Part = str | FrameSlot | Phrase | Choice
Sequence = tuple[Part, ...]


@dataclass(frozen=True)
class Guard:
    """Condition on one argument under which a frame may be used."""

    argument: str
    test: str  # "=", "!=", "given", "absent", "~"
    value: str = ""


@dataclass(frozen=True, eq=False)
class Frame:
    """One frame: its form, its guards and its parts; equal to itself alone."""

    form: str
    guards: tuple[Guard, ...]
    parts: Sequence

    @property
    def is_for_blank(self) -> bool:
        """Tell whether the frame is one for a request that leaves a value out."""
        return any(guard.value == "blank" for guard in self.guards)


def expand_choices(parts: Sequence, rng: Random) -> Iterator[str | FrameSlot | Phrase]:
    """Yield the parts with one option drawn of each choice."""
    for part in parts:
        if isinstance(part, Choice):
            yield from expand_choices(part.options[int(rng.random() * len(part.options))], rng)
        else:
            yield part


_TOKEN = re.compile(r"[^(){}<>|]+|\{[^}]*\}|<[a-z_]+>|[(|)]")
_SLOT = re.compile(r"(\w+)(!|=|'s|\.\w+|\+[\w ]+|:.*)?")
_GUARD = re.compile(r"\[(!?)(\w+)(?:(!=|=|~)([^\]]*))?\]\s*")


def parse_frame(form: str, text: str) -> Frame:
    """Return the frame that a line of the tables writes; ValueError names the line."""
    guards, at = [], 0
    while found := _GUARD.match(text, at):
        negation, argument, test, value = found.groups()
        guards.append(Guard(argument, test or ("absent" if negation else "given"), value or ""))
        at = found.end()
    return Frame(form, tuple(guards), parse(text[at:]))


def parse(text: str) -> Sequence:
    """Return the parts of a text in the notation above."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text:
        raise ValueError(f"cannot read the frame {text!r}: a bracket is not closed or unknown")
    options, rest = _alternatives(tokens, 0)
    if rest != len(tokens) or len(options) != 1:
        raise ValueError(f"cannot read the frame {text!r}: its parentheses do not match")
    return options[0]


def _alternatives(tokens: list[str], at: int) -> tuple[tuple[Sequence, ...], int]:
    options: list[Sequence] = []
    current: list[Part] = []
    while at < len(tokens) and tokens[at] != ")":
        token, at = tokens[at], at + 1
        if token == "(":
            inner, at = _alternatives(tokens, at)
            if at >= len(tokens):
                return (), -1
            current.append(Choice(inner))
            at += 1
        elif token == "|":
            options.append(tuple(current))
            current = []
        elif token[0] == "{":
            current.append(_slot(token[1:-1]))
        else:
            current.append(Phrase(token[1:-1]) if token[0] == "<" else token)
    return (*options, tuple(current)), at


def _slot(text: str) -> FrameSlot:
    found = _SLOT.fullmatch(text)
    if found is None:
        raise ValueError(f"cannot read the slot {{{text}}}")
    name, view = found[1], found[2] or ""
    if not view.startswith(":"):
        return FrameSlot(name, view)
    words = tuple((key, word) for key, _, word in (e.partition("=") for e in view[1:].split(";")))
    return FrameSlot(name, ":", words)


def _matches(guard: Guard, value: Any, kind: str) -> bool:
    if guard.test == "given":
        return value is not None
    if guard.test == "absent":
        return value is None or value is False
    if guard.test == "~":
        return kind == guard.value
    equal = value is not None and guard.value in (str(value), number_text(value))
    return equal == (guard.test == "=")


def guards_allow(frame: Frame, values: Mapping[str, Any], kinds: Mapping[str, str]) -> bool:
    """Tell whether every guard of the frame holds for a call's plain values and their kinds."""
    return all(
        _matches(guard, values.get(guard.argument), kinds.get(guard.argument, ""))
        for guard in frame.guards
    )


_SHORT = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")  # one syllable, consonant doubled: get, stop
_DOUBLED = frozenset({"submit", "cancel", "transfer", "refer", "begin"})
_PARTICLES = {
    "up": "add back bring call fill fire look open pull put set start sum take top wrap write",
    "off": "call cut drop set shut take turn",
    "away": "clear put take throw tidy",
    "out": "find hand print put read send work write",
    "down": "cut jot note put take write",
    "back": "bring give send take",
    "over": "hand look read",
}
_HIGHEST = f"{OPEN}highest{CLOSE}"
_PRIORITY = re.compile(rf"\b(?:an? |the )?priority (?:of |level )?{_HIGHEST}")
_NUMBER_OF = re.compile(r"\b((?:another|a certain|some|the) number)(?= (?:equal parts|people)\b)")
_MARKED = re.compile(f"({OPEN}[^{CLOSE}]*{CLOSE})")


def gerund(verb: str) -> str:
    """Return the -ing form of a verb's base form."""
    if verb == "be":
        return "being"
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    if _SHORT.fullmatch(verb) or verb in _DOUBLED:
        return f"{verb}{verb[-1]}ing"
    return f"{verb}ing"


def gerund_phrase(phrase: str) -> str | None:
    """Return a verb phrase with its verb in the -ing form, None if it has two verbs."""
    if " and " in _MARKED.sub("", phrase) or " then " in phrase:
        return None
    verb, space, rest = phrase.partition(" ")
    return f"{gerund(verb)}{space}{rest}"


def sentence(text: str) -> str:
    """Return a sentence with a capital, "an" before vowels, one end mark, "call it off" as said."""
    text = correct_articles(text.strip())
    text = _phrasal_verbs().sub(r"\1 \3 \2", text)
    text = _NUMBER_OF.sub(r"\1 of", text)
    text = _PRIORITY.sub(f"the {_HIGHEST} priority", text)
    text = re.sub(rf"([.!?])(['\"”]{CLOSE}?)\.$", r"\1\2", text)
    return text[:1].upper() + text[1:]


@cache
def _phrasal_verbs() -> re.Pattern[str]:
    """Return a pattern of a verb, its particle and a pronoun that has to come before that."""
    forms = {
        particle: "|".join(form for verb in verbs.split() for form in (verb, gerund(verb)))
        for particle, verbs in _PARTICLES.items()
    }
    pairs = "|".join(rf"\b(?:{verbs})(?= {particle} )" for particle, verbs in forms.items())
    return re.compile(rf"({pairs}) ({'|'.join(_PARTICLES)}) (it|them)\b")


def carriers(text: str) -> list[str]:
    """Return the parts of a text that are not values."""
    return _MARKED.split(text)[::2]


def mark_literal(text: str) -> str:
    """Return a text marked as a value."""
    return f"{OPEN}{text}{CLOSE}"


def strip_marks(text: str) -> str:
    """Return a text without the marks of its values."""
    return text.replace(OPEN, "").replace(CLOSE, "")


def quote_text(text: str, mark: str) -> str:
    """Return a text in the quotation mark, or in another that it does not contain."""
    if re.search(r"[\"“”]", text) if mark == '"' else re.search(r"'", text):
        mark = '"' if mark == "'" and '"' not in text else "“"
    return mark_literal(f"“{text}”" if mark == "“" else f"{mark}{text}{mark}")


def number_text(value: Any) -> str:
    """Return a number as people write it: 3 for 3.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def money_text(value: Any, draw: Random) -> str:
    """Return a sum of dollars in one of its written forms."""
    plain = number_text(value)
    cents = f"{value:.2f}" if isinstance(value, float) and round(value, 2) == value else plain
    forms = [f"${plain}", f"${plain}", f"{plain} dollars", f"{plain} USD", f"USD {plain}"]
    forms += [f"${cents}", f"{plain} US dollars", f"{plain} bucks"]
    if isinstance(value, int | float) and abs(value) >= 1000 and round(value, 2) == value:
        comma = f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"
        forms += [f"${comma}", f"{comma} dollars"]
    return draw.choice(forms)


def date_text(day: date, draw: Random) -> str:
    """Return a date in one of its spoken forms, the ISO form left out."""
    return draw.choice([*date_forms(day), f"{day:%Y/%m/%d}"])


def list_text(items: list[str], draw: Random) -> str:
    """Return items as an enumeration."""
    joints = [" and ", " and ", ", and "]
    return enumerated(items, draw.choice(joints) if len(items) > 2 else " and ")


_FOLDER = Path(__file__).parent
Frames = dict[str, tuple[Frame, ...]]


@dataclass(frozen=True)
class KindWords:
    """Names of values of one kind."""

    noun: str
    plural: str
    said: tuple[str, ...] = ("{}",)  # {} stands for the value
    vague: tuple[str, ...] = ()  # where the value is left out
    state: tuple[str, ...] = ()  # where only the world holds it
    quoted: bool = False
    money: bool = False
    date: bool = False
    person: bool = False


class ResultWords(NamedTuple):
    """Names of one part of a function's result, as later words call it."""

    main: str = ""  # noun of a result that the call is about; "" for a part or an item of it
    ways: tuple[Sequence, ...] = ()  # phrases with slots for the arguments of that call


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return a table by name."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))


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
        for function, forms in read_table(f"frames/{file.stem}").items()
    }


@cache
def parsed_lines(text: str) -> tuple[Sequence, ...]:
    """Return the wordings that a text lists, a line each."""
    return tuple(map(parse, _lines(text)))


@cache
def patterns(name: str) -> dict[str, tuple[Sequence, ...]]:
    """Return list name -> its wordings, of the table of that name."""
    return {key: parsed_lines(text) for key, text in read_table(name).items()}


@cache
def kind_words(kind: str) -> KindWords:
    """Return the words for values of a kind; an unknown kind is called by its name."""
    entry = read_table("kinds").get(kind, {})
    entry = read_table("kinds")[entry["like"]] if "like" in entry else entry
    noun = entry.get("noun", kind.replace("_", " "))
    lists = {name: _lines(entry[name]) for name in ("said", "vague", "state") if name in entry}
    return KindWords(**{"noun": noun, "plural": f"{noun}s", **entry, **lists})


@cache
def result_words(place: str) -> ResultWords:
    """Return how the part of a result at "function.path" is named."""
    entry = read_table("results").get(place)
    return (
        ResultWords(entry.get("main", ""), parsed_lines(entry["ways"])) if entry else ResultWords()
    )
