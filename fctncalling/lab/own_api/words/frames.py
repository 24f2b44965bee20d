"""Frames: the phrases in which a function can be asked for, with slots for its parameters.

They come from the acts that a function is (cancel, list, book), from the first sentence of its
description and from the user's own file.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fctncalling.lab.own_api.api_part import tell_passed_over
from fctncalling.lab.own_api.english import with_articles_as_written
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.doc_sentence import ASIDE, with_parameter_slots
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.questions import question_phrases
from fctncalling.lab.own_api.words.vocabulary import split_phrases, word_table
from fctncalling.specification.api import OwnApi, SpecificationError

MOODS = ("do", "want", "say", "ask")


@dataclass(frozen=True)
class Act:
    """Kind of act that a function does (cancel, list, book), with the phrases that ask for it."""

    name: str
    match: re.Pattern[str]
    about: re.Pattern[str] | None
    without: re.Pattern[str] | None
    needs: str  # what the function has to have: thing, person_name or nothing; "": whatever
    family: str
    phrases: Mapping[str, tuple[str, ...]]

    def fits(self, words: FunctionWords) -> bool:
        """Return whether it is what a function's name or sentence begins with."""
        if not (self.match.match(words.name_words) or self.match.match(words.sentence.lower())):
            return False
        if self.without and self.without.search(words.told):
            return False
        if self.about and not self.about.search(words.all_words):
            return False
        kind = words.kinds[words.primary].kind if words.primary else "nothing"
        had = kind if kind in ("person_name", "nothing") else "thing"
        return self.needs in ("", had)


@cache
def act_table() -> tuple[Act, ...]:
    """Return all acts of the table."""
    return tuple(
        Act(
            name,
            _pattern(row["match"]),
            _pattern(row["about"]) if "about" in row else None,
            _pattern(row["not"]) if "not" in row else None,
            row.get("with", ""),
            row["family"],
            {mood: split_phrases(row[mood]) for mood in MOODS if mood in row},
        )
        for name, row in word_table("acts").items()
    )


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{text})(?:e?s|e?d|ing)?\b", re.IGNORECASE)


@cache
def acts_of_function(words: FunctionWords) -> list[Act]:
    """Return the acts that a function is, its operation's sort at the end.

    An operation has none whose thing is not its own: nobody hands money to a booking.
    """
    found = [act for act in act_table() if act.fits(words)]
    sort = words.operation.sort if words.operation else "other"
    family = "look" if sort == "search" else sort
    plain = Act(sort, re.compile(r"(?!)"), None, None, "", family, {})  # has no phrases
    return found if sort == "other" else [*found, plain]


SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class RequestFrame:
    """A phrase of one function; `mood` decides its wrapping, `source` is its origin.

    `says`: the parameter whose value it says behind other phrases; "" for a whole phrase.
    """

    function: str
    mood: str  # do, want, say, ask
    text: str
    source: str  # doc, act:NAME or file
    says: str = ""
    is_users: bool = False  # written by the user

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters it has slots for."""
        return tuple(SLOT.findall(self.text))

    @property
    def key(self) -> str:
        """What tells it from all others, as a phrases file has it."""
        return f"{self.function}/{self.mood}/{self.text.strip().rstrip('?')}"


def frames_of_function(words: FunctionWords) -> list[RequestFrame]:
    """Return the frames of a function: of its operation or sentence, and of its acts."""
    name = words.doc.name
    plain = [*words.operation.phrases()] if words.operation else _doc_phrases(words)
    plain += _changing_phrases(words)
    found = [RequestFrame(name, mood, text, "doc") for mood, text in plain]
    found += [
        RequestFrame(name, mood, text, f"act:{act.name}")
        for act in acts_of_function(words)
        for mood in MOODS
        for phrase in act.phrases.get(mood, ())
        if (text := _with_slots(phrase, words, act))
    ]
    return list({frame.key: frame for frame in found}.values())


def with_own_frames(
    ours: Sequence[RequestFrame], own: Sequence[RequestFrame]
) -> list[RequestFrame]:
    """Return our frames with the user's before them.

    What a list lost of ours is left out, and what it kept is as it was; where all that it has is
    the user's own, that alone is said. One without phrases leaves ours as they are.
    """
    known, listed = {frame.key for frame in ours}, {frame.key for frame in own}
    kept = [frame for frame in ours if frame.key in listed] if own else ours
    return [*(frame for frame in own if frame.key not in known), *kept]


def _doc_phrases(words: FunctionWords) -> list[tuple[str, str]]:
    """Return (mood, phrase) of a function's sentence, without the aside that it may end with."""
    nouns = {name: words.nouns(name) for name in words.kinds}
    if words.primary is not None and words.thing_nouns():
        nouns[words.primary] = (*nouns[words.primary], *words.thing_nouns())
    sentence = words.sentence
    if words.primary is not None and words.kinds[words.primary].kind == "person_name":
        sentence = re.sub(r"\bsome(?:body|one)\b", f"{{{words.primary}}}", sentence)
    whole = with_parameter_slots(sentence, nouns)
    short = ASIDE.split(whole, maxsplit=1)[0]
    says_as_much = len(short.split()) > 1 and {*SLOT.findall(short)} == {*SLOT.findall(whole)}
    text = short if says_as_much else whole
    if questions := [*question_phrases(text)]:
        return questions
    if shown := re.match(
        r"(?:(?:show|tell)(?: me)?|list|get|display|view) (?=the |all |our |your |every)", text
    ):
        return [*_filled_row("shown", {"t": text[shown.end() :]})]
    return [*_filled_row("plain", {"p": text})]


