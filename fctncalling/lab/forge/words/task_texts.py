"""User texts of a plan: its calls as sentences in a user's manner, with stories and aims.

Of several true wordings of each turn that of the drawn length is taken.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn, Value
from fctncalling.lab.forge.words.clauses import (
    SETTING,
    Clause,
    aim_clause,
    clause,
    fill_frame,
    pattern_text,
    token_sentence,
    value_phrase,
)
from fctncalling.lab.forge.words.grammar import (
    Frame,
    carriers,
    gerund_phrase,
    kind_words,
    patterns,
    sentence,
    strip_marks,
)
from fctncalling.lab.forge.words.noun_phrases import Discourse, NounPhrases
from fctncalling.lab.forge.words.turn_check import PlanFacts, faults_of, must_be_said

_FORMS = {"do": 5.0, "want": 2.0, "wish": 1.5, "know": 2.0, "ask": 2.0, "say": 2.0}
_MANNERS = {
    "curt": {"do": 1.5, "want": 1.5, "say": 0.4},
    "polite": {"do": 1.5, "say": 0.7},
    "story": {"say": 1.5},
    "implicit": {"do": 0.4, "know": 1.5, "ask": 2.0, "say": 4.0},
}
_REGISTERS = {"curt": (5, 3, 1), "polite": (1, 2, 5), "story": (2, 3, 3), "implicit": (3, 3, 2)}


_PLACE = re.compile(rf"<({'|'.join(SETTING)})>")
Setting = Mapping[str, tuple[str, ...]]  # phrase -> what it is, and a second one beside it


@dataclass(frozen=True)
class Persona:
    """One user's manner: curt, polite, telling stories, or implicit."""

    manner: str
    mark: str  # quotation mark
    setting: Setting = field(repr=False)

    @classmethod
    def drawn(cls, draw: Random) -> Persona:
        """Return a user."""
        manner, mark = draw.choice(sorted(_MANNERS)), draw.choice(("'", "'", '"'))
        setting: dict[str, tuple[str, ...]] = {}
        for name in SETTING:
            drawn = draw.sample(patterns("lexicon")[name], 2)
            setting[name] = tuple(_placed(pattern_text(each, draw), setting) for each in drawn)
        return cls(manner, mark, setting)

    def told(self, sentence: str) -> str:
        """Return a sentence with this user's project, colleague, ... filled in."""
        return _placed(sentence, self.setting)

    def forms(self, draw: Random) -> list[str]:
        """Return the forms of a request, in the order in which this user tries them."""
        liking = _MANNERS[self.manner]

        def key(form: str) -> float:  # largest first: a weighted order without replacement
            return math.pow(draw.random(), 1 / (_FORMS[form] * liking.get(form, 1.0)))

        return sorted(_FORMS, key=key, reverse=True)

    def pattern(self, form: str, draw: Random) -> str:
        """Return a pattern for a clause of this form, as polite as this user is now."""
        register = draw.choices(REGISTERS, _REGISTERS[self.manner])[0]
        listed = patterns("sentences")
        names = (f"{form}_{register}", f"{form}_plain", form)
        options = next(listed[name] for name in names if name in listed)
        return pattern_text(draw.choice(options), draw)


def _placed(text: str, setting: Setting) -> str:
    times = Counter[str]()

    def put(found: re.Match[str]) -> str:
        times[found[1]] += 1
        return setting[found[1]][min(times[found[1]], 2) - 1]

    return _PLACE.sub(put, text)


REGISTERS = ("curt", "plain", "polite")
_PLAIN = re.compile(r"(?!next|now|as a|here|kindly|do me)[^:,@]*@")
_GREETING = re.compile(r"^(hello|hi|hey|good (morning|afternoon|evening)|excuse me|dear)\b")


def is_plain_mood(pattern: str) -> bool:
    """Return whether words may precede a pattern: "to know more, could you ...?"."""
    return _PLAIN.match(pattern) is not None


def in_mood(pattern: str, text: str) -> str | None:
    """Return a clause in a pattern, None if the pattern needs a gerund that it lacks."""
    if "@ing" not in pattern:
        return pattern.replace("@", text)
    phrase = gerund_phrase(text)
    return phrase and pattern.replace("@ing", phrase)


def repeats_words(pattern: str, text: str) -> bool:
    """Return whether a pattern repeats a word of the text inside it: "plan to plan"."""
    return not _stems(pattern).isdisjoint(_stems(text))


