"""The report page of a forged file: one HTML file that needs nothing else."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.errors import TaskError
from fctncalling.data.paths import atomic_write
from fctncalling.data.types import Task
from fctncalling.lab.forge.official_guard import expected_calls_text
from fctncalling.lab.forge.report.category_report import (
    FORGED_COLOR,
    OFFICIAL_COLOR,
    Figures,
    ForgedCategoryReport,
    Row,
    bars,
    category_report,
    category_section_html,
    texts_of_tasks,
)
from fctncalling.lab.forge.report.diversity import (
    SentenceRecurrence,
    count_opening_word_pairs,
    word_tokens,
)
from fctncalling.lab.forge.report.measures import (
    MultiTurnCounts,
    SingleTurnFigures,
    kl_divergence,
    measure_fidelity,
    measure_single_turn,
)

TYPE_WORDS = 20000  # at which the growth of types is read
MOST_BARS = 24  # of a figure, the most frequent official outcomes first


def multi_turn_figures(forged: Sequence[Task], official: Sequence[Task]) -> Figures:
    """Return the rows and figures of one multi-turn category."""
    # A few official truths cannot be written as calls.
    official = [task for task in official if expected_calls_text(task) is not None]
    ours, theirs = measure_fidelity(forged), measure_fidelity(official)
    beside = theirs if official else MultiTurnCounts()
    figures = [
        _figure("turns of a task", ours.turns, beside.turns),
        _figure("calls of a turn", ours.calls, beside.calls),
        _figure("longest chain of dependent calls", ours.chains, beside.chains),
        _figure("where an argument can be read", ours.provenance, beside.provenance),
        _figure(
            "what a call changes (share of calls)",
            ours.effects,
            beside.effects,
            (ours.functions.total(), beside.functions.total()),
        ),
        _figure("classes of a task", _joined(ours.classes), _joined(beside.classes)),
    ]
    return [*_count_rows(ours, beside), *_word_rows(forged, official)], figures


def _figure(
    title: str,
    ours: Mapping[Any, int],
    theirs: Mapping[Any, int],
    totals: tuple[int, int] | None = None,
) -> str:
    sums = totals or (sum(ours.values()), sum(theirs.values()))
    keys = sorted({*ours, *theirs}, key=lambda key: (-theirs.get(key, 0), str(key)))
    if all(isinstance(key, int) for key in keys):
        keys.sort()
    keys = keys[:MOST_BARS]
    shares = [
        {str(key): counts.get(key, 0) / max(1, total) for key in keys}
        for counts, total in zip((ours, theirs), sums, strict=True)
    ]
    return bars(title, shares[0], shares[1] if theirs else {})


def _joined(classes: Counter[tuple[str, ...]]) -> Counter[str]:
    """Return combinations of classes under short names."""
    short = {"GorillaFileSystem": "Files", "VehicleControlAPI": "Vehicle"}
    return Counter(
        {
            " + ".join(short.get(name, name.removesuffix("API")) for name in names): count
            for names, count in classes.items()
        }
    )


def _count_rows(ours: MultiTurnCounts, theirs: MultiTurnCounts) -> list[Row]:
    mine, other = ours.figures(), theirs.figures()
    measures = ("turns_per_task", "calls_per_turn", "class_combinations", "functions", "pairs")
    has_official = theirs.tasks > 0
    rows: list[Row] = [
        (name.replace("_", " "), str(mine[name]), str(other[name]) if has_official else "")
        for name in (*measures, "edges")
    ]
    if has_official:
        both = sum(edge in ours.edges for edge in theirs.edges)
        rows.append(("official dependency edges found", str(both), str(len(theirs.edges))))
        for name in ("turns", "calls"):
            divergence = kl_divergence(getattr(ours, name), getattr(theirs, name))
            rows.append((f"KL divergence of {name} (nats)", f"{divergence:.3f}", "0"))
    return rows


def _word_rows(forged: Sequence[Task], official: Sequence[Task]) -> list[Row]:
    ours, theirs = texts_of_tasks(forged), texts_of_tasks(official)
    words = [sum(len(text.split()) for text in texts) for texts in (ours, theirs or ours)]
    count = min(TYPE_WORDS, *words)
    rows: dict[str, Callable[[Sequence[str]], str]] = {
        "words of a turn (median, 90 %)": _spread,
        f"different words in the first {count}": partial(_types, count),
        "most frequent opening (two words)": _most_frequent,
    }
    return [
        (name, shown(ours), shown(theirs) if theirs else "") for name, shown in rows.items() if ours
    ]


def _spread(texts: Sequence[str]) -> str:
    lengths = sorted(len(text.split()) for text in texts)
    return f"{statistics.median(lengths):.0f}, {lengths[9 * len(lengths) // 10]}"


def _types(count: int, texts: Sequence[str]) -> str:
    words = [word for text in texts for word in word_tokens(text) if word.isalnum()][:count]
    return str(len(set(words)))


def _most_frequent(texts: Sequence[str]) -> str:
    counts = count_opening_word_pairs(texts)
    [(opening, number)] = counts.most_common(1)
    return f"{opening!r} {number / counts.total():.1%}"


def single_turn_comparison(forged: Sequence[Task], official: Sequence[Task]) -> Figures:
    """Return the rows and figures of one single-turn category."""
    ours = measure_single_turn(forged)
    theirs = measure_single_turn(official) if official else None
    beside = theirs or SingleTurnFigures(0, {}, {}, {}, {}, {}, {})
    figures = [
        bars("functions offered", ours.functions, beside.functions),
        bars("parameters of a function", ours.parameters, beside.parameters),
        bars("types of parameters", ours.types, beside.types),
    ]
    if any(int(number) > 1 for number in ours.calls):
        figures.append(bars("calls expected", ours.calls, beside.calls))
    return _rows(ours, theirs), figures


def _rows(ours: SingleTurnFigures, theirs: SingleTurnFigures | None) -> list[Row]:
    rows: list[Row] = [
        (name, f"{share:.1%}", f"{theirs.shares[name]:.1%}" if theirs else "")
        for name, share in ours.shares.items()
    ]
    for name, spread in ours.lengths.items():
        shown = _shown(theirs.lengths[name]) if theirs else ""
        rows.append((f"words of a {name} (mean, median, 90 %)", _shown(spread), shown))
    return rows


def _shown(spread: tuple[float, float, float]) -> str:
    return f"{spread[0]:.1f}, {spread[1]:.0f}, {spread[2]:.0f}"


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
            multi_turn_figures if category.startswith("multi_turn") else single_turn_comparison,
            {**recurrence.shares, recurrence.num_tasks: recurrence.share},
            _official(official_folder, f"live_{category.removesuffix('_python')}"),
        )
        for category, (forged, recurrence) in _by_category(tasks).items()
    ]
    text = _page(tasks.name, reports, ledger)
    with atomic_write(page) as part:
        part.write_text(text, encoding="utf-8")


def _by_category(path: Path) -> dict[str, tuple[list[Task], SentenceRecurrence]]:
    """Return the first tasks of each category of a file or folder, and what recurs in all."""
    found: dict[str, tuple[list[Task], SentenceRecurrence]] = {}
    for task in iter_tasks(path):
        first, recurrence = found.setdefault(task.category, ([], SentenceRecurrence()))
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
            *map(category_section_html, reports),
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
    number = (
        f"{len(official)} official files" if official else "no official file, as none was there"
    )
    guarded = f"compared with {number}"
    return f"{totals['tasks']} tasks of seed {settings['seed']}, {guarded}; thrown away: {told}."
