"""Report of an adaptation: success before and after, and whether the model may be shipped."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fctncalling.lab.adapt.adapt_settings import AdaptSettings
from fctncalling.lab.adapt.played import (
    FEWEST_CALL_TASKS,
    CallCounts,
    StageAnswers,
    answers_to_call_tasks,
    answers_to_irrelevance_tasks,
    episodes_to_show,
    rate_with_interval,
    solved_and_asked_counts,
)
from fctncalling.lab.adapt.stage import CUT_SHORT, StageCost
from fctncalling.lab.adapt.task_files import run_command_in_process
from fctncalling.lab.page.report_page import Bar, Cell, Link, ReportTable, report_page

Counts = TypeVar("Counts")
NUM_EPISODES = 20
GATE_POINTS = 5.0
FEW_DECLINES = 20
LEAST_CALLS = 0.1  # share of right answers, below which a model hardly ever calls
GOAL_OF_CHOICE = 0.95
EPISODES = "episodes"
NOT_BETTER = "not better than the base model on held-out tasks"


class Gate(NamedTuple):
    """Decision whether a model may be shipped."""

    may_ship: bool
    why: str
    kind: str = "no"  # "yes", "no" or "unclear"


COLOURS = {"yes": "good", "no": "bad", "unclear": "warn"}  # of a gate's kind


class ChoiceRecall(NamedTuple):
    """Recall of the function choice on held-out requests."""

    found: int
    asked: int
    offered: int  # functions a request
    functions: int  # of the API

    def line(self) -> str:
        """Return the recall as one line, with a cure if it is low."""
        told = (
            f"choice of {self.offered} of {self.functions} functions by the request alone: all "
            f"called ones in {rate_with_interval(self.found, self.asked)}"
        )
        low = self.found < GOAL_OF_CHOICE * self.asked
        cure = "; raise --offered, or say in the functions' descriptions what users call things"
        return told + cure * low


@dataclass(frozen=True)
class AdaptReport:
    """Contents of the report: answers by name ("before", "supervised", "after"), costs, notes."""

    title: str
    played: Mapping[str, StageAnswers]
    costs: Mapping[str, StageCost]
    planned: Mapping[str, float] = field(default_factory=dict)  # CPU seconds
    told: Sequence[str] = ()
    choice: ChoiceRecall | None = None

    @property
    def last(self) -> StageAnswers:
        """The answers of the model that is shipped, or was measured."""
        return list(self.played.values())[-1]

    def declining(self, name: str) -> tuple[int, int]:
        """Return the declined and all irrelevance tasks, of --test if it has any, else held-out."""
        both = self.played[name]
        own = answers_to_irrelevance_tasks(both.test)
        return _solved(own or answers_to_irrelevance_tasks(both.held_out))

    def calling(self, name: str) -> tuple[int, int]:
        """Return the solved and all tasks with calls, of --test if it has any."""
        both = self.played[name]
        return _solved(answers_to_call_tasks(both.test) or answers_to_call_tasks(both.held_out))

    def gate(self) -> Gate:
        """Decide whether the model may be shipped: it calls better, and declines as well."""
        if len(self.played) < 2:
            may_ship = not self.told
            kind = "yes" if may_ship else "no"
            return Gate(may_ship, "nothing was trained: no model is shipped", kind)
        names = list(self.played)
        first, last = self.declining(names[0]), self.declining(names[-1])
        if not first[1] or not last[1]:
            text = "do not ship: no task asked it to decline, so nobody knows whether it does"
            return Gate(False, text)
        fell = 100 * (first[0] / first[1] - last[0] / last[1])
        text = f"declining: {rate_with_interval(*first)} before, {rate_with_interval(*last)} after"
        few = f"; only {last[1]} such tasks, give more in --test" if last[1] < FEW_DECLINES else ""
        if fell > GATE_POINTS:
            return Gate(False, f"do not ship: {text}: it fell by {fell:.0f} points{few}")
        return self._calling_gate(names[0], names[-1], f"{text}{few}")

    def _calling_gate(self, before: str, after: str, declining: str) -> Gate:
        """Decide by calls, declining being as good as before."""
        first, last = self.calling(before), self.calling(after)
        calls = f"calls: {rate_with_interval(*first)} before, {rate_with_interval(*last)} after"
        if not last[1]:
            return Gate(False, "do not ship: no task asked it to call")
        if last[0] / last[1] < LEAST_CALLS:
            return Gate(False, f"do not ship: it hardly ever calls right; {calls}")
        if last[0] / last[1] <= first[0] / max(1, first[1]):
            return Gate(False, f"do not ship: it calls no better than before; {calls}")
        few = last[1] < FEWEST_CALL_TASKS
        if not self.is_better and (few or not answers_to_call_tasks(self.last.test)):
            return Gate(False, f"do not ship: {NOT_BETTER}; {calls}; {declining}")
        if few:
            more = f"{last[1]} tasks with calls, expected {FEWEST_CALL_TASKS}: give more in --test"
            return Gate(False, f"too few tasks to say: {more}; {calls}; {declining}", "unclear")
        kind = "unclear" if any(each.startswith(CUT_SHORT) for each in self.told) else "yes"
        return Gate(True, f"may be shipped: {calls}; {declining}", kind)

    @property
    def is_better(self) -> bool:
        """Whether the last model solves more held-out tasks than the first."""
        first, last = (_solved(self.played[name].held_out) for name in self._ends())
        return last[0] / max(1, last[1]) > first[0] / max(1, first[1])

    def kept_line(self) -> str:
        """Return one line on the chosen model, consistent with the gate."""
        name = self._ends()[1]
        if self.gate().may_ship:
            but = "" if self.is_better else f", though {NOT_BETTER}"
            return f"shipped: the model after {name}{but}"
        if not self.is_better:
            return f"{NOT_BETTER}: do not ship; the weights after {name} are kept in model/"
        return f"kept in model/: the weights after {name}"

    def _ends(self) -> tuple[str, str]:
        names = list(self.played)
        return names[0], names[-1]

    def record(self) -> dict[str, Any]:
        """Return the figures as JSON holds them; those of the clock are under "costs" alone."""
        gate = self.gate()
        return {
            "ship": gate.may_ship,
            "gate": gate.why,
            "told": list(self.told),
            **({"choice": self.choice._asdict()} if self.choice else {}),
            "solved": {
                name: {
                    "held_out": solved_and_asked_counts(both.held_out),
                    "test": solved_and_asked_counts(both.test),
                }
                for name, both in self.played.items()
            },
            "costs": {name: asdict(cost) for name, cost in self.costs.items()},
        }

    def sentence(self) -> str:
        """Return the result in one line: calls and declining, before and after, and the gate."""
        names = list(self.played)
        ends = names if len(names) < 2 else [names[0], names[-1]]
        rates = [
            " \N{RIGHTWARDS ARROW} ".join("{} of {}".format(*count(name)) for name in ends)
            for count in (self.calling, self.declining)
        ]
        gate = self.gate()
        decision = "ship" if gate.may_ship else {"no": "do not ship"}.get(gate.kind, "not decided")
        decision = decision if len(names) > 1 else "nothing was trained"
        return f"{rates[0]} requests right; declining {rates[1]}; {decision}"

    def tables(self) -> list[ReportTable]:
        """Return the tables of the page."""
        calls = self._by_stage(lambda both: CallCounts.of(both.all))
        own, held_out = "your own test (--test)", "held-out tasks"
        overall = self._by_stage(
            lambda both: {own: _solved(both.test), held_out: _solved(both.held_out)}
        )
        tests = self._by_stage(lambda both: solved_and_asked_counts(both.test))
        others = self._by_stage(lambda both: solved_and_asked_counts(both.held_out))
        functions = {name: _pairs(of.right, of.expected) for name, of in calls.items()}
        values = {name: _pairs(of.right_values, of.required_values) for name, of in calls.items()}
        mistaken = list(calls.values())[-1].confusions.most_common(40)
        heads = ["should call", "called", "times"]
        said = "Of the values that a request says, those that were given right."
        solved = "Solved with nothing forgiven, with 95 % intervals."
        return [
            _rates_table("All tasks", "", overall, solved),
            _rates_table("Your own test (--test)", "category", tests),
            _rates_table("Held-out tasks", "category", others),
            _rates_table("By function", "function", functions, "Calls right in every argument."),
            _rates_table("By parameter", "parameter", values, said),
            ReportTable("Mistaken for", heads, [[*pair, str(count)] for pair, count in mistaken]),
            self._cost_table(),
        ]

    def _by_stage(self, count: Callable[[StageAnswers], Counts]) -> dict[str, Counts]:
        return {name: count(both) for name, both in self.played.items()}

    def _cost_table(self) -> ReportTable:
        rows = [
            [
                name,
                f"{cost.cpu_seconds:.0f}",
                f"{self.planned[name]:.0f}" if name in self.planned else "-",
                f"{cost.wall_seconds:.0f}",
                f"{cost.peak_memory_gb:.2f}",
            ]
            for name, cost in self.costs.items()
        ]
        costs = list(self.costs.values())
        total = [sum(each.cpu_seconds for each in costs), sum(self.planned.values())]
        total.append(sum(each.wall_seconds for each in costs))
        peak = max((each.peak_memory_gb for each in costs), default=0.0)
        rows.append(["all", *(f"{each:.0f}" for each in total), f"{peak:.2f}"])
        heads = ["stage", "CPU seconds", "planned", "seconds", "peak memory, GB"]
        return ReportTable("Cost", heads, rows)


def write_report(report: AdaptReport, settings: AdaptSettings) -> None:
    """Write report.html, report.json and the viewer's page of the episodes it links to."""
    folder = settings.output
    shown = episodes_to_show(report.last.all, NUM_EPISODES)
    _write_episodes(shown, folder)
    links: list[list[Cell]] = [
        [
            Link(str(each["id"]), f"{EPISODES}.html#e={EPISODES}:{number}"),
            str(each.get("strict_error_type") or each.get("error_type") or "\N{CHECK MARK} solved"),
        ]
        for number, each in enumerate(shown, 1)
    ]
    gate = report.gate()
    text = report_page(
        report.title,
        report.sentence(),
        [*report.tables(), ReportTable("Episodes", ["task", "outcome"], links)],
        kind=COLOURS[gate.kind],
        reason=gate.why.removeprefix("do not ship: ").removeprefix("may be shipped: "),
        notes=report.told,
    )
    (folder / "report.html").write_text(text, encoding="utf-8")
    record = json.dumps(report.record(), indent=1)
    (folder / "report.json").write_text(record, encoding="utf-8")


