"""Task files of an adaptation: forged or the user's, parted into training and held-out tasks."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fctncalling.data.json_stream import read_entries
from fctncalling.lab.adapt.adapt_settings import AdaptError, AdaptSettings
from fctncalling.lab.own_api.api import SpecificationError
from fctncalling.lab.own_api.specifications import load_api

TRAIN, HELD_OUT = "train.jsonl", "held_out.jsonl"


def command(words: Sequence[str]) -> int:
    """Run a command of this project in this process; return its exit code."""
    from fctncalling.cli.command import main

    return main(list(words))


def forge(settings: AdaptSettings, folder: Path, num_tasks: int) -> list[dict[str, Any]]:
    """Return the tasks to learn from: forged from the SPEC, or the user's own."""
    if settings.tasks is not None:
        return entries(settings.tasks)[:num_tasks]
    file = folder / "forged.jsonl"
    words = ["forge", "--api", settings.spec, "--output", str(file)]
    words += ["--num_tasks", str(num_tasks), "--seed", str(settings.seed)]
    for flag in ("scenarios", "kinds", "phrases"):
        if (value := getattr(settings, flag)) is not None:
            words += [f"--{flag}", str(value)]
    if code := command(words):
        raise SystemExit(code)
    return entries(file)


def require_specification(settings: AdaptSettings) -> None:
    """Raise AdaptError, before anything is loaded or trained, where the SPEC cannot be read."""
    if settings.tasks is None:
        try:
            load_api(settings.spec, scenarios=settings.scenarios)
        except SpecificationError as error:
            raise AdaptError(str(error)) from None


def entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a task file; AdaptError where it cannot be read."""
    try:
        return [dict(raw) for _, raw in read_entries(path)]
    except (OSError, ValueError) as error:
        raise AdaptError(f"{path}: {error}") from None


def write_split(tasks: Sequence[dict[str, Any]], num_held_out: int, folder: Path) -> None:
    """Write training and held-out tasks: of each category the same share, chosen by their texts.

    Tasks of one text stay together.
    """
    by_category: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for task in tasks:
        mark = hashlib.sha256(json.dumps(task["question"]).encode()).hexdigest()
        by_category[str(task["id"]).rsplit("_", 1)[0]].append((mark, task))
    held_out: set[str] = set()
    for each in by_category.values():
        share = max(1, round(num_held_out * len(each) / len(tasks))) if len(each) > 1 else 0
        held_out |= {mark for mark, _ in sorted(each, key=lambda pair: pair[0])[:share]}
    marked = [pair for each in by_category.values() for pair in each]
    for name, wanted in ((TRAIN, False), (HELD_OUT, True)):
        lines = [json.dumps(task) for mark, task in marked if (mark in held_out) is wanted]
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
