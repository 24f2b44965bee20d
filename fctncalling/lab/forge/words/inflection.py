"""Inflection and spelling: gerunds, articles, capitals, and now and then a slip of the pen."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from fctncalling.lab.forge.words.literals import CLOSE, OPEN

_SHORT = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")  # one syllable, consonant doubled: get, stop
_DOUBLED = frozenset({"submit", "cancel", "transfer", "refer", "begin"})
_ARTICLE = re.compile(rf"\b([Aa]) (?={OPEN}?['\"“]?(?!u[ns][ei]|[Ee]u|one\b|US)[aeiouAEIOU])")
_PARTICLES = {
    "up": "add back bring call fill fire look open pull put set start sum take top wrap write",
    "off": "call cut drop set shut take turn",
    "away": "clear put take throw tidy",
    "out": "find hand print put read send work write",
    "down": "cut jot note put take write",
    "back": "bring give send take",
    "over": "hand look read",
}
_HIGHEST = f"{OPEN}highest{CLOSE}"
_PRIORITY = re.compile(rf"\b(?:an? |the )?priority (?:of |level )?{_HIGHEST}")
_NUMBER_OF = re.compile(r"\b((?:another|a certain|some|the) number)(?= (?:equal parts|people)\b)")
_MARKED = re.compile(f"({OPEN}[^{CLOSE}]*{CLOSE})")
_WORD = re.compile(r"\b[a-z]{5,}\b")


def gerund(verb: str) -> str:
    """Return the -ing form of a verb's base form."""
    if verb == "be":
        return "being"
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    if _SHORT.fullmatch(verb) or verb in _DOUBLED:
        return f"{verb}{verb[-1]}ing"
    return f"{verb}ing"


def gerund_phrase(phrase: str) -> str | None:
    """Return a verb phrase with its verb in the -ing form, None where it has two verbs."""
    if " and " in _MARKED.sub("", phrase) or " then " in phrase:
        return None
    verb, space, rest = phrase.partition(" ")
    return f"{gerund(verb)}{space}{rest}"


def sentence(text: str) -> str:
    """Return a sentence with a capital, "an" before vowels, and one end mark.

    It has "call it off" for "call off it".
    """
    text = _ARTICLE.sub(r"\1n ", text.strip())
    text = _phrasal_verbs().sub(r"\1 \3 \2", text)
    text = _NUMBER_OF.sub(r"\1 of", text)
    text = _PRIORITY.sub(f"the {_HIGHEST} priority", text)
    text = re.sub(rf"([.!?])(['\"”]{CLOSE}?)\.$", r"\1\2", text)
    return text[:1].upper() + text[1:]


@cache
def _phrasal_verbs() -> re.Pattern[str]:
    """Return a pattern of a verb, its particle and a pronoun that has to come before that."""
    forms = {
        particle: "|".join(form for verb in verbs.split() for form in (verb, gerund(verb)))
        for particle, verbs in _PARTICLES.items()
    }
    pairs = "|".join(rf"\b(?:{verbs})(?= {particle} )" for particle, verbs in forms.items())
    return re.compile(rf"({pairs}) ({'|'.join(_PARTICLES)}) (it|them)\b")


def carriers(text: str) -> list[str]:
    """Return the parts of a text that are not values."""
    return _MARKED.split(text)[::2]


def with_slip(text: str, draw: Random) -> str:
    """Return a text in which two letters of one of its own words changed places."""
    parts = _MARKED.split(text)
    places = [
        (index, found)
        for index in range(0, len(parts), 2)
        for found in _WORD.finditer(parts[index])
    ]
    if not places:
        return text
    index, found = draw.choice(places)
    word = found[0]
    at = draw.randrange(1, len(word) - 2)
    slip = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    parts[index] = parts[index][: found.start()] + slip + parts[index][found.end() :]
    return "".join(parts)


_COUNT = re.compile(rf"{OPEN}(\d{{1,3}}){CLOSE}(?= [a-z]+)")


def with_correction(text: str, draw: Random) -> str:
    """Return a text in which the user first gets a small number wrong, if it has one."""
    found = _COUNT.search(text)
    if found is None:
        return text
    right = int(found[1])
    wrong = right + draw.choice((1, 2, 3, 5))
    said = draw.choice((f"{wrong} (no, sorry, {right})", f"{wrong}, no, wait, {right}"))
    return f"{text[: found.start()]}{OPEN}{said}{CLOSE}{text[found.end() :]}"
