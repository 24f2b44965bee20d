"""Figures of tasks of one turn and of several: the same functions measure forged and official ones.

They read task and truth alone: what a forged task says of itself does not enter.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from fctncalling.data.types import Task
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.judging.oracle import OMITTED, oracle_calls
from fctncalling.lab.forge.forged_entry import atoms, user_texts

OVERLAPPING = 0.15  # share of a question's content words that makes a function a near miss
_WORD = re.compile(r"[a-z]{3,}")
_STOP_WORDS = frozenset(
    re.findall(
        r"[a-z]+",
        "the and for are was were has have had does did can could would should will may might "
        "must with from into onto over under about what which who whom whose when where why how "
        "that this these those there their they them you your our his her its not but than then "
        "also any all some each such per please tell give show find get let want need like help",
    )
)


@dataclass(frozen=True)
class SingleTurnFigures:
    """Figures to compare: shares in 0..1, lengths in words."""

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
        functions=_shares(str(len(task.functions)) for task in tasks),
        calls=_shares(str(len(task.ground_truth or ())) for task in tasks),
        parameters=_shares(str(len(doc.parameters.get("properties", {}))) for doc in docs),
        types=_shares(str(parameter.get("type")) for _, parameter, _ in parameters),
        shares={
            "required parameters": _mean(required for _, _, required in parameters),
            "parameters with enum": _mean("enum" in each for _, each, _ in parameters),
            "parameters with default": _mean("default" in each for _, each, _ in parameters),
            "dotted names": _mean("." in doc.name for doc in docs),
            "questions that end in ?": _mean(text.rstrip().endswith("?") for text in questions),
            "questions with quotes": _mean("'" in text or '"' in text for text in questions),
            **_truth_shares(tasks),
            **_overlap_shares(tasks),
        },
        lengths={
            "question": length_spread(len(text.split()) for text in questions),
            "function description": length_spread(len(doc.description.split()) for doc in docs),
            "parameter description": length_spread(
                len(str(parameter.get("description", "")).split()) for _, parameter, _ in parameters
            ),
            "function name": length_spread(
                len(doc.name.replace(".", "_").split("_")) for doc in docs
            ),
        },
    )


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


def length_spread(values: Iterable[int]) -> tuple[float, float, float]:
    """Return mean, median and 90th percentile; zeros for no values."""
    listed = sorted(values)
    if not listed:
        return (0.0, 0.0, 0.0)
    return (
        statistics.fmean(listed),
        float(statistics.median(listed)),
        float(listed[min(len(listed) - 1, 9 * len(listed) // 10)]),
    )


class CallDependencies(NamedTuple):
    """Effects of leaving out each call. Calls are numbered through the task."""

    results: tuple[str, ...]  # of the whole truth
    later: tuple[tuple[int, ...], ...]  # per call: the later calls whose results change
    state: tuple[bool, ...]  # per call: whether the final public state changes

    def longest_chain(self) -> int:
        """Return the most calls in a row of which each changes a result of the next."""
        length = [1] * len(self.later)
        for call, changed in enumerate(self.later):
            for other in changed:
                length[other] = max(length[other], length[call] + 1)
        return max(length, default=0)


def call_dependencies(task: Task) -> CallDependencies:
    """Return what each call of a task's ground truth does to the rest, by replay."""
    calls = [call for turn in task.ground_truth or () for call in turn]
    results, state = _replay(task, calls, None)
    later, changed = [], []
    for left_out in range(len(calls)):
        others, final = _replay(task, calls, left_out)
        pairs = zip(others, results, strict=True)
        differ = [n for n, (one, other) in enumerate(pairs) if one != other and n > left_out]
        later.append(tuple(differ))
        changed.append(final != state)
    return CallDependencies(tuple(results), tuple(later), tuple(changed))