def _stems(text: str) -> set[str]:
    words = {word for part in carriers(text) for word in _WORD.findall(part.lower())}
    return {word.rstrip("s")[:5] for word in words - _SMALL}


_WORD = re.compile(r"(?<![<\w])[a-z]{4,}(?![\w>])")
_SMALL = frozenset("that this then them they what when which with from have once after".split())


def draw_pattern(name: str, draw: Random) -> str:
    """Return a wording of a list of sentence patterns."""
    return pattern_text(draw.choice(patterns("sentences")[name]), draw)


def draw_story(class_names: tuple[str, ...], told: set[str], draw: Random) -> str:
    """Return something that the user tells about their day, or about this kind of work.

    What was `told` in the task is not told again while there is anything else.
    """
    stories = patterns("stories")
    own = [name for name in class_names if name in stories]
    name = draw.choice(own) if own and draw.random() < 0.8 else "any"
    index = 0
    for _ in range(5):
        index = draw.randrange(len(stories[name]))
        if f"{name}/{index}" not in told:
            break
    told.add(f"{name}/{index}")
    return pattern_text(stories[name][index], draw)


def joined(clauses: list[Clause], draw: Random) -> str:
    """Return verb phrases as one."""
    if len(clauses) == 1:
        return clauses[0].text
    places = draw_pattern("pair" if len(clauses) == 2 else "triple", draw).split("@")
    texts = [each.text for each in clauses]
    return "".join(f"{before}{text}" for before, text in zip(places, [*texts, ""], strict=True))


def with_aim(name: str, aim: str, request: str, draw: Random) -> str | None:
    """Return a pattern of aims with the aim in its place; @ stays for the request.

    None where no pattern was found that does not say a word of the aim or of the request again.
    """
    for _ in range(4):
        pattern = draw_pattern(name, draw)
        if not repeats_words(pattern.replace("<aim>", ""), f"{aim} {request}"):
            return pattern.replace("<aim>", aim)
    return None