def summary(report: AdaptReport) -> str:
    """Return the report in a few lines."""
    lines = [
        f"{name}: held-out {rate_with_interval(*_solved(both.held_out))}"
        + (f", test {rate_with_interval(*_solved(both.test))}" if both.test else "")
        for name, both in report.played.items()
    ]
    return "\n".join([*lines, *report.told, report.gate().why])


def _solved(answers: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    return sum(bool(each["strict_valid"]) for each in answers), len(answers)


def _write_episodes(shown: Sequence[Mapping[str, Any]], folder: Path) -> None:
    lines = folder / "work" / f"{EPISODES}.jsonl"
    lines.write_text("".join(f"{json.dumps(each)}\n" for each in shown), encoding="utf-8")
    if shown:
        page_file = folder / f"{EPISODES}.html"
        words = ["view", str(lines), "--worst", str(NUM_EPISODES), "--output", str(page_file)]
        run_command_in_process([*words, "--allow_task_tools"])


def _pairs(right: Counter[Any], asked: Counter[Any]) -> dict[str, tuple[int, int]]:
    """Return (right, asked) by name; a parameter's name is "function.parameter"."""
    names = {key: key if isinstance(key, str) else ".".join(key) for key in sorted(asked)}
    return {name: (right[key], asked[key]) for key, name in names.items()}


def _rates_table(
    title: str, head: str, counts: Mapping[str, Mapping[str, tuple[int, int]]], text: str = ""
) -> ReportTable:
    """Return a table of (solved, asked): a column for each stage, a row for each name."""
    names = dict.fromkeys(name for stage in counts.values() for name in stage)
    asked = [name for name in names if any(stage[name][1] for stage in counts.values())]
    rows: list[list[Cell]] = [
        [name, *(_bar(*stage[name]) for stage in counts.values())] for name in asked
    ]
    return ReportTable(title, [head, *counts], rows, text)


def _bar(solved: int, asked: int) -> Bar:
    return Bar(solved / max(1, asked), rate_with_interval(solved, asked))
