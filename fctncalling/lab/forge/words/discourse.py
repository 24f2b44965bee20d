"""Discourse: what was mentioned so far, and how to point back at it without naming it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")

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

    def add(self, mention: Mention) -> None:
        """Note that something was mentioned."""
        self.mentions.append(mention)

    def said_in(self, turn: int, value: Any) -> bool:
        """Tell whether the user named a value in a turn."""
        return any(
            each.turn == turn and not each.made and _same(each.value, value)
            for each in self.mentions
        )

    def shown_as(self, noun: str, value: Any) -> str:
        """Return what a value was called when it was last mentioned, "" for its noun."""
        found = [each for each in self.mentions if each.noun == noun and _same(each.value, value)]
        return found[-1].shown if found else ""

    def references(self, nouns: Iterable[str], value: Any, turn: int) -> list[str]:
        """Return ways to point back at a value, the shortest first; empty where none is clear.

        A pronoun needs the value to be the last thing mentioned, "that file" the last file; any
        other is pointed at by its message ("the second file in my first message").
        """
        for noun in nouns:
            same_noun = [each for each in self.mentions if each.noun == noun]
            found = [each for each in same_noun if _same(each.value, value)]
            if not found:
                continue
            last = found[-1]
            rivals = {_key(each.value) for each in same_noun if each.turn >= last.turn}
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
        """Return ways to point at something by its message, where need be by its place in it."""
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
        ways = [
            f"the {which} from my {ORDINALS[min(origin, 8)]} {message}"
            for message in ("message", "request")
        ]
        if origin == turn - 1:
            ways += [f"the {which} from my last message", f"the {which} from my previous request"]
        elif origin == 0:
            ways += [f"the {which} from the beginning", f"the {which} I started with"]
        if len(there) == 1 and alone:
            ways += [f"the {noun} from before", f"the {noun} from earlier"]
        return ways


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _key(value: Any) -> str:
    return repr(value)
