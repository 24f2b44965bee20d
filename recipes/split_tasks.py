"""Split official BFCL tasks into test tasks and training tasks, by the ids of a file.

    python recipes/split_tasks.py --data_dir data/bfcl --output tasks

writes tasks/test.jsonl and tasks/train.jsonl, which has all others of the same categories, and of
these the ones to demonstrate (tasks/demonstrations.jsonl) and the rest (tasks/practice.jsonl).
`official_split.json` has single-turn tasks: of simple_python and multiple 150 to test, 150 to
demonstrate and 300 others, of irrelevance 100, 50 and 90; and tasks/live_test.jsonl, 200 of
live_simple and live_multiple. `multi_turn_split.json` has multi_turn_base and multi_turn_miss_func:
of each 30 to test; 100 and 40 to demonstrate.

BFCL's files repeat themselves: `multiple` reuses questions of `simple_python`. So a split is
refused if a test task has the ground truth of a training task, eight words in a row of it, or a bag
of words too much alike (multi-turn tasks repeat each other by number, which the ids keep apart).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SPLIT = Path(__file__).with_name("official_split.json")
PARTS = ("test", "demonstrations", "live_test")
MAX_JACCARD = 0.8  # of two tasks' bags of words: from here on one nearly repeats the other
NGRAM = 8  # words in a row that two tasks may not share
Split = dict[str, dict[str, list[str]]]
Entry = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files of a split; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", type=Path, default=Path("data/bfcl"), metavar="FOLDER")
    parser.add_argument("--split", type=Path, default=SPLIT, metavar="FILE")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        parts = split_parts(options.data_dir, json.loads(options.split.read_text("utf-8")))
    except FileNotFoundError as error:
        print(
            f"error: {error.filename}: there is no such file; `fctncalling import-bfcl` gets the"
            " official data (--data_dir)",
            file=sys.stderr,
        )
        return 2
    except ValueError as error:
        print(f"error: {options.split}: {error}", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in part)
        (options.output / f"{name}.jsonl").write_text(text, encoding="utf-8")
        print(f"{options.output / name}.jsonl: {len(part)} tasks")
    return 0


def split_parts(data_dir: Path, split: Split) -> dict[str, list[Entry]]:
    """Return the entries of each part; ValueError for a faulty split."""
    entries = [it for name in split["test"] for it in official_entries(data_dir, name)]
    live = [it for name in split.get("live_test", {}) for it in official_entries(data_dir, name)]
    chosen = {part: {it for ids in split.get(part, {}).values() for it in ids} for part in PARTS}
    if missing := set().union(*chosen.values()) - {it["id"] for it in (*entries, *live)}:
        raise ValueError(f"no task has the id {min(missing)}")
    train = [it for it in entries if it["id"] not in chosen["test"]]
    parts = {
        "test": [it for it in entries if it["id"] in chosen["test"]],
        "train": train,
        "demonstrations": [it for it in train if it["id"] in chosen["demonstrations"]],
        "practice": [it for it in train if it["id"] not in chosen["demonstrations"]],
    }
    if live:
        parts["live_test"] = [it for it in live if it["id"] in chosen["live_test"]]
        if repeated := near_duplicates([*parts["test"], *parts["live_test"]], train):
            test_id, train_id = min(repeated)
            raise ValueError(f"test task {test_id} nearly repeats the training task {train_id}")
    return parts


def near_duplicates(entries: Sequence[Entry], others: Sequence[Entry]) -> set[tuple[str, str]]:
    """Return the pairs of ids, one of each sequence, of which one task nearly repeats the other."""
    described = [(other["id"], Counter(words_of(other)), _marks(other)) for other in others]
    pairs = set[tuple[str, str]]()
    for entry in entries:
        bag, marks = Counter(words_of(entry)), _marks(entry)
        for name, other_bag, other_marks in described:
            if not marks.isdisjoint(other_marks) or jaccard(bag, other_bag) >= MAX_JACCARD:
                pairs.add((entry["id"], name))
    return pairs


def words_of(entry: Entry) -> list[str]:
    """Return the words of all messages, lower case and without punctuation."""
    texts = [message["content"] for turn in entry["question"] for message in turn]
    return re.findall(r"\w+", " ".join(texts).lower())


def jaccard(bag: Counter[str], other: Counter[str]) -> float:
    """Return the Jaccard similarity of two bags of words: shared words over all words."""
    shared = (bag & other).total()
    return shared / max(1, bag.total() + other.total() - shared)


def _marks(entry: Entry) -> set[str]:
    """Return marks that no two tasks of different parts may share: truth, runs of words."""
    words = words_of(entry)
    marks = {" ".join(words[at : at + NGRAM]) for at in range(len(words) - NGRAM + 1)}
    return marks | {
        json.dumps(entry[key], sort_keys=True) for key in ["ground_truth"] if key in entry
    }


def official_entries(data_dir: Path, category: str) -> Iterator[Entry]:
    """Yield the entries of a category, each with its ground truth where it has one."""
    name = f"BFCL_v4_{category}.json"
    answers = data_dir / "possible_answer" / name
    truths = {it["id"]: it["ground_truth"] for it in _lines(answers)} if answers.is_file() else {}
    for entry in _lines(data_dir / name):
        if entry["id"] in truths:
            entry["ground_truth"] = truths[entry["id"]]
        yield entry


def _lines(path: Path) -> list[Entry]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    sys.exit(main())
