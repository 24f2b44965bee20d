"""Tasks of BFCL's categories: makers and shares, flags, the guard against official tasks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.task_finder import use_sibling_long_context_tables
from fctncalling.data.paths import official_data_folder, user_data_folder
from fctncalling.envs.tools.bfcl.long_context import LongContextError, long_context_path
from fctncalling.lab.forge import multi_turn, single_turn
from fctncalling.lab.forge.clarify_entries import clarify_entry
from fctncalling.lab.forge.forge_run import ForgeFiles, ForgeReport, ForgeRun, TaskSource
from fctncalling.lab.forge.forged_entry import ForgedEntry, entry_task
from fctncalling.lab.forge.measures import write_report
from fctncalling.lab.forge.multi_turn.dials import (
    CLASS_WEIGHTS,
    CRITICAL_DIALS,
    HISTORY_DIALS,
    class_combination_weights,
)
from fctncalling.lab.forge.multi_turn_entry import multi_turn_entry
from fctncalling.lab.forge.official_guard import OfficialGuard, expected_calls_text

Maker = Callable[..., ForgedEntry]
"""(category, seed, index, attempt) -> task: nothing else decides but `dials` and `apis`."""


class CategoryMaker(NamedTuple):
    """Category of a file: who makes its tasks, and how many."""

    make: Maker
    weight: float


DIALS = {"history": HISTORY_DIALS, "critical": CRITICAL_DIALS}
"""`--dials` -> what multi-turn plans are drawn by, where it is not like BFCL's own."""
_SELDOM = ("live_simple", "live_multiple", "live_relevance", "simple_java", "simple_javascript")
_MULTI_TURN_WEIGHTS = zip(multi_turn.CATEGORIES, (26.0, 12.0, 12.0, 6.0, 4.0), strict=True)
FORGED_CATEGORIES: dict[str, CategoryMaker] = {
    **{
        name: CategoryMaker(single_turn.single_turn_entry, 3.0 if name in _SELDOM else 5.0)
        for name in single_turn.CATEGORIES
    },
    **{name: CategoryMaker(multi_turn_entry, weight) for name, weight in _MULTI_TURN_WEIGHTS},
    "clarify": CategoryMaker(clarify_entry, 6.2),
}
"""Category -> maker and weight, in the order in which a file holds them. Of those of BFCL 60 of
100 tasks are multi-turn.
"""
BFCL_CATEGORIES = tuple(name for name in FORGED_CATEGORIES if name != "clarify")
"""Categories of BFCL, which are made where none is named."""
LONG_CONTEXT = ("multi_turn_long_context", "multi_turn_composite")
"""Categories whose tools load BFCL's long-context tables."""
VERSION = 8
"""Raised where the same seed gives other tasks than before."""
NO_OFFICIAL_FILES = (
    "no official files are here, so no task is compared with theirs (import-bfcl gets them); the "
    "ledger says so"
)


def add_bfcl_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the flags of BFCL's categories."""
    add = parser.add_argument
    add(
        "--dials",
        choices=("official", *DIALS),
        default="official",
        help="official: multi-turn plans like BFCL's own; history: plans whose newest message "
        "alone is rarely enough; critical: plans of 6 to 16 actions whose mistakes show late; "
        "default: official",
    )
    add(
        "--apis",
        nargs="+",
        choices=sorted({name for names in CLASS_WEIGHTS for name in names}),
        default=[],
        metavar="NAME",
        help="classes of BFCL that multi-turn tasks may involve, such as TradingBot; default: all",
    )
    layout = "file: one file of JSON Lines; bfcl: a folder as BFCL ships it; default: file"
    add("--layout", choices=("file", "bfcl"), default="file", help=layout)
    official = "official files that no task may resemble; default: where import-bfcl put them"
    add("--official_dir", type=Path, metavar="DIR", help=official)
    report = "write FILE.report.md too: figures of the tasks beside those of the official ones"
    add("--report", action="store_true", help=report)


