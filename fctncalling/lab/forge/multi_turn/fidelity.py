"""Fidelity: the same measures on any multi-turn tasks, official or forged, from task and truth.

Nothing of a plan is read: what a forged task says of itself does not enter.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log
from typing import Any, NamedTuple

from fctncalling.data.types import Task
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.judging.oracle import oracle_calls


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
            "turns_per_task": _mean(self.turns),
            "calls_per_turn": _mean(self.calls),
            "turns": _shares(self.turns),
            "calls": _shares(self.calls),
            "class_combinations": len(self.classes),
            "functions": len(self.functions),
            "pairs": len(self.pairs),
            "provenance": {name: _percent(self.provenance, name) for name in PROVENANCES},
            "effects": {
                name: round(100 * count / num_calls, 1) for name, count in self.effects.items()
            },
            "edges": len(self.edges),
            "chains": _shares(self.chains),
        }


def measure_fidelity(tasks: Iterable[Task]) -> MultiTurnCounts:
    """Return the counts over multi-turn tasks."""
    fidelity = MultiTurnCounts()
    for task in tasks:
        fidelity.add(task)
    return fidelity


def kl_divergence(counts: Mapping[Any, int], reference: Mapping[Any, int]) -> float:
    """Return the Kullback-Leibler divergence of a reference from counts, in nats.

    Each outcome is counted half once more, so that none is impossible.
    """
    outcomes = {*counts, *reference}
    total, expected = (sum(each.values()) + 0.5 * len(outcomes) for each in (counts, reference))
    shares = [
        ((reference.get(o, 0) + 0.5) / expected, (counts.get(o, 0) + 0.5) / total) for o in outcomes
    ]
    return sum(p * log(p / q) for p, q in shares)


def argument_provenances(task: Task, results: Iterable[str]) -> Iterator[str]:
    """Yield where each atom of each argument can be read, the nearest place first."""
    told, earlier, shown = iter(results), "", ""
    state = json.dumps(task.initial_config, ensure_ascii=False)
    for messages, calls in zip(task.question, oracle_calls(task), strict=True):
        now = " ".join(str(message["content"]) for message in messages)
        for call in calls:
            places = {"this_turn": now, "earlier_turn": earlier, "result": shown, "state": state}
            for value in _atoms(list(call.arguments.values())):
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


def _atoms(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [atom for each in value for atom in _atoms(each)]
    return [value]


def _mean(counts: Counter[int]) -> float:
    return round(sum(k * n for k, n in counts.items()) / max(1, counts.total()), 2)


def _percent(counts: Counter[Any], key: Any) -> float:
    return round(100 * counts[key] / max(1, counts.total()), 1)


def _shares(counts: Counter[int]) -> dict[int, float]:
    return {key: _percent(counts, key) for key in sorted(counts)}
