"""Convert a record file and summarise."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.jsonl_records import (
    Item,
    Record,
    with_progress_bar,
    write_records,
)
from fctncalling.cli.shared.parser import add_input, add_json_switch
from fctncalling.cli.shared.tool_flags import (
    USUAL_TASKS,
    add_dataset_argument,
    add_tool_arguments,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a subcommand that converts records to a parser."""
    add_dataset_argument(parser, USUAL_TASKS)
    written = "where records go: .jsonl or .jsonl.gz"
    add_input(parser, "--input", "PATH", "records to read: .jsonl or .jsonl.gz")
    parser.add_argument("--output", type=Path, required=True, help=written)
    add_tool_arguments(parser)
    add_json_switch(parser)


def convert_file(
    args: argparse.Namespace,
    description: str,
    items: Iterable[Item],
    convert: Callable[[Item], Record],
) -> int:
    """Convert items, one by one in order, to the records of --output, and print a summary.

    Return 0, or 1 if records are invalid (tools of ours failed on them); raises InputError.
    """
    tally = RecordSummary()
    items = with_progress_bar(items, description, "record")
    write_records(args.output, (tally.count(convert(item)) for item in items))
    report = {"output": str(args.output), **tally.report()}
    print(json.dumps(report, indent=2) if args.json else tally.text(args.output))
    if tally.invalid:
        message = f"{tally.invalid} records are invalid; the first: {tally.reason}"
        print(f"error: {message}", file=sys.stderr)
    return 1 if tally.invalid else 0


def mark_invalid(record: Record, reason: str) -> Record:
    """Mark a record as invalid: an infrastructure failure is no fault of the model."""
    return {**record, "invalid": True, "invalid_reason": reason}


class RecordSummary:
    """Summary of converted records: counts by category, of all, valid and invalid ones."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._named: tuple[str, ...] = ("records", "invalid")
        self.reason = ""  # of the first invalid record

    @property
    def invalid(self) -> int:
        """Number of invalid records."""
        return sum(counts["invalid"] for counts in self._counts.values())

    def count(self, record: Record) -> Record:
        """Count a record and return it."""
        counts = self._counts[str(record.get("category"))]
        counts["records"] += 1
        if record.get("invalid") is True:
            counts["invalid"] += 1
            self.reason = self.reason or f"{record.get('id')}: {record.get('invalid_reason', '')}"
        elif "valid" in record:
            self._named = ("records", "valid", "invalid")
            counts["valid"] += record["valid"]
        return record

    def report(self) -> dict[str, Any]:
        """Return the counts as a report, overall and by category."""
        total = {key: sum(each[key] for each in self._counts.values()) for key in self._named}
        by_category = {
            name: {key: each[key] for key in self._named} for name, each in self._counts.items()
        }
        return {**total, "categories": by_category}

    def text(self, output: Path) -> str:
        """Return the summary as one line of text."""
        records, *valid, invalid = (self.report()[key] for key in self._named)
        verdicts = f", {valid[0]} valid, {records - invalid - valid[0]} not" if valid else ""
        return f"{output}: {records} records{verdicts}, {invalid} invalid"
