"""Questions: the forms in which people ask what a sentence such as "tell where it is" tells."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fctncalling.lab.own_api.english import base_verb
from fctncalling.lab.own_api.words.vocabulary import split_phrases, word_table

_TOLD = re.compile(
    r"(?:tell|show|list|check|see|find out|say|get|return|compute|calculate|estimate)(?: me)? "
    r"((?:how|what|which|where|when|who|whose|whether|if)\b.+)",
    re.IGNORECASE,
)
_NEXT_CLAUSE = re.compile(
    r",? (?:and|or) (?=(?:how|what|which|where|when|who|whether)\b)|, (?=by|with|as)"
)
_SUBJECT = r"(?:an?|the|our|my) [a-z-]+(?: [a-z-]+)?|\{\w+\}"
_AUXILIARY = "is|are|was|were|would|will|can|could|should|must|may"
_PARTS = re.compile(
    rf"(?P<asks>whether|if|where|when|why|who|what|how|how (?:much|many|long|far|often|old)"
    rf"(?: [a-z]+)?|(?:what|which) [a-z]+(?: [a-z]+)?) (?P<subject>{_SUBJECT}) "
    rf"(?P<verb>{_AUXILIARY}|has|have|[a-z]+[a-z]s)(?P<rest>(?: .+)?)"
)


def question_phrases(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield (mood, phrase) of a sentence that tells who, where or how much; none for others."""
    told = _TOLD.match(sentence)
    if told is None:
        return
    clause = _NEXT_CLAUSE.split(told[1], maxsplit=1)[0]
    direct = direct_question(clause)
    for mood, row in word_table("operations")["question"].items():
        for form in split_phrases(row):
            if direct or "{q}" not in form:
                yield mood, form.replace("{c}", clause).replace("{q}", direct)


def direct_question(clause: str) -> str:
    """Return an indirect question as a direct one: "where it is" -> "where is it"; "" if none."""
    parts = _PARTS.fullmatch(clause)
    if parts is None:
        return ""
    asks, subject, verb, rest = parts.group("asks", "subject", "verb", "rest")
    front = "" if asks in ("whether", "if") else f"{asks} "
    if re.fullmatch(_AUXILIARY, verb):
        return f"{front}{verb} {subject}{rest}"
    does = "do" if verb == "have" else "does"
    return f"{front}{does} {subject} {base_verb(verb)}{rest}"
