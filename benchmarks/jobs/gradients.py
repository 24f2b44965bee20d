"""What makes an optimiser step's gradient noisy on critical tasks: the tasks, or their credit?

`python benchmarks/jobs/gradients.py` plays groups of 8 of 96 critical tasks with the start policy.
The reference is the policy gradient of the first 64 tasks under an oracle's advantages. Of the
other tasks it forms batches of --episodes, in groups of 8, 4, 2 and 1, and prints the mean cosine
of each estimator's gradient with the reference, and with the oracle's own of the same episodes. An
estimator can gain only what the oracle gains.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import torch
from critical import EMBEDDED, KEPT, mean
from place_oracle import PlaceOracle
from torch import Tensor

from fctncalling.algorithms import ppo
from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.group_baseline import GROUP_BASELINES
from fctncalling.algorithms.minibatches import add_forward_inputs, plan_minibatches
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.targets import compute_targets
from fctncalling.training.prepare_run import prepare_run
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup

TASKS, GROUP = 96, 8
TRUE_ADVANTAGES = {"algorithm_name": "TPPO", "group_baseline": "state", "gamma": 1.0}
ESTIMATORS: dict[str, dict[str, object]] = {
    "GRPO": {"algorithm_name": "GRPO"},
    "leave_one_out": {"group_baseline": "leave_one_out", "gamma": 1.0, "lam": 1.0},
    "state_alone": {"group_baseline": "state", "gamma": 1.0},
    "constant": {"gamma": 1.0, "lam": 1.0, "whiten_advantages": True},
    "oracle": {},
}


def main() -> None:
    """Play the tasks, print a line an estimator and group size, keep the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=32, help="of a batch (32)")
    parser.add_argument("--batches", type=int, default=6, help="at most (6)")
    parser.add_argument("--output", type=Path, default=KEPT.with_name("gradients.json"))
    options = parser.parse_args()
    config = TrainConfig(
        dataset_path=str(EMBEDDED / "critical_train.json"),
        model_name_or_path=str(EMBEDDED / "critical_model"),
        group_size=GROUP,
        episodes_per_update=TASKS * GROUP,
        num_mini_batch=1,
        entropy_coef=0.0,
        value_coef=0.0,
        whiten_advantages=False,
        seed=7,
        device="cpu",
        results_dir=tempfile.mkdtemp(),
    )
    oracle = PlaceOracle(EMBEDDED / "critical_train.json")
    run_config = RunConfig(log_episodes_interval=0, tensorboard=False)
    run = prepare_run(config, run_config, make_task_setup(config, run_config))
    groups = defaultdict[str, list[EpisodeRecord]](list)
    for episode in run.collect():
        groups[episode.task_id].append(episode)
    every = list(groups.values())
    known, others = every[: 2 * TASKS // 3], every[2 * TASKS // 3 :]

    def gradient(episodes: list[EpisodeRecord], name: str) -> Tensor:
        estimator = replace(config, **ESTIMATORS[name])
        if name != "oracle":
            return policy_gradient(run.policy, episodes, estimator)
        with mock.patch.dict(GROUP_BASELINES, state=oracle):
            return policy_gradient(run.policy, episodes, replace(estimator, **TRUE_ADVANTAGES))

    reference = gradient([episode for group in known for episode in group], "oracle")
    figures: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for size in (8, 4, 2, 1):
        batches = split(others, options.episodes // size, size)[: options.batches]
        true = [gradient(batch, "oracle") for batch in batches]
        for name in ESTIMATORS if size > 1 else ("constant", "oracle"):
            found = true if name == "oracle" else [gradient(batch, name) for batch in batches]
            far = mean(cosine(each, reference) for each in found)
            near = mean(map(cosine, found, true))
            figures[name][str(size)] = (round(far, 3), round(near, 3))
            print(f"{name}, groups of {size}: {far:.3f}, {near:.3f}; {len(batches)}", flush=True)
    told = {"episodes": options.episodes, "tasks": TASKS, "cosines": figures}
    options.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    run.close()


def cosine(one: Tensor, other: Tensor) -> float:
    """Return the cosine of two gradients."""
    return float(torch.cosine_similarity(one, other, dim=0))


def split(
    groups: Sequence[Sequence[EpisodeRecord]], num_tasks: int, size: int
) -> list[list[EpisodeRecord]]:
    """Return all disjoint batches of so many tasks, each in a group of `size`."""
    return [
        [
            episode
            for group in groups[first : first + num_tasks]
            for episode in group[place : place + size]
        ]
        for place in range(0, GROUP, size)
        for first in range(0, len(groups) - num_tasks + 1, num_tasks)
    ]


def policy_gradient(
    policy: ActorCritic, episodes: Sequence[EpisodeRecord], config: TrainConfig
) -> Tensor:
    """Return the gradient of the policy's loss over all episodes, flat."""
    policy.eval()
    algorithm = ppo.ALGORITHMS[config.algorithm_name]
    device = next(policy.parameters()).device
    experience = add_forward_inputs(build_experience(episodes, device), policy, config)
    generator = torch.Generator().manual_seed(0)
    minibatches = plan_minibatches(experience, config, generator)
    targets = compute_targets(policy, experience, minibatches, algorithm, config, generator)
    ppo.accumulate_gradients(policy, experience, targets, minibatches[0], algorithm, config)
    found = [each.grad.flatten() for each in policy.policy_parameters() if each.grad is not None]
    policy.zero_grad(set_to_none=True)
    return torch.cat(found)


if __name__ == "__main__":
    main()
