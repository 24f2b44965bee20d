"""The court: arms that differ in one thing, trained seed after seed, and what they say of claims.

`python benchmarks/court/court.py` trains the missing runs on critical tasks (`--tasks T1`: the
embedded ones): first those that find the rate of each estimator, on a seed of their own; then, seed
after seed, so that a stop at any time leaves a balanced table, the arms of the claims that are
judged, 12 seeds; then those that give effect sizes, 5 seeds. A run is a JSON line in
results/kept/court/; runs that are there, or that benchmarks/jobs/critical.py left, are not trained
again. `--minutes 30` begins no run after that time. At last it writes the tables and figures of
docs/court.md. claims.md, beside this file, says what is judged, and how.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "jobs"))  # the shared parts lie there
sys.path.insert(0, str(Path(__file__).parents[1]))

import critical
from critical import EMBEDDED, ROOT, CriticalRun, mean, numbers, read_runs
from tool_jobs import trained

from fctncalling.cli.train_flags import CONFIG_SETTINGS

KEPT = ROOT / "results" / "kept" / "court"
TASK_SETS: dict[str, dict[str, object]] = {
    "T1": {
        **critical.SHARED,
        "dataset_path": EMBEDDED / "train.json",
        "eval_dataset_path": EMBEDDED / "held_out.json",
        "model_name_or_path": EMBEDDED / "model",
        "mixture": "multi_turn_base=1,multi_turn_miss_func=1,multi_turn_miss_param=1",
        "eval_episodes": 8,
    },
    "T2": {**critical.SHARED, "eval_episodes": 8},
}


class Arm(NamedTuple):
    """What is trained, and the arm that it differs from in one thing."""

    than: str
    flags: dict[str, object]
    patch: str = ""  # of relatives.PATCHES
    tuned: bool = False  # has a rate of its own; else that of `than`
    warm_up: int = 0  # episodes that the critic is fitted to first, of those of the whole run
    noise: float | None = None  # on the true advantage, in deviations of it
    slower: float = 1.0  # part of the rate that it would have

    def settings(self, tasks: str) -> dict[str, object]:
        """Return all flags of its training command, but rate and seed."""
        shared = TASK_SETS[tasks]
        warm: dict[str, object] = {}
        if self.warm_up:
            updates = int(str(shared["num_updates"])) - self.warm_up // self.per_update(tasks)
            warm = {"critic_warmup_episodes": self.warm_up, "num_updates": updates}
        return {**shared, **self.flags, **warm}

    def in_words(self) -> str:
        """Return what it is made of."""
        words = [
            f"`{name}: {value}`" if name in CONFIG_SETTINGS else f"`--{name}={value}`"
            for name, value in self.flags.items()
        ]
        words[0] = str(self.flags["algorithm_name"])
        words += [self.patch] * bool(self.patch) + ["half the rate"] * (self.slower < 1)
        words += [f"warm-up of {self.warm_up} episodes"] * bool(self.warm_up)
        words += (
            [] if self.noise is None else ["truth" + f" + {self.noise:g} noise" * bool(self.noise)]
        )
        return ", ".join(words)

    def per_update(self, tasks: str) -> int:
        """Return the episodes of an update."""
        return int(str(TASK_SETS[tasks]["episodes_per_update"]))


CRITIC: dict[str, object] = {"algorithm_name": "TPPO"}
NO_CRITIC: dict[str, object] = {**CRITIC, "group_baseline": "state", "critic_lr": 0}
TOLD: dict[str, object] = {**CRITIC, "critic": "full", "critic_sees": "truth"}
GROUPS: dict[str, object] = {"algorithm_name": "GRPO"}
SHARED_ARMS = {name: Arm("GRPO", flags, tuned=True) for name, flags in critical.ARMS.items()}
SHARED_ARMS["state_alone"] = Arm("TPPO", critical.ARMS["state_alone"])
SHARED_ARMS["ceiling"] = Arm("GRPO", CRITIC, noise=0.0)  # of pooled truth, see truth.py
JUDGED = {
    "critic": Arm("GRPO", CRITIC, tuned=True),
    "NTPO": Arm("critic", {"algorithm_name": "NTPO"}, tuned=True),
    "APPO": Arm("critic", {"algorithm_name": "APPO"}, tuned=True),
    "GiGPO": Arm("GRPO", {**NO_CRITIC, "whiten_advantages": False}, "gigpo"),
    "bonus": Arm("critic", CRITIC, "bonus"),
    "masked": Arm("GRPO", GROUPS, "mask"),
    "warm_256": Arm("critic", CRITIC, warm_up=256),
    "value_lambda_1": Arm("critic", {**CRITIC, "lam_value": 1}),
}
EFFECTS = {
    "APPO_half": Arm("APPO", {"algorithm_name": "APPO"}, slower=0.5),
    "NTPO_half": Arm("NTPO", {"algorithm_name": "NTPO"}, slower=0.5),
    **{f"GRPO_noise_{size}": Arm("GRPO", GROUPS, f"noise of {size}") for size in (1, 3, 10)},
    "noise_1": Arm("ceiling", CRITIC, noise=1.0),
    "noise_3": Arm("ceiling", CRITIC, noise=3.0),
    "shuffled": Arm("critic", {**CRITIC, "permute_advantages": True}),
    "masked_at_random": Arm("masked", GROUPS, "mask_at_random"),
    "progress": Arm("critic", {**CRITIC, "reward": "strict_progress"}),
    "GRPO_bonus": Arm("GRPO", GROUPS, "bonus"),
    "warm_640": Arm("critic", CRITIC, warm_up=640),
    "gate": Arm("critic", CRITIC, "gate"),
    "full_critic": Arm("critic", {**CRITIC, "critic": "full"}),
    "truth_critic": Arm("full_critic", TOLD),
    "SDPO": Arm("truth_critic", TOLD, "self-distillation", tuned=True),
    **{f"echo_{size}": Arm("GRPO", GROUPS, f"echo of {size}") for size in (0.05, 0.2)},
    "GRPO_filter": Arm("GRPO", GROUPS, "filter"),
    "critic_filter": Arm("critic", CRITIC, "filter"),
}
ARMS = {**SHARED_ARMS, **JUDGED, **EFFECTS}
SEEDS = {**dict.fromkeys(ARMS, 12), **dict.fromkeys(EFFECTS, 5), "ceiling": 3}
"""Arm -> how many seeds it has, from 1."""
TUNING_SEEDS = (101,)
FACTORS = (0.5, 1.0, 2.0)  # of GRPO's rate, tried for arms that have one of their own


class Job(NamedTuple):
    """One run that is wanted, and the file that keeps it."""

    file: Path
    arm: str
    seed: int
    lr: float


def main() -> None:
    """Train the missing runs, then print the tables and draw the figures."""
    from page import write_page

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", choices=TASK_SETS, default="T2")
    parser.add_argument("--arms", default=",".join(ARMS), help="some of them, parted by commas")
    parser.add_argument("--seeds", default="1-12", help="such as 1-3")
    parser.add_argument("--minutes", type=float, default=30.0, help="begin no run after (30)")
    options = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * options.minutes
    for job in jobs(options.tasks, options.arms.split(","), numbers(options.seeds)):
        if time.monotonic() > deadline:
            break
        run = play(options.tasks, job.arm, job.seed, job.lr)
        with job.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run._asdict()) + "\n")
        print(f"{job.arm} seed {job.seed} at {job.lr:g}: area {run.area:.3f}", flush=True)
    write_page()


def jobs(tasks: str, names: Sequence[str], seeds: Sequence[int]) -> Iterator[Job]:
    """Yield the runs that are wanted and not kept yet, in the order of their worth."""
    tried, done = tuning_file(tasks), runs_file(tasks)
    tuned = [each for each in dict.fromkeys(map(rated, names)) if not has_rate(tasks, each)]
    for seed, factor, name in product(TUNING_SEEDS, FACTORS, tuned):
        job = Job(tried, name, seed, factor * critical.RATES["GRPO"])
        if job[1:] not in known(read_runs(tried)):
            yield job
    for group in ({**SHARED_ARMS, **JUDGED}, EFFECTS):
        for seed, name in product(seeds, [name for name in group if name in names]):
            job = Job(done, name, seed, rate(tasks, name))
            if seed <= SEEDS[name] and job[1:] not in known(runs_of(tasks)):
                yield job


def rated(name: str) -> str:
    """Return the arm whose rate an arm has: the nearest that has one of its own."""
    return name if ARMS[name].tuned else rated(ARMS[name].than)


def has_rate(tasks: str, name: str) -> bool:
    """Whether critical.py found the arm's rate."""
    return tasks == "T2" and name in critical.RATES


