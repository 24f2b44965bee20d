"""Frames: the phrases in which a function can be asked for, with slots for its parameters.

They come from the acts that a function is (cancel, list, book), from the first sentence of its
description and from the user's own file.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fctncalling.lab.own_api.api_part import tell_passed_over
from fctncalling.lab.own_api.english import with_articles_as_written
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.doc_sentence import ASIDE, with_parameter_slots
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.vocabulary import split_phrases, word_table
from fctncalling.specification.api import OwnApi, SpecificationError

MOODS = ("do", "want", "say", "ask")
IN_NAME = 4.0
AT_THE_FRONT = 3.0  # of the first sentence
IN_SENTENCE = 1.5
ABOUT = 1.5
LEAST = 3.0
NEAR_BEST = 1.6  # below the best score, where an act still belongs to a function
_ENDING = frozenset(
    "cancel delete remove stop end close drop unsubscribe disable deactivate archive revoke "
    "reject block clear withdraw terminate uninstall unassign".split()
)
_LOOKING = frozenset(
    "list find search show read count track view fetch lookup browse describe retrieve".split()
)
_MAKING = frozenset("book create add make order register reserve schedule rent enrol lend".split())
_TELLING = frozenset(
    "enter note log record credit report submit save send inform notify warn join jot file".split()
)
_SORTS = {"end": _ENDING, "look": _LOOKING, "make": _MAKING, "record": _TELLING}


@dataclass(frozen=True)
class Act:
    """Kind of act that a function does (cancel, list, book), with the phrases that ask for it."""

    name: str
    match: re.Pattern[str]
    about: re.Pattern[str] | None
    without: re.Pattern[str] | None
    needs: str  # what the function has to have: owner, thing, nothing, ...
    family: str
    phrases: Mapping[str, tuple[str, ...]]

    def score(self, words: FunctionWords) -> float:
        """Return how well it fits a function; 0 if it does not."""
        if self.without and self.without.search(words.told):
            return 0.0
        if self.about and not self.about.search(words.all_words):
            return 0.0
        if not _has(words, self.needs) or not _may_be(words, self.family):
            return 0.0
        if self.needs != "owner" and not _acts_on_thing(words):
            return 0.0
        sentence = words.sentence.lower()
        if words.method and words.operation and not self.match.match(sentence):
            return 0.0  # a noun of many operations: "append block children" blocks nothing
        if self.match.search(words.name_words):
            found = IN_NAME
        elif (at := self.match.search(sentence)) and at.start() == 0:
            found = AT_THE_FRONT
        else:
            found = IN_SENTENCE if at else 0.0
        return found + (ABOUT if found and self.about else 0.0)


def _may_be(words: FunctionWords, family: str) -> bool:
    """Return whether a function's verb allows a family: to cancel a repair is not to repair."""
    verb = verb_sort(words)
    if verb == "end":
        return family in ("end", "return", "change")
    if verb == "look":
        return family in ("look", "measure")
    return verb not in ("make", "record") or family not in ("end", "look")


def _acts_on_thing(words: FunctionWords) -> bool:
    """Return whether the function acts on the named thing, not on a part of it."""
    operation = words.operation
    if operation is None or words.primary is None or operation.own == words.primary:
        return True
    return not words.method and not operation.owners


def verb_sort(words: FunctionWords) -> str:
    """Return the sort of a function's verb: end, look, make, record, or "" for others.

    The description's verb comes first: the name `book_details` begins with none.
    """
    for verb in (words.verb, words.name_words.split(" ")[0]):
        for sort, verbs in _SORTS.items():
            if verb in verbs:
                return sort
        if verb == "tell":
            return ""
    return ""


def _has(words: FunctionWords, needs: str) -> bool:
    primary = words.primary
    kind = words.kinds[primary] if primary else None
    if needs == "nothing":
        return primary is None
    if needs == "person_name":
        return kind is not None and kind.kind == "person_name"
    if needs == "no_person":
        return kind is None or kind.kind != "person_name"
    if needs == "owner":
        nouns = words.nouns(primary)[:1] if primary else ()
        return (
            primary is not None and words.is_person(primary) and words.noun_of_sentence not in nouns
        )
    if needs == "no_fault":
        return words.fault is None
    if needs == "thing":
        return primary is not None and kind is not None and kind.kind != "person_name"
    return True


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
    """Return the acts that a function is, the best first, its operation's sort at the end."""
    scored = [(act.score(words), act) for act in act_table()]
    best = max((score for score, _ in scored), default=0.0)
    floor = max(LEAST, best - NEAR_BEST)
    found = [(score, act) for score, act in scored if score >= floor]
    ordered = [act for _, act in sorted(found, key=lambda pair: -pair[0])]
    sort = words.operation.sort if words.operation else "other"
    family = "look" if sort == "search" else sort
    plain = Act(sort, re.compile(r"(?!)"), None, None, "", family, {})  # has no phrases
    return ordered if sort == "other" else [*ordered, plain]


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
    """Return the frames of a function: of its operation or sentence, and of its acts.

    Phrases of acts say an HTTP operation only where no plain one says as little: nobody hands
    money to a booking.
    """
    name = words.doc.name
    plain = words.operation.phrases() if words.operation else _doc_phrases(words)
    found = [RequestFrame(name, mood, text, "doc") for mood, text in plain]
    said = [{*frame.parameters} for frame in found] if words.method else []
    for frame in _act_frames(words, acts_of_function(words)):
        if not any(slots <= {*frame.parameters} for slots in said):
            found.append(frame)
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


def _act_frames(words: FunctionWords, acts: Sequence[Act]) -> list[RequestFrame]:
    return [
        RequestFrame(words.doc.name, mood, text, f"act:{act.name}")
        for act in acts
        for mood in MOODS
        for phrase in act.phrases.get(mood, ())
        if (text := _with_slots(phrase, words))
    ]


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
    return [("do", short if says_as_much else whole)]


def _with_slots(phrase: str, words: FunctionWords) -> str | None:
    """Return an act's phrase with slots of the function; None if it lacks one."""
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
