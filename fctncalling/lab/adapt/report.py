"""Report of an adaptation: what the model does before and after, and whether it may be shipped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.lab.adapt.adapt_settings import AdaptSettings
from fctncalling.lab.adapt.played import (
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

NUM_EPISODES = 20
GATE_POINTS = 5.0
FEW_DECLINES = 20
FEWEST_CALL_TASKS = 30  # with fewer of them nobody can say whether calls became better
LEAST_CALLS = 0.1  # share of right answers, below which a model hardly ever calls
GOAL_OF_CHOICE = 0.95
EPISODES = "episodes"


class Gate(NamedTuple):
    """Decision whether a model may be shipped."""

    may_ship: bool
    why: str
    kind: str = "no"  # "yes", "no" or "unclear": the colour of its bar


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
        """Return (declined, to be declined): of --test where it has such tasks, else held-out."""
        both = self.played[name]
        own = answers_to_irrelevance_tasks(both.test)
        return _solved(own or answers_to_irrelevance_tasks(both.held_out))

    def calling(self, name: str) -> tuple[int, int]:
        """Return (solved, asked) of tasks that want calls: of --test where it has such."""
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
        if last[1] < FEWEST_CALL_TASKS:
            more = f"{last[1]} tasks with calls, expected {FEWEST_CALL_TASKS}: give more in --test"
            return Gate(False, f"too few tasks to say: {more}; {calls}; {declining}", "unclear")
        kind = "unclear" if any(each.startswith(CUT_SHORT) for each in self.told) else "yes"
        return Gate(True, f"may be shipped: {calls}; {declining}", kind)

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

    def tables(self) -> list[ReportTable]:
        """Return the tables of the page."""
        counts = {name: CallCounts.of(both.all) for name, both in self.played.items()}
        return [
            self._overall_table(),
            *self._category_tables(),
            self._function_table(counts),
            self._parameter_table(counts),
            self._mistaken_table(counts),
            self._cost_table(),
        ]

    def _overall_table(self) -> ReportTable:
        rows: list[Row] = []
        for title, kind in (("your own test", "test"), ("held-out tasks", "held_out")):
            played = [getattr(both, kind) for both in self.played.values()]
            if any(played):
                rows.append([title, *(Rate(*_solved(answers)) for answers in played)])
        text = "Solved with nothing forgiven, with 95 % intervals."
        return ReportTable("All tasks", ["", *self.played], rows, text)

    def _category_tables(self) -> list[ReportTable]:
        found: list[ReportTable] = []
        for title, kind in (("Your own test (--test)", "test"), ("Held-out tasks", "held_out")):
            played = {name: getattr(both, kind) for name, both in self.played.items()}
            rates = {name: solved_and_asked_counts(answers) for name, answers in played.items()}
            names = list(dict.fromkeys(each for one in rates.values() for each in one))
            rows: list[Row] = [
                [name, *(Rate(*one.get(name, (0, 0))) for one in rates.values())] for name in names
            ]
            if rows:
                found.append(ReportTable(title, ["category", *rates], rows))
        return found

    def _function_table(self, counts: Mapping[str, CallCounts]) -> ReportTable:
        names = sorted({name for each in counts.values() for name in each.expected})
        rows: list[Row] = []
        for name in names:
            pairs = ((each.right[name], each.expected[name]) for each in counts.values())
            rows.append([name, *(Rate(*pair) for pair in pairs)])
        text = "Calls right in every argument."
        return ReportTable("By function", ["function", *counts], rows, text)

    def _parameter_table(self, counts: Mapping[str, CallCounts]) -> ReportTable:
        keys = sorted({key for each in counts.values() for key in each.required_values})
        rows: list[Row] = []
        for key in keys:
            pairs = ((one.right_values[key], one.required_values[key]) for one in counts.values())
            rows.append([".".join(key), *(Rate(*pair) for pair in pairs)])
        text = "Of the values that a request says, those that were given right."
        return ReportTable("By parameter", ["parameter", *counts], rows, text)

    def _mistaken_table(self, counts: Mapping[str, CallCounts]) -> ReportTable:
        last = list(counts.values())[-1]
        rows: list[Row] = [[*pair, str(count)] for pair, count in last.confusions.most_common(40)]
        return ReportTable("Mistaken for", ["should call", "called", "times"], rows)

    def _cost_table(self) -> ReportTable:
        costs = list(self.costs.values())
        rows: list[Row] = [
            [
                name,
                f"{cost.cpu_seconds:.0f}",
                f"{self.planned[name]:.0f}" if name in self.planned else "-",
                f"{cost.wall_seconds:.0f}",
                f"{cost.peak_memory_gb:.2f}",
            ]
            for name, cost in self.costs.items()
        ]
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
    links = [
        (f"{EPISODES}.html#e={EPISODES}:{number}", _told(each), bool(each["strict_valid"]))
        for number, each in enumerate(shown, 1)
    ]
    text = adapt_report_html(report.title, report.gate(), report.tables(), links, report.told)
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


def _told(answer: Mapping[str, Any]) -> str:
    error = answer.get("strict_error_type") or answer.get("error_type")
    return f"{answer['id']}: {error or 'solved'}"


STYLE = """
:root { color-scheme: light dark; --line: #dfe3e8; --soft: #5b6673; --accent: #2374b8;
  --yes: #1b7f4d; --no: #b3261e; --unclear: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --line: #2f3843; --soft: #9aa7b5; --accent: #6cb4f5;
  --yes: #58c48b; --no: #ff8a80; --unclear: #e9b44c; } }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  font: 14px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; } h2 { font-size: 16px; margin-bottom: .2rem; }
a { color: var(--accent); } p, summary { color: var(--soft); }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; }
td > i { display: inline-block; width: 5rem; height: .6rem; margin-right: .5rem;
  background: linear-gradient(90deg, var(--accent) var(--share), var(--line) var(--share)); }
