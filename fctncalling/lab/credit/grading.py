"""Grades of a run: of its values and advantages against the truth, at an update of its policy."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.generation.engine_api import Engine
from fctncalling.algorithms.rollout.roles import add_critic_rows
from fctncalling.algorithms.run.checkpoint import load_state
from fctncalling.algorithms.run.logs import episode_json
from fctncalling.data.paths import atomic_write
from fctncalling.lab.credit.estimators import (
    leave_one_out_group_values,
    one_step_and_placebo_advantages,
    trainer_advantages,
)
from fctncalling.lab.credit.fitted_critics import fitted_critics
from fctncalling.lab.credit.ruler import (
    BranchedTruth,
    BranchPlayer,
    RulerSettings,
    UngradableRunError,
    Vector,
    measure_truth,
    sample_groups,
)
from fctncalling.training.run_config import RunConfig

SMALLEST = 0.05  # an advantage below it is not called significant, however exact its truth is
BOOTSTRAP_DRAWS = 200
SILENT = 1e-9  # an estimate below it says nothing
Index = NDArray[np.int64]


def explained_variance(truth: Vector, values: Vector) -> float:
    """Return 1 - Var(truth - values) / Var(truth); 0 if the truth is constant."""
    spread = float(np.var(truth))
    return 1.0 - float(np.var(truth - values)) / spread if spread > SILENT else 0.0


def value_grades(truth: Vector, values: Vector, task: Index) -> dict[str, float]:
    """Grade values: explained variance (overall, between, within tasks), bias, Spearman."""
    means_true = _task_means(truth, task)
    means = _task_means(values, task)
    return {
        "explained_variance": explained_variance(truth, values),
        "between": explained_variance(means_true, means),
        "within": explained_variance(truth - means_true, values - means),
        "bias": float(np.mean(values - truth)),
        "spearman": spearman(truth, values),
    }


def return_variance_shares(
    values: Sequence[Vector],
    advantages: Sequence[Vector],
    errors: tuple[Sequence[Vector], Sequence[Vector]],
    turns: Sequence[Sequence[int]],
    discount: float,
) -> dict[str, Any]:
    """Split the variance of returns between tasks and the actions of each turn.

    A return is V before the first action plus the discounted advantages, which are uncorrelated
    where tools are deterministic, so its variance is the sum of theirs. errors: the variances of
    the values' means and the standard errors of the advantages, which are taken off. Shares add up
    to 1; a noisy one may be negative.
    """
    value_variances, standard_errors = errors
    between = float(np.var([at[0] for at in values]) - np.mean([at[0] for at in value_variances]))
    by_turn: dict[int, float] = {}
    for truth, error, at in zip(advantages, standard_errors, turns, strict=True):
        squares = discount ** (2 * np.arange(len(truth))) * (truth**2 - error**2)
        for turn, square in zip(at, squares, strict=True):
            by_turn[turn] = by_turn.get(turn, 0.0) + float(square) / len(values)
    total = between + sum(by_turn.values())
    share = 1.0 / total if total > SILENT else 0.0
    return {
        "between_tasks": between * share,
        "by_turn": {str(turn): by_turn[turn] * share for turn in sorted(by_turn)},
    }


def advantage_grades(truth: Vector, errors: Vector, estimate: Vector) -> dict[str, float]:
    """Grade an estimator's advantages.

    sign: share of significant actions whose sign it gets right, a silent estimate being wrong;
    sign_where_it_speaks and speaks tell these apart. spearman: over all actions.
    """
    matters = significance_mask(truth, errors)
    speaks = matters & (np.abs(estimate) > SILENT)
    right = speaks & (np.sign(estimate) == np.sign(truth))
    return {
        "sign": _share(right, matters),
        "sign_where_it_speaks": _share(right, speaks),
        "speaks": _share(speaks, matters),
        "spearman": spearman(truth, estimate),
    }


def significance_mask(truth: Vector, errors: Vector) -> NDArray[np.bool_]:
    """Return which advantages are two standard errors and SMALLEST away from 0."""
    is_significant: NDArray[np.bool_] = np.abs(truth) > np.maximum(2 * errors, SMALLEST)
    return is_significant


def pairwise_ranking_accuracy(
    truth: Vector, errors: Vector, estimate: Vector, group: Index
) -> dict[str, float]:
    """Return how often pairs of actions of one state are ranked correctly.

    right: pairs whose truths differ by two standard errors; with_ties: all pairs, a tie of the
    truth counting as wrong, as VinePPO's analysis counts it.
    """
    pairs = right_of_all = clear = right = 0
    for number in np.unique(group):
        places = np.flatnonzero(group == number)
        for index, first in enumerate(places):
            for second in places[:index]:
                gap = truth[first] - truth[second]
                agrees = gap * (estimate[first] - estimate[second]) > 0
                pairs += 1
                right_of_all += bool(agrees)
                if abs(gap) > max(2 * float(np.hypot(errors[first], errors[second])), SMALLEST):
                    clear += 1
                    right += bool(agrees)
    return {
        "right": right / clear if clear else 0.0,
        "with_ties": right_of_all / pairs if pairs else 0.0,
        "clear_pairs": float(clear),
        "pairs": float(pairs),
    }


def correlation(first: Vector, second: Vector) -> float:
    """Return Pearson's correlation, the cosine of centred vectors; 0 if one side is constant."""
    first, second = first - first.mean(), second - second.mean()
    norm = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norm if norm > SILENT else 0.0


