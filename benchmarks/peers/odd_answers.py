"""Random answers of odd source text, judged by us and by the official package.

  python benchmarks/peers/odd_answers.py --official /tmp/official/bin/python --data_dir data/bfcl
  --answers 10000

(`benchmarks/checkers.py` says how the official package gets its virtual environment.) An answer is
a ground truth of which some values gave way to expressions of the language, right or wrong, nested
a few deep, and which some text may stand around. Prints how many verdicts differ, and the shortest
answers for which. Exits 1 if `valid` does.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import benchmark_parser, write_figures

from fctncalling.cli.shared.jsonl_records import SourceRecord
from fctncalling.cli.shared.task_finder import iter_category_tasks
from fctncalling.cli.verdicts import RecordJudge
from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.evaluation.agents.agent import ScriptedAgent

HERE = Path(__file__).parent
CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "simple_java",
    "simple_javascript",
)
ODD = json.loads((HERE / "odd_answers.json").read_text("utf-8"))
"""Language -> "values" and "texts": in a value `@` is any other value; in a text it is the answer.
"""
MAX_DEPTH = 3
MARK = "AN ODD VALUE"
_MARK = re.compile(f"[\"']{MARK}[\"']")


class OddAnswers:
    """Generator of random answers to the tasks of a category."""

    def __init__(self, data_dir: Path, category: str, seed: int) -> None:
        self._tasks = list(iter_category_tasks(data_dir, category))
        language = (
            category.removeprefix("simple_")
            if category in ("simple_java", "simple_javascript")
            else "python"
        )
        self._values: list[str] = [*ODD["all"]["values"], *ODD[language]["values"]]
        self._texts: list[str] = [*ODD["all"]["texts"], *ODD[language]["texts"]]
        self._random = random.Random(f"{category} {seed}")

    def one(self) -> tuple[Task, str]:
        """Draw a task and an answer to it."""
        task = self._random.choice(self._tasks)
        name = handler_for(task, "prompting").name
        handler = get_handler(name)
        calls = handler.decode(
            ScriptedAgent("oracle").make_player(task, name, 0).answer("", {"turn": 0})
        )
        body = handler.render([self._marked(call) for call in calls])[1:-1].rstrip(";")
        body = _MARK.sub(lambda _: self._value(MAX_DEPTH), body)
        comma = self._random.choice([*[", "] * 6, ",", " , ", ",\n  "])
        text = self._random.choice(self._texts) if self._random.random() < 0.3 else "[@]"
        return task, text.replace("@", body.replace(", ", comma))

    def _marked(self, call: Call) -> Call:
        """Insert marks into one or two values of a call, sometimes reordered."""
        pairs = list(call.arguments.items())
        if self._random.random() < 0.1:
            self._random.shuffle(pairs)
        chosen = [self._random.random() < 1 / len(pairs) for _ in pairs]
        return Call(
            call.name,
            {key: MARK if odd else value for (key, value), odd in zip(pairs, chosen, strict=True)},
        )

    def _value(self, depth: int) -> str:
        template = self._random.choice(self._values)
        while depth == 0 and "@" in template:
            template = self._random.choice(self._values)
        first, *rest = template.split("@")
        return first + "".join(self._value(depth - 1) + part for part in rest)


def records(data_dir: Path, category: str, number: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield n answers as records of `verdicts`."""
    answers = OddAnswers(data_dir, category, seed)
    for _ in range(number):
        task, text = answers.one()
        yield {"category": category, "form": "prompting", "id": task.id, "response": text}


def compare(official: str, data_dir: Path, category: str, number: int, seed: int) -> list[int]:
    """Print how the two judges compare on a category's answers.

    Returns how many answers there are, and how many differ in `valid` and in `error_type` alone.
    """
    answers = list(records(data_dir, category, number, seed))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        path.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
        command = [
            official,
            "-W",
            "ignore",
            str(HERE / "official_checkers.py"),
            "verdicts",
            str(path),
        ]
        output = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ).stdout
    theirs, judge = [json.loads(line) for line in output.splitlines()], RecordJudge(data_dir)
    ours = [
        judge.judge_record(SourceRecord(Path(category), index, answer))
        for index, answer in enumerate(answers)
    ]
    differing = [i for i, verdict in enumerate(ours) if verdict["valid"] is not theirs[i][0]]
    told_otherwise = [
        i for i, row in enumerate(ours) if [row["valid"], row["error_type"]] != theirs[i]
    ]
    num_valid = sum(valid for valid, _ in theirs)
    print(
        f"{category}: {len(answers)} answers, {num_valid} valid; differ: valid {len(differing)}, "
        f"error_type {len(told_otherwise) - len(differing)}"
    )
    for index in sorted(differing or told_otherwise, key=lambda i: len(answers[i]["response"]))[:5]:
        print(
            f"  official {theirs[index]}, ours {ours[index]['error_type']}: "
            f"{answers[index]['response']!r}"
        )
    return [len(answers), len(differing), len(told_otherwise) - len(differing)]


def main() -> int:
    """Compare, print, and return 1 if `valid` differs."""
    parser = benchmark_parser(__doc__)
    parser.add_argument(
        "--official", required=True, help="Python of the official package's virtual environment"
    )
    parser.add_argument("--data_dir", type=Path, required=True, help="folder of BFCL task files")
    parser.add_argument("--category", nargs="+", default=CATEGORIES, help="answer these only")
    parser.add_argument("--answers", type=int, default=2_000, help="answers per category")
    parser.add_argument("--seed", type=int, default=1, help="others are other answers")
    args = parser.parse_args()
    counts = [
        compare(args.official, args.data_dir, category, args.answers, args.seed)
        for category in args.category
    ]
    total, valid, kind = map(sum, zip(*counts, strict=True))
    write_figures(args.json, counts={"answers": total, "valid": valid, "error_type": kind})
    return 1 if valid else 0


if __name__ == "__main__":
    sys.exit(main())
