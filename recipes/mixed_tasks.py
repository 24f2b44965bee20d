"""Mixture of forged tasks for recipes/smollm2_multi_turn_gpu.sh: to demonstrate, and to practise.

    python recipes/mixed_tasks.py --folder FOLDER

reads the files that the recipe forges there. train.jsonl: 12,000 tasks, drawn from 8,000 of one API
of three, 3,500 of other APIs and 6,400 single-turn ones. practice.jsonl: 667 tasks more of each of
the three APIs. No task takes a held-out name (see names_held_out.py) or has the ground truth of a
test task.
"""

from __future__ import annotations

import argparse
import random
import re
import runpy
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NAMES = runpy.run_path(str(Path(__file__).with_name("names_held_out.py")))
DEMONSTRATED = {"TradingBot": 2500, "VehicleControlAPI": 2500, "GorillaFileSystem": 3000}
NUM_PRACTICE, NUM_OTHER_APIS, NUM_TRAIN = 667, 3500, 12000
SEED = 5
Task = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both files; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, metavar="FOLDER")
    folder = parser.parse_args(arguments).folder
    tests = [it["ground_truth"] for name in ("test", "all_test") for it in read(folder, name)]

    def free(name: str) -> list[Task]:
        """Return the tasks of a file without a held-out name or a test's ground truth."""
        return [
            task
            for task in read(folder, name)
            if task["ground_truth"] not in tests
            and not any(map(NAMES["is_held_out"], NAMES["names"](task)))
        ]

    shuffled = random.Random(SEED).shuffle
    three, every = free("three_apis") + free("files"), free("all_apis")
    shuffled(three)
    shuffled(every)
    of_api: dict[str, list[Task]] = defaultdict(list)
    for task in three:
        of_api[task["involved_classes"][0]].append(task)
    train, practice = list[Task](), list[Task]()
    for api, number in DEMONSTRATED.items():
        train += of_api[api][:number]
        practice += of_api[api][number : number + NUM_PRACTICE]
    train += [task for task in every if not is_of_one(task)][:NUM_OTHER_APIS]
    train += [task for name in ("calls", "more_calls", "declined") for task in read(folder, name)]
    shuffled(train)
    shuffled(practice)
    renumber([*train, *practice])
    for name, tasks in (("train", train[:NUM_TRAIN]), ("practice", practice)):
        NAMES["write"](folder / f"{name}.jsonl", tasks)
        print(f"{folder / name}.jsonl: {len(tasks)} tasks")
    return 0


def read(folder: Path, name: str) -> list[Task]:
    """Return the tasks of a file of the folder."""
    tasks: list[Task] = NAMES["read"](folder / f"{name}.jsonl")
    return tasks


def is_of_one(task: Mapping[str, Any]) -> bool:
    """Return whether a task is of one of the three APIs alone."""
    return len(task["involved_classes"]) == 1 and task["involved_classes"][0] in DEMONSTRATED


def renumber(tasks: Sequence[Task]) -> None:
    """Number tasks of several files anew, as two with one id would be taken for one."""
    for place, task in enumerate(tasks):
        task["id"] = re.sub(r"_\d+(-\d+)*$", "", task["id"]) + f"_{place}"


if __name__ == "__main__":
    raise SystemExit(main())
