"""Report of an adaptation: what the model does before and after, and whether it may be shipped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from fctncalling.lab.adapt.adapt_settings import AdaptSettings
from fctncalling.lab.adapt.played import (
    CallCounts,
    StageAnswers,
    answers_to_irrelevance_tasks,
    episodes_to_show,
    rate_with_interval,
    solved_and_asked_counts,
    success_rate,
)
from fctncalling.lab.adapt.stage import StageCost
from fctncalling.lab.adapt.task_files import run_command_in_process

NUM_EPISODES = 20
GATE_POINTS = 5.0
FEW_DECLINES = 20
EPISODES = "episodes"


@dataclass(frozen=True)
class AdaptReport:
    """Contents of the report: answers by name ("before", "supervised", "after"), costs, notes."""

    title: str
    played: Mapping[str, StageAnswers]
    costs: Mapping[str, StageCost]
    planned: Mapping[str, float] = field(default_factory=dict)  # CPU seconds
    told: Sequence[str] = ()

    @property
    def last(self) -> StageAnswers:
        """The answers of the model that is shipped, or was measured."""
        return list(self.played.values())[-1]

    def declining(self, name: str) -> tuple[int, int]:
        """Return (declined, to be declined): of --test where it has such tasks, else held-out."""
        both = self.played[name]
        own = answers_to_irrelevance_tasks(both.test)
        answers = own or answers_to_irrelevance_tasks(both.held_out)
        return sum(bool(each["strict_valid"]) for each in answers), len(answers)

    def gate(self) -> tuple[bool, str]:
        """Return whether the model may be shipped, and why."""
        if len(self.played) < 2:
            return not self.told, "nothing was trained: no model is shipped"
        names = list(self.played)
        first, last = self.declining(names[0]), self.declining(names[-1])
        if not first[1] or not last[1]:
            text = "do not ship: no task asked it to decline, so nobody knows whether it does"
            return False, text
        fell = 100 * (first[0] / first[1] - last[0] / last[1])
        text = f"declining: {rate_with_interval(*first)} before, {rate_with_interval(*last)} after"
        few = f"; only {last[1]} such tasks, give more in --test" if last[1] < FEW_DECLINES else ""
        if fell > GATE_POINTS:
            return False, f"do not ship: {text}: it fell by {fell:.0f} points{few}"
        return True, f"may be shipped: {text}{few}"

    def record(self) -> dict[str, Any]:
        """Return the figures as JSON holds them; those of the clock are under "costs" alone."""
        may_ship, why = self.gate()
        return {
            "ship": may_ship,
            "gate": why,
            "told": list(self.told),
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
            *self._category_tables(),
            self._function_table(counts),
            self._parameter_table(counts),
            self._mistaken_table(counts),
            self._cost_table(),
        ]

    def _category_tables(self) -> list[ReportTable]:
        found = []
        for title, kind in (("Your own test (--test)", "test"), ("Held-out tasks", "held_out")):
            played = {name: getattr(both, kind) for name, both in self.played.items()}
            rates = {name: solved_and_asked_counts(answers) for name, answers in played.items()}
            names = list(dict.fromkeys(each for one in rates.values() for each in one))
            rows = [
                [name, *(rate_with_interval(*one.get(name, (0, 0))) for one in rates.values())]
                for name in names
            ]
            if rows:
                text = "Solved with nothing forgiven, with 95 % intervals."
                found.append(ReportTable(title, ["category", *rates], rows, text))
        return found

    def _function_table(self, counts: Mapping[str, CallCounts]) -> ReportTable:
        names = sorted({name for each in counts.values() for name in each.expected})
        rows = []
        for name in names:
            pairs = ((each.right[name], each.expected[name]) for each in counts.values())
            rows.append([name, *(rate_with_interval(*pair) for pair in pairs)])
        text = "Calls right in every argument."
        return ReportTable("By function", ["function", *counts], rows, text)

    def _parameter_table(self, counts: Mapping[str, CallCounts]) -> ReportTable:
        keys = sorted({key for each in counts.values() for key in each.required_values})
        rows = []
        for key in keys:
            pairs = ((one.right_values[key], one.required_values[key]) for one in counts.values())
            rows.append([".".join(key), *(rate_with_interval(*pair) for pair in pairs)])
        text = "Of the values that a request says, those that were given right."
        return ReportTable("By parameter", ["parameter", *counts], rows, text)

    def _mistaken_table(self, counts: Mapping[str, CallCounts]) -> ReportTable:
        last = list(counts.values())[-1]
        rows = [[*pair, str(count)] for pair, count in last.confusions.most_common(40)]
        return ReportTable("Mistaken for", ["should call", "called", "times"], rows)

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
        heads = ["stage", "CPU seconds", "planned", "seconds", "peak memory, GB"]
        return ReportTable("Cost", heads, rows)


def write_report(report: AdaptReport, settings: AdaptSettings) -> None:
    """Write report.html, report.json and the viewer's page of the episodes it links to."""
    folder = settings.output
    shown = episodes_to_show(report.last.all, NUM_EPISODES)
    _write_episodes(shown, folder)
    may_ship, why = report.gate()
    links = [
        (f"{EPISODES}.html#e={EPISODES}:{number}", _told(each), bool(each["strict_valid"]))
        for number, each in enumerate(shown, 1)
    ]
    text = adapt_report_html(report.title, why, may_ship, report.tables(), links, report.told)
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
    return "\n".join([*lines, *report.told, report.gate()[1]])


def _solved(answers: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    return round(success_rate(answers) * len(answers)), len(answers)


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
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid #8884;
  font-variant-numeric: tabular-nums; }
.gate { padding: .6rem 1rem; border-left: .4rem solid; }
.no { border-color: #c33; } .yes { border-color: #393; }
"""


@dataclass(frozen=True)
class ReportTable:
    """A table of the page."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: str = ""

    def html(self) -> str:
        """Return the table as HTML; a line where it is empty."""
        title = f"<h2>{escape(self.title)}</h2>\n"
        if not self.rows:
            return f"{title}<p>None.</p>\n"
        heads = "".join(f'<th scope="col">{escape(each)}</th>' for each in self.heads)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in row)}</tr>\n" for row in self.rows
        )
        text = f"<p>{escape(self.text)}</p>\n" if self.text else ""
        return f"{title}{text}<table>\n<tr>{heads}</tr>\n{rows}</table>\n"


def adapt_report_html(
    title: str,
    gate: str,
    may_ship: bool,
    tables: Sequence[ReportTable],
    links: Sequence[tuple[str, str, bool]],
    told: Sequence[str],
) -> str:
    """Return the page; it loads nothing. `links` are (address, text, whether it was solved)."""
    episodes = "".join(
        f'<li>{"✓" if solved else "✗"} <a href="{escape(address)}">{escape(text)}</a></li>\n'
        for address, text, solved in links
    )
    notes = "".join(f"<p>{escape(each)}</p>\n" for each in told)
    kind = "yes" if may_ship else "no"
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{escape(title)}</h1>\n"
        f'<p class="gate {kind}">{escape(gate)}</p>\n{notes}'
        f"{''.join(each.html() for each in tables)}"
        f"<h2>Episodes</h2>\n<ul>\n{episodes}</ul>\n</html>\n"
    )
