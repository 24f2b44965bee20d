"""Split of forged multi-turn tasks by the names in their calls, to test with names never seen.

    python recipes/names_held_out.py --train trading.jsonl files.jsonl --num_train 640 \
        --test test.jsonl --num_test 200 --output FOLDER

A sixth of all file, folder, stock and city names is held out, by a hash of the name. Writes to the
folder: train.jsonl, training tasks that take none of them, as many of each API, renumbered;
practice.jsonl, --num_practice others of the kind; test.jsonl, half of whose tasks take a held-out
name, and half none, alike in category, API and number of turns, task for task; names.json says
which is which.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

ONE_IN = 6
PARAMETERS = {
    *("symbol", "stock", "city", "destination", "source", "folder", "dir_name", "file_name"),
    *("file_name1", "file_name2", "name"),
}


def names(task: Mapping[str, Any]) -> set[str]:
    """Return the names that a task's calls take."""
    found = set()
    for call in (call for turn in task["ground_truth"] for call in turn):
        for argument in ast.parse(call, mode="eval").body.keywords:  # type: ignore[attr-defined]
            value = argument.value
            if argument.arg in PARAMETERS and isinstance(value, ast.Constant):
                found.add(str(value.value))
    return found


def is_held_out(name: str) -> bool:
    """Return whether a name is held out from training."""
    return hashlib.sha256(name.encode()).digest()[0] % ONE_IN == 0


def likeness(task: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the properties in which tasks of both halves match."""
    category = task["id"].rsplit("_", 1)[0]
    return (category, *task["involved_classes"], len(task["question"]))


def matched_halves(tasks: Iterable[Mapping[str, Any]], number: int) -> dict[str, list[Any]]:
    """Return tasks with names held out, and as many like them without; some name in each."""
    waiting: dict[tuple[object, ...], dict[bool, list[Any]]] = defaultdict(
        lambda: {True: [], False: []}
    )
    halves: dict[str, list[Any]] = {"held_out": [], "seen": []}
    for task in tasks:
        taken = names(task)
        if not taken or len(halves["seen"]) == number // 2:
            continue
        alike = waiting[likeness(task)]
        alike[any(map(is_held_out, taken))].append(task)
        if all(alike.values()):
            halves["held_out"].append(alike[True].pop())
            halves["seen"].append(alike[False].pop())
    return halves


def by_hash(tasks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return tasks in an order that their ids decide, by no rule."""
    return sorted(tasks, key=lambda task: hashlib.sha256(task["id"].encode()).digest())


def evenly(tasks: Iterable[Mapping[str, Any]], number: int) -> list[dict[str, Any]]:
    """Return renumbered tasks without a held-out name, equally many of each API."""
    of_api: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for task in by_hash(tasks):
        if not any(map(is_held_out, names(task))):
            of_api[task["involved_classes"][0]].append(task)
    drawn = [task for alike in zip(*of_api.values(), strict=False) for task in alike][:number]
    return [
        {**task, "id": f"{task['id'].rsplit('_', 1)[0]}_{place}"}
        for place, task in enumerate(drawn)
    ]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the tasks of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, tasks: Iterable[Mapping[str, Any]]) -> None:
    """Write tasks, one a line."""
    path.write_text("".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks), "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--num_train", type=int, default=640, metavar="N")
    parser.add_argument("--num_practice", type=int, default=0, metavar="N")
    parser.add_argument("--test", type=Path, required=True, metavar="FILE")
    parser.add_argument("--num_test", type=int, default=200, metavar="N")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(arguments)
    for path in (*options.train, options.test):
        if not path.is_file():
            parser.error(f"{path}: there is no such file")
    options.output.mkdir(parents=True, exist_ok=True)
    wanted = options.num_train + options.num_practice
    learned = evenly(chain.from_iterable(map(read, options.train)), wanted)
    halves = matched_halves(by_hash(read(options.test)), options.num_test)
    tests = [task for half in halves.values() for task in half]
    for flag, found, asked in (("train", learned, wanted), ("test", tests, options.num_test)):
        if len(found) < asked:
            parser.error(f"--{flag} gives {len(found)} tasks of the {asked} asked for: forge more")
    write(options.output / "train.jsonl", learned[: options.num_train])
    write(options.output / "practice.jsonl", learned[options.num_train :])
    write(options.output / "test.jsonl", tests)
    ids = {half: [task["id"] for task in tasks] for half, tasks in halves.items()}
    (options.output / "names.json").write_text(json.dumps(ids, indent=1) + "\n", "utf-8")
    print(f"{len(learned)} tasks to learn, {len(tests)} to test")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
