"""Demonstrations of --sft_tasks and --sft_episodes, as a policy's episodes.

Ground truths are played by a scripted policy through the run's own environment and the ordinary
rollout: tool results stand in the context, and ids and masks are those of reinforcement learning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import RolloutError, ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.evaluation.agents.scripted import PolicyPlayer
from fctncalling.evaluation.canary_policies import DONE, PolicyInput, oracle
from fctncalling.training.announce import announce, is_first_process
from fctncalling.training.run_config import RunConfig
from fctncalling.training.supervised.logged_episodes import successful_episodes
from fctncalling.training.task_setup import TaskSetup, check_tasks
from fctncalling.training.user_code import parse_tool_classes

DATASET = "dataset"
"""What --sft_tasks calls the training tasks of --dataset_path."""
NO_CALL = "I call no function: none of them fits, or something that it needs is missing."
"""What the demonstrator answers to a request that no call can fulfil."""
_NUM_ENVS = 16


def load_demonstrations(
    config: TrainConfig, run_config: RunConfig, setup: TaskSetup, template: ChatTemplate
) -> list[EpisodeRecord]:
    """Return the demonstrations that the settings name.

    Raises SettingError or TaskError, naming file and task, for missing files, tasks that cannot be
    demonstrated, and demonstrations without a trained token.
    """
    episodes = list[EpisodeRecord]()
    if config.sft_tasks is not None:
        episodes += _of_tasks(config, run_config, setup, template)
    if config.sft_episodes is not None:
        strict = config.reward.startswith("strict")
        logged = successful_episodes(Path(config.sft_episodes), template, strict=strict)
        _warn_of_held_out({episode.task_id for episode in logged} & set(setup.held_out_ids))
        episodes += logged
    rows = [row for episode in episodes for row in episode.rows if any(row.acted)]
    if not rows:
        raise SettingError(
            f"{_flags(config)}: none of {len(episodes)} demonstrations has a token to be trained "
            "(--max_episode_tokens may leave no room for an action)"
        )
    num_tokens, num_trained = sum(len(it.ids) for it in rows), sum(sum(it.acted) for it in rows)
    announce(
        f"Supervised fine-tuning on {len(episodes)} demonstrations: {num_tokens:,} tokens, "
        f"{num_trained:,} of them trained."
    )
    return episodes


def _of_tasks(
    config: TrainConfig, run_config: RunConfig, setup: TaskSetup, template: ChatTemplate
) -> list[EpisodeRecord]:
    """Return the ground truths' episodes of --sft_tasks."""
    if setup.make_env_over is None:
        raise SettingError(
            f"--sft_tasks: --env_name {config.env_name} has no ground truths to play; "
            "--sft_episodes takes its logged episodes"
        )
    tasks = setup.training_tasks
    if config.sft_tasks != DATASET:
        path = str(config.sft_tasks)
        if not Path(path).is_file():
            raise SettingError(
                f'--sft_tasks {path}: there is no such file; expected one, or "{DATASET}" for the '
                "training tasks of --dataset_path"
            )
        tasks = load_tasks(path, self_documented=parse_tool_classes(run_config.tools))
        check_tasks(tasks, path, config, run_config)
    # Files number their tasks alike, so ids alone do not tell what is held out.
    known = {task.id: task for task in tasks}
    _warn_of_held_out({it.id for it in setup.held_out_tasks if known.get(it.id) == it})
    handler = "" if run_config.handler == "auto" else run_config.handler
    played = play_ground_truths(
        tasks, setup.make_env_over, template, handler, config.max_episode_tokens
    )
    return _usable(played, config)


def _warn_of_held_out(task_ids: Collection[str]) -> None:
    """Say how many held-out tasks are demonstrated."""
    if task_ids:
        announce(
            f"Note: {len(task_ids)} held-out tasks are demonstrated too, such as {min(task_ids)}."
        )


def play_ground_truths(
    tasks: Sequence[Task],
    make_env_over: Callable[[Sequence[Task]], Any],
    template: ChatTemplate,
    handler: str,
    max_episode_tokens: int,
) -> list[EpisodeRecord]:
    """Return an episode of each task's ground truth; SettingError where one cannot be played."""
    if unknown := [task.id for task in tasks if not _has_known_calls(task)]:
        raise SettingError(
            f"--sft_tasks: {unknown[0]}: {len(unknown)} of {len(tasks)} tasks do not say which "
            "calls solve them (agentic and relevance tasks); leave them out"
        )
    players = {task.id: PolicyPlayer(demonstrate, task, handler, DONE) for task in tasks}

    def script(task_id: str, turn: int, step_in_turn: int, info: Mapping[str, Any]) -> str:
        return players[task_id].answer("", info)

    engine = ScriptedEngine(script, template.encode, template.end_of_turn_id)
    envs = [make_env_over(tasks) for _ in range(min(_NUM_ENVS, len(tasks)))]
    ids = [task.id for task in tasks]
    try:
        with _bar(len(tasks)) as bar:
            played = collect(
                envs,
                engine,
                template,
                ids,
                max_episode_tokens=max_episode_tokens,
                on_episode=lambda _: bar.update(),
            )
    except (RolloutError, ValueError) as error:
        raise SettingError(f"--sft_tasks: no ground truth can be played: {error}") from error
    finally:
        for env in envs:
            env.close()
    _require_played(played, {task_id: player.error for task_id, player in players.items()})
    return played


def _require_played(played: Sequence[EpisodeRecord], errors: Mapping[str, str]) -> None:
    """Raise SettingError for a ground truth that is no calls, or whose environment failed."""
    failed = [task_id for task_id, error in errors.items() if error]
    failed += [each.task_id for each in played if each.invalid]
    if failed:
        cause = errors[failed[0]] or "its environment failed, see the message above"
        raise SettingError(
            f"--sft_tasks: {failed[0]}: the ground truth cannot be played ({cause}); "
            f"{len(failed)} of {len(played)} tasks: leave them out"
        )


def demonstrate(situation: PolicyInput) -> str:
    """Return the ground truth's next message; in words where a request is answered by no call."""
    text = oracle(situation)
    return NO_CALL if text == DONE and situation.step_in_turn == 0 else text


def _has_known_calls(task: Task) -> bool:
    return task.kind != "agentic" and not task.category.endswith("_relevance")


def _usable(played: Sequence[EpisodeRecord], config: TrainConfig) -> list[EpisodeRecord]:
    """Return the episodes that succeeded whole; what is left out is announced."""
    strict = config.reward.startswith("strict")
    cut = [each for each in played if each.truncated]
    failed = [
        each
        for each in played
        if not each.truncated and not (each.strict_success if strict else each.success)
    ]
    if cut:
        announce(
            f"Note: {len(cut)} of {len(played)} demonstrations are longer than "
            f"--max_episode_tokens ({config.max_episode_tokens}) and left out, such as "
            f"{cut[0].task_id}."
        )
    if failed:
        announce(
            f"Note: {len(failed)} of {len(played)} ground truths fail their own check and are left "
            f"out, such as {failed[0].task_id}."
        )
    left_out = {id(each) for each in (*cut, *failed)}
    return [each for each in played if id(each) not in left_out]


def _bar(total: int) -> Any:
    from tqdm import tqdm

    hidden = not (is_first_process() and sys.stderr.isatty())
    return tqdm(total=total, desc="playing ground truths", unit="task", disable=hidden, leave=False)


def _flags(config: TrainConfig) -> str:
    named = {"--sft_tasks": config.sft_tasks, "--sft_episodes": config.sft_episodes}
    return ", ".join(f"{flag} {value}" for flag, value in named.items() if value is not None)
