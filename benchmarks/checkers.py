"""Cost of verdicts, against the official package in the same run; `score` against its evaluator,
start-up included.

The official package goes into a virtual environment of its own, with what its checker imports and
nothing else:
  python3.11 -m venv /tmp/official
  /tmp/official/bin/pip install --no-deps bfcl-eval==2026.3.23 tree_sitter==0.21.3 \\
      tree-sitter-java==0.21.0 tree-sitter-javascript==0.21.4 mpmath==1.3.0 tenacity overrides \\
      filelock python-dotenv tqdm numpy==1.26.4 pandas==2.2.3 python-dateutil pytz six tzdata
  python benchmarks/checkers.py --official /tmp/official/bin/python --data_dir data/bfcl

Both sides judge the ground truths as a prompted model would write them, and take turns; CPU seconds
are compared and the median of per-round ratios is told: "ratio" where each task is met for the
first time, "again" where answers to it came before, as in training, so that its truth is
remembered. Exits 1 if a target is missed, or where the two disagree on an accuracy.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fctncalling.checkers.leaderboard import LIVE, MULTI_TURN, NON_LIVE
from fctncalling.cli.shared.task_finder import TaskIndex, category_folder, iter_category_tasks
from fctncalling.data.types import Task
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.judge import TRUTHS, judge
from fctncalling.evaluation.agents.agent import ScriptedAgent

HERE = Path(__file__).parent
SINGLE_TURN = (*NON_LIVE, "irrelevance", *LIVE, "live_irrelevance", "live_relevance")
AST = (*NON_LIVE, *LIVE)
TARGETS = {"multi-turn": 4.0, "AST": 1.5, "score, whole process": 3.0}


def answer(task: Task) -> Any:
    """Write the ground truth as a prompted model would."""
    player = ScriptedAgent("oracle").make_player(task, handler_for(task, "prompting").name, 0)
    texts = [player.answer("", {"turn": turn}) for turn in range(len(task.question))]
    return [[text] for text in texts] if task.is_multi_turn else texts[0]


def write_results(data_dir: Path, root: Path) -> dict[str, list[tuple[Task, Any]]]:
    """Write the result tree of one model and return its tasks and answers."""
    answers = {}
    for category in (*SINGLE_TURN, *MULTI_TURN):
        answers[category] = [
            (task, answer(task)) for task in iter_category_tasks(data_dir, category)
        ]
        path = root / "m" / category_folder(category) / f"BFCL_v4_{category}_result.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (
            json.dumps({"id": task.id, "result": text}) + "\n" for task, text in answers[category]
        )
        path.write_text("".join(lines), encoding="utf-8")
    return answers


class Official:
    """Process of the official checkers."""

    def __init__(self, python: str, results: Path) -> None:
        command = [python, str(HERE / "peers/official_checkers.py"), "serve", str(results)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __call__(self, category: str) -> tuple[float, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(category + "\n")
        self._process.stdin.flush()
        seconds, valid = json.loads(self._process.stdout.readline())
        return seconds, valid

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def ours(answers: list[tuple[Task, Any]]) -> tuple[float, int]:
    """Return CPU seconds and the number of valid answers."""
    start = time.process_time()
    valid = sum(judge(task, text).valid for task, text in answers)
    return time.process_time() - start, valid


def ours_at_first(answers: list[tuple[Task, Any]]) -> tuple[float, int]:
    """Return `ours` without cached truths: every truth is replayed, as in the official
    checker.
    """
    TRUTHS.clear()
    return ours(answers)


def ours_again(answers: list[tuple[Task, Any]]) -> tuple[float, int]:
    """Return `ours` on tasks judged before, with their truths cached, as in a group of
    rollouts.
    """
    ours(answers)
    return ours(answers)


def by_category(
    official: Official, answers: dict[str, list[tuple[Task, Any]]], rounds: int
) -> Iterator[bool]:
    """Print every category's costs; yield whether its targets are met."""
    ratios: dict[str, list[float]] = {"multi-turn": [], "AST": [], "relevance": []}
    print(
        f"{'category':26} {'entries':>7} {'official ms':>12} {'ours ms':>9} {'ratio':>6} "
        f"{'again':>6}"
    )
    for category, listed in answers.items():
        official(category)  # warm
        ours(listed)
        turns = [
            (official(category), ours_at_first(listed), ours_again(listed)) for _ in range(rounds)
        ]
        first, again = (
            statistics.median(turn[0][0] / turn[side][0] for turn in turns) for side in (1, 2)
        )
        group = (
            "multi-turn" if category in MULTI_TURN else "AST" if category in AST else "relevance"
        )
        ratios[group].append(first)
        theirs_ms, own_ms = (
            1e3 * statistics.median(turn[side][0] for turn in turns) / len(listed)
            for side in (0, 1)
        )
        print(
            f"{category:26} {len(listed):7} {theirs_ms:12.4f} {own_ms:9.4f} {first:6.2f} "
            f"{again:6.2f}"
        )
        if len({side[1] for side in turns[0]}) > 1:
            print(
                f"  they disagree: official {turns[0][0][1]}, ours {turns[0][1][1]}, "
                f"{turns[0][2][1]} valid"
            )
            yield False
    for group, bound in list(TARGETS.items())[:2]:
        least = min(ratios[group], default=bound)
        print(
            f"{group}: at least {least:.2f} x (target {bound} "
            f"x){'' if least >= bound else '  MISSED'}"
        )
        yield least >= bound


