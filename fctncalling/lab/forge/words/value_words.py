"""Words for the values of a plan: named, pointed back at, described, or left vague."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fctncalling.lab.forge.multi_turn.dials import FUNCTIONS
from fctncalling.lab.forge.multi_turn.drafter import pattern
from fctncalling.lab.forge.plan import Plan, PlannedCall, Value, parse_result
from fctncalling.lab.own_api.english import ORDINALS, date_forms, enumerated, read_day
from fctncalling.lab.own_api.words.frames import RequestFrame, frames_of_tables
from fctncalling.lab.own_api.words.vocabulary import split_phrases

MARK = "\ue000"
"""Mark before a literal, whose first letter stays as it is at the beginning of a sentence."""
UNCOUNTED = frozenset(
    "number precision amount price percent share_count line_count gallons liters miles meters "
    "speed temperature fan_speed priority".split()
)
"""Kinds that are said again rather than pointed at: nobody counts the numbers in a message."""
_DAYS = frozenset({"date", "birth_date", "spoken_date"})
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class KindWords:
    """Names of values of one kind."""

    noun: str
    plural: str = ""
    said: tuple[str, ...] = ("{}",)  # {} stands for the value
    vague: tuple[str, ...] = ()  # where the value is left out
    state: tuple[str, ...] = ()  # where only the world holds it
    words: Mapping[str, str] = field(default_factory=dict)  # value -> words for it
    quoted: bool = False
    money: bool = False


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return a table of this folder."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))


@cache
def kind_words(kind: str) -> KindWords:
    """Return the words for values of a kind; an unknown kind is called by its name."""
    entry = read_table("kinds").get(kind, {})
    lists = {n: split_phrases(entry[n]) for n in ("said", "vague", "state") if n in entry}
    return KindWords(**{"noun": kind.replace("_", " "), **entry, **lists})


@cache
def result_frames() -> Mapping[str, Sequence[RequestFrame]]:
    """Return the wordings of a part of a result, by "function.path", and those of `missing`."""
    tables = {key: each for key, each in read_table("results").items() if key != "main"}
    functions = {key: key.partition(".")[0] for key in tables if key != "missing"}
    parameters = {key: {"place", *FUNCTIONS[name].takes} for key, name in functions.items()}
    parameters["missing"] = {"noun", "value"}
    return frames_of_tables(tables, parameters, "results.toml")


def literal(said: Any, kind: str, mark: str, rng: Random) -> str:
    """Return a value as people write it; `mark` is the user's quotation mark."""
    words = kind_words(kind)
    if isinstance(said, dict):  # what changes of a ticket
        return enumerated([f"the {name} is {_quoted(each, mark)}" for name, each in said.items()])
    if isinstance(said, list | tuple):
        return enumerated([literal(each, kind, mark, rng) for each in said])
    if words.money and isinstance(said, int | float):
        return f"{MARK}{_money(said, rng)}"
    if kind in _DAYS and (day := read_day(said)) is not None and said != day.isoformat():
        return f"{MARK}{rng.choice(date_forms(day))}"
    text = words.words.get(str(said), number_text(said))
    return _quoted(text, mark) if words.quoted else f"{MARK}{text}"


def _quoted(text: Any, mark: str) -> str:
    """Return a text in the quotation mark, or in another that it does not contain."""
    if not isinstance(text, str):
        return f"{MARK}{text}"
    if mark in text:
        mark = "'" if mark == '"' else '"'
    return f"{MARK}{mark}{text}{mark}"


