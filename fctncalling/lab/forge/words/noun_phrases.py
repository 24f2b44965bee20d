"""Noun phrases: one argument of a planned call in the words of a user, named or pointed back at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fctncalling.lab.forge.plan import PlannedCall, Value, said_earlier
from fctncalling.lab.forge.words.grammar import (
    FrameSlot,
    KindWords,
    ResultWords,
    Sequence,
    date_text,
    kind_words,
    list_text,
    mark_literal,
    money_text,
    number_text,
    quote_text,
    result_words,
)
from fctncalling.lab.forge.words.turn_check import PlanFacts, place_in_result, result_key
from fctncalling.lab.own_api.english import ORDINALS, read_day

UNCOUNTED = frozenset(
    "number precision amount price percent share_count line_count gallons liters miles meters "
    "speed temperature fan_speed priority".split()
)
"""Kinds that are said again rather than pointed at: nobody counts the numbers in a message."""


@dataclass(frozen=True)
class Mention:
    """One thing that the user named or a call returned."""

    noun: str  # what it is called: "file", "order", "stocks"
    value: Any
    turn: int
    made: str = ""  # the function that returned it; "" for one that the user named
    shown: str = ""  # what it was called in the words, where that differs: a city for an airport
    person: bool = False


@dataclass
class Discourse:
    """Mentions in the order of the words."""

    mentions: list[Mention] = field(default_factory=list)

    def branch(self) -> Discourse:
        """Return a copy to try a wording with."""
        return Discourse(list(self.mentions))

    def said_in(self, turn: int, value: Any) -> bool:
        """Tell whether the user named a value in a turn."""
        return any(
            each.turn == turn and not each.made and _same(each.value, value)
            for each in self.mentions
        )

    def shown_as(self, noun: str, value: Any) -> str:
        """Return the name of a value at its last mention, "" for its noun."""
        found = [each for each in self.mentions if each.noun == noun and _same(each.value, value)]
        return found[-1].shown if found else ""

    def references(self, nouns: Iterable[str], value: Any, turn: int) -> list[str]:
        """Return ways to point back at a value, the shortest first; empty if none is clear.

        A pronoun needs the value to be the last thing mentioned, "that file" the last file; any
        other is pointed at by its message ("the second file in my first message").
        """
        for noun in nouns:
            same_noun = [each for each in self.mentions if each.noun == noun]
            found = [each for each in same_noun if _same(each.value, value)]
            if not found:
                continue
            last = found[-1]
            rivals = {repr(each.value) for each in same_noun if each.turn >= last.turn}
            if _same(same_noun[-1].value, value) and turn - last.turn <= 2:
                return self._recent(last, turn)
            return self._distant(found[0], turn, alone=len(rivals) == 1)
        return []

    def _recent(self, last: Mention, turn: int) -> list[str]:
        noun = last.shown or last.noun
        many = noun.endswith("s") and isinstance(last.value, list)
        that, same = (f"those {noun}" if many else f"that {noun}"), f"the same {noun}"
        ways = [that, that, f"this {noun}"] if last.made and not many else [that, that, same]
        latest = self.mentions[-1]
        if _same(latest.value, last.value) and latest.noun == last.noun and turn - last.turn <= 1:
            pronoun = "them" if many or last.person else "it"
            ways += [pronoun] * 4
        return ways

    def _distant(self, first: Mention, turn: int, *, alone: bool) -> list[str]:
        """Return ways to point at a thing by its message, if needed by its place in it."""
        noun, origin = first.shown or first.noun, first.turn
        there: list[Any] = []
        for each in self.mentions:  # a reader counts what is called the same
            called = (each.shown or each.noun) == noun and each.turn == origin
            if called and not any(_same(each.value, known) for known in there):
                there.append(each.value)
        place = next(index for index, known in enumerate(there) if _same(known, first.value))
        which = noun if len(there) == 1 else f"{ORDINALS[min(place, 8)]} {noun}"
        if origin == turn:
            return [f"the {which} I just named", f"the {which} in this message"]
        message = "last" if origin == turn - 1 else ORDINALS[min(origin, 8)]
        ways = [f"the {which} from my {message} {noun}" for noun in ("message", "request")]
        if len(there) == 1 and alone:
            ways += [f"the {which} from before", f"the {which} from earlier"]
        return ways


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


_CAPITAL = re.compile(r"([A-Z]+)")


def plain_ways(path: tuple[str | int, ...]) -> tuple[Sequence, ...]:
    """Return "the battery voltage you showed me": a result's part by its key."""
    keys = [key for key in path if isinstance(key, str)]
    name = _CAPITAL.sub(r" \1", keys[-1]).lower().replace("_", " ") if keys else "*"
    if name == "*":
        return (("those values",), ("the values you showed me",), ("those figures",))
    name = keys[-1] if name.startswith(" ") else name
    return ((f"the {name} you showed me",), (f"the {name} you found",), (f"that {name}",))