def _replay(
    task: Task, calls: Sequence[str], left_out: int | None
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    session = ToolSession(
        task.involved_classes, task.initial_config, long_context=task.long_context
    )
    results = [
        "" if number == left_out else session.execute(call) for number, call in enumerate(calls)
    ]
    return results, session.public_state()


PROVENANCES = ("this_turn", "earlier_turn", "result", "state", "flag", "inferred")


@dataclass
class MultiTurnCounts:
    """Counts over tasks. Sums of two are counts over both."""

    tasks: int = 0
    turns: Counter[int] = field(default_factory=Counter)  # turns of a task
    calls: Counter[int] = field(default_factory=Counter)  # calls of a turn
    classes: Counter[tuple[str, ...]] = field(default_factory=Counter)  # sorted
    functions: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)  # neighbours inside a turn
    provenance: Counter[str] = field(default_factory=Counter)  # of arguments' atoms
    effects: Counter[str] = field(default_factory=Counter)  # later_result, final_state, neither
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)  # to the first result changed
    chains: Counter[int] = field(default_factory=Counter)  # longest chain of a task

    def add(self, task: Task) -> None:
        """Count one task."""
        truth = oracle_calls(task)
        self.tasks += 1
        self.turns[len(truth)] += 1
        self.classes[tuple(sorted(task.involved_classes))] += 1
        for turn in truth:
            names = [call.name for call in turn]
            self.calls[len(names)] += 1
            self.functions.update(names)
            self.pairs.update(pairwise(names))
        found = call_dependencies(task)
        self.provenance.update(argument_provenances(task, found.results))
        self.chains[found.longest_chain()] += 1
        names = [call.name for turn in truth for call in turn]
        for number, later in enumerate(found.later):
            if later:
                self.effects["later_result"] += 1
                self.edges[names[number], names[later[0]]] += 1
            self.effects["final_state"] += found.state[number]
            self.effects["neither"] += not (later or found.state[number])

    def figures(self) -> dict[str, Any]:
        """Return the measures as plain numbers: means, and shares in percent."""
        num_calls = self.functions.total()
        return {
            "tasks": self.tasks,
            "turns_per_task": _count_mean(self.turns),
            "calls_per_turn": _count_mean(self.calls),
            "turns": _count_shares(self.turns),
            "calls": _count_shares(self.calls),
            "class_combinations": len(self.classes),
            "functions": len(self.functions),
            "pairs": len(self.pairs),
            "provenance": {name: _percent(self.provenance, name) for name in PROVENANCES},
            "effects": {
                name: round(100 * count / num_calls, 1) for name, count in self.effects.items()
            },
            "edges": len(self.edges),
            "chains": _count_shares(self.chains),
        }


def measure_fidelity(tasks: Iterable[Task]) -> MultiTurnCounts:
    """Return the counts over multi-turn tasks."""
    fidelity = MultiTurnCounts()
    for task in tasks:
        fidelity.add(task)
    return fidelity


def argument_provenances(task: Task, results: Iterable[str]) -> Iterator[str]:
    """Yield where each atom of each argument can be read, the nearest place first."""
    told, earlier, shown = iter(results), "", ""
    state = json.dumps(task.initial_config, ensure_ascii=False)
    for messages, calls in zip(task.question, oracle_calls(task), strict=True):
        now = " ".join(str(message["content"]) for message in messages)
        for call in calls:
            places = {"this_turn": now, "earlier_turn": earlier, "result": shown, "state": state}
            for value in atoms(call.arguments):
                yield _place(value, places)
            shown += " " + next(told)
        earlier += " " + now


def _place(value: Any, places: Mapping[str, str]) -> str:
    if isinstance(value, bool):
        return "flag"
    return next((name for name, text in places.items() if occurs(value, text)), "inferred")


def occurs(value: Any, text: str) -> bool:
    """Whether a text holds a value: a number as a number of its own, a text in any letter case."""
    wanted, text = str(value).casefold(), text.casefold()
    if isinstance(value, int | float):
        text = re.sub(r"(?<=\d),(?=\d\d\d)", "", text)
        number = re.escape(wanted.removesuffix(".0"))
        return re.search(rf"(?<![\w.]){number}(?:\.0+)?(?!\w|\.\d)", text) is not None
    return wanted in text


def _count_mean(counts: Counter[int]) -> float:
    return round(sum(k * n for k, n in counts.items()) / max(1, counts.total()), 2)


def _percent(counts: Counter[Any], key: Any) -> float:
    return round(100 * counts[key] / max(1, counts.total()), 1)


def _count_shares(counts: Counter[int]) -> dict[int, float]:
    return {key: _percent(counts, key) for key in sorted(counts)}
