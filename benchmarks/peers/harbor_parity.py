"""Parity of the tasks written for Harbor with the official package, in Harbor's format.

  python benchmarks/peers/harbor_parity.py --data_dir data/bfcl --verdicts ../shared/bfcl/verdicts

Writes the folders of the 800 multi-turn tasks; what their oracles say, and every fourth recorded
answer with a verdict of the official package, goes through the verifier of its folder. A recorded
answer that no episode can hold (text, then calls, in one turn) is left out and counted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shlex
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from fctncalling import __version__, load_tasks
from fctncalling.data.types import Task
from fctncalling.lab.dialogue import Dialogue, score
from fctncalling.lab.integrations.harbor import ANSWER_FORM, read_task, write_tasks

OUTPUT = Path(__file__).with_suffix(".json")
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")


def spoken(task: Task, response: list[list[str]]) -> list[str] | None:
    """Return the messages of a recorded answer, each turn ended by a text; None if none can be."""
    dialogue, texts = Dialogue(task, form=ANSWER_FORM), []
    dialogue.open()
    for number, turn in enumerate(response):
        for text in turn:
            if dialogue.done or dialogue.info["turn"] != number:
                return None
            dialogue.reply(text)
            texts.append(text)
        if not dialogue.done and dialogue.info["turn"] == number:
            dialogue.reply("Done.")
            texts.append("Done.")
    return texts


def valid(home: Path, texts: list[str]) -> bool:
    """Return the verdict of a folder's verifier."""
    messages = [{"role": "assistant", "content": text} for text in texts]
    return score(messages, read_task(home / "tests/task.json"), form=ANSWER_FORM).valid


def measure(category: str, data: Path, verdicts: Path, folder: Path) -> Counter[str]:
    """Return counts of one category."""
    tasks = load_tasks(data / f"BFCL_v4_multi_turn_{category}.json")
    homes = dict(zip((task.id for task in tasks), write_tasks(tasks, folder), strict=True))
    counts: Counter[str] = Counter(tasks=len(tasks))
    for home in homes.values():
        said = shlex.split((home / "solution/solve.sh").read_text().split("\nepisode ")[1])
        counts["oracle"] += valid(home, said)
    by_id = {task.id: task for task in tasks}
    with gzip.open(verdicts / f"raw_multi_turn_{category}.jsonl.gz", "rt") as lines:
        for record in map(json.loads, islice(lines, 0, None, 4)):
            texts = spoken(by_id[record["id"]], record["response"])
            if texts is None:
                counts["left_out"] += 1
                continue
            found = valid(homes[record["id"]], texts)
            counts += Counter(answers=1, original=record["valid"], harbor=found)
            counts["equal"] += found == record["valid"]
    return counts


def entry(category: str, counts: Counter[str]) -> dict[str, Any]:
    """Return one metric of the parity file."""
    share = {key: f"{100 * counts[key] / counts['answers']:.2f}%" for key in ("original", "harbor")}
    return {
        "benchmark_name": f"BFCL v4 multi_turn_{category}",
        "metric": f"share of {counts['answers']} recorded answers that are valid",
        **share,
        "original_runs": [share["original"]],
        "harbor_runs": [share["harbor"]],
        "equal_verdicts": counts["equal"],
        "left_out": counts["left_out"],
        "oracle_valid": f"{counts['oracle']} of {counts['tasks']}",
    }


def main() -> None:
    """Measure; write the parity file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_dir", type=Path, required=True)
    parser.add_argument("--verdicts", type=Path, required=True)
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for category in CATEGORIES:
            given = (arguments.data_dir, arguments.verdicts, Path(folder))
            found[category] = measure(category, *given)
            print(category, dict(found[category]), flush=True)
    parity = {
        "adapter_name": "fctncalling",
        "agent": f"recorded answers@{__version__}",
        "model": "none",
        "adapted_benchmark_size": sum(category["tasks"] for category in found.values()),
        "parity_benchmark_size": sum(category["answers"] for category in found.values()),
        "number_of_runs": 1,
        "notes": "original: verdicts of bfcl-eval; harbor: each folder's verifier, without Docker",
        "metrics": [entry(category, counts) for category, counts in found.items()],
    }
    OUTPUT.write_text(json.dumps([parity], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
