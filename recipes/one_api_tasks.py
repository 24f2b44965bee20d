"""Multi-turn BFCL tasks that involve one API alone, of the APIs that are named.

    python recipes/one_api_tasks.py train.jsonl --apis TradingBot GorillaFileSystem > few.jsonl

Their prompts are short and much alike. --first_number renumbers them (multi_turn_base_1000, ...),
for a file that already has tasks of these numbers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tasks, one a line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", type=Path, metavar="FILE")
    parser.add_argument("--apis", nargs="+", required=True, metavar="API")
    parser.add_argument("--first_number", type=int, metavar="N")
    options = parser.parse_args(arguments)
    if not options.tasks.is_file():
        parser.error(f"{options.tasks}: there is no such file")
    numbers = count(options.first_number or 0)
    for line in options.tasks.read_text("utf-8").splitlines():
        task = json.loads(line)
        if task.get("involved_classes") not in [[api] for api in options.apis]:
            continue
        if options.first_number is not None:
            task["id"] = f"{task['id'].rsplit('_', 1)[0]}_{next(numbers)}"
        print(json.dumps(task, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
