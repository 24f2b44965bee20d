"""Lengths of a run's episodes, measured on ground truths; no weights are loaded."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.conversations import holds_conversations
from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.types import Task
from fctncalling.training.announce import announce
from fctncalling.training.demonstrations import DATASET, play_ground_truths
from fctncalling.training.load_policy import base_model, load_template
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import TaskSetup, make_task_setup

NUM_LONGEST, NUM_SPREAD = 6, 18
"""Tasks that are played: those that look longest, and some spread over all."""
UNBOUNDED = 10**9


class EpisodeLengths(NamedTuple):
    """Lengths in tokens of the ground truths' episodes."""

    demonstration: int  # the longest
    shared: int  # tokens with which all demonstrations begin
    prompt: int  # the longest
    episode: int  # the longest demonstration, and an action of --max_new_tokens
    num_held_out: int
    context: float = 0.0  # mean of what a policy reads in an episode: prompt, results
    answer: float = 0.0  # mean of what it writes
    num_actions: float = 0.0  # mean
    num_demonstrations: int | None = 0  # of the supervised stage; None: unknown


def measure_episode_lengths(config: TrainConfig, run_config: RunConfig) -> EpisodeLengths | None:
    """Measure the lengths of episodes; None if tasks or tokenizer do not allow it.

    SettingError or TaskError for tasks that no run could start with.
    """
    started = (run_config.mcp, run_config.agent_command, run_config.enable_tool_use)
    if any(started) or config.env_name not in ("fctncalling_env", "clarify"):
        return None  # what would be started costs more than a plan may
    with contextlib.redirect_stdout(sys.stderr):  # what it tells is no part of the plan
        try:
            template = _template(config, run_config)
        except (SettingError, OSError, ValueError):
            announce("Note: no tokenizer to measure tasks with: rows have --max_episode_tokens.")
            return None
        setup = make_task_setup(config, run_config)
        try:
            assert setup.make_env_over is not None
            handler = "" if run_config.handler == "auto" else run_config.handler
            tasks = _chosen(setup.training_tasks)
            played = play_ground_truths(tasks, setup.make_env_over, template, handler, UNBOUNDED)
        except SettingError:  # no truth that can be played
            return None
    rows = [row for episode in played for row in episode.rows if any(row.acted)]
    if not rows:
        return None
    prompts = [row.ids[: row.acted.index(True)] for row in rows]
    is_shared = (len(set(column)) == 1 for column in zip(*prompts, strict=False))
    longest = max(len(row.ids) for row in rows)
    usual = played[NUM_LONGEST:] or played
    answer = _mean_sum(usual, lambda row: sum(row.acted))
    return EpisodeLengths(
        demonstration=longest,
        shared=sum(takewhile(bool, is_shared)),
        prompt=max(map(len, prompts)),
        episode=longest + config.max_new_tokens,
        num_held_out=len(setup.held_out_ids),
        context=_mean_sum(usual, lambda row: len(row.ids)) - answer,
        answer=answer,
        num_actions=_mean_sum(usual, lambda row: sum(row.ends_action)),
        num_demonstrations=_num_demonstrations(config, setup),
    )


def _mean_sum(episodes: Sequence[EpisodeRecord], number: Callable[[TokenRecord], int]) -> float:
    """Return the mean over episodes of a number's sum over their rows."""
    return sum(number(row) for episode in episodes for row in episode.rows) / len(episodes)


def _num_demonstrations(config: TrainConfig, setup: TaskSetup) -> int | None:
    """Count the demonstrations of the supervised stage; None if that needs reading them."""
    if config.sft_episodes is not None:
        return None
    if config.sft_tasks in (None, DATASET):
        return len(setup.training_tasks) if config.sft_tasks else 0
    path = Path(str(config.sft_tasks))
    if not path.is_file() or holds_conversations(path):
        return None
    return sum(1 for _ in iter_tasks(path))


def _template(config: TrainConfig, run_config: RunConfig) -> ChatTemplate:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base_model(config), trust_remote_code=False)
    if not tokenizer.encode("a b", add_special_tokens=False):
        raise ValueError("an empty tokenizer, which transformers makes up where there is no file")
    return load_template(tokenizer, run_config.chat_template)


def _chosen(tasks: Sequence[Task]) -> list[Task]:
    by_size = sorted(tasks, key=lambda task: len(f"{task.question}{task.functions}"))
    spread = by_size[:: max(1, len(by_size) // NUM_SPREAD)]
    return list({task.id: task for task in (*by_size[-NUM_LONGEST:], *spread)}.values())
