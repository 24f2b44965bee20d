"""Learning of the jobs with tools in mid-generation: many seeds of one training command.

`python benchmarks/tool_jobs.py --job calculator --seeds 10` does what `train_fctncalling.py
--env_name calculator` does once a seed, prints a table and writes runs.json, report.md and a figure
into --output, with how often an episode succeeds whose first call failed. Finished runs are kept:
the same command again goes on where the last one was stopped. `--set lora_r=8` sets more flags of
the training command. `--keep` also writes the runs to results/kept/jobs, from which
docs/evidence_tables.py makes the table of docs/evidence/results.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, Self

from pictures import goal, save, seeds, spread, subplots

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results/kept/jobs"
FAILED = ("tool_error", "malformed", "unknown_function", "bad_arguments")
GOAL = 0.95  # of held-out questions, which TRL's page reaches


def main() -> None:
    """Run the missing runs, then report on all."""
    options = parsed()
    runs: list[Run] = []
    for algorithm in options.algorithms.split(","):
        for seed in range(1, options.seeds + 1):
            runs.append(Run.read(play(algorithm, seed, options), algorithm, seed))
            print(
                f"{algorithm} seed {seed}: {runs[-1].greedy[0][1]:.3f} -> "
                f"{runs[-1].greedy[-1][1]:.3f}",
                flush=True,
            )
    write_runs(runs, options.output, KEPT / f"{options.job}.json" if options.keep else None)
    text = report(runs)
    (options.output / "report.md").write_text(text, encoding="utf-8")
    print(text)
    draw(runs, options.output / f"{options.job}.png")


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--job", choices=("calculator", "python_math"), default="calculator")
    parser.add_argument(
        "--algorithms", default="TPPO", help="names, parted by commas (default TPPO)"
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", type=Path, help="folder (default: results/tool_jobs/JOB)")
    parser.add_argument(
        "--set",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        help="more flags of the training command",
    )
    parser.add_argument("--keep", action="store_true", help="write results/kept/jobs/JOB.json")
    options = parser.parse_args()
    options.output = options.output or ROOT / "results" / "tool_jobs" / options.job
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def write_runs(runs: Sequence[Any], folder: Path, kept: Path | None) -> None:
    """Write runs (named tuples) to a folder's runs.json, and to the file that pages are made of."""
    text = json.dumps([run._asdict() for run in runs], indent=1) + "\n"
    for file in filter(None, (folder / "runs.json", kept)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def play(algorithm: str, seed: int, options: argparse.Namespace) -> Path:
    """Train a run unless its folder exists; return the folder."""
    results = options.output / f"seed_{seed:02d}"
    settings = dict(pair.split("=", 1) for pair in options.set)
    model = Path(settings.get("model_name_or_path", "embedded")).name
    folder = results / options.job / model / "embedded" / algorithm
    flags = {"env_name": options.job, "algorithm_name": algorithm, "seed": seed, **settings}
    return trained(folder, results, flags)


def trained(folder: Path, results: Path, flags: Mapping[str, Any]) -> Path:
    """Train a run with these flags below `results` unless it exists; return its folder."""
    if not (folder / "evaluation.json").exists():
        fixed = {"results_dir": results, "tensorboard": "false", "device": "cpu"}
        train(folder, [f"--{name}={value}" for name, value in {**fixed, **flags}.items()])
    return folder


def train(folder: Path, flags: list[str]) -> None:
    """Run the training command in this process and log its output."""
    from fctncalling.cli.train import main as train_fctncalling

    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted run left
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        folder.with_suffix(".log").open("w", encoding="utf-8") as log,
        redirect_stdout(log),
        redirect_stderr(log),
    ):
        code = train_fctncalling(flags)
    if code:
        raise SystemExit(
            f"train_fctncalling.py {' '.join(flags)} ended with {code}; see {log.name}"
        )


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
    main()
