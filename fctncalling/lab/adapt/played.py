"""Answers of a model, counted by function and parameter: what is right, what is mistaken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fctncalling.evaluation.pass_at_k import wilson_interval

DECLINE = ("irrelevance", "live_irrelevance")
FEWEST_CALL_TASKS = 30  # with fewer of them nobody can say whether calls became better
NO_CALL = "(no call)"
FAILURES_FIRST = 14  # of the episodes that are shown


@dataclass(frozen=True)
class StageAnswers:
    """Answers to held-out tasks and to those of --test."""

    held_out: list[dict[str, Any]]
    test: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> StageAnswers:
        """Return the answers in a stage's folder, without those of failed infrastructure."""
        return cls(*(_answers(folder / f"{name}.jsonl") for name in ("held_out", "test")))

    @property
    def all(self) -> list[dict[str, Any]]:
        """All answers."""
        return [*self.held_out, *self.test]


@dataclass
class CallCounts:
    """Counts of expected and right calls, by function and by (function, parameter)."""

    expected: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    # parameters that a request says, and those of them that the call got right
    required_values: Counter[tuple[str, str]] = field(default_factory=Counter)
    right_values: Counter[tuple[str, str]] = field(default_factory=Counter)
    confusions: Counter[tuple[str, str]] = field(default_factory=Counter)  # (expected, called)

    @classmethod
    def of(cls, answers: Iterable[Mapping[str, Any]]) -> CallCounts:
        """Return the counts of answers to tasks whose truth lists calls."""
        counts = cls()
        for answer in answers:
            truth = answer.get("ground_truth") or []
            if truth and all(isinstance(each, dict) for each in truth):
                counts._add(truth, first_step_calls(answer))
        return counts

    def _add(
        self, truth: Sequence[Mapping[str, Mapping[str, Any]]], calls: list[Mapping[str, Any]]
    ) -> None:
        left = list(calls)
        for expected in truth:
            name, accepted = next(iter(expected.items()))
            self.expected[name] += 1
            call = _best(name, accepted, left)
            if call is not None:
                left.remove(call)
            arguments = call["arguments"] if call is not None else {}
            fits = {each: _fits(arguments, each, values) for each, values in accepted.items()}
            for parameter, values in accepted.items():
                if "" not in values:
                    self.required_values[name, parameter] += 1
                    self.right_values[name, parameter] += fits[parameter]
            foreign = set(arguments) - set(accepted)
            self.right[name] += call is not None and all(fits.values()) and not foreign
            if call is None:
                others = [each["name"] for each in calls if each["name"] != name]
                self.confusions[name, others[0] if others else NO_CALL] += 1


def first_step_calls(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the calls of an answer's first step."""
    steps = answer.get("steps") or [{}]
    return [each for each in steps[0].get("calls", []) if isinstance(each.get("arguments"), dict)]


def success_rate(answers: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of tasks that are solved strictly."""
    return sum(bool(each["strict_valid"]) for each in answers) / len(answers) if answers else 0.0


def solved_and_asked_counts(answers: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return (solved, asked) of each category, declines last."""
    solved, asked = Counter[str](), Counter[str]()
    for answer in answers:
        asked[answer["category"]] += 1
        solved[answer["category"]] += bool(answer["strict_valid"])
    names = sorted(asked, key=lambda name: (name in DECLINE, name))
    return {name: (solved[name], asked[name]) for name in names}


def answers_to_irrelevance_tasks(answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the answers to tasks that are to be declined."""
    return [each for each in answers if each["category"] in DECLINE]


def answers_to_call_tasks(answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the answers to tasks that want calls."""
    return [each for each in answers if each["category"] not in DECLINE]


def rate_with_interval(solved: int, asked: int) -> str:
    """Return a rate with its 95 % interval."""
    if not asked:
        return "-"
    low, high = wilson_interval(solved / asked, asked)
    bounds = f"{100 * low:.0f} to {100 * high:.0f}"
    return f"{solved} of {asked} ({100 * solved / asked:.0f} %, {bounds})"


def episodes_to_show(answers: Sequence[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """Return answers to look at: failures first, of as many functions as there are, then others."""
    failed = [each for each in answers if not each["strict_valid"]]
    solved = [each for each in answers if each["strict_valid"]]
    shown = _spread(failed)[:FAILURES_FIRST]
    shown += _spread(solved)[: number - len(shown)]
    return (shown + _spread(failed)[FAILURES_FIRST:])[:number]


def _spread(answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return answers in turn by what they should call."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for each in answers:
        groups.setdefault(json.dumps(_names(each)), []).append(each)
    longest = max(map(len, groups.values()), default=0)
    return [each[at] for at in range(longest) for each in groups.values() if at < len(each)]


def _names(answer: Mapping[str, Any]) -> list[str]:
    truth = answer.get("ground_truth") or []
    return [str(next(iter(each), "")) if isinstance(each, dict) else "turns" for each in truth]


def _best(
    name: str, accepted: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the call of a function that gives most of its arguments right."""
    same = [each for each in calls if each["name"] == name]
    right = [sum(_fits(each["arguments"], key, accepted[key]) for key in accepted) for each in same]
    return same[right.index(max(right))] if same else None


def _fits(arguments: Mapping[str, Any], parameter: str, accepted: Any) -> bool:
    """Return whether an argument is one of the accepted values, or rightly left out."""
    values = accepted if isinstance(accepted, list) else [accepted]
    if parameter not in arguments:
        return "" in values
    return any(_is_value(arguments[parameter], each) for each in values)


def _is_value(given: Any, accepted: Any) -> bool:
    if isinstance(given, dict) and isinstance(accepted, dict):
        keys = {*given, *accepted}
        return all(key in accepted and _fits(given, key, accepted[key]) for key in keys)
    if isinstance(given, list) and isinstance(accepted, list):
        pairs = zip(given, accepted, strict=False)
        return len(given) == len(accepted) and all(_is_value(one, two) for one, two in pairs)
    if isinstance(given, bool) or isinstance(accepted, bool):
        return given is accepted
    return bool(given == accepted)


def _answers(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [each for each in found if not each.get("invalid")]
