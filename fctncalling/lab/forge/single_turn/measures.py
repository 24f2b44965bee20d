"""Figures of single-turn tasks: the same function measures forged and official ones."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fctncalling.data.types import Task
from fctncalling.envs.judging.oracle import OMITTED
from fctncalling.lab.forge.forged_entry import user_texts

OVERLAPPING = 0.15  # share of a question's content words that makes a function a near miss
_WORD = re.compile(r"[a-z]{3,}")
_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[\d.,]*\d%?")
_STOP_WORDS = frozenset(
    re.findall(
        r"[a-z]+",
        "the and for are was were has have had does did can could would should will may might "
        "must with from into onto over under about what which who whom whose when where why how "
        "that this these those there their they them you your our his her its not but than then "
        "also any all some each such per please tell give show find get let want need like help",
    )
)
PYTHON_TYPES = ("string", "integer", "float", "boolean", "array", "tuple", "dict", "any")


@dataclass(frozen=True)
class SingleTurnFigures:
    """Figures to compare: shares in 0..1, lengths in words."""

    num_tasks: int
    functions: Mapping[str, float]  # offered by a task -> share of tasks
    calls: Mapping[str, float]  # expected by a task -> share of tasks
    parameters: Mapping[str, float]  # of a function -> share of functions
    types: Mapping[str, float]  # of a parameter -> share of parameters
    shares: Mapping[str, float]
    lengths: Mapping[str, tuple[float, float, float]]  # mean, median, 90th percentile


def measure_single_turn(tasks: Iterable[Task]) -> SingleTurnFigures:
    """Return the figures of some tasks of one category. Raises ValueError where there are none."""
    tasks = list(tasks)
    if not tasks:
        raise ValueError("expected at least one task to measure, got none")
    docs = [doc for task in tasks for doc in task.functions]
    parameters = [
        (key, parameter, key in doc.parameters.get("required", ()))
        for doc in docs
        for key, parameter in doc.parameters.get("properties", {}).items()
    ]
    questions = [" ".join(user_texts(task.question)) for task in tasks]
    return SingleTurnFigures(
        num_tasks=len(tasks),
        functions=_shares(str(len(task.functions)) for task in tasks),
        calls=_shares(str(len(task.ground_truth or ())) for task in tasks),
        parameters=_shares(str(len(doc.parameters.get("properties", {}))) for doc in docs),
        types=_shares(str(parameter.get("type")) for _, parameter, _ in parameters),
        shares={
            **_doc_shares(parameters, [doc.name for doc in docs]),
            **_question_shares(questions),
            "questions that recur but for their values": _recurring(
                map(question_without_values, tasks)
            ),
            **_truth_shares(tasks),
            **_overlap_shares(tasks),
        },
        lengths={
            "question": _spread(len(text.split()) for text in questions),
            "function description": _spread(len(doc.description.split()) for doc in docs),
            "parameter description": _spread(
                len(str(parameter.get("description", "")).split()) for _, parameter, _ in parameters
            ),
            "function name": _spread(len(doc.name.replace(".", "_").split("_")) for doc in docs),
        },
    )


def _doc_shares(
    parameters: Sequence[tuple[str, Mapping[str, Any], bool]], names: Sequence[str]
) -> dict[str, float]:
    return {
        "required parameters": _mean(required for _, _, required in parameters),
        "parameters with enum": _mean("enum" in parameter for _, parameter, _ in parameters),
        "parameters with default": _mean("default" in parameter for _, parameter, _ in parameters),
        "dotted names": _mean("." in name for name in names),
    }


def _question_shares(questions: Sequence[str]) -> dict[str, float]:
    return {
        "questions that end in ?": _mean(text.rstrip().endswith("?") for text in questions),
        "questions with quotes": _mean("'" in text or '"' in text for text in questions),
    }


def _truth_shares(tasks: Sequence[Task]) -> dict[str, float]:
    """Return shares of the expected arguments; none where a category expects no calls."""
    told = [
        (values, " ".join(user_texts(task.question)))
        for task in tasks
        for call in task.ground_truth or ()
        for accepted in call.values()
        for values in accepted.values()
        if isinstance(values, list) and values
    ]
    if not told:
        return {}
    arguments = [values for values, _ in told]
    given = [(values[0], words) for values, words in told if values[0] != OMITTED]
    return {
        "numbers that the question does not hold": _mean(
            is_implied_number(value, words) for value, words in given
        ),
        "texts that begin with an article": _mean(
            str(value).lower().startswith("the ") for value, _ in given if isinstance(value, str)
        ),
        "arguments that may be left out": _mean(OMITTED in values for values in arguments),
        "arguments left unsaid": _mean(values[0] == OMITTED for values in arguments),
        "arguments accepted in several forms": _mean(
            len([value for value in values if value != OMITTED]) > 1 for values in arguments
        ),
    }


def is_implied_number(value: Any, question: str) -> bool:
    """Whether a value is a number that does not stand in the question: 4 for "quarterly"."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    number = re.escape(f"{value:.12g}")
    return not re.search(rf"(?<![\d.]){number}(?!\.?\d)", question.replace(",", ""))


def question_without_values(task: Task) -> str:
    """Return a task's words with its numbers, quoted texts and expected texts taken out."""
    said = " ".join(user_texts(task.question))
    texts = [
        value
        for call in task.ground_truth or ()
        for accepted in call.values()
        for values in accepted.values()
        for each in (values if isinstance(values, list) else [values])
        for value in (each if isinstance(each, list) else [each])
        if isinstance(value, str) and value
    ]
    for text in sorted(texts, key=len, reverse=True):
        said = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", "_", said, flags=re.IGNORECASE)
    return _VALUE.sub("_", said)


def _recurring(texts: Iterable[str]) -> float:
    counts = Counter(texts)
    return sum(count for count in counts.values() if count > 1) / counts.total()


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text or of names in it, without inflection by `s` and stop words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower()
    words = (word for word in _WORD.findall(spaced) if word not in _STOP_WORDS)
    return frozenset(word.removesuffix("s") for word in words)


def word_overlap(task: Task) -> float:
    """Return the share of the question's content words that the functions on offer have too.

    A function's words are those of its name, its description and its parameters' names and
    descriptions.
    """
    asked = content_words(" ".join(user_texts(task.question)))
    offered = " ".join(
        f"{doc.name} {doc.description} "
        + " ".join(
            f"{key} {parameter.get('description', '')}"
            for key, parameter in doc.parameters.get("properties", {}).items()
        )
        for doc in task.functions
    )
    return len(asked & content_words(offered)) / len(asked) if asked else 0.0


def _overlap_shares(tasks: Sequence[Task]) -> dict[str, float]:
    """Return how near the functions come, of tasks that none of them can solve."""
    if any(task.category != "irrelevance" for task in tasks):
        return {}
    overlaps = [word_overlap(task) for task in tasks]
    return {
        f"functions with {OVERLAPPING:.0%} of the question's words": _mean(
            overlap >= OVERLAPPING for overlap in overlaps
        ),
        "functions with none of the question's words": _mean(not overlap for overlap in overlaps),
    }


def _shares(values: Iterable[str]) -> dict[str, float]:
    counts = Counter(values)
    total = sum(counts.values())
    return {key: counts[key] / total for key in sorted(counts)}


def _mean(values: Iterable[bool]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def _spread(values: Iterable[int]) -> tuple[float, float, float]:
    listed = sorted(values)
    if not listed:
        return (0.0, 0.0, 0.0)
    return (
        statistics.fmean(listed),
        float(statistics.median(listed)),
        float(listed[min(len(listed) - 1, 9 * len(listed) // 10)]),
    )
