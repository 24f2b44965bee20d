"""Frames: the phrases in which a function can be asked for, with slots for its parameters."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fctncalling.lab.own_api.words.act_table import MOODS, Act, acts_of_function, default_acts
from fctncalling.lab.own_api.words.doc_sentence import (
    EXPLAINED,
    direct_question,
    sentence_and_short_form,
    with_parameter_slots,
)
from fctncalling.lab.own_api.words.function_words import FunctionWords

SLOT = re.compile(r"\{(\w+)\}")
FEW_FRAMES = 10  # of its own acts, below which a function gets those of the plainest one too
SHARED = "is a phrase for two functions"


@dataclass(frozen=True)
class RequestFrame:
    """A phrase of one function; `mood` says how it is wrapped, `source` where it comes from."""

    function: str
    mood: str  # do, want, say, ask
    text: str
    source: str  # doc, act:NAME or file

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters it has slots for."""
        return tuple(SLOT.findall(self.text))

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.function}/{self.mood}/{self.text}"


def frames_of_function(words: FunctionWords) -> list[RequestFrame]:
    """Return the frames of a function: of its description, and of the acts that it is."""
    name = words.doc.name
    found = [RequestFrame(name, mood, text, "doc") for mood, text in _doc_phrases(words)]
    belonging = acts_of_function(words)
    of_acts = _act_frames(words, belonging)
    if len(of_acts) < FEW_FRAMES:
        plain = [act for act in default_acts(words) if act not in belonging]
        of_acts += _act_frames(words, plain)
    found += of_acts
    return list({each.key: each for each in found}.values())


def _act_frames(words: FunctionWords, acts: Sequence[Act]) -> list[RequestFrame]:
    return [
        RequestFrame(words.doc.name, mood, text, f"act:{act.name}")
        for act in acts
        for mood in MOODS
        for phrase in act.phrases.get(mood, ())
        if (text := _with_slots(phrase, words))
    ]


def _doc_phrases(words: FunctionWords) -> list[tuple[str, str]]:
    nouns = {name: words.nouns(name) for name in words.kinds}
    if words.primary is not None and words.thing_nouns():
        nouns[words.primary] = (*nouns[words.primary], *words.thing_nouns())
    found: list[tuple[str, str]] = []
    sentences = sentence_and_short_form(words.sentence)
    if words.primary is not None and words.kinds[words.primary].kind == "person_name":
        somebody = re.compile(r"\bsome(?:body|one)\b")
        sentences = [somebody.sub(f"{{{words.primary}}}", each) for each in sentences]
    texts = [with_parameter_slots(sentence, nouns) for sentence in sentences]
    slots = set(SLOT.findall(texts[0]))
    # What is cut must say as much, and a listed value must not stand in a phrase for all of them.
    texts = [each for each in texts if set(SLOT.findall(each)) == slots]
    texts = [each for each in texts if not EXPLAINED.search(each)] or texts[-1:]
    listed = {str(value).lower() for kind in words.kinds.values() for value in kind.values}
    texts = [each for each in texts if not listed & set(each.lower().split())] or texts[-1:]
    # The shortest of those that begin alike: an aside behind a comma is no request.
    for text in [each for each in texts if not any(each.startswith(f"{o},") for o in texts)]:
        found.append(("do", text))
        asked = direct_question(text)
        if asked is not None:
            found.append(("ask", asked))
    return list(dict.fromkeys(found))


def _with_slots(phrase: str, words: FunctionWords) -> str | None:
    """Return an act's phrase with slots of the function; None where it lacks one."""
    roles = {"who": words.other_person, "what": words.fault, "much": words.amount}
    for role, parameter in roles.items():
        if f"{{{role}}}" in phrase:
            if parameter is None:
                return None
            phrase = phrase.replace(f"{{{role}}}", f"{{{parameter}}}")
    if "{x}" in phrase:
        if words.primary is None:
            if re.match(r"\{x\}|.*\b(?:has|with|of|for|up|out) \{x\}", phrase):
                return None  # speaks of a certain thing
            phrase = phrase.replace("{x}", "{a}")
        else:
            phrase = phrase.replace("{x}", f"{{{words.primary}}}")
    is_numbered = words.primary and words.kinds[words.primary].kind == "identifier"
    if is_numbered and words.noun in words.thing_nouns():
        # "A member" beside "member 214" would be two.
        phrase = phrase.replace("{a}", f"{{{words.primary}}}")
    if re.search(r"\{a?o\}", phrase) and not words.object_of_name:
        return None
    return words.filled(phrase)


def without_shared_frames(
    frames: Mapping[str, Sequence[RequestFrame]], words: Mapping[str, FunctionWords]
) -> tuple[dict[str, list[RequestFrame]], Counter[str]]:
    """Return the frames of all functions without those that two of them share, and what went.

    Shared are those that read the same where things of the same noun or shape are put in. A
    function keeps what its description gives it.
    """
    counts = Counter(
        mark
        for name, each in frames.items()
        for mark in {_mark(frame, words[name]) for frame in each}
    )
    gone: Counter[str] = Counter()
    kept: dict[str, list[RequestFrame]] = {}
    for name, each in frames.items():
        kept[name] = [
            frame
            for frame in each
            if counts[_mark(frame, words[name])] == 1 or frame.source in ("doc", "file")
        ]
        gone[SHARED] += len(each) - len(kept[name])
    return kept, gone


def _mark(frame: RequestFrame, words: FunctionWords) -> str:
    """Return a frame with the shapes of its values in place of its slots."""

    def shape(found: re.Match[str]) -> str:
        kind = words.kinds[found[1]]
        told = kind.pattern or kind.format or (kind.examples[:1] or ("",))[0]
        return f"<{kind.kind} {told}>"

    return f"{frame.mood} {SLOT.sub(shape, frame.text)}"


def split_held_out_frames(
    frames: Sequence[RequestFrame],
) -> tuple[list[RequestFrame], list[RequestFrame]]:
    """Return (frames to learn from, frames held out): of each function the eighth by its hash."""
    ordered = sorted(frames, key=lambda each: hashlib.sha256(each.key.encode()).digest())
    count = max(1, len(ordered) // 8) if len(ordered) > 1 else 0
    return ordered[count:] or ordered, ordered[:count] or ordered


def act_families(acts: Sequence[Act]) -> frozenset[str]:
    """Return the families of acts."""
    return frozenset(each.family for each in acts)
