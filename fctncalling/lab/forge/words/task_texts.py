"""User texts of a plan: several wordings of each turn are tried, the most novel true one taken."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from random import Random

from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn, Value
from fctncalling.lab.forge.words.clauses import fill_frame, lexical
from fctncalling.lab.forge.words.grammar import (
    Frame,
    Phrase,
    carriers,
    expand_choices,
    kind_words,
    patterns,
    sentence,
    with_correction,
    with_slip,
)
from fctncalling.lab.forge.words.literals import strip_marks
from fctncalling.lab.forge.words.noun_phrases import Discourse, NounPhrases
from fctncalling.lab.forge.words.sentences import Persona
from fctncalling.lab.forge.words.turn_check import PlanFacts, faults_of
from fctncalling.lab.forge.words.turn_wording import TurnWording
from fctncalling.lab.forge.words.views import value_phrase


def supplement(value: Value, call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return a sentence that says the value and what it is."""
    parts = list(expand_choices(nouns.draw.choice(patterns("sentences")["missing"]), nouns.draw))
    named = any(isinstance(part, Phrase) and part.name == "noun" for part in parts)
    in_dollars = "base_currency" not in call.arguments and value.kind in ("amount", "price")
    said = value_phrase(value, nouns, with_unit=in_dollars or not (named or value.kind == "amount"))
    if said is None:
        return None
    if value.kind in ("travel_class", "insurance_type") and parts[0] == Phrase("value"):
        said = said[:1] + said[1:2].upper() + said[2:]  # behind the mark of a value
    words = kind_words(nouns.facts.kind_of(value))
    noun = words.plural if isinstance(value.value, list) and len(value.value) > 1 else words.noun
    texts = {"noun": noun, "value": said}
    return sentence(
        "".join(
            (texts.get(part.name) or lexical(part, nouns.draw))
            if isinstance(part, Phrase)
            else str(part)
            for part in parts
        )
    )


CANDIDATES = 4
TRIES = 14  # wordings of one turn before the plan is given up
# A turn's words: log-normal with BFCL's median of 27 and 90th percentile of 53,
# drawn a little lower, since a request may take more words than were drawn.
MEDIAN_WORDS, SPREAD = 24.5, 0.62
SLIPS, CORRECTIONS = 0.01, 0.01  # per turn


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
        self.pairs: Counter[tuple[str, str]] = Counter()  # pairs of words in earlier turns

    def texts(self) -> list[str]:
        return [self._text(index, turn) for index, turn in enumerate(self.plan.turns)]

    def _text(self, index: int, turn: PlannedTurn) -> str:
        if turn.role == "function_returns":
            return ""
        if turn.role == "missing_value":
            return self._supplement(index, turn)
        target = self.draw.lognormvariate(math.log(MEDIAN_WORDS), SPREAD)
        length = round(min(110.0, max(6.0, target)))
        best: TurnWording | None = None
        best_score, found = -math.inf, 0
        for _ in range(TRIES):
            wording = self._candidate(index, turn, length)
            if wording is None:
                continue
            found += 1
            score = self._novelty(wording.text) - 0.7 * abs(
                math.log(len(wording.text.split()) / length)
            )
            if score > best_score:
                best, best_score = wording, score
            if found == CANDIDATES:
                break
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

    def _novelty(self, text: str) -> float:
        """Return the share of a text's pairs of words that the task has not used yet."""
        pairs = _pairs(text)
        return sum(1 / (1 + self.pairs[pair]) for pair in pairs) / max(1, len(pairs))

    def _taken(self, wording: TurnWording) -> str:
        self.discourse = wording.nouns.discourse
        self.frames |= wording.frames
        self.patterns |= wording.patterns
        self.told = wording.told
        self.pairs.update(_pairs(wording.text))
        text = wording.text
        for chance, change in ((CORRECTIONS, with_correction), (SLIPS, with_slip)):
            if self.draw.random() < chance:
                changed = change(text, self.draw)
                text = text if faults_of(strip_marks(changed), wording.turn) else changed
        return strip_marks(text)

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


def _pairs(text: str) -> list[tuple[str, str]]:
    words = [word for part in carriers(text) for word in part.lower().split()]
    return list(pairwise(words))
