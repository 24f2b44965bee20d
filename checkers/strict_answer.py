"""Strict check of an agentic answer, where BFCL accepts an answer anywhere in the message.

So a text of many likely answers solves many tasks, and the whole memory pasted solves most. A
strict answer says one thing: it stands in the `answer` field where the message has the form that is
asked for (else in the message), is not denied, and brings little, and no number, that neither the
question nor the accepted answer holds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from fctncalling.checkers.agentic import answer_fault, standardize_string
from fctncalling.checkers.python_values import Fault

# of an answer, in neither question nor accepted answer, nor among the common ones
MAX_OTHER_WORDS = 1
MAX_WORDS = 60  # of an answer at all: question words are no licence to repeat it at length
_FORM = re.compile(r"\{\s*['\"]answer['\"]\s*:.*\}", re.DOTALL)
_ANSWER_FIELD = re.compile(
    r"['\"]answer['\"]\s*:\s*(.*?)\s*(?:,\s*['\"]context['\"]\s*:|\}\s*$)", re.DOTALL
)
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
_DENIAL = re.compile(
    r"(?:\b(?:not|never|neither|nor|cannot)|n['\u2019]t)\b\W+(?:\w+\W+){0,2}$", re.IGNORECASE
)
_COMMON_WORDS = """
a about according after again all also am among an and answer any approximately are around as at
based be because been before being believe both but by called can could date day did do does
during each either exact final for from get give given had has have he her here hers him his how
i if in into is it its itself just known made me more most mr mrs ms dr my name named not number
of on or our out over per person place please reported result right said same says several she
should since so some such than that the their them then there therefore these they think this
those thus time to too total under until up us user very was we were what when where which while
who whom whose why will with would year years you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_NUMBER_WORDS = """
zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
million billion
"""
_IN_WORDS = frozenset(_NUMBER_WORDS.split())


def strict_answer_fault(message: Any, accepted: Sequence[Any], question: str) -> Fault | None:
    """Return the strict fault of a final answer that mentions an accepted one."""
    text = answer_field(str(message[0] if isinstance(message, list) and message else message))
    matching = [each for each in accepted if answer_fault(text, [each]) is None]
    if not matching:
        return Fault("strict:answer_outside_field", f"the answer field says {text[:200]!r}")
    exact = [each for each in matching if _number_stands(text, str(each))]
    if not exact:
        return Fault("strict:changed_number", f"{text[:200]!r} holds none of {matching} as it is")
    if all(_is_denied(text, str(each)) for each in exact):
        return Fault("strict:answer_denied", f"{text[:200]!r} denies {exact}")
    words = _words(text)
    explained = {*_COMMON, *_words(" ".join([question, *map(str, accepted)]))}
    explained |= {standardize_string(word) for word in explained}
    others = {word for word in words if word not in explained}
    numbers = {word for word in others if word.isdigit() or word in _IN_WORDS}
    if len(others) > MAX_OTHER_WORDS or len(words) > MAX_WORDS or numbers:
        message = (
            f"an answer of {len(words)} words, {len(others)} of them beside question and answer: "
            f"{text[:200]!r}"
        )
        return Fault("strict:answer_among_others", message)
    return None


def answer_field(text: str) -> str:
    """Return the field "answer" of a message in the form {'answer': ..., 'context': ...}.

    Any other message whole.
    """
    found = _FORM.search(text)
    if found is None:
        return text
    try:
        value = ast.literal_eval(found[0]) if len(found[0]) < 100_000 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if isinstance(value, dict) and "answer" in value:
        return str(value["answer"])
    field = _ANSWER_FIELD.search(found[0])
    return field[1].strip("'\"") if field else text


def _words(text: str) -> list[str]:
    return _WORD.findall(_THOUSANDS.sub("", text.casefold()))


def _number_stands(text: str, answer: str) -> bool:
    """Whether an answer that is a number stands in a text as that number.

    Any other answer may be spelled freely.
    """
    number = _NUMBER.fullmatch(answer.strip(" $€£%").replace(",", ""))
    if number is None:
        return True
    return any(_plain(found) == _plain(number[0]) for found in _NUMBER.findall(text))


def _plain(number: str) -> str:
    plain = number.replace(",", "")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _is_denied(text: str, answer: str) -> bool:
    """Whether every mention of an answer has a denial right before it."""
    mentions = [
        found.start() for found in re.finditer(re.escape(answer.casefold()), text.casefold())
    ]
    return bool(mentions) and all(_DENIAL.search(text[:start]) for start in mentions)
