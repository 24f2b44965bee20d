"""Report on runs of the jobs with tools in mid-generation: success and recoveries.

`python benchmarks/tool_jobs_report.py RESULTS_FOLDER` prints, over all logged training episodes of
a run, how often an episode succeeds whose first call failed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from pictures import goal, save, seeds, spread, subplots

FAILED = ("tool_error", "malformed", "unknown_function", "bad_arguments")
GOAL = 0.95  # of held-out questions, which TRL's page reaches


class Recovery(NamedTuple):
    """Episodes of some updates in which the first call failed."""

    updates: tuple[int, int]  # first and last
    episodes: int  # all that were logged
    failed: int  # of those, the ones whose first call failed
    solved: int  # of those, the ones that succeeded nevertheless

    @property
    def rate(self) -> float | None:
        """P(success | first call failed)."""
        return self.solved / self.failed if self.failed else None


class Run(NamedTuple):
    """One training run."""

    algorithm: str
    seed: int
    greedy: list[tuple[int, float]]  # (episodes played, greedy success on held-out questions)
    sampled: list[tuple[int, float]]
    training: list[tuple[int, float]]  # (update, success of its episodes)
    cpu_seconds: float  # of training, evaluations apart
    recoveries: list[Recovery]

    @classmethod
    def read(cls, folder: Path, algorithm: str, seed: int) -> Self:
        """Read the run in a folder."""
        lines = [
            json.loads(line)
            for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        episodes = {0: 0} | {
            line["update"]: line["episodes"] for line in lines if "episodes" in line
        }
        greedy, sampled = (
            [(episodes[line["update"]], line[key]) for line in lines if line.get(key) is not None]
            for key in ("eval/greedy_success_rate", "eval/sampled_success_rate")
        )
        training = [
            (line["update"], line["env/success_rate"])
            for line in lines
            if "env/success_rate" in line
        ]
        evaluation = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        return cls(
            algorithm,
            seed,
            greedy,
            sampled,
            training,
            evaluation["train_cpu_seconds"],
            recoveries(folder),
        )


def recoveries(folder: Path, num_parts: int = 2) -> list[Recovery]:
    """Count the recoveries in a run's logged training episodes, in equal parts."""
    files = sorted((folder / "episodes").glob("train_*.jsonl"))
    size = max(1, -(-len(files) // num_parts))
    return [_recovery(files[start : start + size]) for start in range(0, len(files), size)]


def _recovery(files: Sequence[Path]) -> Recovery:
    episodes = failed = solved = 0
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            episode = json.loads(line)
            if episode.get("invalid") or not episode.get("steps"):
                continue
            episodes += 1
            if episode["steps"][0]["error"] in FAILED:
                failed += 1
                solved += bool(episode["success"])
    numbers = [int(file.stem.removeprefix("train_")) for file in files]
    return Recovery((numbers[0], numbers[-1]), episodes, failed, solved)


def together(parts: Sequence[Recovery]) -> Recovery:
    """Sum the recoveries of several runs over the same updates."""
    _, *counts = zip(*parts, strict=True)
    return Recovery(parts[0].updates, *map(sum, counts))


def report(runs: Sequence[Run]) -> str:
    """Format a Markdown report: a line per run, and recoveries after a failed first call."""
    reached = sum(run.greedy[-1][1] >= GOAL for run in runs)
    lines = [
        f"Success on held-out questions; {reached} of {len(runs)} runs end at {GOAL:.0%} or more, "
        "greedy.",
        "",
        "| algorithm | seed | greedy | sampled | episodes | CPU s | solved after a failed first "
        "call, by halves |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        lines.append(
            f"| {run.algorithm} | {run.seed} | {_change(run.greedy)} | {_change(run.sampled)} | "
            f"{run.greedy[-1][0]} | {run.cpu_seconds:.0f} | "
            f"{' -> '.join(map(_shown, run.recoveries))} |"
        )
    for name in dict.fromkeys(run.algorithm for run in runs):
        halves = zip(*(run.recoveries for run in runs if run.algorithm == name), strict=True)
        lines.append(
            f"| {name} | all | | | | | {' -> '.join(_shown(together(half)) for half in halves)} |"
        )
    return "\n".join(lines) + "\n"


def _change(curve: Sequence[tuple[int, float]]) -> str:
    return f"{100 * curve[0][1]:.1f} -> {curve[-1][1]:.1%}"


def _shown(part: Recovery) -> str:
    return f"{part.solved}/{part.failed}" + ("" if part.rate is None else f" = {part.rate:.0%}")


def draw(runs: Sequence[Run], path: Path) -> None:
    """Draw the success of each algorithm's runs, on held-out questions and in training."""
    figure, (left, right) = subplots(1, 2, size=(10, 4.4))
    algorithms = list(dict.fromkeys(run.algorithm for run in runs))
    for number, name in enumerate(algorithms):
        group = [run for run in runs if run.algorithm == name]
        for axes, curves in (
            (left, [run.greedy for run in group]),
            (right, [run.training for run in group]),
        ):
            across = [at for at, _ in curves[0]]
            rows = [[success for _, success in curve] for curve in curves]
            spread(axes, across, rows, f"C{number}", name)
    goal(left, GOAL, f"goal: {GOAL:.0%}")
    left.set(title="Held-out questions, greedy", xlabel="training episodes", ylabel="success")
    right.set(title="Training episodes, sampled", xlabel="update")
    if len(algorithms) > 1:
        right.legend(loc="lower right")
    count = len({run.seed for run in runs})
    model = "model of 0.4 M weights"
    figure.suptitle(f"{path.stem} job, {model}, {', '.join(algorithms)}, {seeds(count)}")
    save(figure, path)


if __name__ == "__main__":
    for part in recoveries(
        Path(sys.argv[1]), num_parts=int(sys.argv[2]) if len(sys.argv) > 2 else 2
    ):
        print(
            f"updates {part.updates[0]}-{part.updates[1]}: {part.episodes} episodes, first call "
            f"failed in {part.failed}, solved of those {_shown(part)}"
        )
