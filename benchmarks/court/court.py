"""Court: arms that differ in credit assignment, trained seed after seed.

`python benchmarks/court/court.py --tasks warm,cold,mended --minutes 30` trains the missing runs:
first those that find the rate of each arm, on seeds of their own, then seed after seed, so that a
stop at any time leaves a balanced table. A run is a JSON line in results/kept/court/runs.jsonl; the
same command again goes on where the last one was stopped, and begins no run after the minutes. Two
commands at once want task sets of their own.
Arms whose flags this version does not have are named and left out. PLAN.md, beside this file, was
committed before the first run. At last it prints the table (`--minutes 0`: alone).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))  # the shared parts lie there

from arms import ARMS, RATES, TUNING_SEEDS
from report import FEW, Run, best_rate, is_out, read_runs, report
from task_sets import TASK_SETS, model_folder
from values import HAND_MADE, GivenCredit, PlayedUpdate, Values

from fctncalling.algorithms import ppo
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, strict_success_rate, success_rate
from fctncalling.evaluation import scripted_policies
from fctncalling.lab.embedded.vocabulary import wording
from fctncalling.training.prepare_run import prepare_run
from fctncalling.training.rollouts.round_planner import evaluation_rounds
from fctncalling.training.run_config import RunConfig
from fctncalling.training.training_run import TrainingRun

KEPT = Path(__file__).parents[2] / "results" / "kept" / "court" / "runs.jsonl"
EVALUATIONS = 4  # of a run, evenly spread, the last behind its last update


class Job(NamedTuple):
    """Run to do."""

    tasks: str
    arm: str
    seed: int
    lr: float


def main() -> None:
    """Train the missing runs, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default=",".join(TASK_SETS), help="task sets, with commas")
    parser.add_argument("--arms", default=",".join(ARMS), help="some of them, with commas")
    parser.add_argument("--seeds", default="1-12", help="such as 1-3")
    parser.add_argument(
        "--tuning", type=int, default=2, help="seeds that rates are tuned on; 0: the middle rate"
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="begin no run after (30)")
    parser.add_argument("--output", type=Path, default=KEPT)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    first, _, last = options.seeds.partition("-")
    names = [name for name in options.arms.split(",") if is_available(name)]
    seeds = range(int(first), int(last or first) + 1)
    for job in jobs(options.tasks.split(","), names, seeds, options.output, options.tuning):
        if time.monotonic() >= end:
            break
        run = play(job)
        with options.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run._asdict()) + "\n")
        print(
            f"{' '.join(map(str, job))}: area {run.area:.3f}, {run.cpu_seconds:.0f} s", flush=True
        )
    print(report(read_runs(options.output)))


def is_available(name: str) -> bool:
    """Whether this version has an arm's flags; prints a note if not."""
    try:
        TrainConfig(**ARMS[name].flags)
    except (TypeError, SettingError) as error:
        print(f"{name}: left out, {error}", flush=True)
        return False
    return True


def jobs(
    tasks: Sequence[str], names: Sequence[str], seeds: Sequence[int], kept: Path, tuning: int = 2
) -> Iterator[Job]:
    """Yield the missing runs: tuning first, then seed after seed."""
    chosen = [(kind, name) for kind, name in product(tasks, names) if kind in ARMS[name].tasks]
    own = [(task_set, name) for task_set, name in chosen if not ARMS[name].rate_of]
    for seed, lr, (task_set, name) in product(TUNING_SEEDS[:tuning], RATES, own):
        if (job := Job(task_set, name, seed, lr)) not in known(kept):
            yield job
    for seed, (task_set, name) in product(seeds, chosen):
        runs = read_runs(kept)
        if seed <= ARMS[name].seeds and not (seed > FEW and is_out(runs, task_set, name)):
            lr = best_rate(runs, task_set, ARMS[name].rate_of or name)
            if (job := Job(task_set, name, seed, lr)) not in known(kept):
                yield job


def known(kept: Path) -> set[Job]:
    """Return the finished jobs."""
    return {Job(run.tasks, run.arm, run.seed, run.lr) for run in read_runs(kept)}


def play(job: Job) -> Run:
    """Train and return a run."""
    chosen, arm = TASK_SETS[job.tasks], ARMS[job.arm]
    more = {"seed": job.seed, "lr": job.lr, "eval_interval": 0, "save_interval": 0}
    # a prefix that the truth plays ends its turns with the embedded models' word
    done = mock.patch.object(scripted_policies, "DONE", wording()["replies"]["done"])
    with tempfile.TemporaryDirectory() as results, done:
        config = TrainConfig(
            **{**chosen.flags, **arm.flags, **more},
            model_name_or_path=str(model_folder(job.tasks)),
            results_dir=results,
        )
        run_config = RunConfig(log_episodes_interval=0, tensorboard=False)
        setup = chosen.setup(config)
        run = prepare_run(config, run_config, setup)
        learner = Learner(run, job, {task.id: task for task in setup.training_tasks})
        try:
            return learner.learn()
        finally:
            run.close()


class Learner:
    """Run that is trained update by update, with hand-made values if its arm has any."""

    def __init__(self, run: TrainingRun, job: Job, tasks: Mapping[str, Any]) -> None:
        self.run, self.job, self.tasks = run, job, tasks
        kind = "mended" if job.tasks == "mended" else "stream"
        self.hand_made = HAND_MADE[kind].get(ARMS[job.arm].values)

    def learn(self) -> Run:
        """Train to the last update and return the run's figures."""
        run, curve, kl = self.run, list[float](), list[float]()
        sampled = list[float]()
        every = run.config.num_updates // EVALUATIONS
        while not run.is_over():
            episodes = run.collect()
            metrics = self._update(episodes)
            curve.append(round(success_rate(episodes) or 0.0, 4))
            kl.append(round(metrics.get("losses/approx_kl") or 0.0, 4))
            if run.counters.updates % every == 0:
                sampled.append(self._held_out(1))
        greedy = self._held_out(0)
        steps, seconds = run.counters.env_steps, round(run.counters.train_cpu_seconds, 1)
        return Run(*self.job, curve, sampled, greedy, max(kl), steps, seconds)

    def _update(self, episodes: Sequence[EpisodeRecord]) -> Mapping[str, Any]:
        if self.hand_made is None:
            return self.run.learn(episodes)
        usable = [episode for episode in episodes if not episode.invalid]
        values: Values = self.hand_made(PlayedUpdate(self.run, self.tasks, usable))
        algorithm = ppo.TPPO._replace(estimate=GivenCredit(usable, values))
        with mock.patch.dict(ppo.ALGORITHMS, TPPO=algorithm):
            return self.run.learn(usable)

    def _held_out(self, number: int) -> float:
        """Return greedy (0) or sampled (1) success on whole held-out tasks."""
        run = self.run
        rounds = evaluation_rounds(run.held_out_ids, run.config, run.counters.updates)
        episodes = run.rollout.play(rounds[number], run.interruption).episodes
        strict = strict_success_rate(episodes)
        return round(float((success_rate(episodes) if strict is None else strict) or 0.0), 4)


if __name__ == "__main__":
    main()
