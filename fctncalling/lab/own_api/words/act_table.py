"""Acts: what functions do, in the words of those who ask for it, matched to functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.word_tables import split_phrases, word_table

MOODS = ("do", "want", "say", "ask")
IN_NAME = 4.0
AT_THE_FRONT = 3.0  # of the first sentence
IN_SENTENCE = 1.5
ABOUT = 1.5
LEAST = 3.0
NEAR_BEST = 1.6  # below the best score, where an act still belongs to a function
_ENDING = frozenset(
    [
        "cancel",
        "delete",
        "remove",
        "stop",
        "end",
        "close",
        "drop",
        "unsubscribe",
        "disable",
        "deactivate",
        "archive",
        "revoke",
        "reject",
        "block",
        "clear",
        "withdraw",
        "terminate",
        "uninstall",
        "unassign",
    ]
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
        """Return how well it fits a function; 0 where it does not."""
        if self.without and self.without.search(words.told):
            return 0.0
        if self.about and not self.about.search(words.all_words):
            return 0.0
        if not _has(words, self.needs) or not _may_be(words, self.family):
            return 0.0
        sentence = words.sentence.lower()
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


def acts_of_function(words: FunctionWords) -> list[Act]:
    """Return the acts that a function is, the best first; the plainest of its sort for none."""
    scored = [(act.score(words), act) for act in act_table()]
    best = max((score for score, _ in scored), default=0.0)
    floor = max(LEAST, best - NEAR_BEST)
    found = [(score, act) for score, act in scored if score >= floor]
    ordered = [act for _, act in sorted(found, key=lambda pair: -pair[0])]
    return ordered or default_acts(words)


def default_acts(words: FunctionWords) -> list[Act]:
    """Return the default act of a function's verb sort: cancel, look at, list, create."""
    if words.primary is None:
        names = {"look": "list_things", "make": "create"}
    else:
        names = {"end": "cancel", "look": "details", "make": "create"}
    return [act for act in act_table() if act.name == names.get(verb_sort(words))]
