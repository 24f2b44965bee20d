"""User texts of a plan: of several true wordings of each turn that of the drawn length is taken."""

from __future__ import annotations

import math
from itertools import islice
from random import Random

from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn, Value
from fctncalling.lab.forge.words.clauses import fill_frame, pattern_text, value_phrase
from fctncalling.lab.forge.words.grammar import (
    Frame,
    kind_words,
    patterns,
    sentence,
    strip_marks,
)
from fctncalling.lab.forge.words.noun_phrases import Discourse, NounPhrases
from fctncalling.lab.forge.words.turn_check import PlanFacts, faults_of
from fctncalling.lab.forge.words.turn_wording import Persona, TurnWording


def supplement(value: Value, call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return a sentence that says the value and what it is."""
    pattern = pattern_text(nouns.draw.choice(patterns("sentences")["missing"]), nouns.draw)
    in_dollars = "base_currency" not in call.arguments and value.kind in ("amount", "price")
    with_unit = in_dollars or ("<noun>" not in pattern and value.kind != "amount")
    said = value_phrase(value, nouns, with_unit=with_unit)
    if said is None:
        return None
    if value.kind in ("travel_class", "insurance_type") and pattern.startswith("<value>"):
        said = said[:1] + said[1:2].upper() + said[2:]  # behind the mark of a value
    words = kind_words(nouns.facts.kind_of(value))
    noun = words.plural if isinstance(value.value, list) and len(value.value) > 1 else words.noun
    return sentence(pattern.replace("<noun>", noun).replace("<value>", said))


CANDIDATES = 3
TRIES = 14  # wordings of one turn before the plan is given up
# A turn's words: log-normal with BFCL's median of 27 and 90th percentile of 53,
# drawn a little lower, since a request may take more words than were drawn.
MEDIAN_WORDS, SPREAD = 24.5, 0.62


class CannotSay(Exception):
    """No wording says a turn of a plan truthfully; the plan is to be thrown away."""


def user_texts(plan: Plan, variation: int = 0) -> list[str]:
    """Return the user's words, one text a turn, "" for a turn in which a function returns.

    The same for the same plan and variation. CannotSay names a turn for which no frame fits.
    """
    return _TaskWriter(plan, Random(f"{plan.seed}/words/{variation}")).texts()


class _TaskWriter:
    """The words of one task: what was mentioned, and which frames and patterns were used."""

    def __init__(self, plan: Plan, draw: Random) -> None:
        self.plan = plan
        self.draw = draw
        self.facts = PlanFacts(plan)
        self.persona = Persona.drawn(draw)
        self.discourse = Discourse()
        self.frames: frozenset[Frame] = frozenset()
        self.patterns: frozenset[str] = frozenset()
        self.told: set[str] = set()

    def texts(self) -> list[str]:
        return [self._text(index, turn) for index, turn in enumerate(self.plan.turns)]

    def _text(self, index: int, turn: PlannedTurn) -> str:
        if turn.role == "function_returns":
            return ""
        if turn.role == "missing_value":
            return self._supplement(index, turn)
        target = self.draw.lognormvariate(math.log(MEDIAN_WORDS), SPREAD)
        length = round(min(110.0, max(6.0, target)))
        wordings = (self._candidate(index, turn, length) for _ in range(TRIES))
        true_ones = islice((each for each in wordings if each is not None), CANDIDATES)
        best = min(true_ones, key=lambda each: each.distance_to(length), default=None)
        if best is None:
            raise CannotSay(f"plan {self.plan.seed}: no words for turn {index}: {turn}")
        return self._taken(best)

    def _candidate(self, index: int, turn: PlannedTurn, length: int) -> TurnWording | None:
        """Return one true wording of a turn, None where this draw has none."""
        nouns = self._nouns(index, turn)
        wording = TurnWording(
            turn, nouns, self.persona, self.draw, self.frames, self.patterns, set(self.told)
        )
        if not wording.word(length) or faults_of(strip_marks(wording.text), turn):
            return None
        return wording

    def _nouns(self, index: int, turn: PlannedTurn) -> NounPhrases:
        nouns = NounPhrases(
            self.facts, index, self.discourse.branch(), self.draw, self.persona.mark, fill_frame
        )
        if turn.role == "request_without_value":
            nouns.blank = _blank(turn)
        return nouns

    def _taken(self, wording: TurnWording) -> str:
        self.discourse = wording.nouns.discourse
        self.frames |= wording.frames
        self.patterns |= wording.patterns
        self.told = wording.told
        return strip_marks(wording.text)

    def _supplement(self, index: int, turn: PlannedTurn) -> str:
        """Return the words that give the value which the turn before left out."""
        nouns = self._nouns(index, turn)
        for _ in range(TRIES):
            text = supplement(_blank(turn), _blank_call(turn), nouns)
            if text is not None and not faults_of(strip_marks(text), turn):
                self.discourse = nouns.discourse
                return strip_marks(text)
        raise CannotSay(f"plan {self.plan.seed}: no words for turn {index}: {turn}")


def _blank_call(turn: PlannedTurn) -> PlannedCall:
    if turn.blank is None:
        raise CannotSay(f"a turn of the role {turn.role} names no value that was left out")
    return turn.requested[turn.blank[0]]


def _blank(turn: PlannedTurn) -> Value:
    call = _blank_call(turn)
    return call.arguments[turn.blank[1] if turn.blank else ""]