def cpu_of(command: list[str]) -> float:
    """Return the CPU seconds of a whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def whole_process(python: str, data_dir: Path, work: Path, rounds: int) -> Iterator[bool]:
    """Print what scoring all single-turn categories costs from start to end; yield whether targets
    are met.
    """
    results, theirs, own = work / "result", work / "official_score", work / "our_score"
    official = [
        python,
        str(HERE / "peers/official_checkers.py"),
        "score",
        str(results),
        str(theirs),
        *SINGLE_TURN,
    ]
    evaluate = [
        sys.executable,
        str(HERE.parent / "evaluate_fctncalling.py"),
        "score",
        "--data_dir",
        str(data_dir),
    ]
    evaluate += ["--input", str(results), "--score_dir", str(own), "--category", *SINGLE_TURN]
    pairs = [(cpu_of(official), cpu_of(evaluate)) for _ in range(rounds + 1)][1:]
    ratio, bound = statistics.median(a / b for a, b in pairs), TARGETS["score, whole process"]
    seconds = tuple(statistics.median(side) for side in zip(*pairs, strict=True))
    missed = "" if ratio >= bound else "  MISSED"
    print(
        f"score, whole process: official {seconds[0]:.2f} s, ours {seconds[1]:.2f} s: {ratio:.2f} "
        f"x{missed}"
    )
    yield ratio >= bound
    different = [name for name, a, b in compared(theirs, own) if a != b]
    print(f"columns of the leaderboard that differ: {', '.join(different) or 'none'}")
    yield not different


def compared(theirs: Path, own: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (column, official, ours) of every accuracy in the tables."""
    for table in ("overall", "non_live", "live", "multi_turn", "agentic"):
        rows = []
        for folder in (theirs, own):
            with (folder / f"data_{table}.csv").open(encoding="utf-8") as file:
                rows.append(next(iter(csv.DictReader(file))))
        yield from (
            (f"{table}: {name}", rows[0][name], rows[1].get(name, ""))
            for name in rows[0]
            if "Acc" in name
        )


def main() -> int:
    """Measure, print, and return 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--official", required=True, help="Python of the official package's virtual environment"
    )
    parser.add_argument("--data_dir", type=Path, required=True, help="folder of BFCL task files")
    parser.add_argument("--category", nargs="+", help="measure these only")
    parser.add_argument("--rounds", type=int, default=5, help="both sides take this many turns")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        TaskIndex(args.data_dir)  # its long-context tables go before those elsewhere
        answers = write_results(args.data_dir, Path(folder) / "result")
        official = Official(args.official, Path(folder) / "result")
        met = list(
            by_category(
                official,
                {k: v for k, v in answers.items() if k in (args.category or answers)},
                args.rounds,
            )
        )
        official.close()
        if not args.category:
            met += whole_process(args.official, args.data_dir, Path(folder), args.rounds)
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
