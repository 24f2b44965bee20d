"""Words for the values of a plan: named, pointed back at, described, or left vague."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

from fctncalling.lab.forge.multi_turn.dials import KINDS_OF, makes_something
from fctncalling.lab.forge.plan import Plan, PlannedCall, Value, parse_result
from fctncalling.lab.own_api.english import ORDINALS, date_forms, enumerated, read_day, spaced_words
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
    parameters = {key: {"place", *KINDS_OF.get(key.partition(".")[0], ())} for key in tables}
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


_ID_KEY = re.compile(r"^(?!MA\d).*\d")  # moving averages are called MA_5


def result_key(function: str, path: tuple[str | int, ...]) -> str:
    """Return "function.path" with a star for each index and each key that is an id."""
    keys = ["*" if isinstance(key, int) or _ID_KEY.search(key) else key for key in path]
    return ".".join((function, *keys))


def place_in_result(text: str, path: tuple[str | int, ...]) -> str:
    """Return "third", "last", "only": which item of a result stands at a path."""
    value = parse_result(text)
    place, count = 0, 1
    for key in path:
        if isinstance(key, int) and isinstance(value, list):
            place, count = key, len(value)
        elif isinstance(value, dict) and key in value and _ID_KEY.search(str(key)):
            place, count = list(value).index(key), len(value)
        try:
            value = cast(Any, value)[key]
        except (KeyError, IndexError, TypeError):
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

    A pronoun needs the value to be the last thing mentioned, "that file" the last file; any other
    is pointed at by its message ("the second file from my first message").
    """
    same_noun = [each for each in mentions if each.noun == noun]
    found = [each for each in same_noun if each.is_of(value)]
    if not found:
        return []
    first, last = found[0], found[-1]
    if last is same_noun[-1] and message - last.message <= 2:
        many = noun.endswith("s") and isinstance(value, list)
        ways = [f"those {noun}" if many else f"that {noun}", f"the same {noun}"]
        if mentions[-1] is last and message - last.message <= 1:
            ways += ["them" if many or noun in _PEOPLE else "it"] * 3
        return ways
    there = list[Any]()
    for each in same_noun:  # a reader counts what is called the same
        if each.message == first.message and not any(each.is_of(known) for known in there):
            there.append(each.value)
    index = next(index for index, known in enumerate(there) if first.is_of(known))
    which = noun if len(there) == 1 else f"{ORDINALS[min(index, 8)]} {noun}"
    if first.message == message:
        return [f"the {which} I just named", f"the {which} in this message"]
    place = "last" if first.message == message - 1 else ORDINALS[min(first.message, 8)]
    return [f"the {which} from my {place} message", f"the {which} from my {place} request"]


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
        if (left_out := self._left_out(value)) is not None:
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

    def _left_out(self, value: Value) -> Value | None:
        """Return the value left out that these words cannot say this one without, if any."""
        call = self._transparent(value)
        arguments = [value, *(call.arguments.values() if call else ())]
        return next((each for each in arguments if self.is_blank(each)), None)

    def spoken(self, value: Value) -> tuple[Any, str] | None:
        """Return the value and kind that the words name for a value, None if they point at it.

        What an unmentioned call of this turn looks up is named by what that takes.
        """
        kind = value.kind
        if value.provenance in ("said_now", "flag"):
            return value.value, kind
        if value.provenance == "inferred":
            return (value.said, value.said_kind or kind) if value.said is not None else None
        call = self._transparent(value)
        for each in call.arguments.values() if call else ():
            if each.provenance in ("said_now", "inferred") and each.said is not None:
                return self.spoken(each)
        return None

    def _transparent(self, value: Value) -> PlannedCall | None:
        """Return the unmentioned look-up of this turn that returned a value, if there is one."""
        call, source = self._call_of(value), value.source
        if call is None or call.purpose != "needed_step" or call.function not in _TRANSPARENT:
            return None
        return call if source is not None and source.turn == self.turn else None

    def _call_of(self, value: Value) -> PlannedCall | None:
        """Return the call with the result that a value comes from."""
        source = value.source
        if value.provenance != "result" or source is None or source.turn < 0 or source.call < 0:
            return None
        calls = self.plan.turns[source.turn].calls
        return calls[source.call] if source.call < len(calls) else None

    def calls_so_far(self) -> Iterator[tuple[tuple[int, int], PlannedCall]]:
        """Yield (place, call) up to these words and what they ask for."""
        for number, turn in enumerate(self.plan.turns[: self.turn + 1]):
            for index, call in enumerate(turn.asked):
                yield (number, index), call

    def _is_latest(self, value: Value, function: str, at: tuple[int, int]) -> bool:
        """Tell whether no call of the function came between its result and who takes it."""
        for place, call in self.calls_so_far():
            if place > at and any(value is known for known in call.arguments.values()):
                return True
            if place > at and call.function == function:
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
            named = (kind_words(str(key)).state for key in (*value.path, value.kind))
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
        source = value.source
        assert source is not None
        is_here = source.turn == self.turn
        is_latest = self._is_latest(value, call.function, (source.turn, source.call))
        arguments = call.arguments
        is_unasked = is_here and call.purpose == "needed_step"
        plain, by_argument = list[str](), list[str]()
        for frame in result_frames().get(result_key(call.function, value.path), ()):
            text = frame.text.replace("{place}", place_in_result(call.result, value.path))
            slots = [name for name in frame.parameters if name in arguments]
            if is_unasked and " you" in text:
                continue  # nobody has "found" yet what is unasked
            if not slots:
                plain.append(text)
            elif is_here or all(each.provenance != "result" for each in arguments.values()):
                before = list(self.mentions)
                texts = {name: self._told(arguments[name], text, name, is_here) for name in slots}
                self.mentions[:] = before
                if None not in texts.values():
                    by_argument.append(text.format_map(texts))
        plain = plain or _plain_ways(value.path)
        if not is_latest:
            message = self.plan.messages.index((source.turn, False))
            origin = f"from my {ORDINALS[min(message, len(ORDINALS) - 1)]} message"
            when = "from the first result" if is_here else origin
            plain = [] if by_argument else [f"{text} ({when})" for text in plain]
        elif is_unasked and by_argument:
            plain = []  # its own values are said here or nowhere
        is_recent = source.turn >= self.turn - 1 and is_latest
        ways = [text.replace("the only of", "the only one of") for text in plain + by_argument]
        return ways if is_recent else [text.replace("just ", "") for text in ways]

    def _told(self, value: Value, text: str, slot: str, is_here: bool) -> str | None:
        """Return an argument of a call in words: of an earlier one it is pointed at."""
        before, behind = text.split(f"{{{slot}}}", 1)
        return self.text(value, before, behind) if is_here else self._reference(value, before)

    def note_result(self, function: str, index: int) -> None:
        """Add the result of the call of this index to the mentions, if about one thing."""
        mains, place = read_table("results")["main"], (self.turn, index)
        for value in self.plan.values:
            source = value.source
            if source is None or (source.turn, source.call) != place:
                continue
            if value.provenance == "result" and result_key(function, value.path) in mains:
                self.mentions.append(Mention(self._noun(value), value.value, self.message))
                return
        if makes_something(function):
            made = (main for key, main in mains.items() if key.startswith(f"{function}."))
            self.mentions += [Mention(main, place, self.message) for main in made]

    def _noun(self, value: Value) -> str:
        words, call = kind_words(value.kind), self._call_of(value)
        key = result_key(call.function, value.path) if call else ""
        noun = words.plural or words.noun if isinstance(value.value, list) else words.noun
        return str(read_table("results")["main"].get(key, noun))

    def mentioned(self, value: Value, text: str) -> str:
        """Note that a value was spoken of, and return the text."""
        if isinstance(value.value, list) and value.said is not None:
            noun = kind_words(value.kind).noun
            self.mentions += [Mention(noun, item, self.message) for item in value.value]
        self.mentions.append(Mention(self._noun(value), value.value, self.message))
        return text


def _plain_ways(path: tuple[str | int, ...]) -> list[str]:
    """Return "the battery voltage you showed me": a result's part by its key."""
    keys = [key for key in path if isinstance(key, str)]
    if not keys or keys[-1] == "*":
        return ["those values", "the values you showed me", "those figures"]
    name = spaced_words(keys[-1])
    return [f"the {name} you showed me", f"the {name} you found", f"that {name}"]