def spearman(first: Vector, second: Vector) -> float:
    """Return Spearman's rank correlation, ties by mean rank; 0 if one side is constant."""
    return correlation(average_ranks(first), average_ranks(second))


def average_ranks(values: Vector) -> Vector:
    """Return ranks from 0; tied values share their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Vector = (ends - (counts + 1) / 2.0)[index]
    return ranks


def bootstrap_interval(grade: Callable[[Index], float], task: Index) -> tuple[float, float]:
    """Return the 95 % interval of a grade over draws of whole tasks (cluster bootstrap)."""
    generator = np.random.default_rng(0)
    places = [np.flatnonzero(task == number) for number in np.unique(task)]
    grades = [
        grade(np.concatenate([places[n] for n in generator.integers(0, len(places), len(places))]))
        for _ in range(BOOTSTRAP_DRAWS)
    ]
    low, high = np.percentile(grades, [2.5, 97.5])
    return float(low), float(high)


def _task_means(values: Vector, task: Index) -> Vector:
    _, index = np.unique(task, return_inverse=True)
    sums = np.bincount(index, values)
    means: Vector = (sums / np.bincount(index))[index]
    return means


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else 0.0


def concatenate_episodes(parts: Sequence[Vector]) -> Vector:
    """Return the episodes' arrays end to end."""
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


@dataclass(frozen=True)
class RunToGrade:
    """Run to grade: its policy at one checkpoint, with its environments."""

    config: TrainConfig
    checkpoint: Path
    policy: Any
    player: BranchPlayer
    task_ids: list[str]  # to grade
    other_ids: list[str]  # to fit critics on


