"""Share of forged requests without a noun of their function.

Counted apart from the forge's own guard: nouns are here what a function's name and summary have
beside verbs, and a stem is the first letters of a word.

  python benchmarks/jobs/unnamed_requests.py /tmp/docs/*.yaml --num_tasks 90 --most 2

Exits 1 where an API's share is above --most percent.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fctncalling.cli.command import main as fctncalling

STEM = 5  # letters
OTHERS = frozenset(
    "the for from with and all one single given specific specified using this that its new "
    "existing into about has have are can which information details data".split()
)


def words(text: str) -> list[str]:
    """Split a text, camel case and underscores too, into words."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).replace("-", "")
    return re.findall(r"[a-z]+", parted.lower())


def stems(text_words: list[str]) -> set[str]:
    """Return the stems of content words."""
    return {w[:STEM].rstrip("sy") for w in text_words if len(w) > 2 and w not in OTHERS}


def unnamed(tasks: Path) -> Iterator[tuple[str, str]]:
    """Yield (function, request) of single-call requests without a noun of the function."""
    for line in tasks.read_text(encoding="utf-8").splitlines():
        task = json.loads(line)
        [call] = task["ground_truth"]
        [function] = call
        doc = next(doc for doc in task["function"] if doc["name"] == function)
        summary = words(doc["description"].split(". ")[0])
        nouns = stems(words(function)[1:]) | stems(summary[1:])  # without their verbs
        request = task["question"][0][0]["content"]
        if not nouns & stems(words(request)):
            yield function, request


def main() -> int:
    """Forge and count requests of each API; return 1 if too many name no function."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="+", metavar="SPEC")
    parser.add_argument("--num_tasks", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=float, default=2.0, metavar="PERCENT")
    args = parser.parse_args()
    failed = False
    for spec in args.specs:
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "tasks.jsonl"
            flags = ["--num_tasks", str(args.num_tasks), "--seed", str(args.seed)]
            flags += ["--category", "multiple", "--output", str(output)]
            if fctncalling(["forge", "--api", spec, *flags]):
                return 2
            requests = [*unnamed(output)]
        share = 100 * len(requests) / args.num_tasks
        failed |= share > args.most
        print(f"{spec}: {len(requests)} of {args.num_tasks} ({share:.1f} %) name no noun")
        for function, request in requests:
            print(f"  {function}: {request}")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
