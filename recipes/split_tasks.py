"""Split official BFCL tasks into test tasks and training tasks, by the ids of a file.

    python recipes/split_tasks.py --data_dir data/bfcl --output tasks

writes tasks/test.jsonl and tasks/train.jsonl, which has all others of the same categories, and of
these the ones to demonstrate (tasks/demonstrations.jsonl) and the rest (tasks/practice.jsonl).
`official_split.json` has single-turn tasks: of simple_python and multiple 150 to test, 150 to
demonstrate and 300 others, of irrelevance 100, 50 and 90. `multi_turn_split.json` has
multi_turn_base and multi_turn_miss_func: of each 30 to test; 100 and 40 to demonstrate.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SPLIT = Path(__file__).with_name("official_split.json")
PARTS = ("test", "demonstrations")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the four files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", type=Path, default=Path("data/bfcl"), metavar="FOLDER")
    parser.add_argument("--split", type=Path, default=SPLIT, metavar="FILE")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        split = json.loads(options.split.read_text("utf-8"))
        entries = [it for name in split["test"] for it in official_entries(options.data_dir, name)]
    except FileNotFoundError as error:
        print(
            f"error: {error.filename}: there is no such file; `fctncalling import-bfcl`"
            " gets the official data (--data_dir)",
            file=sys.stderr,
        )
        return 2
    test, demonstrated = ({it for ids in split[part].values() for it in ids} for part in PARTS)
    if missing := (test | demonstrated) - {entry["id"] for entry in entries}:
        print(f"error: {options.split}: no task has the id {min(missing)}", file=sys.stderr)
        return 2
    train = [it for it in entries if it["id"] not in test]
    options.output.mkdir(parents=True, exist_ok=True)
    for name, part in (
        ("test", [it for it in entries if it["id"] in test]),
        ("train", train),
        ("demonstrations", [it for it in train if it["id"] in demonstrated]),
        ("practice", [it for it in train if it["id"] not in demonstrated]),
    ):
        text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in part)
        (options.output / f"{name}.jsonl").write_text(text, encoding="utf-8")
        print(f"{options.output / name}.jsonl: {len(part)} tasks")
    return 0


def official_entries(data_dir: Path, category: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of a category, each with its ground truth where it has one."""
    name = f"BFCL_v4_{category}.json"
    answers = data_dir / "possible_answer" / name
    truths = {it["id"]: it["ground_truth"] for it in _lines(answers)} if answers.is_file() else {}
    for entry in _lines(data_dir / name):
        if entry["id"] in truths:
            entry["ground_truth"] = truths[entry["id"]]
        yield entry


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    sys.exit(main())
