"""Proven starts: episodes that begin after the first actions of their task's ground truth."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import gymnasium

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.strict import strict_verdict
from fctncalling.evaluation.agents.agent import Player, ScriptedPlayer
from fctncalling.evaluation.episode_log import play_episode
from fctncalling.evaluation.scripted_policies import DONE
from fctncalling.training.demonstrations import GroundTruthPolicy
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import CLARIFY_JOB, TaskSetup


class StartedEnv(gymnasium.Wrapper[str, str, str, str]):
    """Environment that plays `options["after_steps"]` actions of the ground truth at reset.

    The `info` of such a reset is that of the last action; `info["opening"]` is that of the task's
    beginning, and `info["played"]` has each action with the reward and `info` behind it.
    """

    def __init__(self, env: gymnasium.Env[str, str], make_player: Callable[[str], Player]) -> None:
        super().__init__(env)
        self._make_player = make_player  # of a task's ground truth, by the task's id

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Reset to a task, and play the first actions of its ground truth.

        Raises InfrastructureError where the truth has ended before.
        """
        options = dict(options or {})
        after_steps = int(options.pop("after_steps", 0))
        observation, opening = self.env.reset(seed=seed, options=options)
        if not after_steps:
            return observation, opening
        player, info, played = self._make_player(opening["task_id"]), opening, list[Any]()
        for _ in range(after_steps):
            text = player.answer(observation, info)
            observation, reward, terminated, truncated, info = self.env.step(text)
            played.append((text, reward, info))
            if terminated or truncated:
                why = info.get("invalid_reason") or f"its truth has {len(played)} actions"
                raise InfrastructureError(
                    f'task "{opening["task_id"]}" cannot begin after {after_steps} steps: {why}'
                )
        return observation, {**info, "opening": opening, "played": played}


class ProvenStarts:
    """Start states along ground truths that were proven to solve their tasks."""

    def __init__(self, setup: TaskSetup, config: TrainConfig, run_config: RunConfig) -> None:
        others = run_config.user or run_config.agent_command or config.env_name == CLARIFY_JOB
        if setup.make_env_over is None or others:
            raise SettingError(
                "--starts prefix: needs tasks with a ground truth that this run plays alone; leave "
                f"out --env_name {config.env_name}, --user and --agent_command, or --starts"
            )
        self._make_env = setup.make_env
        self._tasks = {task.id: task for task in (*setup.training_tasks, *setup.held_out_tasks)}
        self._run_config = run_config
        self._strict = config.reward.startswith("strict")
        self._num_actions: dict[str, int] = {}

    def make_env(self) -> StartedEnv:
        """Make an environment with episodes that may begin at these starts."""
        return StartedEnv(self._make_env(), self._make_player)

    def num_actions(self, task_id: str) -> int:
        """Return the number of actions in a task's ground truth; 0 if they do not solve it."""
        if task_id not in self._num_actions:
            player = self._make_player(task_id)
            episode = play_episode(self._own_env, task_id, player, seed=0).episode
            verdict = None if player.error else episode.verdict
            if verdict is not None and self._strict:
                verdict = strict_verdict(self._tasks[task_id], episode.steps, verdict)
            proven = verdict is not None and verdict.valid
            self._num_actions[task_id] = len(episode.steps) if proven else 0
        return self._num_actions[task_id]

    @cached_property
    def _own_env(self) -> Any:
        return self._make_env()

    def _make_player(self, task_id: str) -> ScriptedPlayer:
        handler = "" if self._run_config.handler == "auto" else self._run_config.handler
        return ScriptedPlayer(GroundTruthPolicy(), self._tasks[task_id], handler, DONE)
