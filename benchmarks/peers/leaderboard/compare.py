"""Verdicts on a public result tree, compared answer by answer with the official package's.

The tree (result/<model>/<group>/BFCL_v4_<category>_result.json, single-turn categories) is read as
`score` reads it; the package (`official_decoders.py`, in a virtual environment of its own) decodes
each model's answers by the class and spelling that our table names, and judges them. Models whose
class it has no more are counted apart. With --scores, the accuracies in the tree's own score files
stand beside, and models that differ by more than 5 points are named. Exits 1 if a verdict differs.

Of the 71 models of 2024-08-11 (github.com/HuanzhiMao/BFCL-Result, files and ids under their names
of V4) nine differ by more than 5 points from their score files: three Hermes and gpt-4o-2024-05-13
in JavaScript, 3 of 50 answers each (the checker then took any value for text, and blanks before a
list were no part of a call); Llama-3-8B and claude-3-haiku in irrelevance (such blanks, too), gemma
in irrelevance and DBRX in simple_python (their classes, which are gone, cleaned texts in ways not
known here); Nemotron-4 in Java (quotes around calls were taken off).

  python benchmarks/peers/leaderboard/compare.py --tree /tmp/tree --data_dir data/bfcl \\
      --official /tmp/official/bin/python [--model NAME ...] [--scores FOLDER]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fctncalling.cli.score.answer_decoders import answer_decoder
from fctncalling.cli.score.readings import ReadingFlags, leaderboard_models
from fctncalling.cli.score.results import (
    CategoryAnswers,
    RecordedAnswers,
    UnansweredTasks,
    official_results,
    read_response,
)
from fctncalling.cli.shared.task_finder import iter_category_tasks
from fctncalling.data.types import Task
from fctncalling.envs.judging.judge import judge

OLD_NAMES = {
    "simple_python": "simple",
    "simple_java": "java",
    "simple_javascript": "javascript",
    "multiple": "multiple_function",
    "parallel": "parallel_function",
    "parallel_multiple": "parallel_multiple_function",
    "irrelevance": "relevance",
}


def read_by_class(results: CategoryAnswers) -> CategoryAnswers:
    """Return answers as the package's class reads them, where an older release read them so."""
    model = leaderboard_models()[results.model]
    if not model.handler.endswith("_2024"):
        return results
    decoder = answer_decoder(class_of(results), model.holds)
    return results._replace(reading=results.reading._replace(decoder=decoder))


def class_of(results: CategoryAnswers) -> str:
    """Return the name of the class that the package has for a model."""
    return leaderboard_models()[results.model].handler.removesuffix("_2024")


def our_bits(results: CategoryAnswers, tasks: list[Task]) -> tuple[str, list[str]]:
    """Return a digit for each answer, 1 if it is valid, and the ids."""
    bits, ids = [], []
    waiting = UnansweredTasks(iter(tasks), results)
    for _, _, line in RecordedAnswers(results.path, ReadingFlags()):
        task = waiting.task_of(line)
        response = read_response(results, task, line)
        bits.append(str(int(judge(results.reading.task(task), response, results.form).valid)))
        ids.append(task.id)
    return "".join(bits), ids


def official_bits(python: str, answers: list[CategoryAnswers]) -> Iterator[str]:
    """Yield the package's verdicts on each file, in order."""
    requests = "\n".join(
        json.dumps(
            {
                "model": category.model,
                "path": str(category.path),
                "category": category.category,
                "handler": class_of(category),
                "fc": leaderboard_models()[category.model].holds == "lists",
                "underscores": category.reading.underscores,
            }
        )
        for category in answers
    )
    script = Path(__file__).with_name("official_decoders.py")
    done = subprocess.run(
        [python, "-E", str(script)], input=requests, stdout=subprocess.PIPE, text=True, check=True
    )
    for line in done.stdout.splitlines():
        yield line.rpartition(" ")[2]


def main() -> int:
    """Compare; return 1 if a verdict differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("tree", "data_dir"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--official", help="Python of the package; default: scores alone")
    parser.add_argument("--model", nargs="+", default=[])
    parser.add_argument("--scores", type=Path, help="the tree's own score files")
    args = parser.parse_args()
    found = official_results(args.tree, ReadingFlags())
    found = [each for each in found if not args.model or each.model in args.model]
    tasks: dict[str, list[Task]] = {}
    official: Iterator[str] = iter(())
    if args.official:
        official = official_bits(args.official, found)
    tally: Counter[str] = Counter()
    apart: dict[str, list[str]] = {}
    for results in found:
        name = results.category
        if name not in tasks:
            tasks[name] = list(iter_category_tasks(args.data_dir, name))
        bits, ids = our_bits(results, tasks[name])
        theirs, again = next(official, "-"), read_by_class(results)
        if theirs == "-":
            tally["answers of classes the package has no more"] += len(bits)
        else:
            own = bits if again is results else our_bits(again, tasks[name])[0]
            differ = [i for i, (a, b) in enumerate(zip(own, theirs, strict=True)) if a != b]
            tally["answers compared"] += len(bits)
            tally["valid"] += own.count("1")
            tally["different"] += len(differ)
            for index in differ[:3]:
                print(f"{results.model} {ids[index]}: ours {own[index]}, official {theirs[index]}")
        if args.scores:
            path = args.scores / results.model / f"{OLD_NAMES.get(name, name)}_score.json"
            with path.open(encoding="utf-8") as file:
                accuracy = 100 * json.loads(file.readline())["accuracy"]
            ours = 100 * bits.count("1") / len(bits)
            if abs(ours - accuracy) > 5:
                apart.setdefault(results.model, []).append(f"{name} {ours:.1f} for {accuracy:.1f}")
    print(dict(tally))
    for model, lines in apart.items():
        print(f"{model}: {'; '.join(lines)}")
    print(f"{len(apart)} models differ by more than 5 points from their score files")
    return int(tally["different"] > 0)


if __name__ == "__main__":
    sys.exit(main())
