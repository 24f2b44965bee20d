"""Sentences: clauses in a mood ("could you ...?"), joined, linked and explained."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from fctncalling.lab.forge.words.clauses import Clause, lexical, worded
from fctncalling.lab.forge.words.grammar import Phrase, Sequence, carriers, expanded, gerund_phrase
from fctncalling.lab.forge.words.tables import patterns

REGISTERS = ("curt", "plain", "polite")
_MOODS = {
    "do": {"curt": "do_curt", "plain": "do_plain", "polite": "do_polite"},
    "want": {"curt": "want_curt", "plain": "want_plain", "polite": "want_polite"},
    "wish": dict.fromkeys(REGISTERS, "wish_plain"),
    "know": {"curt": "know_plain", "plain": "know_plain", "polite": "know_polite"},
    "ask": dict.fromkeys(REGISTERS, "ask"),
    "say": dict.fromkeys(REGISTERS, "say"),
}
_PLAIN = re.compile(r"(?!next|now|as a|here|kindly|do me)[^:,@]*@")
_GREETING = re.compile(r"^(hello|hi|hey|good (morning|afternoon|evening)|excuse me|dear)\b")


@dataclass(frozen=True)
class Mood:
    """One pattern around a clause."""

    pattern: str

    @property
    def is_plain(self) -> bool:
        """Tell whether words may stand before it: "to know more, could you ...?"."""
        return _PLAIN.match(self.pattern) is not None

    def around(self, text: str) -> str | None:
        """Return the sentence, None where the clause has no gerund and the pattern needs one."""
        if "@ing" not in self.pattern:
            return self.pattern.replace("@", text)
        phrase = gerund_phrase(text)
        return phrase and self.pattern.replace("@ing", phrase)


def mood(
    form: str, register: str, draw: Random, avoid: frozenset[str], *, first: bool, plain: bool
) -> Mood:
    """Return a pattern for a clause of this form.

    Greetings come only in the first words of a task. A `plain` pattern has nothing before its verb
    that a connective would clash with ("quick one: ...").
    """
    options = patterns("sentences")[_MOODS[form][register]]
    for _ in range(6):
        found = worded(draw.choice(options), draw)
        if plain and not _PLAIN.match(found):
            continue
        if found not in avoid and (first or not _GREETING.match(found)):
            break
    else:
        found = "@?" if form == "ask" else "@."
    return Mood(found)


def echoes(pattern: str, text: str) -> bool:
    """Tell whether a pattern says a word of the text that it is put around: "plan to plan"."""
    return not _stems(pattern).isdisjoint(_stems(text))


def _stems(text: str) -> set[str]:
    words = {word for part in carriers(text) for word in _WORD.findall(part.lower())}
    return {word.rstrip("s")[:5] for word in words - _SMALL}


_WORD = re.compile(r"(?<![<\w])[a-z]{4,}(?![\w>])")
# Fmt: skip.
_SMALL = frozenset(
    {
        "that",
        "this",
        "then",
        "them",
        "they",
        "what",
        "when",
        "which",
        "with",
        "from",
        "have",
        "once",
        "after",
    }
)


def drawn(name: str, draw: Random) -> str:
    """Return a wording of a list of sentence patterns."""
    return worded(draw.choice(patterns("sentences")[name]), draw)


def story(class_names: tuple[str, ...], told: set[str], draw: Random) -> str:
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
    return worded(stories[name][index], draw)


def joined(clauses: list[Clause], draw: Random) -> str:
    """Return verb phrases as one."""
    if len(clauses) == 1:
        return clauses[0].text
    places = drawn("pair" if len(clauses) == 2 else "triple", draw).split("@")
    texts = [each.text for each in clauses]
    return "".join(f"{before}{text}" for before, text in zip(places, [*texts, ""], strict=True))


def with_aim(name: str, aim: str, request: str, draw: Random) -> str | None:
    """Return a pattern of aims with the aim in its place; @ stays for the request.

    None where no pattern was found that does not say a word of the aim or of the request again.
    """
    for _ in range(4):
        pattern = "".join(_aims(draw.choice(patterns("sentences")[name]), draw))
        if not echoes(pattern.replace(_AIM, ""), f"{aim} {request}"):
            return pattern.replace(_AIM, aim)
    return None


_AIM = "<aim>"


def _aims(parts: Sequence, draw: Random) -> list[str]:
    return [
        (_AIM if part.name == "aim" else lexical(part, draw))
        if isinstance(part, Phrase)
        else str(part)
        for part in expanded(parts, draw)
    ]


def linked(text: str, link: str) -> str:
    """Return a sentence behind a connective."""
    return f"{link}{'' if link.endswith(',') else ','} {text}"