def _filled_row(row: str, parts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (mood, phrase) of a row of the table of operations."""
    for mood, forms in word_table("operations")[row].items():
        for form in split_phrases(forms):
            yield mood, re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], form)


def _changing_phrases(words: FunctionWords) -> list[tuple[str, str]]:
    """Return phrases that name what is changed: "set the {label} of {thing} to {new value}"."""
    operation = words.operation
    if operation is None or operation.sort != "change" or operation.own is None:
        return []
    thing = " ".join([f"{{{operation.own}}}", *operation.owners])
    return [
        phrase
        for name, kind in words.kinds.items()
        if not words.is_placed(name) and kind.kind not in _NESTED and len(words.label(name)) > 1
        for phrase in _filled_row(
            "change_value", {"t": thing, "l": words.label(name), "v": f"{{{name}}}"}
        )
    ]


_NESTED = frozenset({"boolean", "array", "object", "one_of", "unknown", "client"})


_MAKING = ("make", "send")  # families of acts whose thing is what comes of them
_ABOUT_ANOTHER = ("change", "claim")  # whose thing a settings' or a claim's number tells


def _with_slots(phrase: str, words: FunctionWords, act: Act) -> str | None:
    """Return an act's phrase with slots of the function; None if it lacks one."""
    person, primary = words.other_person, words.primary
    if person is None and "{who}" in phrase:
        return None
    if operation := words.operation:  # of which the thing that is named may be a part
        is_apart = operation.own is None and (
            act.family in _ABOUT_ANOTHER if words.method else act.family not in _MAKING
        )
        if "{x}" in phrase and primary and operation.own != primary and not is_apart:
            return None
    if primary is None and re.match(r"\{x\}|.*\b(?:has|with|of|for|up|out) \{x\}", phrase):
        return None  # speaks of a certain thing
    slot = f"{{{primary}}}" if primary else "{a}"
    phrase = phrase.replace("{who}", f"{{{person}}}").replace("{x}", slot)
    if primary and words.kinds[primary].kind == "identifier" and words.noun in words.thing_nouns():
        phrase = phrase.replace("{a}", slot)  # "A member" beside "member 214" would be two
    return words.filled(phrase)


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


_HEAD = """\
# Phrases for the functions of an API; unchanged, this file changes nothing. Lines that you remove
# are not used, and lines of your own are said the more often; a function with lines of your own
# alone is asked for in these alone, and one without any line in ours. Fewer than four lines of
# your own are all learned from, of more some are for --held_out. {parameter} is where a value of it
# stands; parameters that a phrase leaves out are said behind it. A number stands behind its noun
# ("cancel {id}": "cancel booking 214"). do = orders, want = what follows "I'd like to", say =
# statements, ask = questions without their mark. (find|list) is either word.
# How a value is said behind a phrase stands in the function's table, of a number, text or day:
#   clauses.city = ["in {}"]
# and of one value, as yes and no, which have no {}: clauses.breakfast = ["true = with breakfast"]
# The table ["*"] is for all functions.
"""


def write_phrases(path: Path, frames: Mapping[str, Sequence[RequestFrame]]) -> None:
    """Write the frames of each function, a table a function."""
    lines = [_HEAD]
    for function, each in frames.items():
        lines.append(f"[{json.dumps(function)}]" if "." in function else f"[{function}]")
        for mood in MOODS:
            texts = [frame.text for frame in each if frame.mood == mood]
            if texts:
                items = "".join(f"  {json.dumps(text, ensure_ascii=False)},\n" for text in texts)
                lines.append(f"{mood} = [\n{items}]")
        lines.append("")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")
    except OSError as error:
        raise SpecificationError(f"--write_phrases {path}: {error.strerror}") from None


def read_phrases(
    path: Path, api: OwnApi, kinds: Mapping[tuple[str, str], ArgumentKind]
) -> dict[str, list[RequestFrame]]:
    """Return the user's frames by function; SpecificationError names any that does not fit."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecificationError(f"--phrases {path}: cannot be read: {error}") from None
    parameters: dict[str, set[str]] = {doc.name: set() for doc in api.functions}
    for function, name in kinds:
        parameters[function].add(name)
    where = f"--phrases {path}"
    lacked = {name: table for name, table in found.items() if name in api.not_chosen}
    frames_of_tables(lacked, api.not_chosen, where)  # as sound as the others
    tell_passed_over(where, lacked)
    chosen = {name: table for name, table in found.items() if name not in lacked}
    return {
        name: [replace(frame, is_users=True) for frame in frames]
        for name, frames in frames_of_tables(chosen, parameters, where).items()
    }


def frames_of_tables(
    tables: Mapping[str, Any], parameters: Mapping[str, Collection[str]], where: str
) -> dict[str, list[RequestFrame]]:
    """Return the frames of phrase tables by function; `parameters`: those of each function."""
    general = _frames_of_table("*", tables.get("*", {}), where)
    frames: dict[str, list[RequestFrame]] = {}
    for function, table in tables.items():
        place = f"{where}: {function}"
        if function == "*":
            continue
        if function not in parameters:
            raise SpecificationError(f"{place}: there is no such function")
        frames[function] = own = _frames_of_table(function, table, place)
        for frame in own:
            for slot in [*frame.parameters, *filter(None, [frame.says.partition(".")[0]])]:
                if slot not in parameters[function]:
                    raise SpecificationError(f"{place}: {frame.text!r:.60}: no parameter {slot}")
        said = {frame.says for frame in own}
        own += [each for each in general if each.says in {*parameters[function]} - said]
    return frames


def _frames_of_table(function: str, table: Any, where: str) -> list[RequestFrame]:
    moods = {"clauses": {}, **table} if isinstance(table, dict) else {"": None}
    clauses = moods.pop("clauses")
    if not moods.keys() <= {*MOODS} or not isinstance(clauses, dict):
        raise SpecificationError(f"{where}: expected lists named {', '.join(MOODS)}")
    listed = [(mood, "", texts) for mood, texts in moods.items()]
    listed += [("clauses", name, texts) for name, texts in clauses.items()]
    frames = []
    for mood, says, texts in listed:
        if not isinstance(texts, list) or not all(isinstance(t, str) and t.strip() for t in texts):
            raise SpecificationError(f"{where}.{says or mood}: expected a list of phrases")
        for text in (each for whole in texts for each in _alternatives(whole.strip())):
            frames.append(RequestFrame(function, mood, text.rstrip("?"), "file", says))
    return frames


def clauses_of_frames(frames: Sequence[RequestFrame]) -> dict[str, list[str]]:
    """Return the clauses among a function's frames by the parameter that they say."""
    found: dict[str, list[str]] = {}
    for each in frames:
        if each.says:
            text = with_articles_as_written(each.text) if each.is_users else each.text
            found.setdefault(each.says, []).append(text)
    return found


def _alternatives(text: str) -> list[str]:
    """Return the phrases that "(a|b)" in one expands to."""
    if not (choice := re.search(r"\(([^()]*\|[^()]*)\)", text)):
        return [text]
    before, behind = text[: choice.start()], text[choice.end() :]
    return [
        each for word in choice[1].split("|") for each in _alternatives(f"{before}{word}{behind}")
    ]
