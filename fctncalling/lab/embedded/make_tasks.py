"""Maker of the embedded tasks.

`python -m fctncalling.lab.embedded.make_tasks` writes the committed files again, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fctncalling.lab.embedded.multi_turn_tasks import EMBEDDED_LENGTH, TaskLength, multi_turn_task
from fctncalling.lab.embedded.single_turn_tasks import single_turn_task
from fctncalling.lab.embedded.vocabulary import RejectedDraw, VocabularyDraw

Entry = dict[str, Any]
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


def make_tasks(
    split: str,
    num_tasks: int,
    *,
    seed: int,
    first_id: int = 0,
    shares: Mapping[str, int] = SHARES,
    length: TaskLength = EMBEDDED_LENGTH,
) -> Iterator[tuple[Entry, list[Any] | None]]:
    """Yield distinct (BFCL entry, ground truth) pairs of a split ("train" or "held_out").

    The same seed gives the same tasks; another seed gives others of the same split, for larger
    runs.
    """
    draw = VocabularyDraw(random.Random(f"{split} {seed}"), held_out=split == "held_out")
    seen: set[str] = set()
    for category, share in shares.items():
        made = 0
        while made < num_tasks * share // 100:
            entry, truth = draw_task(draw, category, length)
            text = json.dumps(entry)
            if text in seen:
                continue
            seen.add(text)
            yield {"id": f"{category}_{first_id + made}", **entry}, truth
            made += 1


def draw_task(
    draw: VocabularyDraw, category: str, length: TaskLength
) -> tuple[Entry, list[Any] | None]:
    """Draw a task of a category until it fits the split."""
    while True:
        try:
            if category.startswith("multi_turn"):
                return multi_turn_task(draw, category, length)
            return single_turn_task(draw, category)
        except RejectedDraw:
            continue


def write_split(split: str, folder: Path, *, seed: int) -> Counter[str]:
    """Write a split as BFCL's pair of JSON Lines files; return the task counts by category."""
    num_tasks, first_id = SPLITS[split]
    (folder / "possible_answer").mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    entries, answers = [], []
    for entry, truth in make_tasks(split, num_tasks, seed=seed, first_id=first_id):
        entries.append(json.dumps(entry, separators=(",", ":")))
        if truth is not None:
            answer = {"id": entry["id"], "ground_truth": truth}
            answers.append(json.dumps(answer, separators=(",", ":")))
        counts[entry["id"].rpartition("_")[0]] += 1
    (folder / f"{split}.json").write_text("\n".join(entries) + "\n")
    (folder / "possible_answer" / f"{split}.json").write_text("\n".join(answers) + "\n")
    return counts


def write_entry_splits(
    splits: Mapping[str, tuple[int, int]],
    entries: Callable[..., list[Entry]],
    argv: list[str] | None = None,
) -> None:
    """Write splits of other embedded tasks, with truth: name -> (count, first number)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", type=Path, default=EMBEDDED, help="folder to write to")
    folder = parser.parse_args(argv).output_dir
    for split, (num_tasks, first_id) in splits.items():
        made = entries(split, num_tasks, first_id=first_id)
        lines = [json.dumps(entry, separators=(",", ":")) for entry in made]
        (folder / f"{split}.json").write_text("\n".join(lines) + "\n")
        print(f"{split}: {len(lines)} tasks in {folder / split}.json")


def main(argv: list[str] | None = None) -> int:
    """Write both splits and print a summary."""
    prog = "python -m fctncalling.lab.embedded.make_tasks"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    which = "seed of the tasks (default 0: the committed ones)"
    place = "folder to write to (default: data/embedded)"
    parser.add_argument("--seed", type=int, default=0, help=which)
    parser.add_argument("--output_dir", type=Path, default=EMBEDDED, help=place)
    args = parser.parse_args(argv)
    for split in SPLITS:
        counts = write_split(split, args.output_dir, seed=args.seed)
        place = f"{args.output_dir / split}.json"
        print(f"{split}: {sum(counts.values())} tasks in {place}  {dict(counts)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
