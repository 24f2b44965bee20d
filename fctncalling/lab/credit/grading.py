"""Grading of a run: its policy at an update, with its estimators and critics."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

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
from fctncalling.lab.credit.grades import (
    Index,
    advantage_grades,
    bootstrap_interval,
    concatenate_episodes,
    explained_variance,
    pairwise_ranking_accuracy,
    return_variance_shares,
    significance_mask,
    spearman,
    value_grades,
)
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


@dataclass(frozen=True)
class RunToGrade:
    """Run to grade: its policy at one checkpoint, in its own environments."""

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
        fitting = sample_groups(_single(run.player), run.other_ids)
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
        f"there: {listed} (--save_interval says which are saved; the newest two stay, and the best)"
    )


def _single(player: BranchPlayer) -> BranchPlayer:
    """Return a player of one episode per task: critics need distinct tasks."""
    single = replace(player.settings, group_size=1, seed=player.settings.seed + 7)
    return BranchPlayer(player._make_env, player._open_engine, player.template, single)


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
            return _cosine(advantages[index], flat[index])

        graded_estimators[name] = {
            **advantage_grades(advantages, errors, flat),
            "ranking": pairwise_ranking_accuracy(advantages, errors, flat, state),
            "interval": bootstrap_interval(sign, task),
            "cosine": _cosine(advantages, flat),
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


def _cosine(truth: Vector, estimate: Vector) -> float:
    """Return the cosine similarity of centred advantages with the true ones."""
    first, second = truth - truth.mean(), estimate - estimate.mean()
    norm = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norm if norm > 1e-12 else 0.0


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
