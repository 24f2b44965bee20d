"""An oracle of credit that takes no branches, for tasks whose mistakes are not mended.

A state on the path that the truth takes is worth the mean success of the episodes that stood as
many actions from the end, every other state nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch

from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories, returns_to_go
from fctncalling.data.bfcl import load_tasks
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.make_critical_model import CriticalDemonstrator


class PlaceOracle:
    """True advantages by the place on the path; it takes the place of a group baseline."""

    def __init__(self, dataset: Path) -> None:
        tasks = load_tasks(dataset)
        env, script = FunctionCallingEnv(tasks=tasks), CriticalDemonstrator(tasks)
        self.left: dict[str, int] = {}  # state -> actions from there to the end
        for task in tasks:
            _, info = env.reset(options={"task_id": task.id})
            names, step, ended = [info["state_hash"]], 0, False
            while not ended:
                turn = info["turn"]
                action = script(task.id, turn, step, info)
                _, _, terminated, truncated, info = env.step(action)
                step = step + 1 if info["turn"] == turn else 0
                ended = terminated or truncated
                names += [] if ended else [info["state_hash"]]
            self.left |= {name: len(names) - place for place, name in enumerate(names)}

    def __call__(
        self,
        estimate: AdvantageEstimate,
        trajectories: Trajectories,
        hashes: Sequence[Sequence[str]],
        discount: float,
    ) -> AdvantageEstimate:
        """Return reward + V(s') - V(s) at all tokens of an action."""
        outcomes = returns_to_go(trajectories, 1.0)[:, 0].tolist()
        pooled = defaultdict[int, list[float]](list)
        for names, outcome in zip(hashes, outcomes, strict=True):
            for left in {self.left[name] for name in names if name in self.left}:
                pooled[left].append(outcome)
        number = trajectories.action_number().clamp(min=0)
        advantages = torch.zeros_like(estimate.advantages)
        for episode, (names, outcome) in enumerate(zip(hashes, outcomes, strict=True)):
            values = [
                fmean(pooled[self.left[name]]) if name in self.left else 0.0 for name in names
            ]
            credit = torch.tensor([*values[1:], outcome]) - torch.tensor(values)
            advantages[episode] = credit[number[episode]]
        kept = torch.where(estimate.loss_mask, advantages, 0.0)
        return estimate._replace(advantages=kept.to(estimate.advantages))
