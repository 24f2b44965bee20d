"""The environments of `--env_name calculator`, `python_math` and `tool_text`, as a training run needs them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.rollout.task_sampler import Candidate
from fctncalling.envs.handlers import TEXT_HANDLERS
from fctncalling.envs.tool_text.env import ToolTextEnv
from fctncalling.envs.tool_text.presets import JOBS
from fctncalling.envs.tool_text.tasks import TaskList, TextTask, load_text_tasks
from fctncalling.envs.tools.box.toolbox import ToolBox
from fctncalling.training.task_setup import HELD_OUT_SHARE, RunConfig
from fctncalling.training.tool_setup import make_inline_toolbox

MADE_TASKS = 20_000  # questions that are made before the first comes again
MAX_TURNS = 4  # calls of an answer that are run, where the tool configuration sets no other number

Environments = tuple[Callable[[], Any], list[Candidate], list[str]]


def text_environments(config: TrainConfig, surroundings: RunConfig) -> Environments:
    """Return a maker of environments, the training tasks to draw from and the ids of the held-out ones.

    All environments share one box of tools. Raises SettingError and TaskError.
    """
    job = JOBS[config.env_name]
    keywords: dict[str, Any] = {"max_turns": min(MAX_TURNS, config.max_steps_per_turn)}
    if surroundings.handler != "auto":
        if surroundings.handler not in TEXT_HANDLERS:
            raise SettingError(
                f'--handler: got "{surroundings.handler}", expected one of {", ".join(TEXT_HANDLERS)} with '
                f"--env_name {config.env_name}"
            )
        keywords["handler"] = surroundings.handler
    keywords |= _tools(config, surroundings)
    if surroundings.prompt_path is not None:
        keywords["prompt"] = _prompt(surroundings.prompt_path)
    candidates = [Candidate(f"train_{number}", config.env_name) for number in range(MADE_TASKS)]
    held_out_ids = [f"held_out_{number}" for number in range(config.eval_episodes)]
    if config.dataset_path is not None:
        training, held_out = _listed(config)
        every = {task.id: task for task in (*training, *held_out)}
        keywords["tasks"] = TaskList(tuple(every.values()), config.dataset_path)
        candidates = [Candidate(task.id, task.category) for task in training]
        held_out_ids = [task.id for task in held_out]
    elif config.env_name == "tool_text":
        raise SettingError(
            "--env_name tool_text: needs --dataset_path, JSON Lines of questions and answers"
        )

    def make_env() -> ToolTextEnv:
        return job(**keywords)

    return make_env, candidates, held_out_ids


def _tools(config: TrainConfig, surroundings: RunConfig) -> dict[str, Any]:
    """Return the tools and, where their configuration says so, how many calls of an answer are run."""
    asked = (
        surroundings.enable_tool_use
        or surroundings.tool_config_path
        or surroundings.num_tool_executors
    )
    if config.env_name == "calculator" and not asked:
        return {}
    box, max_calls = make_inline_toolbox(
        num_executors=surroundings.num_tool_executors, config_path=surroundings.tool_config_path
    )
    tools: dict[str, Any] = {"tools": box}
    assert isinstance(box, ToolBox)
    return tools if max_calls is None else {**tools, "max_turns": max_calls}


def _prompt(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"--prompt_path {path}: cannot be read ({error})") from None


def _listed(config: TrainConfig) -> tuple[list[TextTask], list[TextTask]]:
    """Return the training and the held-out tasks of a user's files; one file is divided by a fixed seed."""
    assert config.dataset_path is not None
    training = load_text_tasks(config.dataset_path, category=config.env_name)
    shuffled = random.Random(0)
    if config.eval_dataset_path is not None:
        held_out = load_text_tasks(config.eval_dataset_path, category=config.env_name)
        if config.eval_dataset_path != config.dataset_path:
            taken = {task.id for task in training}
            held_out = [_apart(task) if task.id in taken else task for task in held_out]
    elif len(training) == 1:
        held_out = list(training)
    else:
        shuffled.shuffle(training)
        size = max(1, round(HELD_OUT_SHARE * len(training)))
        held_out, training = training[:size], training[size:]
    shuffled.shuffle(held_out)
    return training, held_out[: config.eval_episodes]


def _apart(task: TextTask) -> TextTask:
    """Return a held-out task under an id that no training task has: line numbers repeat from file to file."""
    return TextTask(f"held_out:{task.id}", task.prompt, task.answer, task.category, task.extra)