def ordinal(index: int, count: int) -> str:
    if count == 1:
        return "only"
    return "last" if index == count - 1 else ORDINALS[min(index, len(ORDINALS) - 1)]


def _words_of(value: Value, function: str) -> ResultWords:
    return result_words(result_key(function, value.path))


Fill = Callable[[Sequence, PlannedCall, "NounPhrases"], str | None]
"""Fills a pattern's slots with the arguments of a call."""

_TRANSPARENT = frozenset(
    "get_user_id get_zipcode_based_on_city get_nearest_airport_by_city get_symbol_by_name "
    "liter_to_gallon gallon_to_liter".split()
)
"""Functions that turn a name into an id: people say the name where a call takes the id."""
_CITY_LOOK_UPS = frozenset({"get_zipcode_based_on_city", "get_nearest_airport_by_city"})
_MAIN = {
    "place_order": "order",
    "create_ticket": "ticket",
    "post_tweet": "tweet",
    "book_flight": "booking",
}
"""What a call makes even where no later call uses it."""
_SUBJECT = re.compile(r"\b(can|could|should|will|would|is|are|do|does|if|whether|that) $")
_SAYING = re.compile(r"(saying|says|reads?|reading|say|contain|hold|:) $")
_TITLED = re.compile(
    r"(message|note|text|words|title|titled|headed|explanation|resolution|comment|tweet"
    r"|description|saying|called) $"
)


