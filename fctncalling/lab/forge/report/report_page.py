"""The report page of a forged file: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.errors import TaskError
from fctncalling.data.replaced_file import replaced_file
from fctncalling.data.types import Task
from fctncalling.lab.forge.report.category_report import (
    ForgedCategoryReport,
    Measurer,
    category_report,
    html_of,
)
from fctncalling.lab.forge.report.diversity import Recurrence
from fctncalling.lab.forge.report.multi_turn_figures import multi_turn_figures
from fctncalling.lab.forge.report.single_turn_figures import single_turn_figures
from fctncalling.lab.forge.report.svg_bars import FORGED_COLOR, OFFICIAL_COLOR

MAX_TASKS = 2000  # of a category, the first ones: memory stays the same however long the file is
_STYLE = """
body { font-family: sans-serif; max-width: 960px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: 2px 12px; text-align: left }
tr:nth-child(even) { background: #f3f3f3 } h2 { border-bottom: 1px solid #ccc; margin-top: 2em }
code { background: #eee; padding: 0 2px } svg { display: block; margin: 1.2em 0 }
"""


def write_report(
    tasks: Path, official_folder: Path | None, page: Path, ledger: Mapping[str, Any]
) -> None:
    """Write the page of a forged file; the official column is empty where the files are missing.

    `ledger` holds settings and totals as the ledger's first and last line do.
    """
    reports = [
        category_report(
            category,
            forged,
            _official(official_folder, category),
            _measurer(category),
            {**recurrence.shares, recurrence.num_tasks: recurrence.share},
            _official(official_folder, f"live_{category.removesuffix('_python')}"),
        )
        for category, (forged, recurrence) in _by_category(tasks).items()
    ]
    text = _page(tasks.name, reports, ledger)
    with replaced_file(page) as part:
        part.write_text(text, encoding="utf-8")


def _measurer(category: str) -> Measurer:
    return multi_turn_figures if category.startswith("multi_turn") else single_turn_figures


def _by_category(path: Path) -> dict[str, tuple[list[Task], Recurrence]]:
    """Return the first tasks of each category of a file or folder, and what recurs in all."""
    found: dict[str, tuple[list[Task], Recurrence]] = {}
    for task in iter_tasks(path):
        first, recurrence = found.setdefault(task.category, ([], Recurrence()))
        recurrence.add(task)
        if len(first) < MAX_TASKS:
            first.append(task)
    return found


def _official(folder: Path | None, category: str) -> list[Task]:
    if folder is None:
        return []
    file = folder / f"BFCL_v4_{category}.json"
    try:
        return list(iter_tasks(file)) if file.exists() else []
    except TaskError:
        return []


def _page(name: str, reports: list[ForgedCategoryReport], ledger: Mapping[str, Any]) -> str:
    return "".join(
        (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(name)}</title>',
            f"<style>{_STYLE}</style><h1>Forged tasks: {escape(name)}</h1>",
            f'<p><b style="color:{FORGED_COLOR}">forged</b> beside ',
            f'<b style="color:{OFFICIAL_COLOR}">official</b>. {_told(ledger)}</p>',
            "<p>How often a discriminator ranks a forged one before an official one (AUC: 0.5 "
            "cannot tell, 1 always tells). The control is the official category against its live "
            "counterpart, whose tasks are from users.</p>"
            "<table><tr><th>category</th><th>texts</th><th>function docs</th>"
            "<th>control: texts</th><th>control: function docs</th></tr>",
            *map(_told_apart, reports),
            "</table>",
            *map(html_of, reports),
            "</html>\n",
        )
    )


def _told_apart(report: ForgedCategoryReport) -> str:
    """Return a row of AUCs, with a link to the section of the category."""
    cells = "".join(
        f"<td>{found[name].auc:.2f}</td>" if name in found else "<td></td>"
        for found in (report.told_apart, report.control)
        for name in ("texts", "function docs")
    )
    return f'<tr><td><a href="#{report.category}">{report.category}</a></td>{cells}</tr>'


def _told(ledger: Mapping[str, Any]) -> str:
    settings, totals = ledger["settings"], ledger["totals"]
    thrown = totals["thrown_away"]
    told = ", ".join(f"{count} that {escape(why)}" for why, count in thrown.items()) or "none"
    official = settings["official_files"]
    guarded = (
        f"compared with {len(official)} official files"
        if official
        else ("compared with no official file, as none was there")
    )
    return f"{totals['tasks']} tasks of seed {settings['seed']}, {guarded}; thrown away: {told}."
