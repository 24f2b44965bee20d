"""Training on the truth plus noise, and the grade of every estimator on the way."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import ceiling
import numpy as np
import torch
from relatives import gigpo
from torch import Tensor

from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.group_baseline import state_matched_estimate, subtract_group_baseline
from fctncalling.algorithms.ppo import ALGORITHMS, TPPO
from fctncalling.lab.credit.grades import (
    Index,
    advantage_grades,
    concatenate_episodes,
    pairwise_ranking_accuracy,
    significance_mask,
)
from fctncalling.lab.credit.ruler import (
    BranchedTruth,
    BranchPlayer,
    Snapshot,
    Vector,
    measure_truth,
    returns_to_go,
    step_rewards,
)

BRANCHES = 2  # of every state; pooled, they say more than 8 that are not
Branch = tuple[Snapshot, EpisodeRecord]  # where it began, and how it went on


def train_on_truth(flags: Mapping[str, Any], results: Path, noise: float, grades: Path) -> Path:
    """Return the folder of a run whose advantages are branched truth plus noise, trained now.

    Each update adds a line to the file of grades.
    """
    known = {field.name for field in fields(TrainConfig)}
    chosen = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in flags.items()
        if name in known
    }
    config = TrainConfig(**{**chosen, "results_dir": str(results), "device": "cpu"})
    lines: list[dict[str, Any]] = []
    oracle = partial(NoisyOracle, noise=noise, seed=config.seed, lines=lines)
    with (
        mock.patch.multiple(
            ceiling,
            BRANCHES=BRANCHES,
            BranchPlayer=RecordingPlayer,
            Oracle=oracle,
            measure_truth=pooled_truth,
        ),
        mock.patch.dict(ALGORITHMS),
    ):
        ceiling.learn_from_truth(config)
    with grades.open("a", encoding="utf-8") as file:
        for update, line in enumerate(lines, 1):
            about = {"noise": noise, "seed": config.seed, "update": update}
            file.write(json.dumps({**about, **line}) + "\n")
    return next(results.glob("*/*/*/*"))


class RecordingPlayer(BranchPlayer):
    """Player that keeps the branches it plays."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.branches: list[Branch] = []

    def play(
        self,
        origins: Mapping[str, Any],
        seed: int,
        group_size: int = 1,
        on_episode: Callable[[EpisodeRecord], None] | None = None,
    ) -> tuple[list[EpisodeRecord], dict[str, list[Snapshot]]]:
        """Play an episode for each key; return them in order, and the snapshots of each."""
        played, trace = super().play(origins, seed, group_size, on_episode)
        for origin, episode in zip(origins.values(), played, strict=True):
            if isinstance(origin, Snapshot) and not episode.invalid:
                self.branches.append((origin, episode))
        return played, trace


def pooled_truth(player: RecordingPlayer, task_ids: Sequence[str]) -> BranchedTruth:
    """Return the branched truth with values that branches share."""
    truth = measure_truth(player, task_ids)
    truth.values = pooled_values(truth, player.branches)
    truth.halves = (
        pooled_values(truth, player.branches[0::2]),
        pooled_values(truth, player.branches[1::2]),
    )
    return truth


def pooled_values(truth: BranchedTruth, branches: Sequence[Branch]) -> list[Vector]:
    """Return the value of each state from all branches that begin in it or pass it.

    A state is worth the mean, over these, of the reward of the action taken and the value of the
    state behind, where that is one of the states, too; else of what the branch went on to earn. Of
    histories that never part these values are equal, whatever luck their own branches had, so an
    action that everybody takes has an advantage of exactly 0.
    """
    known = {(each.task_id, each.texts) for each in chain(*truth.snapshots)}
    seen: dict[Any, list[tuple[float, Any]]] = defaultdict(list)
    for origin, episode in branches:
        steps: Any = episode.episode
        texts = origin.texts
        togo = returns_to_go(step_rewards(episode), truth.discount)
        for number, step in enumerate(steps.steps):
            state = origin.task_id, texts
            texts = (*texts, step.text)
            behind = (origin.task_id, texts)
            on = behind in known and number + 1 < len(steps.steps)
            if state in known:
                seen[state].append((float(step.reward if on else togo[number]), on and behind))
    values: dict[Any, float] = {}
    for state in sorted(known, key=lambda each: -len(each[1])):  # what lies behind comes first
        worth = [paid + truth.discount * values.get(on, 0.0) for paid, on in seen[state]]
        values[state] = float(np.mean(worth)) if worth else 0.0
    return [np.asarray([values[at.task_id, at.texts] for at in each]) for each in truth.snapshots]