def rate(tasks: str, name: str) -> float:
    """Return an arm's learning rate, the best that was tried on the tuning seeds."""
    own, slower = rated(name), ARMS[name].slower
    if has_rate(tasks, own):
        return slower * critical.RATES[own]
    areas: dict[float, list[float]] = {}
    for run in read_runs(tuning_file(tasks)):
        if run.arm == own:
            areas.setdefault(run.lr, []).append(run.area)
    whole = {lr: mean(each) for lr, each in areas.items() if len(each) == len(TUNING_SEEDS)}
    return slower * (max(whole, key=whole.__getitem__) if whole else critical.RATES["GRPO"])


def known(runs: Iterable[CriticalRun]) -> set[tuple[str, int, float]]:
    """Return what tells runs apart."""
    return {(run.arm, run.seed, run.lr) for run in runs}


def runs_file(tasks: str) -> Path:
    """Return the file of a task set's runs."""
    return KEPT / f"{tasks}.jsonl"


def tuning_file(tasks: str) -> Path:
    """Return the file of the runs that rates were chosen by."""
    return KEPT / f"{tasks}_tuned.jsonl"


def grades_file(tasks: str) -> Path:
    """Return the file of the grades that runs on the truth left."""
    return KEPT / f"{tasks}_grades.jsonl"