.gate { padding: .6rem 1rem; border-left: .4rem solid; color: inherit; }
.no { border-color: var(--no); } .yes { border-color: var(--yes); }
.unclear { border-color: var(--unclear); }
"""


class Rate(NamedTuple):
    """Cell of a table: a share of solved tasks, drawn as a bar."""

    solved: int
    asked: int

    def html(self) -> str:
        """Return the cell's content as HTML."""
        share = 100 * self.solved / self.asked if self.asked else 0
        bar = f'<i style="--share:{share:.0f}%"></i>' if self.asked else ""
        return bar + escape(rate_with_interval(*self))


Row = Sequence[str | Rate]


@dataclass(frozen=True)
class ReportTable:
    """Table of the page."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Row]
    text: str = ""

    def html(self) -> str:
        """Return the table as HTML; a line where it is empty."""
        title = f"<h2>{escape(self.title)}</h2>\n"
        if not self.rows:
            return f"{title}<p>None.</p>\n"
        heads = "".join(f'<th scope="col">{escape(each)}</th>' for each in self.heads)
        rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in self.rows)
        text = f"<p>{escape(self.text)}</p>\n" if self.text else ""
        return f"{title}{text}<table>\n<tr>{heads}</tr>\n{rows}</table>\n"


def _cell(content: str | Rate) -> str:
    return f"<td>{content.html() if isinstance(content, Rate) else escape(content)}</td>"


def adapt_report_html(
    title: str,
    gate: Gate,
    tables: Sequence[ReportTable],
    links: Sequence[tuple[str, str, bool]],
    notes: Sequence[str],
) -> str:
    """Return the page; it loads nothing. `links` are (address, text, whether it was solved)."""
    episodes = "".join(
        f'<li>{"✓" if solved else "✗"} <a href="{escape(address)}">{escape(text)}</a></li>\n'
        for address, text, solved in links
    )
    first, *others = (each.html() for each in tables)
    listed = "".join(f"<li>{escape(each)}</li>\n" for each in notes)
    more = f"<h2>Notes</h2>\n<ul>\n{listed}</ul>\n" if notes else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{escape(title)}</h1>\n"
        f'<p class="gate {gate.kind}">{escape(gate.why)}</p>\n'
        f"{first}{more}{''.join(others)}"
        f"<h2>Episodes</h2>\n<ul>\n{episodes}</ul>\n</html>\n"
    )
