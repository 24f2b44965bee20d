"""Strict comparison of string arguments, where BFCL drops blanks and punctuation.

BFCL drops blanks and , . / - _ * ^ before it compares, so "1.2" passes for "12" and "---" for an
omitted text. Here letter case, kinds of quotes, blanks around punctuation and a full stop at the
end do not matter; all else does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fctncalling.checkers import ARGUMENT_CHECKERS, calls_fault
from fctncalling.checkers.java_values import JAVA_ARGUMENTS
from fctncalling.checkers.javascript_values import JAVASCRIPT_ARGUMENTS
from fctncalling.checkers.python_values import Accepted, Fault, short_repr, standardize_string
from fctncalling.data.types import Task

_BLANKS_AT_PUNCTUATION = re.compile(r"\s*([^\w\s])\s*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def normalize_text(text: str) -> str:
    """Return a text normalized for comparison: without meaningless differences.

    Letter case, kinds of quotes, blanks at punctuation and ends.
    """
    quoted = text.casefold().replace("'", '"')
    return _BLANKS_AT_PUNCTUATION.sub(r"\1", " ".join(quoted.split())).rstrip(".!?")


def strict_calls_fault(task: Task, record: Any, *, underscore_to_dot: bool = False) -> Fault | None:
    """Return the strict fault of calls that BFCL accepts: the first leniency.

    None if they relied on none.
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
    """Return an argument as the Python value that its source text stands for."""
    if language == "python":
        return value
    source = JAVA_ARGUMENTS if language == "java" else JAVASCRIPT_ARGUMENTS
    argument = source.prepare_argument(value, declared)
    return value if isinstance(argument, Fault) else argument.value


def _text_fault(parameter: str, value: Any, accepted: Accepted) -> Fault | None:
    """Return why an argument that BFCL accepts is none of the accepted ones as they are written."""
    if any(_same(value, each) for each in _alternatives(accepted)):
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
    """Whether a value is one accepted value.

    Dicts hold lists of accepted values by key in their turn.
    """
    if isinstance(value, str):
        return isinstance(accepted, str) and normalize_text(value) == normalize_text(accepted)
    if isinstance(value, Mapping) and isinstance(accepted, Mapping):
        return all(
            key in accepted and any(_same(each, one) for one in _alternatives(accepted[key]))
            for key, each in value.items()
        )
    if isinstance(value, list | tuple):
        if isinstance(accepted, str):  # the mark of omission, as a sequence
            return not value and accepted == ""
        return (
            isinstance(accepted, list | tuple)
            and len(value) == len(accepted)
            and all(_same(one, other) for one, other in zip(value, accepted, strict=True))
        )
    return bool(value == accepted)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)