def probes_file(tasks: str) -> Path:
    """Return the file of what probes.py found."""
    return KEPT / f"{tasks}_probes.jsonl"


def judged_runs(tasks: str) -> list[CriticalRun]:
    """Return the runs of a task set at the rates that its arms have."""
    return [run for run in runs_of(tasks) if run.arm not in ARMS or run.lr == rate(tasks, run.arm)]


def runs_of(tasks: str) -> list[CriticalRun]:
    """Return the runs of a task set, those of critical.py among them."""
    others = read_runs(critical.KEPT) if tasks == "T2" else []
    return others + read_runs(runs_file(tasks))


def play(tasks: str, name: str, seed: int, lr: float) -> CriticalRun:
    """Return the run of an arm, trained now.

    What a warm-up played counts, as episodes of the start policy: its curve begins with the first
    update's success.
    """
    from relatives import patched
    from truth import train_on_truth

    arm = ARMS[name]
    flags = {**arm.settings(tasks), "seed": seed, "lr": lr}
    with tempfile.TemporaryDirectory() as results, patched(arm.patch):
        if arm.noise is not None:
            folder = train_on_truth(flags, Path(results), arm.noise, grades_file(tasks))
        else:
            places = (flags[key] for key in ("model_name_or_path", "dataset_path"))
            model, data = (Path(str(place)).stem for place in places)
            folder = Path(results) / "check" / model / data / str(flags["algorithm_name"])
            trained(folder, Path(results), flags)
        run = CriticalRun.read(folder, name, seed, lr)
    before = arm.warm_up // arm.per_update(tasks)
    return run._replace(curve=run.curve[:1] * before + run.curve)


if __name__ == "__main__":
    main()
