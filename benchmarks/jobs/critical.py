"""Whether credit by state learns critical tasks sooner than credit by episode: runs and their test.

`python benchmarks/jobs/critical.py --seeds 1-12` trains, seed after seed, each of ARMS on the
embedded critical tasks from the start policy made for them, and writes one JSON line a run into
--output. Runs that the file holds already are left out: the same command again goes on where the
last one was stopped. Every arm has the rate that served it best on other seeds (`--rates
1e-4,2e-4,4e-4 --seeds 101 --output FILE`). Then it prints the table of docs/credit.md.

`--longer` plays tasks of 10 to 16 actions, `--set num_mini_batch=1 ...` sets flags of all arms, and
there are OTHER_ARMS; such runs want an --output of their own.

The endpoint is the area under the curve: the mean over all updates of the success of the episodes
that the update was collected with. The test flips the signs of the paired differences.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))  # the shared parts lie there

from learning_report import sign_flips
from place_oracle import PlaceOracle
from tool_jobs import trained

from fctncalling.algorithms.group_baseline import GROUP_BASELINES
from fctncalling.lab.embedded.critical_tasks import SHORT, SPLITS, critical_entries

ROOT = Path(__file__).parents[2]
EMBEDDED = ROOT / "data" / "embedded"
KEPT = ROOT / "results" / "kept" / "critical" / "runs.jsonl"
TUNED = KEPT.with_name("tuned.jsonl")
SHARED: dict[str, object] = {
    "dataset_path": EMBEDDED / "critical_train.json",
    "eval_dataset_path": EMBEDDED / "critical_held_out.json",
    "model_name_or_path": EMBEDDED / "critical_model",
    "group_size": 8,
    "episodes_per_update": 128,
    "num_updates": 12,
    "eval_interval": 0,
    "eval_episodes": 80,
    "save_interval": 0,
    "log_episodes_interval": 0,
    "torch_threads": 1,
}
ARMS: dict[str, dict[str, object]] = {
    "TPPO": {"algorithm_name": "TPPO", "group_baseline": "state"},
    # A value head begins at 0 and stays there with a rate of 0: what nobody else saw is worth 0,
    "state_alone": {"algorithm_name": "TPPO", "group_baseline": "state", "critic_lr": 0},
    # and this is the exact leave-one-out estimate of REINFORCE.
    "leave_one_out": {
        "algorithm_name": "TPPO",
        "group_baseline": "leave_one_out",
        "gamma": 1,
        "lam": 1,
        "critic_lr": 0,
    },
    "GRPO": {"algorithm_name": "GRPO"},
}
OTHER_ARMS: dict[str, dict[str, object]] = {
    "single": {"algorithm_name": "TPPO", "group_size": 1},  # every episode of another task
    "unwhitened": {**ARMS["state_alone"], "gamma": 1, "whiten_advantages": "false"},
    "oracle": {**ARMS["state_alone"], "gamma": 1, "whiten_advantages": "false"},
}
LONGER = SHORT._replace(
    num_turns=(3, 4), num_traps=(0, 1, 1, 2), last_trap=99, most_actions=16, least_actions=10
)
RATES = dict.fromkeys((*ARMS, *OTHER_ARMS, "ceiling"), 5e-4)
"""Arm -> learning rate, the best of those tried on other seeds; state_alone, the ceiling
(ceiling.py) and OTHER_ARMS have TPPO's."""


class CriticalRun(NamedTuple):
    """One training run: its success update by update, and on held-out tasks before and after."""

    arm: str
    seed: int
    lr: float
    curve: list[float]  # success of the episodes of each update
    steps: int  # actions taken in the environments
    greedy: tuple[float, float]
    sampled: tuple[float, float]
    cpu_seconds: float

    @property
    def area(self) -> float:
        """Area under the curve, as a share of the most that is possible."""
        return sum(self.curve) / len(self.curve)

    @classmethod
    def read(cls, folder: Path, arm: str, seed: int, lr: float) -> Self:
        """Return the run that left this folder."""
        found = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        updates = [line for line in map(json.loads, lines) if "env/success_rate" in line]
        sides = found["before"], found["after"]
        return cls(
            arm,
            seed,
            lr,
            [round(line["env/success_rate"], 6) for line in updates],
            round(updates[-1]["env_steps"]),
            (sides[0]["greedy"], sides[1]["greedy"]),
            (sides[0]["sampled"], sides[1]["sampled"]),
            round(found["train_cpu_seconds"], 1),
        )