def _behind(link: str, text: str) -> str:
    """Return a sentence after a connective."""
    return f"{link.rstrip(',')}, {text}"


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

    def distance_to(self, length: int) -> float:
        """Return how far the text is from a number of words."""
        return abs(math.log(len(self.text.split()) / length))

    def word(self, length: int) -> bool:
        """Word the turn in about `length` words; False if a call cannot be said."""
        groups = self._groups()
        for index, group in enumerate(groups):
            made = self._request(group, first=index == 0)
            if made is None:
                return False
            if index:
                link = self._link(group, final=index == len(groups) - 1)
                made.text = _behind(draw_pattern(link, self.draw), made.text)
            self.requests.append(made)
        steps = (step for step in self.turn.requested if step.purpose == "needed_step")
        tokens = (token_sentence(step, self.nouns) for step in steps)
        self.requests[-1].rest += tuple(filter(None, tokens))
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

    def _request(self, group: list[PlannedCall], *, first: bool) -> AskingSentence | None:
        """Return the sentence for the calls of a group."""
        forms = self.persona.forms(self.draw) if len(group) == 1 else ["do"]
        clauses: list[Clause] = []
        for call in group:
            made = clause(call, forms, self.nouns, self.used | self.frames)
            if made is None:
                return None
            clauses.append(made)
            self.frames.add(made.frame)
            self._note(call)
        text, is_plain = self._moody(clauses, first=first)
        rest = tuple(f"{each}." for made in clauses for each in made.sentences)
        return AskingSentence(text, clauses[0].form, group, rest, is_plain)

    def _moody(self, clauses: list[Clause], *, first: bool) -> tuple[str, bool]:
        """Return clauses in a pattern, and whether words may precede it.

        Greetings come only in the first words of a task. Of a later sentence nothing stands before
        the verb that a connective would clash with ("quick one: ...").
        """
        text, form = joined(clauses, self.draw), clauses[0].form
        may_greet, avoid = first and self.nouns.turn == 0, self.avoid | self.patterns
        for _ in range(12):
            pattern = self.persona.pattern(form, self.draw)
            clashes = (not first and not is_plain_mood(pattern)) or pattern in avoid
            if clashes or (not may_greet and _GREETING.match(pattern)):
                continue
            if repeats_words(pattern, text) or (len(clauses) > 1 and "@ing" in pattern):
                continue
            if (made := in_mood(pattern, text)) is not None:
                self.patterns.add(pattern)
                return made, is_plain_mood(pattern) and (form != "say" or pattern == "@.")
        return f"{text}{'?' if form == 'ask' else '.'}", True

    def _note(self, call: PlannedCall) -> None:
        for index, each in enumerate(self.turn.requested):
            if each is call:
                self.nouns.note_result(call.function, index)

    def _link(self, group: list[PlannedCall], *, final: bool) -> str:
        """Return the list of connectives that may precede a sentence."""
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
                self._explain(calls.pop(), before)
        self._address(before)
        if self.draw.random() < 0.05:
            after.append(draw_pattern("close", self.draw))
        requests = [text for each in self.requests for text in (each.text, *each.rest)]
        return [*before, *requests, *after]

    def _explain(self, call: PlannedCall, before: list[str]) -> None:
        """Give the purpose of a call, in its sentence or in a separate one."""
        purpose = aim_clause(call, self.nouns)
        request = next(each for each in self.requests if any(call is one for one in each.calls))
        if purpose is None or request.explained:
            return
        chance, is_first = self.draw.random(), request is self.requests[0]
        if chance < 0.3 and is_first and request.is_plain and request.form != "want":
            how = "aim_first"
        elif chance < 0.6 and request.form in _PURPOSE_FORMS and not _PLEASE.search(request.text):
            how = "aim_after"
        elif chance < 0.8 and is_first and not _POINTS_BACK.search(purpose):
            how = "aim_sentence_before"
        else:
            how = "aim_sentence_after"
        text = request.text if how in ("aim_first", "aim_after") else ""
        if text and repeats_words(purpose, text):
            return
        why = with_aim(how, purpose, text, self.draw)
        if why is None:
            return
        request.explained = text != ""
        if how == "aim_first":
            request.is_plain = False
            request.text = why.replace("@", text)
        elif how == "aim_after":
            request.text = f"{text[:-1]}{'' if why.startswith(',') else ' '}{why}{text[-1]}"
        elif how == "aim_sentence_before":
            before.append(why)
        else:
            request.rest += (why,)

    def _address(self, before: list[str]) -> None:
        """Open a later turn as people go on in a talk, now and then."""
        name, chance = ("later", 0.14) if self.nouns.turn else ("aside", 0.03)
        if not self.requests or self.draw.random() >= chance:
            return
        link = draw_pattern(name, self.draw)
        if before:
            before[0] = _behind(link, before[0])
        elif self.requests[0].is_plain:
            self.requests[0].text = _behind(link, self.requests[0].text)

    def _words(self, around: list[str]) -> int:
        texts = [text for each in self.requests for text in (each.text, *each.rest)]
        return sum(len(self.persona.told(text).split()) for text in (*texts, *around))


def calls_to_say(turn: PlannedTurn, number: int) -> list[PlannedCall]:
    """Return the asked calls, and the needed steps with values that no other request says."""
    return [
        call
        for index, call in enumerate(turn.requested)
        if call.purpose == "asked" or _has_words(turn, number, index)
    ]


def _has_words(turn: PlannedTurn, number: int, index: int) -> bool:
    """Tell whether a needed step has a value that only words about itself would say."""
    rest = [call for at, call in enumerate(turn.requested) if at != index]
    others = [value for call in rest for value in call.arguments.values()]
    said = [each.said for each in turn.requested[index].arguments.values() if must_be_said(each)]
    if all(any(other.said == each for other in others) for each in said):
        return False
    return not any(
        value.provenance == "result"
        and value.kind != "access_token"
        and value.source is not None
        and (value.source.turn, value.source.call) == (number, index)
        for value in others
    )


def supplement(value: Value, call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return a sentence that says the value and its noun."""
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
    """Signal that no wording says a turn of a plan truthfully; the plan is thrown away."""


def user_texts(plan: Plan, variation: int = 0) -> list[str]:
    """Return the user's words, one text a turn, "" for a turn in which a function returns.

    The same for the same plan and variation. CannotSay names a turn for which no frame fits.
    """
    return _TaskWriter(plan, Random(f"{plan.seed}/words/{variation}")).texts()


class _TaskWriter:
    """Writer of one task's words; keeps its mentions, used frames and patterns."""

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
        """Return one true wording of a turn, None if this draw has none."""
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
