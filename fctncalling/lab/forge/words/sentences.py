"""Personas, and sentences: clauses in a mood ("could you ...?"), joined, linked, explained."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from fctncalling.lab.forge.words.clauses import SETTING, Clause, lexical, pattern_text
from fctncalling.lab.forge.words.grammar import (
    Phrase,
    Sequence,
    carriers,
    expand_choices,
    gerund_phrase,
    patterns,
)

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
    """One user's manner: curt, polite, telling stories, or implying what they want."""

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
        """Return a sentence with this user's own project, colleague, ... in their places."""
        return _placed(sentence, self.setting)

    def forms(self, draw: Random) -> list[str]:
        """Return the forms of a request, in the order in which this user tries them."""
        liking = _MANNERS[self.manner]
        # Weighted order without replacement: the keys u ** (1 / weight), largest first.
        keys = {
            form: draw.random() ** (1 / (weight * liking.get(form, 1.0)))
            for form, weight in _FORMS.items()
        }
        return sorted(keys, key=keys.__getitem__, reverse=True)

    def register(self, draw: Random) -> str:
        """Return how polite the next sentence is."""
        return draw.choices(REGISTERS, _REGISTERS[self.manner])[0]


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
    """Tell whether words may stand before a pattern: "to know more, could you ...?"."""
    return _PLAIN.match(pattern) is not None


def in_mood(pattern: str, text: str) -> str | None:
    """Return a clause in a pattern, None where it has no gerund and the pattern needs one."""
    if "@ing" not in pattern:
        return pattern.replace("@", text)
    phrase = gerund_phrase(text)
    return phrase and pattern.replace("@ing", phrase)


def mood(
    form: str, register: str, draw: Random, avoid: frozenset[str], *, first: bool, plain: bool
) -> str:
    """Return a pattern for a clause of this form.

    Greetings come only in the first words of a task. A `plain` pattern has nothing before its verb
    that a connective would clash with ("quick one: ...").
    """
    listed = patterns("sentences")
    names = (f"{form}_{register}", f"{form}_plain", form)
    options = next(listed[name] for name in names if name in listed)
    for _ in range(6):
        found = pattern_text(draw.choice(options), draw)
        if plain and not is_plain_mood(found):
            continue
        if found not in avoid and (first or not _GREETING.match(found)):
            break
    else:
        found = "@?" if form == "ask" else "@."
    return found


def repeats_words(pattern: str, text: str) -> bool:
    """Tell whether a pattern says a word of the text that it is put around: "plan to plan"."""
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
        pattern = "".join(_aims(draw.choice(patterns("sentences")[name]), draw))
        if not repeats_words(pattern.replace(_AIM, ""), f"{aim} {request}"):
            return pattern.replace(_AIM, aim)
    return None


_AIM = "<aim>"


def _aims(parts: Sequence, draw: Random) -> list[str]:
    return [
        (_AIM if part.name == "aim" else lexical(part, draw))
        if isinstance(part, Phrase)
        else str(part)
        for part in expand_choices(parts, draw)
    ]


def add_connective(text: str, link: str) -> str:
    """Return a sentence behind a connective."""
    return f"{link}{'' if link.endswith(',') else ','} {text}"
