"""Speedrun board: CPU seconds from the embedded model to 91 % of the held-out tasks.

`python benchmarks/jobs/speedrun.py` checks that tasks and model are the frozen ones, trains each of
ARMS with each of --seeds, seed after seed, so that all arms share a machine's load, and writes one
JSON line a run into --output. Runs that the file holds already are left out. Then it prints the
table of docs/evidence/performance.md: means over seeds, CPU seconds as shares of the basis'.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[2]
EMBEDDED = ROOT / "data" / "embedded"
KEPT = ROOT / "results" / "kept" / "speedrun" / "runs.jsonl"
RUNS = ROOT / "results" / "speedrun"
FROZEN = {
    "train.json": "0b840ab518e4ffdfc675a60704119e8e055bcc32de8fe07fbd6f1c86c342cd2a",
    "held_out.json": "4ae388c457f2ab13df998693fbdec96d33f6e6bfa4060f1be32f28eab83785e8",
    "model/model.safetensors": "3df88d4e1558c0a073029f79bad47d2327d68656c0992cefedc7a25d9481957b",
    "model/tokenizer.json": "a6b27cd984c5604fceb7afef07371e1539ea3a9a6a30d1122c6eb244929fb239",
}
"""File of the main job -> SHA-256: a record on other ones is another board's."""

RECORD = (
    "--lr 4e-4 --lr_schedule linear --min_lr_ratio 0.1 --num_updates 20 --ppo_epoch 2 "
    "--episodes_per_update 64 --group_size 4 --group_baseline state --dynamic_sampling 2 "
    "--eval_interval 0"
)
PLAIN = (
    "--lr_schedule constant --ppo_epoch 1 --episodes_per_update 256 --group_size 1 "
    "--group_baseline none --dynamic_sampling 1"
)
DEFAULTS = RECORD.replace("--num_updates 20", "--num_updates 32")
ARMS = {
    "basis": f"--lr 8e-5 --num_updates 40 --eval_interval 10 {PLAIN}",
    "rate": f"--lr 4e-4 --num_updates 12 --eval_interval 6 {PLAIN}",
    "record": RECORD,
    "defaults": DEFAULTS,
    "leave_one_out": DEFAULTS.replace("state", "leave_one_out"),
    "TPPO": DEFAULTS.replace("state", "none"),
    "GRPO": DEFAULTS.replace("--group_baseline state", "--algorithm_name GRPO"),
    "control": f"{RECORD} --permute_advantages",
}
"""Arm -> its flags of `fctncalling train`; the kept runs had a lambda of .95, the default then."""

BASIS = "basis"  # the defaults of 0.2, whose CPU seconds the others' are shares of


class Speedrun(NamedTuple):
    """One training run: success on held-out tasks at its end, and its costs."""

    arm: str
    seed: int
    flags: str
    greedy: float
    greedy_strict: float
    multi_turn: float  # greedy
    episodes: int
    train_cpu_seconds: float  # collecting and learning
    command_cpu_seconds: float  # of the whole process, evaluations and start included

    @classmethod
    def play(cls, arm: str, seed: int) -> Self:
        """Train and return a run of an arm."""
        folder = RUNS / f"{arm}{seed}"
        shutil.rmtree(folder, ignore_errors=True)  # what an interrupted run left
        words = [*ARMS[arm].split(), "--seed", str(seed)]
        words += ["--results_dir", str(RUNS), "--experiment_name", folder.name]
        before = _children_cpu()
        subprocess.run(
            [sys.executable, "-m", "fctncalling", "train", *words],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        spent = _children_cpu() - before
        [path] = folder.rglob("evaluation.json")
        run = json.loads(path.read_text(encoding="utf-8"))
        after = run["after"]
        return cls(
            *(arm, seed, ARMS[arm]),
            *(after["greedy"], after["greedy_strict"], after["multi_turn"]["greedy"]),
            run["episodes"],
            round(run["train_cpu_seconds"], 1),
            round(spent, 1),
        )


def main() -> None:
    """Check the files, run the missing runs, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arms", default=",".join(ARMS), help=f"of {', '.join(ARMS)}")
    parser.add_argument("--seeds", default="1-3", help="such as 1-3 or 101,102")
    parser.add_argument("--output", type=Path, default=KEPT)
    options = parser.parse_args()
    if changed := changed_files():
        raise SystemExit(f"{', '.join(changed)}: not the frozen file of this board")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    runs = read_runs(options.output)
    finished = {(run.arm, run.seed, run.flags) for run in runs}
    for seed, arm in product(numbers(options.seeds), options.arms.split(",")):
        if (arm, seed, ARMS[arm]) not in finished:
            runs.append(Speedrun.play(arm, seed))
            with options.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(runs[-1]._asdict()) + "\n")
            print(runs[-1], flush=True)
    print(table(runs))


def changed_files() -> list[str]:
    """Return the board's files that differ from the frozen ones."""
    return [
        name
        for name, digest in FROZEN.items()
        if hashlib.sha256((EMBEDDED / name).read_bytes()).hexdigest() != digest
    ]


def read_runs(path: Path) -> list[Speedrun]:
    """Read the runs of a file; [] if it does not exist."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Speedrun(**json.loads(line)) for line in lines]


def numbers(text: str) -> list[int]:
    """Parse "1-3,7" to numbers."""
    seeds = list[int]()
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def table(runs: Sequence[Speedrun]) -> str:
    """Format the table: a line for each arm, means over its seeds."""
    lines = [
        "| arm | seeds | greedy | strict | multi-turn | episodes | learning, CPU s | command |",
        "|---|---|---|---|---|---|---|---|",
    ]
    basis = [run for run in runs if run.arm == BASIS]
    for arm in [arm for arm in ARMS if any(run.arm == arm for run in runs)]:
        own = [run for run in runs if run.arm == arm]
        rates = (
            100 * fmean(getattr(run, name) for run in own)
            for name in ("greedy", "greedy_strict", "multi_turn")
        )
        costs = (_cost(own, basis, f"{name}_cpu_seconds") for name in ("train", "command"))
        cells = [
            f"{arm} | {len(own)}",
            *(f"{rate:.1f} %" for rate in rates),
            f"{fmean(run.episodes for run in own):,.0f}",
            *costs,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cost(own: Sequence[Speedrun], basis: Sequence[Speedrun], name: str) -> str:
    """Return mean CPU seconds, and their share of the baseline's on the same seeds."""
    seconds = {run.seed: getattr(run, name) for run in own}
    whole = {run.seed: getattr(run, name) for run in basis}
    shared = seconds.keys() & whole.keys()
    text = f"{fmean(seconds.values()):.0f}"
    if not shared or own == basis:
        return text
    share = sum(seconds[seed] for seed in shared) / sum(whole[seed] for seed in shared)
    return f"{text} ({share:.2f})"


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
