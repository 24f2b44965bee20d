"""The ceiling on critical tasks: branched truth as the advantage, beside the arms of critical.py.

`python benchmarks/jobs/ceiling.py --seeds 1-3` trains TPPO as critical.py does, but the advantage
of every action is measured: its reward and the discounted mean return of BRANCHES continuations
from the state behind it, less that from the state before. Branches are an oracle: neither steps nor
episodes of the run. No estimator can be expected to learn sooner.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from critical import KEPT, RATES, SHARED, CriticalRun, numbers, read_runs, table

from fctncalling.algorithms import ppo
from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.lab.credit.ruler import BranchedTruth, BranchPlayer, RulerSettings, measure_truth
from fctncalling.training.prepare_run import prepare_run
from fctncalling.training.rollouts.rollout_backends import RolloutRound
from fctncalling.training.run_config import RunConfig
from fctncalling.training.run_loop import write_run_report
from fctncalling.training.task_setup import make_task_setup

BRANCHES = 8  # of every state
CEILING = KEPT.with_name("ceiling.jsonl")


def main() -> None:
    """Run the missing seeds, then print the table with the other arms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1-3", help="such as 1-3 or 101,102")
    options = parser.parse_args()
    known = {run.seed for run in read_runs(CEILING)}
    for seed in set(numbers(options.seeds)) - known:
        run = play(seed)
        with CEILING.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run._asdict()) + "\n")
        print(f"seed {seed}: area {run.area:.3f}", flush=True)
    print(table([*read_runs(KEPT), *read_runs(CEILING)]))


def play(seed: int) -> CriticalRun:
    """Return the run of a seed, trained now."""
    known = {field.name for field in fields(TrainConfig)}
    settings: dict[str, Any] = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in SHARED.items()
        if name in known
    }
    lr = RATES["ceiling"]
    with tempfile.TemporaryDirectory() as results:
        config = TrainConfig(**settings, seed=seed, lr=lr, results_dir=results, device="cpu")
        learn_from_truth(config)
        folder = next(Path(results).glob("*/*/*/*"))
        return CriticalRun.read(folder, "ceiling", seed, lr)


def learn_from_truth(config: TrainConfig) -> None:
    """Train a run whose advantages are branched truth."""
    run_config = RunConfig(log_episodes_interval=0, tensorboard=False)
    setup = make_task_setup(config, run_config)
    run = prepare_run(config, run_config, setup)
    rollout: Any = run.rollout
    settings = RulerSettings(
        group_size=config.episodes_per_task,
        discount=config.discount,
        min_branches=BRANCHES,
        max_branches=BRANCHES,
        max_episode_tokens=config.max_episode_tokens,
    )
    run.evaluate()
    while not run.is_over():
        planned = run._planner.next_round(run.counters)
        player = BranchPlayer(
            setup.make_env,
            lambda: rollout._engine_running(RolloutRound((), 0, config.temperature, 0)),
            run.template,
            replace(settings, seed=planned.seed),
        )
        truth = measure_truth(player, list(dict.fromkeys(planned.task_ids)))
        run.counters.episodes += len(truth.episodes)
        run.counters.env_steps += sum(map(len, truth.rewards))
        ppo.ALGORITHMS["TPPO"] = ppo.TPPO._replace(estimate=Oracle(truth))
        metrics = run.learn(truth.episodes)
        print(run.counters.updates, metrics["env/success_rate"], truth.num_branches, flush=True)
    run.evaluate()
    write_run_report(run, run_config.prompt_style)
    run.close()


class Oracle:
    """TPPO's estimate with the true advantage of each action at all of its tokens."""

    def __init__(self, truth: BranchedTruth) -> None:
        self.advantages = truth.advantages()

    def __call__(self, trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
        """Return the estimate; the critic's targets stay."""
        estimate = ppo.TPPO.estimate(trajectories, config)
        number = trajectories.action_number().clamp(min=0).numpy()  # (E, L)
        credit = torch.zeros_like(estimate.advantages)
        for episode, known in enumerate(self.advantages):
            at = np.minimum(number[episode], len(known) - 1)
            credit[episode] = torch.from_numpy(known[at]).to(credit)
        credit = torch.where(estimate.loss_mask, credit, torch.zeros_like(credit))
        return estimate._replace(advantages=credit)


if __name__ == "__main__":
    main()
