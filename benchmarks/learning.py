"""Learning curves of each algorithm on the embedded multi-turn tasks, over many seeds.

`python benchmarks/learning.py --algorithms TPPO,POAD,NTPO,APPO,GRPO --seeds 10` trains once for
every seed and algorithm, in this order, so that a run cut short leaves whole seeds; then it writes
runs.jsonl, report.md and learning.png into --output and prints the table. Runs that are long enough
are kept, shorter and interrupted ones go on from their checkpoints: the same command again takes up
where the last one was stopped, and one with more --num_updates makes the runs longer. Every run
starts from the embedded model and is judged on the same held-out tasks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from itertools import product
from pathlib import Path

from learning_report import Run, draw, report

ROOT = Path(__file__).parents[1]
EMBEDDED = ROOT / "data" / "embedded"
MULTI_TURN = "multi_turn"  # what the ids of the tasks begin with

SHARED: dict[str, object] = {
    "episodes_per_update": 256,
    "num_mini_batch": 4,
    "ppo_epoch": 1,
    "lr": 3e-4,
    "lr_schedule": "constant",
    "group_size": 1,
    "dynamic_sampling": 1,
    "eval_episodes": 166,
    "save_interval": 4,
    "torch_threads": 1,
    "device": "cpu",
    "tensorboard": "false",
    "log_episodes_interval": 0,
}
SETTINGS: dict[str, dict[str, object]] = {
    "TPPO": {"group_baseline": "none"},
    "POAD": {"group_baseline": "none"},
    "NTPO": {"group_baseline": "none"},
    "APPO": {"group_baseline": "none"},
    "GRPO": {"group_size": 8},
}
"""What an algorithm adds to SHARED: its usual baseline, so none is favoured by tuning."""

FORKS = multiprocessing.get_context(
    "forkserver"
)  # a process for every run, what is slow being imported once
SLOW_IMPORTS = ("matplotlib.pyplot", "transformers", "transformers.models.llama.modeling_llama")


def main() -> None:
    """Run the missing runs, then report on all."""
    options = parsed()
    os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}
    FORKS.set_forkserver_preload(
        ["fctncalling.cli.train", "fctncalling.training.training_run", *SLOW_IMPORTS]
    )
    options.output.mkdir(parents=True, exist_ok=True)
    tasks = EMBEDDED if options.tasks == "all" else write_tasks(options.output / "tasks")
    wanted = [
        (name, seed)
        for seed, name in product(range(1, options.seeds + 1), options.algorithms.split(","))
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(lambda pair: play(pair[0], pair[1], tasks, options), wanted))
    lines = "".join(json.dumps(run._asdict()) + "\n" for run in runs)
    (options.output / "runs.jsonl").write_text(lines, encoding="utf-8")
    text = report(runs, SHARED | chosen(options), SETTINGS)
    (options.output / "report.md").write_text(text, encoding="utf-8")
    print(text)
    draw(runs, options.output / "learning.png")


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algorithms", default=",".join(SETTINGS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--tasks", default="multi_turn", choices=("multi_turn", "all"), help="of the embedded ones"
    )
    parser.add_argument("--num_updates", type=int, default=6, help="of 256 episodes each")
    parser.add_argument(
        "--eval_interval", type=int, default=2, help="updates between two evaluations"
    )
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="runs at a time")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "learning")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings on top, to try them"
    )
    options = parser.parse_args()
    if unknown := set(options.algorithms.split(",")) - set(SETTINGS):
        parser.error(
            f"--algorithms: got {sorted(unknown)[0]}, expected some of {', '.join(SETTINGS)}"
        )
    return options


def chosen(options: argparse.Namespace) -> dict[str, object]:
    """Return the settings that --set overrides."""
    return dict(pair.split("=", 1) for pair in options.set)


def write_tasks(folder: Path) -> Path:
    """Write the embedded multi-turn tasks to training and held-out files."""
    for name in ("train.json", "held_out.json"):
        for path in (Path(name), Path("possible_answer") / name):
            lines = (EMBEDDED / path).read_text(encoding="utf-8").splitlines(keepends=True)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            chosen_lines = [line for line in lines if json.loads(line)["id"].startswith(MULTI_TURN)]
            (folder / path).write_text("".join(chosen_lines), encoding="utf-8")
    shutil.copytree(
        EMBEDDED / "multi_turn_func_doc", folder / "multi_turn_func_doc", dirs_exist_ok=True
    )
    return folder


def play(algorithm: str, seed: int, tasks: Path, options: argparse.Namespace) -> Run:
    """Train a run of an algorithm and a seed, as far as it is missing."""
    results = options.output / f"seed_{seed:02d}"
    folder = results / "check" / "embedded" / "train" / algorithm
    if updates_of(folder) < options.num_updates:
        flags = {
            **SHARED,
            **SETTINGS[algorithm],
            "algorithm_name": algorithm,
            "seed": seed,
            "dataset_path": tasks / "train.json",
            "eval_dataset_path": tasks / "held_out.json",
            "results_dir": results,
            "num_updates": options.num_updates,
            "eval_interval": options.eval_interval,
            **chosen(options),
        }
        train(folder, [f"--{name}={value}" for name, value in flags.items()])
    run = Run.read(folder, algorithm, seed, options.num_updates)
    print(
        f"{algorithm} seed {seed}: {run.curve[-1][1]:.3f} after {run.curve[-1][0]} episodes",
        flush=True,
    )
    return run


def updates_of(folder: Path) -> int:
    """Return the number of updates of a finished run; 0 if there is none."""
    evaluation = folder / "evaluation.json"
    return (
        json.loads(evaluation.read_text(encoding="utf-8"))["updates"] if evaluation.exists() else 0
    )


def train(folder: Path, flags: list[str]) -> None:
    """Run the training command, from its checkpoint if there is one; log its output."""
    resumes = (folder / "checkpoints" / "last").exists()
    if folder.exists() and not resumes:
        shutil.rmtree(folder)  # stopped before its first checkpoint
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.parent / f"{folder.name}.log"
    process = FORKS.Process(
        target=run_command, args=([*flags, *(["--resume"] if resumes else [])], log)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(
            f"train_fctncalling.py {' '.join(flags)} ended with {process.exitcode}; see {log}"
        )


def run_command(flags: list[str], log: Path) -> None:
    """Run the training command in this process, which ends with its status."""
    from fctncalling.cli.train import main as train_fctncalling

    with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        sys.exit(train_fctncalling(flags))


if __name__ == "__main__":
    main()
