"""Run settings outside the algorithm; the tasks and environments they select."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.config_fields import field
from fctncalling.algorithms.rollout.task_sampler import Candidate
from fctncalling.data.bfcl import TaskError, embedded_path, load_tasks
from fctncalling.data.categories import WITHOUT_ANSWER
from fctncalling.data.types import Task
from fctncalling.envs.handlers import HANDLERS, TEXT_HANDLERS
from fctncalling.envs.tool_text.env import ToolTextEnv
from fctncalling.envs.tool_text.presets import JOBS
from fctncalling.envs.tool_text.tasks import TaskList, TextTask, load_text_tasks
from fctncalling.envs.tools.box.toolbox import ToolBox
from fctncalling.training.tool_setup import make_inline_toolbox
from fctncalling.training.user_code import reward_of, stateful_tools

HELD_OUT_SHARE = 0.2  # of a dataset that comes without held-out tasks


@dataclass
class RunConfig:
    """Settings that the learning algorithm does not see."""

    handler: str = field(
        "auto",
        "How calls are written; auto: BFCL's form of the task's language. One of "
        + ", ".join((*HANDLERS, *TEXT_HANDLERS))
        + ".",
        group="environments and tools",
        metavar="NAME",
    )
    chat_template: str | None = field(
        None, "File with a chat template; none: the tokenizer's own.", metavar="FILE"
    )
    corrective_feedback: bool = field(
        False,
        "Whether a wrong call's result goes on to say what to mend, in evaluations too; verdicts "
        "stay the same.",
    )
    prompt_path: str | None = field(
        None,
        "File whose text stands before every question (calculator, python_math, tool_text); none: "
        "nothing.",
    )
    tools: str | None = field(
        None,
        "Stateful classes of your own, by the names that tasks involve them by; several parted by "
        "blanks.",
        metavar="NAME=MODULE:CLASS",
        many=True,
    )
    allow_task_tools: bool = field(
        False,
        "Whether classes that a task file names by their path are imported, which runs their "
        "modules' code.",
    )
    enable_tool_use: bool = field(
        False,
        "Whether a confined Python executor and a calculator are offered beside the tasks' own "
        "functions.",
    )
    num_tool_executors: int | None = field(
        None,
        "Snippets that run at once; none: the configuration's, or one a core.",
        interval="[1, inf)",
    )
    tool_config_path: str | None = field(
        None,
        "JSON file with tools, execution and security, as OpenRLHF's tool use has it; none: the "
        "defaults.",
    )
    tensorboard: bool = field(
        True, "Whether tensorboard events are written, where it is installed.", group="logs"
    )
    wandb: str = field(
        "off",
        "Whether curves go to wandb, which the user installs; offline: for wandb sync later.",
        choices=("off", "online", "offline"),
    )
    num_rollout_workers: int = field(
        0,
        "Ray workers that play the episodes, on any machines of a cluster; 0: those who learn "
        "play.",
        interval="[0, inf)",
        group="rollout workers and vLLM",
    )
    ray_address: str | None = field(
        None,
        "Ray cluster to join, host:port, or auto for the one this machine is in; none: one of this "
        "machine alone.",
    )
    rollout_worker_gpus: float = field(
        0.0, "GPUs that each Ray worker takes; a fraction shares one.", interval="[0, inf)"
    )
    vllm_url: str | None = field(
        None, "Address of the vLLM server of --rollout_engine vllm, such as http://localhost:8000."
    )
    vllm_adapter_dir: str | None = field(
        None,
        "Folder that this process and the vLLM server both see, for versions of the adapter; none: "
        "adapters "
        "in the run's own results folder.",
    )
    vllm_patience_s: float = field(
        600.0,
        "Seconds that a vLLM server may be away before the run is saved and ends.",
        interval="(0, inf)",
        metavar="S",
    )
    profile: bool = field(
        False,
        "Whether profile/ gets a torch profiler trace of the second update, and a table of where "
        "time goes.",
        group="logs",
    )
    log_episodes_interval: int = field(
        10,
        "Updates between two whose training episodes are written out, first and last always; 0: "
        "none.",
        interval="[0, inf)",
    )


def environments(
    config: TrainConfig, surroundings: RunConfig
) -> tuple[Callable[[], Any], list[Candidate], list[str]]:
    """Return a maker of environments, the training tasks to draw from and the ids of the held-out
    tasks.
    """
    if config.env_name != "fctncalling_env" and (surroundings.tools or ":" in config.reward):
        raise SettingError(
            f"--tools, --reward {config.reward}: they have no effect with --env_name "
            f"{config.env_name}, which has "
            "tools and rewards of its own; leave them out"
        )
    if config.env_name in ("calculator", "python_math", "tool_text"):
        from fctncalling.training.task_setup import text_environments

        return text_environments(config, surroundings)
    if config.env_name != "fctncalling_env":
        return _registered_environments(config)
    from fctncalling.envs.function_calling import FunctionCallingEnv
    from fctncalling.training.tool_setup import make_toolbox

    tools = make_toolbox(
        enabled=surroundings.enable_tool_use,
        num_executors=surroundings.num_tool_executors,
        config_path=surroundings.tool_config_path,
    )
    own_tools = stateful_tools(surroundings.tools)
    if own_tools and tools is not None:
        raise SettingError(
            "--tools: its classes cannot be joined with --enable_tool_use; give one of them"
        )
    reward = reward_of(config.reward)
    _check_handler(surroundings.handler)
    training, held_out = _admitted_task_sets(config, surroundings, own_tools)
    tasks = tuple({task.id: task for task in (*training, *held_out)}.values())

    def make_env() -> FunctionCallingEnv:
        return FunctionCallingEnv(
            tasks=tasks,
            handler=surroundings.handler,
            reward=reward,
            strict=True,
            max_steps_per_turn=config.max_steps_per_turn,
            tools=own_tools or tools,
            allow_task_tools=surroundings.allow_task_tools,
            corrective_feedback=surroundings.corrective_feedback,
        )

    candidates = [Candidate(task.id, task.category, len(task.question)) for task in training]
    return make_env, candidates, [task.id for task in held_out]


def _registered_environments(
    config: TrainConfig,
) -> tuple[Callable[[], Any], list[Candidate], list[str]]:
    """Return `environments` of a name that gymnasium knows; SettingError where it does not, or a
    module is missing.
    """
    import gymnasium

    module, _, registered = config.env_name.rpartition(":")
    try:
        if module:
            importlib.import_module(module)  # which registers it
        gymnasium.spec(registered)
    except (gymnasium.error.Error, ImportError) as error:
        raise SettingError(
            f'--env_name: got "{config.env_name}": {str(error).rstrip(".")}. Expected '
            "fctncalling_env, calculator, "
            "python_math, tool_text, or a name registered with gymnasium, its module in front: "
            "my_module:MyEnv-v0"
        ) from error
    return (
        lambda: gymnasium.make(config.env_name, disable_env_checker=True),
        [Candidate(f"train_{i}") for i in range(config.episodes_per_update)],
        [f"held_out_{i}" for i in range(config.eval_episodes)],
    )


def _check_handler(name: str) -> None:
    """Raise SettingError for a handler that does not exist."""
    from fctncalling.envs.handlers import get_handler

    try:
        get_handler(name)
    except LookupError as error:
        raise SettingError(f"--handler: {error}") from error


def _admitted_task_sets(
    config: TrainConfig, surroundings: RunConfig, own_tools: Collection[str]
) -> tuple[list[Task], list[Task]]:
    """Return `load_task_sets`; TaskError, naming the file, for a class without leave, or a task
    without truth.
    """
    from fctncalling.envs.user_tools import named_by_path

    training, held_out = load_task_sets(config, own_tools)
    for tasks, path in (
        (training, config.dataset_path),
        (held_out, config.eval_dataset_path or config.dataset_path),
    ):
        named_by_path(tasks, str(path), allowed=surroundings.allow_task_tools)
        if ":" not in config.reward:  # a reward of one's own may need no ground truth
            _check_ground_truths(tasks, str(path))
    return training, held_out


def _check_ground_truths(tasks: Sequence[Task], path: str) -> None:
    """Raise TaskError, naming file and task, where a task could never be solved, for nothing says
    what is right.
    """
    without = [t for t in tasks if t.ground_truth is None and t.category not in WITHOUT_ANSWER]
    if without:
        raise TaskError(
            f"{path}: {without[0].id}: {len(without)} of {len(tasks)} tasks have no ground truth, "
            "so nothing could "
            'earn a reward: expected a field "ground_truth" in each entry, or possible_answer/ '
            "with a file of the same "
            "name beside this one; or give a reward of your own, --reward MODULE:NAME"
        )


def load_task_sets(
    config: TrainConfig, own_tools: Collection[str] = ()
) -> tuple[list[Task], list[Task]]:
    """Return training tasks and at most --eval_episodes held-out ones, drawn by a fixed seed from
    all categories.

    `own_tools`: names of classes whose docs may be missing, for the environment makes them.
    """
    training = load_tasks(config.dataset_path or embedded_path("train"), self_documented=own_tools)
    if not training:
        raise TaskError(f"{config.dataset_path}: no task in it")
    shuffled = random.Random(0)
    if config.eval_dataset_path is not None or config.dataset_path is None:
        held_out = load_tasks(
            config.eval_dataset_path or embedded_path("held_out"), self_documented=own_tools
        )
        clash = {task.id for task in training} & {task.id for task in held_out}
        if clash and config.eval_dataset_path != config.dataset_path:
            print(
                f"Note: {len(clash)} held-out tasks are training tasks too, such as {min(clash)}."
            )
    elif len(training) == 1:
        print(
            "Note: the only task is evaluated on too: give --eval_dataset_path for held-out ones."
        )
        held_out = list(training)
    else:
        shuffled.shuffle(training)
        size = max(1, round(HELD_OUT_SHARE * len(training)))
        held_out, training = training[:size], training[size:]
        print(
            f"Held out {len(held_out)} of {len(held_out) + len(training)} tasks; "
            "--eval_dataset_path gives others."
        )
    shuffled.shuffle(held_out)
    return training, held_out[: config.eval_episodes]


MADE_TASKS = 20_000  # questions that are made before the first comes again
MAX_TURNS = 4  # calls of an answer that are run, where the tool configuration sets no other number

Environments = tuple[Callable[[], Any], list[Candidate], list[str]]


def text_environments(config: TrainConfig, surroundings: RunConfig) -> Environments:
    """Return a maker of environments, the training tasks to draw from and the ids of the held-out
    ones.

    All environments share one box of tools. Raises SettingError and TaskError.
    """
    job = JOBS[config.env_name]
    keywords: dict[str, Any] = {"max_turns": min(MAX_TURNS, config.max_steps_per_turn)}
    if surroundings.handler != "auto":
        if surroundings.handler not in TEXT_HANDLERS:
            raise SettingError(
                f'--handler: got "{surroundings.handler}", expected one of '
                f"{', '.join(TEXT_HANDLERS)} with "
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
    """Return the tools and, where their configuration says so,
    how many calls of an answer are run.
    """
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
    """Return the training and the held-out tasks of a user's files; one file is divided by a fixed
    seed.
    """
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
    """Return a held-out task under an id that no training task has: line numbers repeat from file
    to file.
    """
    return TextTask(f"held_out:{task.id}", task.prompt, task.answer, task.category, task.extra)