def number_text(value: Any) -> str:
    """Return a number as people write it: 3 for 3.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def _money(value: float, rng: Random) -> str:
    plain = number_text(value)
    comma = f"{int(value):,}" if float(value).is_integer() else plain
    return rng.choice((f"${plain}", f"${comma}", f"{plain} dollars", f"{comma} USD"))


def result_key(function: str, path: tuple[str | int, ...]) -> str:
    """Return "function.path" with a star for each index and each key that is an id."""
    return f"{function}.{pattern(path)}"


def place_in_result(text: str, path: tuple[str | int, ...]) -> str:
    """Return "third", "last", "only": which item of a result stands at a path."""
    value: Any = parse_result(text)
    place, count = 0, 1
    for key in path:
        keys: list[Any] = [*value] if isinstance(value, dict) else [*range(len(value))]
        if pattern((key,)) == "*" and key in keys:
            place, count = keys.index(key), len(keys)
        try:
            value = value[key]
        except (LookupError, TypeError):
            break
    if count == 1:
        return "only"
    return "last" if place == count - 1 else ORDINALS[min(place, len(ORDINALS) - 1)]


class Mention(NamedTuple):
    """One thing that the user named or a call returned."""

    noun: str  # what it is called: "file", "order", "stocks"
    value: Any
    message: int

    def is_of(self, value: Any) -> bool:
        """Tell whether it is of a value, of the same type."""
        return type(self.value) is type(value) and bool(self.value == value)


def references(mentions: Sequence[Mention], noun: str, value: Any, message: int) -> list[str]:
    """Return ways to point back at a value by its noun, the shortest first; empty if none is clear.

    "That file" is the last file mentioned, a pronoun the last thing of all; any other is pointed at
    by an earlier message with no other of its noun ("the file from my first message").
    """
    same_noun = [each for each in mentions if each.noun == noun]
    found = [each.message for each in same_noun if each.is_of(value)]
    if found and same_noun[-1].is_of(value) and message - found[-1] <= 2:
        many = noun.endswith("s") and isinstance(value, list)
        ways = [f"those {noun}" if many else f"that {noun}"]
        ways += [f"the same {noun}"] if all(each.is_of(value) for each in same_noun) else []
        if mentions[-1] is same_noun[-1] and message - found[-1] <= 1:
            ways += ["them" if many or noun in _PEOPLE else "it"] * 3
        return ways
    for place in reversed(found):
        if place < message and all(
            each.is_of(value) for each in same_noun if each.message == place
        ):
            nth = "last" if place == message - 1 else ORDINALS[min(place, 8)]
            return [f"the {noun} from my {nth} message", f"the {noun} from my {nth} request"]
    return []


_PEOPLE = frozenset({"user", "person", "contact"})
_TRANSPARENT = frozenset(
    "get_zipcode_based_on_city get_nearest_airport_by_city get_user_id get_symbol_by_name "
    "liter_to_gallon gallon_to_liter".split()
)
"""Functions that turn a name into an id: people say the name where a call takes the id."""
_BARE_BEHIND = re.compile(r"(?:\b(?:called|named|name|id|number|folder|directory|file|user)|\}) $")
_BARE_BEFORE = re.compile(r"(?: folder| directory| class|-class| \{)")
"""Words around a slot that leave a value without its noun: "a file called x", "the x folder"."""
_SUBJECT = re.compile(r"\b(?:can|could|should|will|would|is|are|do|does|if|whether|that) $")
_SAYING = re.compile(r"(?:saying|says|reads?|reading|say|contain|hold|:) $")
_TITLED = re.compile(
    r"(?:message|note|text|words|title|titled|headed|explanation|resolution|comment|tweet"
    r"|description|saying|called) $"
)


class ValueWords:
    """Words for the values of one turn; `mentions` grows with what is named.

    A value has none (None) where it cannot be said in that place, for instance by itself where the
    plan takes it from a result.
    """

    def __init__(
        self, plan: Plan, message: int, mentions: list[Mention], rng: Random, mark: str
    ) -> None:
        self.plan = plan
        self.message = message  # whose words these are
        self.turn = plan.messages[message][0]
        self.mentions = mentions
        self.rng = rng
        self.mark = mark  # the user's quotation mark
        self.blank: Value | None = None  # the value that the words leave out

    def is_blank(self, value: Value) -> bool:
        """Tell whether a value is the one that these words leave out."""
        blank = self.blank
        return blank is not None and (value.kind, value.value) == (blank.kind, blank.value)

    def text(self, value: Value, before: str = "", behind: str = "") -> str | None:
        """Return a value in words that fit those before and behind it."""
        is_bare = bool(_BARE_BEHIND.search(before) or _BARE_BEFORE.match(behind))
        is_named = is_bare or before.endswith((" a ", " an "))  # never "a that class"
        left_out = next(filter(self.is_blank, (value, self._origin(value))), None)
        if left_out is not None:
            ways = kind_words(left_out.kind).vague
            return self.rng.choice(ways) if ways and not is_named else None
        spoken = self.spoken(value)
        if spoken is None:
            return None if is_named else self._reference(value, before)
        said, kind = spoken
        here = (each for each in self.mentions if each.message == self.message)
        is_again = kind not in UNCOUNTED and any(each.is_of(value.value) for each in here)
        if is_again and not is_named and self.rng.random() < 0.6:
            pointing = self._pointing(value, before)
            if pointing:
                return self.mentioned(value, self.rng.choice(pointing))
        words = kind_words(kind)
        template = "{}" if is_bare or isinstance(said, list) else self.rng.choice(words.said)
        if behind.startswith(" {") and isinstance(said, int | float):
            text = number_text(said)  # of the unit that follows
        else:
            text = literal(said, kind, self.mark, self.rng)
        return self.mentioned(value, template.replace("{}", text))

    def spoken(self, value: Value) -> tuple[Any, str] | None:
        """Return the value and kind that the words name for a value, None if they point at it."""
        value = self._origin(value)
        if value.provenance in ("said_now", "flag"):
            return value.value, value.kind
        return None if value.words is None else (value.words, value.said_kind or value.kind)

    def _origin(self, value: Value) -> Value:
        """Return what an unmentioned look-up of this turn takes, for what it returns."""
        call = self._call_of(value)
        if call is None or call.function not in _TRANSPARENT or value.source.turn != self.turn:
            return value
        return next(iter(call.arguments.values())) if call.purpose == "needed_step" else value

    def _call_of(self, value: Value) -> PlannedCall | None:
        """Return the call with the result that a value comes from."""
        if value.provenance != "result":
            return None
        return self.plan.turns[value.source.turn].calls[value.source.call]

    def _is_latest(self, value: Value, function: str) -> bool:
        """Tell whether no call of the function came between its result and who takes it."""
        for place, call in self.plan.placed_calls.items():
            if place > (value.source.turn, value.source.call):
                if any(value is known for known in call.arguments.values()):
                    return True
                if call.function == function:
                    return False
        return True

    def _pointing(self, value: Value, before: str) -> list[str]:
        """Return ways to point back at a value that fit the words before the slot."""
        ways = references(self.mentions, self._noun(value), value.value, self.message)
        is_subject = not before.strip() or _SUBJECT.search(before)
        unfit = {"it", "them"} if before.endswith("of ") else {"them"} if is_subject else set()
        return [way for way in ways if way not in unfit]

    def _reference(self, value: Value, before: str) -> str | None:
        """Return a phrase that points at a value known before these words."""
        call, ways = self._call_of(value), self._pointing(value, before)
        if value.provenance == "state" and not ways:
            named = (kind_words(str(key)).state for key in (*value.source.path, value.kind))
            ways = list(next(filter(None, named), ()))
        if call is not None and (not ways or self.rng.random() < 0.5):
            ways = self._shown_by(value, call) or ways
        if not ways:
            return None
        way = self.mentioned(value, self.rng.choice(ways))
        if not kind_words(value.kind).quoted:
            return way
        if _SAYING.search(before):
            return f"the same as {way}"
        return f"taken from {way}" if _TITLED.search(before) else way

    def _shown_by(self, value: Value, call: PlannedCall) -> list[str]:
        """Return "the price of that order", "the order I just placed", "the third of the files"."""
        is_here = value.source.turn == self.turn
        is_latest = self._is_latest(value, call.function)
        is_unasked = is_here and call.purpose == "needed_step"
        plain, by_argument = list[str](), list[str]()
        for frame in result_frames().get(result_key(call.function, value.source.path), ()):
            text = frame.text.replace("{place}", place_in_result(call.result, value.source.path))
            text = text.replace("the only of", "the only one of")
            slots = [name for name in frame.parameters if name in call.arguments]
            if is_unasked and " you" in text:
                continue  # nobody has "found" yet what is unasked
            if slots and not is_here and any(map(self._call_of, call.arguments.values())):
                continue
            before = list(self.mentions)
            for name in slots:
                text = self._with_argument(text, name, call.arguments[name], is_here=is_here)
            self.mentions[:] = before
            if text:
                (by_argument if slots else plain).append(text)
        if not is_latest or (is_unasked and by_argument):
            plain = []  # its own values are said here or nowhere
        is_recent = value.source.turn >= self.turn - 1 and is_latest
        return [text if is_recent else text.replace("just ", "") for text in plain + by_argument]

    def _with_argument(self, text: str, name: str, value: Value, *, is_here: bool) -> str:
        """Return a text with an argument in its slot, of an earlier call pointed at; "" if none."""
        before, slot, behind = text.partition(f"{{{name}}}")
        said = self.text(value, before, behind) if is_here else self._reference(value, before)
        return f"{before}{said}{behind}" if slot and said else ""

    def note_result(self, call: PlannedCall, index: int) -> None:
        """Add the result of a call of this turn to the mentions, if about one thing."""
        mains, place = read_table("results")["main"], (self.turn, index)
        taken = [v for v in self.plan.values if (v.source.turn, v.source.call) == place]
        named = [v for v in taken if result_key(call.function, v.source.path) in mains]
        if named:
            self.mentions.append(Mention(self._noun(named[0]), named[0].value, self.message))
        elif FUNCTIONS[call.function].made_kinds - {*FUNCTIONS[call.function].takes.values()}:
            made = (main for key, main in mains.items() if key.startswith(f"{call.function}."))
            self.mentions += [Mention(main, place, self.message) for main in made]

    def _noun(self, value: Value) -> str:
        words, call = kind_words(value.kind), self._call_of(value)
        key = result_key(call.function, value.source.path) if call else ""
        noun = words.plural or words.noun if isinstance(value.value, list) else words.noun
        return str(read_table("results")["main"].get(key, noun))

    def mentioned(self, value: Value, text: str) -> str:
        """Note that a value was spoken of, and return the text."""
        if isinstance(value.value, list) and value.words is not None:
            noun = kind_words(value.kind).noun
            self.mentions += [Mention(noun, item, self.message) for item in value.value]
        self.mentions.append(Mention(self._noun(value), value.value, self.message))
        return text
