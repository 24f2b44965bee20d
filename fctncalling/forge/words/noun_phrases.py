"""Noun phrases: one argument of a planned call in the words of a user."""

from __future__ import annotations

from random import Random
from typing import Any

from fctncalling.forge.plan import PlannedCall, Value
from fctncalling.forge.words.discourse import Discourse, Mention
from fctncalling.forge.words.grammar import Choice, FrameSlot, Phrase, Sequence
from fctncalling.forge.words.literals import (
    date_text,
    list_text,
    literal,
    money_text,
    number_text,
    parsed_date,
    quoted,
)
from fctncalling.forge.words.plan_facts import PlanFacts
from fctncalling.forge.words.tables import KindWords, kind_words, result_words

_STATE_PATHS = {
    "watch_list": ("the stocks on my watchlist", "everything on my watchlist"),
    "doorStatus": ("every door concerned", "all doors concerned"),
}


class NounPhrases:
    """The arguments of a turn's calls as noun phrases, for one wording of it.

    `discourse` grows with what is named. A method returns None where an argument cannot be said in
    that way, for instance by its value where the plan takes it from a result.
    """

    def __init__(
        self, facts: PlanFacts, turn: int, discourse: Discourse, draw: Random, mark: str
    ) -> None:
        self.facts = facts
        self.turn = turn  # whose words these are
        self.call_turn = facts.call_turn(turn)  # in which their calls are made
        self.discourse = discourse
        self.draw = draw
        self.mark = mark  # the user's quotation mark
        self.after_of = False  # whether "of" stands before the slot: no pronoun there
        self.blank: Value | None = None  # the value that the words leave out

    def is_blank(self, value: Value) -> bool:
        """Tell whether a value is the one that these words leave out."""
        blank = self.blank
        return blank is not None and (value.kind, value.value) == (blank.kind, blank.value)

    def phrase(self, value: Value) -> str | None:
        """Return a value as a noun phrase: named, or pointed at."""
        words = kind_words(self.facts.kind_of(value))
        if self.is_blank(value):
            return self._drawn(words.vague)
        spoken = self.spoken(value)
        if spoken is None:
            return self.reference(value)
        said, kind = spoken
        if value.said is not None and self.discourse.said_in(self.turn, value.value):
            ways = self.discourse.references([self._noun(value)], value.value, self.turn)
            ways = [way for way in ways if not (self.after_of and way in ("it", "them"))]
            if ways and self.draw.random() < 0.6:
                return self._mentioned(value, self.draw.choice(ways))
        named = kind_words(kind)
        text = self._listed(said, named)
        template = self._template(said, named)
        return self._mentioned(value, template.replace("{}", text))

    def bare(self, value: Value) -> str | None:
        """Return a value by itself, None where it may not be named."""
        if self.is_blank(value):
            return self._drawn(kind_words(self.facts.kind_of(value)).vague)
        spoken = self.spoken(value)
        if spoken is None:
            return None
        said, kind = spoken
        words = kind_words(kind)
        text = self._listed(said, words) if not words.money else literal(number_text(said))
        return self._mentioned(value, text)

    def spoken(self, value: Value) -> tuple[Any, str] | None:
        """Return what the words name for a value and its kind, None where they point at it."""
        kind = self.facts.kind_of(value)
        if value.provenance == "said_now":
            return value.value, kind
        if value.provenance == "inferred":
            return (value.said, value.said_kind or kind) if value.said is not None else None
        if value.provenance == "flag":
            return value.value, kind
        return self._looked_up(value)

    def _looked_up(self, value: Value) -> tuple[Any, str] | None:
        """Return what an unmentioned call of this turn looks a value up by."""
        call = self.facts.call_of(value)
        if call is None or call.purpose != "needed_step" or value.source is None:
            return None
        if value.source.turn != self.call_turn:
            return None
        for each in call.arguments.values():
            if each.provenance in ("said_now", "inferred") and each.said is not None:
                return self.spoken(each)
        return None

    def reference(self, value: Value) -> str | None:
        """Return a phrase that points at a value known before these words."""
        noun = self._noun(value)
        nouns = [noun, *([] if value.source is None else self._result_nouns(value))]
        ways = self.discourse.references(nouns, value.value, self.turn)
        if not ways and value.provenance == "state":
            ways = list(self._state_ways(value))
        if self.after_of:
            ways = [way for way in ways if way not in ("it", "them")]
        if not ways:
            return None
        if value.provenance == "result" and self.draw.random() < 0.4:
            ways = self._made_ways(value) or ways
        return self._mentioned(value, self.draw.choice(ways))

    def _state_ways(self, value: Value) -> tuple[str, ...]:
        path = value.source.path if value.source is not None else ()
        for key in path:
            if key in _STATE_PATHS:
                return _STATE_PATHS[str(key)]
        return kind_words(self.facts.kind_of(value)).state

    def _result_nouns(self, value: Value) -> list[str]:
        call = self.facts.call_of(value)
        words = result_words().get(call.function) if call is not None else None
        if words is None:
            return ["result"] if call is not None else []
        return [words.many] if isinstance(value.value, list) and words.many else [words.noun]

    def _made_ways(self, value: Value) -> list[str]:
        """Return "the order I placed" where only one such call can be meant."""
        call = self.facts.call_of(value)
        words = result_words().get(call.function) if call is not None else None
        if call is None or words is None or value.source is None:
            return []
        earlier = [
            each
            for turn in self.facts.plan.turns[: self.call_turn + 1]
            for each in turn.calls
            if each.function == call.function
        ]
        if len(earlier) > 1:
            return []
        noun = self._result_nouns(value)[0]
        made = flat(self.draw.choice(words.made), self.draw)
        just = (
            "just "
            if value.source.turn >= self.call_turn - 1 and not made.startswith("on ")
            else ""
        )
        subject, _, rest = made.partition(" ")
        return [f"the {noun} {subject} {just if subject in ('I', 'you') else ''}{rest}".strip()]

    def note_result(self, function: str, index: int) -> None:
        """Add what the call of this index returns to the discourse."""
        turn = self.turn
        used = self.facts.used_results(self.call_turn, index)
        words = result_words().get(function)
        for value in used:
            many = isinstance(value.value, list) and words is not None and words.many
            noun = words.many if many and words else self._noun(value)
            self.discourse.add(Mention(noun, value.value, turn, function))
        if not used and words is not None and not words.many:
            self.discourse.add(Mention(words.noun, (function, turn, index), turn, function))

    def _noun(self, value: Value) -> str:
        words = kind_words(self.facts.kind_of(value))
        return words.plural if isinstance(value.value, list) else words.noun

    def _mentioned(self, value: Value, text: str) -> str:
        person = kind_words(self.facts.kind_of(value)).person
        self.discourse.add(Mention(self._noun(value), value.value, self.turn, person=person))
        return text

    def _listed(self, said: Any, words: KindWords) -> str:
        if isinstance(said, list | tuple):
            return list_text([self._literal(each, words) for each in said], self.draw)
        return self._literal(said, words)

    def _literal(self, said: Any, words: KindWords) -> str:
        if words.money and isinstance(said, int | float):
            return literal(money_text(said, self.draw))
        if words.date and isinstance(said, str) and (day := parsed_date(said)) is not None:
            iso = day.isoformat() == said
            return literal(said if iso else date_text(day, self.draw))
        text = number_text(said) if isinstance(said, int | float) else str(said)
        return quoted(text, self.mark) if words.quoted else literal(text)

    def _template(self, said: Any, words: KindWords) -> str:
        if isinstance(said, list | tuple):
            return "{}"
        return self.draw.choice(words.said)

    def _drawn(self, ways: tuple[str, ...]) -> str | None:
        return self.draw.choice(ways) if ways else None


def flat(parts: Sequence, draw: Random) -> str:
    """Return a pattern without slots as a text."""
    return "".join(
        flat(draw.choice(part.options), draw) if isinstance(part, Choice) else str(part)
        for part in parts
        if not isinstance(part, FrameSlot | Phrase)
    )


def arguments_of(call: PlannedCall) -> dict[str, Any]:
    """Return a call's plain values."""
    return {name: value.value for name, value in call.arguments.items()}
