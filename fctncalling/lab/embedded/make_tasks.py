"""Maker of the embedded tasks.

`python -m fctncalling.lab.embedded.make_tasks` writes the committed files again, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from fctncalling.lab.embedded.multi_turn_tasks import EMBEDDED_LENGTH, TaskLength, multi_turn_task
from fctncalling.lab.embedded.single_turn_tasks import single_turn_task
from fctncalling.lab.embedded.vocabulary import Entry, VocabularyDraw, distinct_entries

SHARES = {  # parts in a hundred; multi-turn 52
    "simple_python": 10,
    "multiple": 10,
    "parallel": 9,
    "parallel_multiple": 9,
    "irrelevance": 10,
    "multi_turn_base": 22,
    "multi_turn_miss_func": 15,
    "multi_turn_miss_param": 15,
}
# number of tasks, first number of their ids
SPLITS = {"train": (6400, 0), "held_out": (320, 90000)}
EMBEDDED = Path(__file__).resolve().parents[3] / "data" / "embedded"


def task_entries(
    split: str,
    num_tasks: int,
    *,
    seed: int = 0,
    first_id: int = 0,
    shares: Mapping[str, int] = SHARES,
    length: TaskLength = EMBEDDED_LENGTH,
) -> Iterator[Entry]:
    """Yield distinct BFCL entries of a split ("train" or "held_out"), with truth.

    The same seed gives the same tasks; another seed gives others of the same split, for larger
    runs.
    """
    draw = VocabularyDraw(random.Random(f"{split} {seed}"), held_out=split == "held_out")
    seen: set[str] = set()
    for category, share in shares.items():
        draw_entry, count = partial(task_entry, draw, category, length), num_tasks * share // 100
        yield from distinct_entries(
            draw_entry, count, category, first_id=first_id, seen=seen, key=_without_truth
        )


def task_entry(draw: VocabularyDraw, category: str, length: TaskLength) -> Entry:
    """Draw an entry without id; RejectedDraw if it does not fit the split."""
    if category.startswith("multi_turn"):
        return multi_turn_task(draw, category, length)
    return single_turn_task(draw, category)


def _without_truth(entry: Entry) -> Entry:
    return {key: value for key, value in entry.items() if key != "ground_truth"}


def write_split(
    path: Path, entries: Iterable[Entry], *, answers_apart: bool = False
) -> Counter[str]:
    """Write entries as JSON Lines; return their counts by category.

    answers_apart: as BFCL's pair of files, the truth in the sibling `possible_answer/`.
    """
    lines, answers, counts = list[str](), list[str](), Counter[str]()
    for entry in entries:
        counts[entry["id"].rpartition("_")[0]] += 1
        if answers_apart and "ground_truth" in entry:
            answers.append(_line({"id": entry["id"], "ground_truth": entry["ground_truth"]}))
        lines.append(_line(_without_truth(entry) if answers_apart else entry))
    path.write_text("".join(lines))
    if answers_apart:
        (path.parent / "possible_answer").mkdir(exist_ok=True)
        (path.parent / "possible_answer" / path.name).write_text("".join(answers))
    return counts


def _line(entry: Entry) -> str:
    return json.dumps(entry, separators=(",", ":")) + "\n"


def write_splits(
    splits: Mapping[str, tuple[int, int]],
    entries: Callable[..., Iterable[Entry]],
    *,
    answers_apart: bool = False,
    argv: Sequence[str] | None = None,
) -> None:
    """Run a command that writes splits: name -> (number of tasks, first number of their ids)."""
    parser = argparse.ArgumentParser(description="Write splits of the embedded tasks.")
    parser.add_argument("--seed", type=int, default=0, help="0 makes the committed ones")
    parser.add_argument("--output_dir", type=Path, default=EMBEDDED, help="folder to write to")
    args = parser.parse_args(argv)
    for split, (num_tasks, first_id) in splits.items():
        path = args.output_dir / f"{split}.json"
        made = entries(split, num_tasks, seed=args.seed, first_id=first_id)
        counts = write_split(path, made, answers_apart=answers_apart)
        print(f"{split}: {counts.total()} tasks in {path}  {dict(counts)}")


if __name__ == "__main__":
    write_splits(SPLITS, task_entries, answers_apart=True)
