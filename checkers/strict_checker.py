"""Strict checker of calls and of agentic answers: refuses what BFCL is lenient about.

Of string arguments BFCL drops blanks and , . / - _ * ^ before it compares, so "1.2" passes for "12"
and "---" for an omitted text. Here letter case, kinds of quotes, blanks around punctuation and a
full stop at the end do not matter; all else does.

BFCL accepts an agentic answer anywhere in the message, so a text of many likely answers solves many
tasks, and the whole memory pasted solves most. A strict answer says one thing: it stands in the
`answer` field where the message has the form that is asked for (else in the message), is not
denied, and brings little, and no number, that neither the question nor the accepted answer holds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fctncalling.checkers import ARGUMENT_CHECKERS, calls_fault
from fctncalling.checkers.agentic import answer_fault
from fctncalling.checkers.java_values import JAVA_ARGUMENTS
from fctncalling.checkers.javascript_values import JAVASCRIPT_ARGUMENTS
from fctncalling.checkers.python_values import Accepted, Fault, short_repr, standardize_string
from fctncalling.data.types import Task

_BLANKS_AT_PUNCTUATION = re.compile(r"\s*([^\w\s])\s*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# of an answer, in neither question nor accepted answer, nor among the common ones
MAX_OTHER_WORDS = 1
MAX_WORDS = 60  # of an answer at all: question words are no licence to repeat it at length
_FORM = re.compile(r"\{\s*['\"]answer['\"]\s*:.*\}", re.DOTALL)
_ANSWER_FIELD = re.compile(
    r"['\"]answer['\"]\s*:\s*(.*?)\s*(?:,\s*['\"]context['\"]\s*:|\}\s*$)", re.DOTALL
)
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
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


def normalize_text(text: str) -> str:
    """Normalize a text for comparison: letter case, quotes, blanks at punctuation and ends."""
    quoted = text.casefold().replace("'", '"')
    return _BLANKS_AT_PUNCTUATION.sub(r"\1", " ".join(quoted.split())).rstrip(".!?")


def strict_calls_fault(task: Task, record: Any, *, underscore_to_dot: bool = False) -> Fault | None:
    """Return the first leniency that calls accepted by BFCL relied on.

    None if they relied on none, or if BFCL refuses them.
    """
    language = task.language
    forgiven: list[Fault] = []

    def argument_fault(
        parameter: str, value: Any, declared: Mapping[str, Any], accepted: Accepted
    ) -> Fault | None:
        official = ARGUMENT_CHECKERS[language](parameter, value, declared, accepted)
        if official is not None:
            return official
        fault = _text_fault(parameter, _as_python(value, declared, language), accepted)
        forgiven.extend([fault] if fault else [])
        return fault

    refused = calls_fault(
        task,
        record,
        task.ground_truth or (),
        underscore_to_dot=underscore_to_dot,
        argument_fault=argument_fault,
    )
    return forgiven[0] if refused and forgiven else None


def _as_python(value: Any, declared: Mapping[str, Any], language: str) -> Any:
    """Convert an argument's source text to the Python value."""
    if language == "python":
        return value
    source = JAVA_ARGUMENTS if language == "java" else JAVASCRIPT_ARGUMENTS
    argument = source.prepare_argument(value, declared)
    return value if isinstance(argument, Fault) else argument.value


def _text_fault(parameter: str, value: Any, accepted: Accepted) -> Fault | None:
    """Return the fault of an argument that BFCL accepts although no accepted value is the same."""
    if any(_same(value, alternative) for alternative in _alternatives(accepted)):
        return None
    texts = list(_texts(value))
    accepted_texts = list(_texts(list(_alternatives(accepted))))
    message = (
        f"parameter {parameter!r}: {short_repr(value)} is {short_repr(accepted)} "
        "only without punctuation"
    )
    for text in texts:
        if not standardize_string(text) and text.strip():
            return Fault("strict:punctuation_for_nothing", message)
    if not texts:
        return None  # no text in it: what BFCL forgives of other types is not looked at
    numbers_by_text = {standardize_string(text): _NUMBER.findall(text) for text in accepted_texts}
    changed = any(
        _NUMBER.findall(text) != numbers_by_text.get(standardize_string(text), []) for text in texts
    )
    return Fault("strict:changed_number" if changed else "strict:dropped_punctuation", message)


def _alternatives(accepted: Any) -> Iterator[Any]:
    yield from accepted if isinstance(accepted, list | tuple) else [accepted]


def _same(value: Any, accepted: Any) -> bool:
    """Whether a value is the same as an accepted one.

    An accepted dict maps each key to a list of accepted values.
    """
    if isinstance(value, str):
        return isinstance(accepted, str) and normalize_text(value) == normalize_text(accepted)
    if isinstance(value, Mapping) and isinstance(accepted, Mapping):
        return all(
            key in accepted and any(_same(item, choice) for choice in _alternatives(accepted[key]))
            for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        if isinstance(accepted, str):  # the mark of omission, as a sequence
            return not value and accepted == ""
        return (
            isinstance(accepted, list | tuple)
            and len(value) == len(accepted)
            and all(map(_same, value, accepted))
        )
    return bool(value == accepted)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | Sequence):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def strict_answer_fault(message: Any, accepted: Sequence[Any], question: str) -> Fault | None:
    """Return the strict fault of a final answer that mentions an accepted one."""
    text = answer_field(str(message[0] if isinstance(message, list) and message else message))
    matching = [answer for answer in accepted if answer_fault(text, [answer]) is None]
    if not matching:
        return Fault("strict:answer_outside_field", f"the answer field says {text[:200]!r}")
    exact = [answer for answer in matching if _number_stands(text, str(answer))]
    if not exact:
        return Fault("strict:changed_number", f"{text[:200]!r} holds none of {matching} as it is")
    if all(_is_denied(text, str(answer)) for answer in exact):
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

    Any other message is returned whole.
    """
    form = _FORM.search(text)
    if form is None:
        return text
    try:
        value = ast.literal_eval(form[0]) if len(form[0]) < 100_000 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if isinstance(value, dict) and "answer" in value:
        return str(value["answer"])
    field = _ANSWER_FIELD.search(form[0])
    return field[1].strip("'\"") if field else text


def _words(text: str) -> list[str]:
    return _WORD.findall(_THOUSANDS.sub("", text.casefold()))


def _number_stands(text: str, answer: str) -> bool:
    """Whether a text holds an answer that is a number as that number.

    Any other answer may be spelled freely.
    """
    number = _NUMBER.fullmatch(answer.strip(" $€£%").replace(",", ""))
    if number is None:
        return True
    return any(_plain(other) == _plain(number[0]) for other in _NUMBER.findall(text))


def _plain(number: str) -> str:
    plain = number.replace(",", "")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _is_denied(text: str, answer: str) -> bool:
    """Whether a denial precedes every mention of an answer."""
    mentions = [
        match.start() for match in re.finditer(re.escape(answer.casefold()), text.casefold())
    ]
    return bool(mentions) and all(_DENIAL.search(text[:start]) for start in mentions)