class NounPhrases:
    """The arguments of a turn's calls as noun phrases, for one wording of it.

    `discourse` grows with what is named. A method returns None where an argument cannot be said in
    that way, for instance by its value where the plan takes it from a result.
    """

    def __init__(
        self, facts: PlanFacts, turn: int, discourse: Discourse, draw: Random, mark: str, fill: Fill
    ) -> None:
        self.facts = facts
        self.turn = turn  # whose words these are
        self.call_turn = facts.call_turn(turn)  # in which their calls are made
        self.discourse = discourse
        self.draw = draw
        self.fill = fill
        self.mark = mark  # the user's quotation mark
        self.before = ""  # the words before the slot that is filled
        self.place = ""  # "first", "last": of an item in a result that is pointed at
        self.blank: Value | None = None  # the value that the words leave out

    def is_blank(self, value: Value) -> bool:
        """Tell whether a value is the one that these words leave out."""
        blank = self.blank
        return blank is not None and (value.kind, value.value) == (blank.kind, blank.value)

    def left_out(self, value: Value) -> Value | None:
        """Return the value left out that these words cannot say this one without, if any."""
        if self.is_blank(value):
            return value
        call = self._transparent(value)
        arguments = () if call is None else call.arguments.values()
        return next((each for each in arguments if self.is_blank(each)), None)

    def _quoting(self, value: Value, text: str | None) -> str | None:
        """Return a text pointed at so that it fits the words before it ("the message ...")."""
        if text is None or not kind_words(value.kind).quoted:
            return text
        if _SAYING.search(self.before):
            return f"the same as {text}"
        return f"taken from {text}" if _TITLED.search(self.before) else text

    def phrase(self, value: Value) -> str | None:
        """Return a value as a noun phrase: named, or pointed at."""
        if (left_out := self.left_out(value)) is not None:
            return self._vague(left_out)
        spoken = self.spoken(value)
        if spoken is None:
            return self._quoting(value, self.reference(value))
        said, kind = spoken
        is_again = value.said is not None and self.discourse.said_in(self.turn, value.value)
        if is_again and kind not in UNCOUNTED:
            ways = self._pointing([self._noun(value)], value)
            if ways and self.draw.random() < 0.6:
                return self._mentioned(value, self.draw.choice(ways))
        named = kind_words(kind)
        text = self._listed(said, named)
        template = "{}" if isinstance(said, list | tuple) else self.draw.choice(named.said)
        return self._mentioned(value, template.replace("{}", text))

    def bare(self, value: Value) -> str | None:
        """Return a value by itself, None if it may not be named."""
        if (left_out := self.left_out(value)) is not None:
            return self._vague(left_out)
        spoken = self.spoken(value)
        if spoken is None:
            return None
        said, words = spoken[0], kind_words(spoken[1])
        text = mark_literal(number_text(said)) if words.money else self._listed(said, words)
        return self._mentioned(value, text)

    def spoken(self, value: Value) -> tuple[Any, str] | None:
        """Return the value and kind that the words name for a value, None if they point at it.

        What an unmentioned call of this turn looks up is named by what that takes.
        """
        kind = self.facts.kind_of(value)
        if value.provenance in ("said_now", "flag"):
            return value.value, kind
        if value.provenance == "inferred":
            return (value.said, value.said_kind or kind) if value.said is not None else None
        call = self._transparent(value)
        for each in () if call is None else call.arguments.values():
            if each.provenance in ("said_now", "inferred") and each.said is not None:
                return self.spoken(each)
        return None

    def _transparent(self, value: Value) -> PlannedCall | None:
        """Return the unmentioned look-up of this turn that returned a value, if there is one."""
        call, source = self.facts.call_of(value), value.source
        if call is None or call.purpose != "needed_step" or call.function not in _TRANSPARENT:
            return None
        return call if source is not None and source.turn == self.turn else None

    def _pointing(self, nouns: Iterable[str], value: Value) -> list[str]:
        """Return ways to point back at a value that fit the words before the slot."""
        ways = self.discourse.references(nouns, value.value, self.turn)
        return [way for way in ways if self._fits(way)]

    def reference(self, value: Value) -> str | None:
        """Return a phrase that points at a value known before these words."""
        call = self.facts.call_of(value)
        main = _words_of(value, call.function).main if call is not None else ""
        ways = self._pointing([self._noun(value), *([main] if main else [])], value)
        if value.provenance == "state" and not ways:
            named = (str(key) for key in (*value.path, self.facts.kind_of(value)))
            ways = next((list(e.state) for e in map(kind_words, named) if e.state), [])
        recent = any(way.startswith(("that ", "this ", "those ")) for way in ways)
        if call is not None and (not recent or self.draw.random() < 0.4):
            shown = self._shown_by(value, call)
            if shown is not None:
                return self._mentioned(value, shown)
        return self._mentioned(value, self.draw.choice(ways)) if ways else None

    def _fits(self, way: str) -> bool:
        """Return whether a reference fits here: "it" not after "of", "them" not as subject."""
        return not (
            (way in ("it", "them") and self.before.endswith("of "))
            or (way == "them" and (not self.before.strip() or _SUBJECT.search(self.before)))
        )

    def _shown_by(self, value: Value, call: PlannedCall) -> str | None:
        """Return "the price of that order", "the order I just placed", "the third of the files"."""
        source = value.source
        if source is None:
            return None
        ways = _words_of(value, call.function).ways or plain_ways(source.path)
        by_argument = tuple(way for way in ways if any(isinstance(p, FrameSlot) for p in way))
        when = ""
        if call.purpose == "needed_step" and by_argument:
            ways = by_argument  # its own values are said here or nowhere
        if not self.facts.is_latest(value, self.turn):
            ways = by_argument or ways
            origin = f"as of my {ORDINALS[min(source.turn, len(ORDINALS) - 1)]} message"
            when = "in the first result" if source.turn == self.turn else origin
            when = "" if by_argument else f" ({when})"
        here = source.turn == self.turn
        if here and call.purpose == "needed_step":  # nobody has "found" yet what is unasked
            ways = tuple(way for way in ways if " you" not in str(way)) or ways
        self.place = ordinal(*place_in_result(call.result, source.path))
        before, self.before = self.before, ""
        if not here and any(each.provenance == "result" for each in call.arguments.values()):
            # Not "of the ... of".
            ways = tuple(way for way in ways if way not in by_argument) or ways
        known = call if here else said_earlier(call, source.turn)
        text = self.fill(self.draw.choice(ways), known, self)
        self.before = before
        if text is None:
            return None
        text = text.replace("the only of", "the only one of")
        recent = source.turn >= self.turn - 1 and not when
        return text if recent else f"{text.replace('just ', '')}{when}"

    def note_result(self, function: str, index: int) -> None:
        """Add the result of the call of this index to the discourse, if about one thing."""
        places = {self.turn, self.call_turn}  # its own turn's arguments know the first alone
        made = (_MAIN.get(function), (function, self.turn, index), "", False)
        for value in (each for turn in places for each in self.facts.used_results(turn, index)):
            if main := _words_of(value, function).main:
                person = kind_words(self.facts.kind_of(value)).person
                made = (self._noun(value), value.value, main, person)
                break
        noun, thing, shown, person = made
        if noun is not None:
            self.discourse.mentions.append(Mention(noun, thing, self.turn, function, shown, person))

    def _noun(self, value: Value) -> str:
        words = kind_words(self.facts.kind_of(value))
        return words.plural if isinstance(value.value, list) else words.noun

    def _mentioned(self, value: Value, text: str) -> str:
        words, mentions = kind_words(self.facts.kind_of(value)), self.discourse.mentions
        noun, shown, call = self._noun(value), "", self._transparent(value)
        if value.said_kind == "city" or (call and call.function in _CITY_LOOK_UPS):
            shown = "city"
        elif value.said is None:
            shown = self.discourse.shown_as(noun, value.value)
        if isinstance(value.value, list) and value.said is not None:
            for item in value.value:
                mentions.append(Mention(words.noun, item, self.turn, person=words.person))
        mentions.append(Mention(noun, value.value, self.turn, shown=shown, person=words.person))
        return text

    def _listed(self, said: Any, words: KindWords) -> str:
        if isinstance(said, list | tuple):
            return list_text([self._literal(each, words) for each in said], self.draw)
        return self._literal(said, words)

    def _literal(self, said: Any, words: KindWords) -> str:
        if isinstance(said, dict):  # of a ticket
            fields = {
                name: quote_text(item, self.mark)
                if isinstance(item, str)
                else mark_literal(str(item))
                for name, item in said.items()
            }
            return list_text([f"the {name} is {text}" for name, text in fields.items()], self.draw)
        if words.money and isinstance(said, int | float):
            return mark_literal(money_text(said, self.draw))
        if words.date and isinstance(said, str) and (day := read_day(said)) is not None:
            iso = day.isoformat() == said
            return mark_literal(said if iso else date_text(day, self.draw))
        text = number_text(said) if isinstance(said, int | float) else str(said)
        return quote_text(text, self.mark) if words.quoted else mark_literal(text)

    def _vague(self, value: Value) -> str | None:
        ways = kind_words(self.facts.kind_of(value)).vague
        return self.draw.choice(ways) if ways else None
