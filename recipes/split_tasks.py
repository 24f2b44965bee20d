"""Split official BFCL tasks into training tasks and test tasks, by the ids of a file.

    python recipes/split_tasks.py --data_dir data/bfcl --output tasks

writes tasks/train.jsonl and tasks/test.jsonl: of simple_python and multiple 450 and 150 tasks, of
irrelevance 140 and 100. `official_split.json` names the test tasks; all others are for training.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SPLIT = Path(__file__).with_name("official_split.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the two files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", type=Path, default=Path("data/bfcl"), metavar="FOLDER")
    parser.add_argument("--split", type=Path, default=SPLIT, metavar="FILE")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        split = json.loads(options.split.read_text("utf-8"))
        entries = [it for name in split for it in official_entries(options.data_dir, name)]
    except FileNotFoundError as error:
        print(
            f"error: {error.filename}: there is no such file; `evaluate_fctncalling.py import-bfcl`"
            " gets the official data (--data_dir)",
            file=sys.stderr,
        )
        return 2
    test_ids = {task_id for ids in split.values() for task_id in ids}
    if missing := test_ids - {entry["id"] for entry in entries}:
        print(f"error: {options.split}: no task has the id {min(missing)}", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    for name, is_test in (("train", False), ("test", True)):
        part = [entry for entry in entries if (entry["id"] in test_ids) == is_test]
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
