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
remembered. Of a group of categories the medians of costs and the least ratios are reported. Exits 1
if a bound is missed; AssertionError where the two disagree on an accuracy.
"""

from __future__ import annotations

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

from figures import Figure, benchmark_parser, report
from harness import LineProcess

from fctncalling.checkers.leaderboard import LIVE, MULTI_TURN, NON_LIVE
from fctncalling.cli.shared.task_finder import TaskIndex, category_folder, iter_category_tasks
from fctncalling.data.types import Task
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.judge import TRUTHS, judge
from fctncalling.evaluation.agents.agent import ScriptedAgent

HERE = Path(__file__).parent
SINGLE_TURN = (*NON_LIVE, "irrelevance", *LIVE, "live_irrelevance", "live_relevance")
AST = (*NON_LIVE, *LIVE)
GROUPS = {
    "calls in one turn": (AST, 1.5),
    "relevance": (tuple(name for name in SINGLE_TURN if name not in AST), None),
    "several turns": (MULTI_TURN, 4.0),
}
"""Group -> its categories, and how many times as fast as the official package each has to be."""
LEAST_SCORE = 3.0  # of `score`, the whole process


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
    official: LineProcess, answers: dict[str, list[tuple[Task, Any]]], rounds: int
) -> Iterator[Figure]:
    """Measure each category, and yield the extremes of each group."""
    ratios: dict[str, list[tuple[float, float]]] = {group: [] for group in GROUPS}
    for category, listed in answers.items():
        official.ask(category)  # warm
        ours(listed)
        turns = [
            (official.ask(category), ours_at_first(listed), ours_again(listed))
            for _ in range(rounds)
        ]
        valid = {side[1] for side in turns[0]}
        assert len(valid) == 1, f"{category}: official, ours, ours again: {valid} valid"
        times = [[seconds for seconds, _ in turn] for turn in turns]
        theirs, own = (
            1e3 * statistics.median(t[side] for t in times) / len(listed) for side in (0, 1)
        )
        first, again = (statistics.median(t[0] / t[side] for t in times) for side in (1, 2))
        print(f"{category:26} official {theirs:.4f} ms, ours {own:.4f}; x{first:.2f}, {again:.2f}")
        [group] = (name for name, (categories, _) in GROUPS.items() if category in categories)
        ratios[group].append((first, again))
    for group, rows in ratios.items():
        if rows:
            first, again = zip(*rows, strict=True)
            name = f"{group}, official over ours"
            yield Figure(f"{name}, tasks met first", min(first), at_least=GROUPS[group][1])
            yield Figure(f"{name}, met again", min(again))


def cpu_of(command: list[str]) -> float:
    """Return the CPU seconds of a whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def whole_process(python: str, data_dir: Path, work: Path, rounds: int) -> Figure:
    """Measure scoring all single-turn categories from start to end."""
    results, theirs, own = work / "result", work / "official_score", work / "our_score"
    official = [
        python,
        str(HERE / "peers/official_checkers.py"),
        "evaluate",
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
    different = [name for name, a, b in compared(theirs, own) if a != b]
    assert not different, f"columns of the leaderboard that differ: {different}"
    ratio = statistics.median(a / b for a, b in pairs)
    name = "`score` of all single-turn answers, official over ours"
    return Figure(name, ratio, at_least=LEAST_SCORE)


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
    parser = benchmark_parser(__doc__)
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
        chosen = {k: v for k, v in answers.items() if k in (args.category or answers)}
        command = [args.official, HERE / "peers/official_checkers.py", "serve"]
        with LineProcess([*command, Path(folder) / "result"]) as official:
            figures = list(by_category(official, chosen, args.rounds))
        if not args.category:
            figures.append(whole_process(args.official, args.data_dir, Path(folder), args.rounds))
    return report(figures, args.json)


if __name__ == "__main__":
    sys.exit(main())