class NoisyOracle(ceiling.Oracle):
    """The true advantage of each action plus noise, in deviations of the truth.

    The grades of other estimators on the same episodes are added to `lines`.
    """

    def __init__(
        self, truth: BranchedTruth, *, noise: float, seed: int, lines: list[dict[str, Any]]
    ) -> None:
        super().__init__(truth)
        self.truth = truth
        self.lines = lines
        generator = np.random.default_rng([seed, len(lines)])
        scale = noise * float(np.std(concatenate_episodes(self.advantages)))
        self.measured = self.advantages
        self.advantages = [
            each + scale * generator.standard_normal(len(each)) for each in self.advantages
        ]

    def __call__(self, trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
        """Return the estimate; the critic's targets stay."""
        hashes = [[state.state_hash for state in each] for each in self.truth.snapshots]
        found = estimates(trajectories, hashes, config)
        begins = trajectories.begins_action()
        graded = {name: credit[begins].double().numpy() for name, credit in found.items()}
        graded["given"] = concatenate_episodes(self.advantages)
        values = trajectories.values[begins].double().numpy()
        cuts = np.cumsum([len(each) for each in hashes])[:-1]
        graded["one_step"] = concatenate_episodes(self.truth.advantages(np.split(values, cuts)))
        states = [
            f"{episode.task_id} {name}"
            for episode, names in zip(self.truth.episodes, hashes, strict=True)
            for name in names
        ]
        self.lines.append(self._graded(graded, np.unique(states, return_inverse=True)[1]))
        return super().__call__(trajectories, config)

    def _graded(self, estimates: Mapping[str, Vector], states: Index) -> dict[str, Any]:
        """Return the truth's reliability; estimators' cosines and right signs; the critic's ranking
        of actions of one state, of pairs that truly differ, and how many these are.
        """
        true = concatenate_episodes(self.measured)
        halves = [concatenate_episodes(self.truth.advantages(half)) for half in self.truth.halves]
        agreement = cosine(*halves)
        errors = np.abs(halves[0] - halves[1]) / 2
        ranked = pairwise_ranking_accuracy(true, errors, estimates["one_step"], states)
        return {
            "success": round(
                float(np.mean([bool(each.success) for each in self.truth.episodes])), 4
            ),
            "reliability": round(2 * agreement / (1 + agreement), 4),
            "matters": round(float(significance_mask(true, errors).mean()), 4),
            "cosine": {name: round(cosine(true, each), 4) for name, each in estimates.items()},
            "sign": {
                name: round(advantage_grades(true, errors, each)["sign"], 4)
                for name, each in estimates.items()
            },
            "ranking": [round(ranked["right"], 4), round(ranked["clear_pairs"])],
        }


def cosine(first: Vector, second: Vector) -> float:
    """Return the cosine of two centred vectors; 0 where one does not vary."""
    first, second = first - first.mean(), second - second.mean()
    norm = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norm if norm > 1e-12 else 0.0


def estimates(
    trajectories: Trajectories, hashes: Sequence[Sequence[str]], config: TrainConfig
) -> dict[str, Tensor]:
    """Return the advantages of arms that differ in their estimator alone, (E, L) each."""
    blind = trajectories._replace(values=torch.zeros_like(trajectories.values))
    whole = replace(config, gamma=1.0, lam=1.0)
    critic = TPPO.estimate(trajectories, config)
    none = TPPO.estimate(blind, config)
    matched = partial(state_matched_estimate, hashes=hashes, discount=config.discount)
    found = {
        "critic": critic,
        "TPPO": matched(critic, trajectories),
        "state_alone": matched(none, blind),
        "leave_one_out": subtract_group_baseline(TPPO.estimate(blind, whole), trajectories.group),
        "GiGPO": gigpo(none, blind, hashes, config.discount),
    }
    for name in ("APPO", "NTPO", "GRPO"):
        own = replace(config, algorithm_name=name)
        found[name] = ALGORITHMS[name].estimate(trajectories, own)
    return {name: estimate.advantages for name, estimate in found.items()}
