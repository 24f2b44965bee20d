"""Wording of one turn: its requested calls as sentences, with what the user tells around them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

from fctncalling.lab.forge.plan import PlannedCall, PlannedTurn
from fctncalling.lab.forge.words.clauses import Clause, aim_clause, clause, token_sentence
from fctncalling.lab.forge.words.grammar import Frame, sentence
from fctncalling.lab.forge.words.noun_phrases import NounPhrases
from fctncalling.lab.forge.words.sentences import (
    Persona,
    add_connective,
    draw_pattern,
    draw_story,
    in_mood,
    is_plain_mood,
    joined,
    mood,
    repeats_words,
    with_aim,
)

_PLEASE = re.compile(r"(please|would|me|check)[.?]$")  # no purpose behind these
_POINTS_BACK = re.compile(r"\b(it|its|them|their|they)\b")
_PURPOSE_FORMS = frozenset({"do", "want", "wish", "know"})  # "list the files so that I can ..."


@dataclass
class AskingSentence:
    """One sentence that asks for calls, and the sentences that add to it."""

    text: str
    form: str
    calls: list[PlannedCall]
    rest: tuple[str, ...] = ()
    is_plain: bool = True  # whether words may stand before it
    explained: bool = False

    @property
    def can_be_explained(self) -> bool:
        """Tell whether "so that I can ..." may follow in the same sentence."""
        return self.form in _PURPOSE_FORMS and not self.explained and not _PLEASE.search(self.text)


@dataclass
class TurnWording:
    """One way to word a turn; values stay marked in its `text`."""

    turn: PlannedTurn
    nouns: NounPhrases
    persona: Persona
    draw: Random
    used: frozenset[Frame]  # in earlier turns of the task
    avoid: frozenset[str]  # patterns of earlier turns
    told: set[str]  # stories of the task
    requests: list[AskingSentence] = field(default_factory=list)
    frames: set[Frame] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    text: str = ""

    def word(self, length: int) -> bool:
        """Word the turn in about `length` words; False where a call cannot be said."""
        groups = self._groups()
        swapped = len(groups) == 2 and self.draw.random() < 0.06 and self._independent(groups)
        for index, group in enumerate(reversed(groups) if swapped else groups):
            made = self._request(group, first=index == 0)
            if made is None:
                return False
            if index:
                final = index == len(groups) - 1
                link = "earlier" if swapped else self._link(group, final=final)
                made.text = add_connective(made.text, draw_pattern(link, self.draw))
            self.requests.append(made)
        for step in self.turn.requested:
            token = token_sentence(step, self.nouns) if step.purpose == "needed_step" else None
            if token is not None:
                self.requests[-1].rest += (token,)
        told = map(self.persona.told, self._surrounded(length))
        self.text = " ".join(map(sentence, told))
        return True

    def _groups(self) -> list[list[PlannedCall]]:
        """Return the calls to say, those of one sentence together."""
        groups: list[list[PlannedCall]] = []
        for call in calls_to_say(self.turn, self.nouns.turn):
            size = 0 if not groups else len(groups[-1])
            if size in (1, 2) and self.draw.random() < (0.5, 0.2)[size - 1]:
                groups[-1].append(call)
            else:
                groups.append([call])
        return groups

    def _independent(self, groups: list[list[PlannedCall]]) -> bool:
        return not any(
            turn in (self.nouns.turn, self.nouns.call_turn)
            for call in groups[1]
            for turn, _ in (*call.depends_on, *_origins(call))
        )

    def _request(self, group: list[PlannedCall], *, first: bool) -> AskingSentence | None:
        """Return the sentence for the calls of a group."""
        lead = self._lead(group[0])
        forms = self.persona.forms(self.draw) if len(group) == 1 else ["do"]
        if lead is not None:
            forms = [form for form in forms if form in ("do", "want", "ask")]
        clauses: list[Clause] = []
        for call in group:
            made = clause(call, forms, self.nouns, self.used | self.frames)
            if made is None:
                return None
            clauses.append(made)
            self.frames.add(made.frame)
            self._note(call)
        text, is_plain = self._moody(clauses, first=first, plain=lead is not None or not first)
        rest = tuple(f"{each}." for made in clauses for each in made.sentences)
        return AskingSentence(
            f"{lead}, {text}" if lead else text, clauses[0].form, group, rest, is_plain
        )

    def _lead(self, call: PlannedCall) -> str | None:
        """Return where the call takes place, said for the steps before it that name a place."""
        for step in _steps_before(self.turn, self.nouns.turn, call):
            made = clause(step, ("lead",), self.nouns, self.used | self.frames)
            if made is not None:
                self.frames.add(made.frame)
                return made.text
        return None

    def _moody(self, clauses: list[Clause], *, first: bool, plain: bool) -> tuple[str, bool]:
        text, form = joined(clauses, self.draw), clauses[0].form
        for _ in range(4):
            register = self.persona.register(self.draw)
            greet = first and self.nouns.turn == 0
            avoid = self.avoid | self.patterns
            pattern = mood(form, register, self.draw, avoid, first=greet, plain=plain)
            made = None if repeats_words(pattern, text) else in_mood(pattern, text)
            if made is not None and not (len(clauses) > 1 and "@ing" in pattern):
                self.patterns.add(pattern)
                return made, is_plain_mood(pattern) and (form != "say" or pattern == "@.")
        return f"{text}{'?' if form == 'ask' else '.'}", True

    def _note(self, call: PlannedCall) -> None:
        for index, each in enumerate(self.turn.requested):
            if each is call:
                self.nouns.note_result(call.function, index)

    def _link(self, group: list[PlannedCall], *, final: bool) -> str:
        """Return which connectives may stand before a sentence."""
        if final and self.draw.random() < 0.25:
            return "last"
        here = any(
            turn in (self.nouns.turn, self.nouns.call_turn)
            for call in group
            for turn, _ in call.depends_on
        )
        return "link" if here or self.draw.random() < 0.55 else "add"

    def _surrounded(self, length: int) -> list[str]:
        """Return all sentences: a story, the requests, and aims about them up to the length."""
        before: list[str] = []
        after: list[str] = []
        calls = [call for each in self.requests for call in each.calls]
        self.draw.shuffle(calls)
        aims, stories = min(2, len(calls)), 1
        while (room := length - self._words([*before, *after])) >= 5 and (aims or stories):
            if stories and (not aims or (room >= 11 and self.draw.random() < 0.6)):
                classes = tuple(call.class_name for call in calls)
                told = f"{draw_story(classes, self.told, self.draw)}."
                before.insert(0, told) if self.draw.random() < 0.9 else after.append(told)
                stories -= 1
            else:
                aims -= 1
                self._explain(calls.pop(), before, after)
        self._address(before)
        if self.draw.random() < 0.05:
            after.append(draw_pattern("close", self.draw))
        requests = [text for each in self.requests for text in (each.text, *each.rest)]
        return [*before, *requests, *after]

    def _explain(self, call: PlannedCall, before: list[str], after: list[str]) -> None:
        """Tell what a call is for, in its sentence or in one of its own."""
        purpose = aim_clause(call, self.nouns)
        if purpose is None:
            return
        request = next(each for each in self.requests if any(call is one for one in each.calls))
        chance, alone = self.draw.random(), len(self.requests) == 1
        first, is_free = request is self.requests[0], not request.explained
        points_back = _POINTS_BACK.search(purpose) is not None
        if chance < 0.3 and first and is_free and request.is_plain and request.form != "want":
            how = "aim_first"
        elif chance < 0.6 and request.can_be_explained:
            how = "aim_after"
        elif chance < 0.8 and first and not points_back:
            how = "aim_sentence_before"
        else:
            how = "aim_sentence_after"
        same = request.text if how in ("aim_first", "aim_after") else ""
        why = (
            None
            if same and repeats_words(purpose, same)
            else with_aim(how, purpose, same, self.draw)
        )
        if why is None:
            return
        if how == "aim_first":
            request.is_plain = False
            request.explained = True
            request.text = why.replace("@", request.text)
        elif how == "aim_after":
            request.explained = True
            space = "" if why.startswith(",") else " "
            request.text = f"{request.text[:-1]}{space}{why}{request.text[-1]}"
        elif how == "aim_sentence_before":
            before.append(why)
        elif alone:
            after.insert(0, why)
        else:
            request.rest += (why,)

    def _address(self, before: list[str]) -> None:
        """Open a later turn as people go on in a talk, now and then."""
        name = "later" if self.nouns.turn else "aside"
        if not self.requests or self.draw.random() >= (0.14 if self.nouns.turn else 0.03):
            return
        if before:
            before[0] = add_connective(before[0], draw_pattern(name, self.draw))
        elif self.requests[0].is_plain:
            self.requests[0].text = add_connective(
                self.requests[0].text, draw_pattern(name, self.draw)
            )

    def _words(self, around: list[str]) -> int:
        texts = [text for each in self.requests for text in (each.text, *each.rest)]
        return sum(len(self.persona.told(text).split()) for text in (*texts, *around))


def calls_to_say(turn: PlannedTurn, number: int) -> list[PlannedCall]:
    """Return the asked calls, and the needed steps whose values no other request says.

    A step that only tells where ("cd") becomes an adverbial of the call behind it instead.
    """
    said = []
    for index, call in enumerate(turn.requested):
        later = [each for each in turn.requested[index + 1 :] if each.purpose == "asked"]
        if call.purpose == "asked" or (
            _has_words(turn, number, index) and not (call.function == "cd" and later)
        ):
            said.append(call)
    return said


def _steps_before(turn: PlannedTurn, number: int, call: PlannedCall) -> list[PlannedCall]:
    """Return the unsaid steps of place between the asked call before this one and this one."""
    steps: list[PlannedCall] = []
    for index, each in enumerate(turn.requested):
        if each is call:
            return steps
        if each.purpose == "asked":
            steps = []
        elif each.function == "cd" and _has_words(turn, number, index):
            steps.append(each)
    return steps


def _has_words(turn: PlannedTurn, number: int, index: int) -> bool:
    """Tell whether a needed step has a value that only words about itself would say."""
    values = [
        value.said
        for value in turn.requested[index].arguments.values()
        if value.provenance in ("said_now", "inferred") and value.said is not None
    ]
    if not values:
        return False
    rest = [call for place, call in enumerate(turn.requested) if place != index]
    others = [value for call in rest for value in call.arguments.values()]
    if all(any(value.said == said for value in others) for said in values):
        return False
    return not any(
        value.provenance == "result"
        and value.kind != "access_token"
        and value.source is not None
        and (value.source.turn, value.source.call) == (number, index)
        for value in others
    )


def _origins(call: PlannedCall) -> list[tuple[int, int]]:
    return [
        (value.source.turn, value.source.call)
        for value in call.arguments.values()
        if value.provenance == "result" and value.source is not None
    ]