def main() -> None:
    """Run the missing runs, then print the table."""
    options = parsed()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rates = [float(rate) for rate in options.rates.split(",") if rate]
    runs = read_runs(options.output)
    known = {(run.arm, run.seed, run.lr) for run in runs}
    for seed, arm in product(numbers(options.seeds), options.arms.split(",")):
        for lr in rates or [RATES[arm]]:
            if (arm, seed, lr) not in known:
                runs.append(play(arm, seed, lr, options))
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(runs[-1]._asdict()) + "\n")
                print(f"{arm} seed {seed} at {lr:g}: area {runs[-1].area:.3f}", flush=True)
    print(table(runs))


def parsed() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seeds", default="1-12", help="such as 1-12 or 101,102")
    parser.add_argument("--rates", default="", help="learning rates to try, for every arm")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="flags of all")
    parser.add_argument("--longer", action="store_true", help="tasks of 10 to 16 actions")
    parser.add_argument("--output", type=Path, default=KEPT)
    return parser.parse_args()


def numbers(text: str) -> list[int]:
    """Return the numbers of "1-3,7"."""
    found = list[int]()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def play(arm: str, seed: int, lr: float, options: argparse.Namespace) -> CriticalRun:
    """Return the run of an arm, trained now."""
    given = dict(pair.split("=", 1) for pair in options.set)
    with tempfile.TemporaryDirectory() as results:
        flags = {**SHARED, **given, **{**ARMS, **OTHER_ARMS}[arm], "seed": seed, "lr": lr}
        if options.longer:
            flags |= longer_tasks(Path(results))
        folder = Path(results) / "check" / "critical_model" / "critical_train"
        folder /= str(flags["algorithm_name"])
        baselines = dict(GROUP_BASELINES)
        if arm == "oracle":
            baselines["state"] = PlaceOracle(Path(str(flags["dataset_path"])))
        with mock.patch.dict(GROUP_BASELINES, baselines):
            return CriticalRun.read(trained(folder, Path(results), flags), arm, seed, lr)


def longer_tasks(folder: Path) -> dict[str, object]:
    """Write both splits of longer tasks; return the flags that name them."""
    for split, (num_tasks, first_id) in SPLITS.items():
        entries = critical_entries(split, num_tasks, first_id=first_id, errands=LONGER)
        text = "\n".join(map(json.dumps, entries))
        (folder / f"{split}.json").write_text(text + "\n", encoding="utf-8")
    paths = [folder / f"{split}.json" for split in SPLITS]
    return dict(zip(("dataset_path", "eval_dataset_path"), paths, strict=True))


def read_runs(path: Path) -> list[CriticalRun]:
    """Return the runs of a file; none where there is no such file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [CriticalRun(**json.loads(line)) for line in lines]


def table(runs: Sequence[CriticalRun]) -> str:
    """Return the table: an arm and rate a line, TPPO's gain over it with its exact p."""
    lines = [
        "| arm | rate | area | held out, greedy | steps, CPU s | TPPO's gain | p |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm, lr in dict.fromkeys((run.arm, run.lr) for run in runs):
        own = [run for run in runs if (run.arm, run.lr) == (arm, lr)]
        gains = paired_gains(runs, "TPPO", arm) if arm != "TPPO" else []
        told = f"{100 * mean(gains):+.1f} | {sign_flips(gains):.3f} |" if gains else "| |"
        lines.append(
            f"| {arm} | {lr:g} | {100 * mean(run.area for run in own):.1f} | "
            f"{_before_after([run.greedy for run in own])} | "
            f"{mean(run.steps for run in own):,.0f}, {mean(run.cpu_seconds for run in own):.0f} | "
            f"{told}"
        )
    return "\n".join(lines)


def paired_gains(runs: Iterable[CriticalRun], first: str, second: str) -> list[float]:
    """Return the differences in area of two arms, of the seeds that both have, at their rates."""
    areas: dict[str, dict[int, float]] = {first: {}, second: {}}
    for run in runs:
        if run.arm in areas and run.lr == RATES[run.arm]:
            areas[run.arm][run.seed] = run.area
    shared = sorted(areas[first].keys() & areas[second].keys())
    return [areas[first][seed] - areas[second][seed] for seed in shared]


def mean(values: Iterable[float]) -> float:
    """Return the mean."""
    found = list(values)
    return sum(found) / len(found)


def _before_after(pairs: Sequence[Sequence[Any]]) -> str:
    return " to ".join(f"{100 * mean(pair[side] for pair in pairs):.1f}" for side in (0, 1)) + " %"


if __name__ == "__main__":
    main()