def grade_run(
    folder: Path,
    *,
    update: int | None = None,
    num_tasks: int = 30,
    num_critic_tasks: int = 256,
    body_epochs: int = 0,
    settings: RulerSettings | None = None,
    episodes_to: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Grade a run's estimators and critics; return JSON data.

    UngradableRunError names what a run lacks. body_epochs: of a critic with a body of its own.
    settings: group size, standard error, limits of branches; discount and tokens an episode are
    the run's. episodes_to: a file for the graded episodes, with the credit of each action, for the
    viewer.
    """
    run = open_run(folder, update, num_tasks, num_critic_tasks, settings or RulerSettings())
    started = time.process_time()
    truth = measure_truth(run.player, run.task_ids, progress)
    truth.cpu_seconds = time.process_time() - started
    progress("estimators")
    add_critic_rows(truth.episodes, run.config, run.player.template)
    learned = load_state(run.checkpoint).get("values")
    estimates, critic = trainer_advantages(run.policy, truth, run.config, learned)
    values = leave_one_out_group_values(truth)
    values["critic"] = critic
    estimates |= one_step_and_placebo_advantages(truth, values, estimates["TPPO"])
    if run.other_ids:
        progress(f"critics, fitted on {len(run.other_ids)} other tasks")
        # one episode a task: critics need distinct tasks
        seed = run.player.settings.seed + 7
        single = copy.copy(run.player)
        single.settings = replace(run.player.settings, group_size=1, seed=seed)
        fitting = sample_groups(single, run.other_ids)
        values |= fitted_critics(run.policy, fitting, truth, run.config, body_epochs)
    matched = values.pop("matched")
    if episodes_to is not None:
        episodes_to.parent.mkdir(exist_ok=True)
        _write_episodes(episodes_to, truth, {"critic": critic, "TPPO": estimates["TPPO"]})
    return {
        "run": str(folder),
        "checkpoint": run.checkpoint.name,
        **_table(truth, values, estimates),
        "coverage": _coverage(truth, matched),
        "truth": _about(truth, run.player.settings),
    }


def open_run(
    folder: Path,
    update: int | None,
    num_tasks: int,
    num_critic_tasks: int,
    settings: RulerSettings,
) -> RunToGrade:
    """Load a run's policy and environments; raises UngradableRunError."""
    from fctncalling.algorithms.config.train_config import resolve_device
    from fctncalling.training.load_policy import load_policy
    from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutRound
    from fctncalling.training.task_setup import make_task_setup

    config, run_config = run_settings(folder)
    has_roles = config.roles_have_own_weights or config.team_critic == "central"
    if has_roles or config.env_name == "team":
        raise UngradableRunError(f"{folder}: a team's run; the ruler grades runs of one agent")
    checkpoint = checkpoint_of(folder, update)
    setup = make_task_setup(config, run_config)
    policy, template = load_policy(config, run_config, checkpoint, resolve_device(config.device))
    policy.eval()
    settings = replace(
        settings,
        discount=config.resolved_gamma,
        max_episode_tokens=config.max_episode_tokens,
        num_envs=min(settings.num_envs, config.n_rollout_threads),  # what the run had memory for
    )
    rollout = LocalRollout(config, policy, template, setup.make_env)

    def open_engine() -> AbstractContextManager[Engine]:
        return rollout._engine_running(RolloutRound((), settings.seed, config.temperature, 0))

    ids = [candidate.id for candidate in setup.candidates]
    several = [candidate.id for candidate in setup.candidates if candidate.num_turns > 1]
    drawn = random.Random(settings.seed).sample(several or ids, len(several or ids))
    return RunToGrade(
        config,
        checkpoint,
        policy,
        BranchPlayer(setup.make_env, open_engine, template, settings),
        task_ids=drawn[:num_tasks],
        other_ids=drawn[num_tasks : num_tasks + num_critic_tasks],
    )


def run_settings(folder: Path) -> tuple[TrainConfig, RunConfig]:
    """Return the settings of a run's config.json."""
    from fctncalling.cli.train import parse_command_line

    file = folder / "config.json"
    if not file.is_file():
        raise UngradableRunError(
            f"{folder}: no run is there (no config.json): name results/.../ALGORITHM"
        )
    return parse_command_line(["--config", str(file)]).configs()


def checkpoint_of(folder: Path, update: int | None) -> Path:
    """Return the checkpoint of an update, by default the last one.

    UngradableRunError names those there.
    """
    checkpoints = folder / "checkpoints"
    checkpoint = checkpoints / ("last" if update is None else f"update_{update:06d}")
    if checkpoint.is_dir():
        return checkpoint
    there = sorted(int(path.name[7:]) for path in checkpoints.glob("update_*"))
    listed = ", ".join(map(str, there)) or "none"
    raise UngradableRunError(
        f"{'' if update is None else f'--update {update}: '}{folder} has no such checkpoint; "
        f"there: {listed} (--save_interval says which are saved; the best stays, and "
        "--keep_checkpoints of the newest)"
    )


def _table(
    truth: BranchedTruth, values: dict[str, list[Vector]], estimates: dict[str, list[Vector]]
) -> dict[str, Any]:
    """Grade all values and estimators."""
    true_values = concatenate_episodes(truth.values)
    advantages = concatenate_episodes(truth.advantages())
    errors = concatenate_episodes(truth.standard_errors())
    names = sorted({episode.task_id for episode in truth.episodes})
    lengths = [len(at) for at in truth.values]
    task = np.repeat([names.index(episode.task_id) for episode in truth.episodes], lengths)
    hashes = [snapshot.state_hash for snapshots in truth.snapshots for snapshot in snapshots]
    places = np.asarray([f"{a}/{b}" for a, b in zip(task, hashes, strict=True)])
    state = np.unique(places, return_inverse=True)[1]
    turn = np.asarray([number for at in _turns(truth) for number in at])
    graded_values: dict[str, Any] = {}
    for name, at in values.items():
        flat = concatenate_episodes(at)

        def explained(index: Index, flat: Vector = flat) -> float:
            return explained_variance(true_values[index], flat[index])

        graded_values[name] = {
            **value_grades(true_values, flat, task),
            "by_turn": {
                str(number): explained(np.flatnonzero(turn == number)) for number in np.unique(turn)
            },
            "interval": bootstrap_interval(explained, task),
        }
    graded_estimators: dict[str, Any] = {}
    for name, at in estimates.items():
        flat = concatenate_episodes(at)

        def sign(index: Index, flat: Vector = flat) -> float:
            return advantage_grades(advantages[index], errors[index], flat[index])["sign"]

        def cosine(index: Index, flat: Vector = flat) -> float:
            return correlation(advantages[index], flat[index])

        graded_estimators[name] = {
            **advantage_grades(advantages, errors, flat),
            "ranking": pairwise_ranking_accuracy(advantages, errors, flat, state),
            "interval": bootstrap_interval(sign, task),
            "cosine": correlation(advantages, flat),
            "cosine_interval": bootstrap_interval(cosine, task),
        }
    return {"values": graded_values, "estimators": graded_estimators}


def _turns(truth: BranchedTruth) -> list[list[int]]:
    """Return the turn of every action; 0 if an environment has no turns."""
    records: list[Any] = [episode.episode for episode in truth.episodes]
    return [
        [step.turn for step in record.steps] if record is not None else [0] * len(at)
        for record, at in zip(records, truth.values, strict=True)
    ]


def _write_episodes(path: Path, truth: BranchedTruth, others: dict[str, list[Vector]]) -> None:
    """Write the episodes as a run's log, each action with its true and estimated credit."""
    of_actions = {
        "V": truth.values,
        "A": truth.advantages(),
        "standard_error": truth.standard_errors(),
        **others,
    }
    with atomic_write(path) as place, place.open("w", encoding="utf-8") as file:
        for number, record in enumerate(truth.episodes):
            line = episode_json(record)
            for index, step in enumerate(line["steps"]):
                values = {name: float(of[number][index]) for name, of in of_actions.items()}
                step["credit"] = {name: round(value, 6) for name, value in values.items()}
            file.write(json.dumps(line) + "\n")


def _coverage(truth: BranchedTruth, matched: list[Vector]) -> dict[str, Any]:
    """Return the share of states that another episode visited: overall, by action, by turn."""
    shares: dict[str, dict[str, list[float]]] = {"by_action": {}, "by_turn": {}}
    for turns, at in zip(_turns(truth), matched, strict=True):
        for number, (turn, share) in enumerate(zip(turns, at, strict=True)):
            shares["by_action"].setdefault(str(number), []).append(float(share))
            shares["by_turn"].setdefault(str(turn), []).append(float(share))
    means = {
        by: {key: float(np.mean(share[key])) for key in sorted(share, key=int)}
        for by, share in shares.items()
    }
    return {"all": float(concatenate_episodes(matched).mean()), **means}


def _about(truth: BranchedTruth, settings: RulerSettings) -> dict[str, Any]:
    """Describe the truth: its size and standard errors."""
    errors = truth.standard_errors()
    flat, advantages = concatenate_episodes(errors), concatenate_episodes(truth.advantages())
    longest = max(map(len, errors))
    halves = [truth.advantages(half) for half in truth.halves]
    hashes = [snapshot.state_hash for snapshots in truth.snapshots for snapshot in snapshots]
    return {
        "tasks": len({episode.task_id for episode in truth.episodes}),
        "episodes": len(truth.episodes),
        "success": float(np.mean([bool(episode.success) for episode in truth.episodes])),
        "actions": len(flat),
        "significant": float(significance_mask(advantages, flat).mean()),
        "standard_error_median": float(np.median(flat)),
        "standard_error_p90": float(np.quantile(flat, 0.9)),
        "within_wanted_error": float(np.mean(flat <= settings.standard_error)),
        "standard_error_by_action": {
            str(step): float(np.mean([at[step] for at in errors if len(at) > step]))
            for step in range(longest)
        },
        "reliability_of_values": spearman(*map(concatenate_episodes, truth.halves)),
        "reliability_of_advantages": spearman(*map(concatenate_episodes, halves)),
        "states": truth.num_states,
        "same_token_prefix": truth.same_prefixes,
        "branches": truth.num_branches,
        "environment_steps": truth.num_branch_steps,
        "cpu_seconds": round(truth.cpu_seconds, 1),
        "cpu_ms_a_branch": round(1000 * truth.cpu_seconds / max(truth.num_branches, 1), 2),
        "discount": truth.discount,
        "return_variance": return_variance_shares(
            truth.values,
            truth.advantages(),
            (truth.value_variances, errors),
            _turns(truth),
            truth.discount,
        ),
        "states_hash": hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:16],
    }