class BfclSource(TaskSource):
    """Tasks of BFCL's categories, none like an official one."""

    weights = MappingProxyType({name: each.weight for name, each in FORGED_CATEGORIES.items()})

    def __init__(
        self,
        guard: OfficialGuard,
        *,
        dials: str = "official",
        layout: str = "file",
        apis: Sequence[str] = (),
        reports: bool = False,
    ) -> None:
        self._guard = guard
        self.notice = "" if guard.files else NO_OFFICIAL_FILES
        self._dials = dials
        self._layout = layout
        self._apis = tuple(sorted(apis))
        self._reports = reports

    def draw(self, category: str, seed: int, index: int, attempt: int) -> ForgedEntry:
        make = FORGED_CATEGORIES[category].make
        if category not in multi_turn.CATEGORIES:
            return make(category, seed, index, attempt)
        dials = DIALS.get(self._dials)
        return make(category, seed, index, attempt, dials=dials, apis=self._apis)

    def fault(self, made: ForgedEntry) -> str | None:
        if not self._guard.files:
            return None
        task = entry_task(made.entry)
        sequence = None if task.ground_truth is None else expected_calls_text(task)
        return self._guard.fault(made.user_texts, sequence)

    def record(self) -> dict[str, Any]:
        return {
            "forge_version": VERSION,
            "dials": self._dials,
            "layout": self._layout,
            **({"apis": list(self._apis)} if self._apis else {}),
            "official_files": dict(self._guard.files) or None,
        }

    def run_dry(self, category: str, index: int) -> str:
        return (
            f"{category}: no new task after {self.max_attempts} attempts at number {index}; "
            f"expected at most {index} tasks of it for this seed"
        )

    def report(self, files: ForgeFiles, *, is_new: bool) -> ForgeReport:
        thrown = ", ".join(f"{n} that {why}" for why, n in sorted(files.thrown_away.items()))
        text = f"{files.num_tasks} tasks in {files.output}; thrown away: {thrown or 'none'}"
        if not is_new:
            text = f"{files.output}: is there already, forged with the same flags"
        record: dict[str, Any] = {"output": str(files.output), **files.summary()}
        if self._reports:
            page = files.output.with_name(f"{files.output.name}.report.md")
            write_report(files.output, self._guard.folder, page, files.summary())
            record["report"] = str(page)
            text += f"\nreport: {page}"
        return ForgeReport(record, text)


def bfcl_run(args: argparse.Namespace) -> tuple[BfclSource, ForgeRun]:
    """Return the source and the run that a command's flags ask for. Raises InputError."""
    _require_multi_turn(args)
    guard = _guard(args.official_dir)
    if guard.folder is not None:
        use_sibling_long_context_tables(guard.folder)
    source = BfclSource(
        guard, dials=args.dials, layout=args.layout, apis=args.apis, reports=args.report
    )
    return source, ForgeRun(source, args.num_tasks, args.seed, _categories(args.category))


def _require_multi_turn(args: argparse.Namespace) -> None:
    """Raise InputError for APIs that categories do not take, or that no task involves alone."""
    if not args.apis:
        return
    named = args.category or BFCL_CATEGORIES
    if others := [name for name in named if name not in multi_turn.CATEGORIES]:
        raise InputError(
            f"--apis: belongs to multi-turn categories, got {others[0]}: expected --category "
            "multi_turn_base and the like"
        )
    if not class_combination_weights(args.apis):
        raise InputError(
            f"--apis {' '.join(args.apis)}: no task involves these alone: add TradingBot, "
            "TravelAPI, VehicleControlAPI or GorillaFileSystem"
        )


def _categories(named: Sequence[str] | None) -> tuple[str, ...]:
    """Return the named categories, else BFCL's; long context if its tables are here."""
    if named is not None:
        if any(name in LONG_CONTEXT for name in named):
            long_context_path()
        return tuple(name for name in FORGED_CATEGORIES if name in named)
    try:
        long_context_path()
    except LongContextError:
        left_out = ", ".join(LONG_CONTEXT)
        print(f"without BFCL's long-context tables (import-bfcl): no {left_out}", file=sys.stderr)
        return tuple(name for name in BFCL_CATEGORIES if name not in LONG_CONTEXT)
    return BFCL_CATEGORIES


def _guard(folder: Path | None) -> OfficialGuard:
    """Return the guard against the official files of a folder, or of those `import-bfcl` wrote."""
    if folder is not None:
        guard = OfficialGuard.of_folder(folder)
        if not guard.files:
            expected = "expected files named BFCL_*.json, found none"
            raise InputError(f"--official_dir {folder}: {expected}")
        return guard
    for usual in (official_data_folder(), user_data_folder()):
        if usual.is_dir() and (guard := OfficialGuard.of_folder(usual)).files:
            return guard
    return OfficialGuard()
