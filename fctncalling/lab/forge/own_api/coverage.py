"""Coverage: which functions and parameters the tasks of a file ask for, and what they cannot."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from fctncalling.lab.forge.own_api.askable_api import AskableApi
from fctncalling.lab.own_api.kinds.find import guess_note


def coverage_page(api: AskableApi, ledger: Path) -> str:
    """Return a page in Markdown: a line a function and a parameter, with why one is not asked."""
    calls: Counter[str] = Counter()
    said: Counter[tuple[str, str]] = Counter()
    left_open: Counter[tuple[str, str]] = Counter()
    for line in _lines(ledger):
        told = line["provenance"]
        for function, names in zip(told["functions"], told["said"], strict=True):
            calls[function] += 1
            said.update((function, name) for name in names if name != told.get("missing"))
            if "missing" in told:
                left_open[function, told["missing"]] += 1
    rows = [
        "| function | parameter | kind | evidence | calls | said | left open | why not |",
        "|---|---|---|---|---:|---:|---:|---|",
    ]
    for name, words in api.words.items():
        why = api.unasked.get(name, "" if calls[name] else "no task of this file draws it")
        rows.append(f"| {name} | | | | {calls[name]} | | | {why} |")
        for parameter, kind in words.kinds.items():
            key = (name, parameter)
            told_kind = f"{kind.kind} {kind.topic}".strip()
            evidence = f"{kind.evidence}{' (guessed)' if kind.guessed else ''}"
            rows.append(
                f"| | {parameter} | {told_kind} | {evidence} | | {said[key]} | {left_open[key]} | "
                f"{api.left_out.get(key, '')} |"
            )
    head = f"# {api.api.name}: what {sum(calls.values())} calls ask for\n"
    notes = [*api.api.notes, *guess_note(_kinds(api))]
    tail = ["", "## Notes", "", *(f"- {note}" for note in notes)] if notes else []
    return "\n".join([head, *rows, *tail, ""])


def _kinds(api: AskableApi) -> dict[tuple[str, str], Any]:
    return {
        (name, parameter): kind
        for name, words in api.words.items()
        for parameter, kind in words.kinds.items()
    }


def _lines(ledger: Path) -> list[dict[str, Any]]:
    with ledger.open(encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    return [line for line in found if "provenance" in line]
