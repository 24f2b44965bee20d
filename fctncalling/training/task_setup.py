"""Environments and tasks of a run, for every --env_name."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.data.bfcl import TaskError
from fctncalling.data.categories import WITHOUT_ANSWER
from fctncalling.data.types import Task
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.handlers import TEXT_HANDLERS, get_handler
from fctncalling.envs.named_tools import tool_paths_of_tasks
from fctncalling.envs.rewards import ClarifyReward
from fctncalling.envs.task_set import TaskList, TaskSet
from fctncalling.envs.tool_text.env import JOBS
from fctncalling.envs.tool_text.tools import search_tool
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.toolbox import (
    MAX_CALLS,
    ToolBox,
    calculator_tool,
    python_tool,
    server_isolation_notes,
    with_mcp_scheme,
)
from fctncalling.envs.tools.python_executor import (
    ConfigError,
    ExecutorConfig,
    PythonExecutor,
    SandboxUnavailable,
    load_config,
)
from fctncalling.envs.user_tools import UserTools
from fctncalling.evaluation.agents.local_model import user_by_name
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_split import load_bfcl_tasks, load_question_tasks
from fctncalling.training.teams import parcel_task_split, team_env_maker
from fctncalling.training.user_code import load_reward, run_tool_classes

if TYPE_CHECKING:
    from fctncalling.algorithms.rollout.task_sampler import CandidateTask


def make_toolbox(run_config: RunConfig) -> ToolBox | None:
    """Make the ToolBox of a run, which all its environments share; None without any tool.

    With --enable_tool_use those of a configuration file in OpenRLHF's form, without a file the
    Python executor and the calculator; and the tools of the MCP servers. Limits on calls at once
    hold for all environments together. Raises SettingError naming the flag, and the file and key
    where it is the configuration's fault.
    """
    tools, limits = list[Any](), dict[str, Any]()
    if run_config.enable_tool_use:
        config, tools = _configured_tools(run_config, "enable_tool_use")
        limits["num_processes"] = config.max_running
        limits["max_calls"] = config.max_tools_per_generation or MAX_CALLS
    else:
        for name in ("num_tool_executors", "tool_config_path"):
            if getattr(run_config, name) is not None:
                raise SettingError(f"--{name}: has no effect without --enable_tool_use")
    tools += map(with_mcp_scheme, (run_config.mcp or "").splitlines())
    with _naming_flag("mcp", ToolDefinitionError, MissingExtra):
        return ToolBox(tools, mcp_timeout_s=run_config.mcp_timeout_s, **limits) if tools else None


@contextlib.contextmanager
def _naming_flag(flag: str, *errors: type[Exception]) -> Iterator[None]:
    """Context manager: reraise errors of a setting's value as SettingErrors with its flag."""
    try:
        yield
    except errors as error:
        raise SettingError(f"--{flag}: {error}") from error


def _configured_tools(
    run_config: RunConfig, flag: str, needs: str = "enable_tool_use"
) -> tuple[ExecutorConfig, list[Any]]:
    """Load a tool configuration and its tools; SettingError names the flag at fault."""
    path = run_config.tool_config_path
    flag = "tool_config_path" if path else flag
    with _naming_flag(flag, ConfigError), _naming_flag(needs, SandboxUnavailable):
        config = ExecutorConfig() if path is None else load_config(path)
        config = config.with_overrides(num_executors=run_config.num_tool_executors)
        tools: list[Any] = [python_tool(PythonExecutor(config))] if config.enabled else []
        tools += [calculator_tool()] if config.calculator else []
        if tools:
            return config, tools
        where = "--enable_tool_use" if path is None else path
        raise ConfigError(
            f"{where}: tools enables no tool; expected python_executor or calculator, or no tool "
            "use"
        )


CLARIFY_JOB = "clarify"  # --env_name
GENERATED_TASKS = 20_000  # questions that are made before the first comes again
MAX_TURNS = 4  # calls of an answer that are run, where the tool configuration sets no other number


class TaskSetup(NamedTuple):
    """Environments, training tasks and held-out tasks of a run."""

    make_env: Callable[[], Any]  # called once for each episode that runs side by side
    candidates: list[CandidateTask]  # training tasks, as the sampler draws them
    held_out_ids: list[str]
    # of BFCL tasks alone: the same environments over other tasks, and the tasks themselves
    make_env_over: Callable[[Sequence[Task]], Any] | None = None
    training_tasks: Sequence[Task] = ()
    held_out_tasks: Sequence[Task] = ()


def make_task_setup(config: TrainConfig, run_config: RunConfig) -> TaskSetup:
    """Make the environments and tasks of --env_name and its related flags.

    SettingError, TaskError name the flag or file at fault.
    """
    if config.env_name != "fctncalling_env" and (run_config.tools or ":" in config.reward):
        raise SettingError(
            f"--tools, --reward {config.reward}: they have no effect with --env_name "
            f"{config.env_name}, which has tools and rewards of its own; leave them out"
        )
    if config.env_name in ("fctncalling_env", CLARIFY_JOB):
        return _function_calling_setup(config, run_config)
    if config.env_name in JOBS:
        return _tool_text_setup(config, run_config)
    if config.env_name == "team":
        return _team_setup(config, run_config)
    return _registered_setup(config)


def _function_calling_setup(config: TrainConfig, run_config: RunConfig) -> TaskSetup:
    """Make FunctionCallingEnvs on BFCL tasks that share one ToolBox."""
    from fctncalling.envs.function_calling import FunctionCallingEnv

    tools = make_toolbox(run_config)
    user_classes = run_tool_classes(run_config)
    is_clarify = config.env_name == CLARIFY_JOB
    reward = ClarifyReward(run_config.question_cost) if is_clarify else load_reward(config.reward)
    with _naming_flag("user", ValueError):
        name = run_config.user
        user = None if name is None else user_by_name(name, seed=config.seed)
    with _naming_flag("handler", LookupError):
        get_handler(run_config.handler)
    training, held_out = _checked_tasks(config, run_config, user_classes)
    tasks = TaskSet(tuple({task.id: task for task in (*training, *held_out)}.values()))
    for note in server_isolation_notes(user_classes, tasks.tasks):
        print(f"warning: {note}", file=sys.stderr)
    if run_config.mcp:
        with _naming_flag("mcp", ToolDefinitionError):
            UserTools([user_classes, tools]).refuse_name_clashes(tasks.tasks, "the run")

    def make_env_over(tasks: Sequence[Task] | TaskSet) -> FunctionCallingEnv:
        return FunctionCallingEnv(
            tasks=tasks,
            handler=run_config.handler,
            reward=reward,
            strict=True,
            max_steps_per_turn=config.max_steps_per_turn,
            tools=user_classes if tools is None else [user_classes, tools],
            allow_task_tools=run_config.allow_task_tools,
            corrective_feedback=run_config.corrective_feedback,
            prompt_style=run_config.prompt_style,
            user=user,
        )

    ids = [task.id for task in held_out]
    make_env = partial(make_env_over, tasks)
    return TaskSetup(make_env, _candidates(training), ids, make_env_over, training, held_out)


def _team_setup(config: TrainConfig, run_config: RunConfig) -> TaskSetup:
    """Make TeamEnvs, on the user's BFCL tasks or on parcels."""
    if config.dataset_path is None:
        training, held_out = parcel_task_split(config)
    else:
        training, held_out = _checked_tasks(config, run_config, ())
    tasks = tuple({task.id: task for task in (*training, *held_out)}.values())
    ids = [task.id for task in held_out]
    return TaskSetup(team_env_maker(config, run_config, tasks), _candidates(training), ids)


def _candidates(tasks: Sequence[Task]) -> list[CandidateTask]:
    """Return training tasks in the form that the sampler draws from."""
    from fctncalling.algorithms.rollout.task_sampler import CandidateTask

    return [CandidateTask(t.id, t.category, len(t.question), t.difficulty) for t in tasks]


def _registered_setup(config: TrainConfig) -> TaskSetup:
    """Make environments that are registered with gymnasium.

    SettingError for a name that it does not, a module that is missing, or actions that are numbers.
    """
    import gymnasium

    from fctncalling.algorithms.rollout.task_sampler import CandidateTask

    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.make(config.env_name, disable_env_checker=True)

    module, _, registered = config.env_name.rpartition(":")
    try:
        if module:
            importlib.import_module(module)  # which registers it
        gymnasium.spec(registered)
        env = make()
    except (gymnasium.error.Error, ImportError) as error:
        raise SettingError(
            f'--env_name: got "{config.env_name}": {str(error).rstrip(".")}. Expected '
            "fctncalling_env, clarify, calculator, python_math, team, tool_text, or a name "
            "registered with gymnasium, its module in front: my_module:MyEnv-v0"
        ) from error
    spaces = gymnasium.spaces
    numeric = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
    with contextlib.closing(env):
        if isinstance(env.action_space, numeric):
            raise SettingError(
                f"--env_name: the actions of {config.env_name} are {env.action_space}: expected "
                "texts, such as gymnasium.spaces.Text, which a language model writes"
            )
    return TaskSetup(
        make,
        [CandidateTask(f"train_{i}") for i in range(config.episodes_per_update)],
        [f"held_out_{i}" for i in range(config.eval_episodes)],
    )


def _checked_tasks(
    config: TrainConfig, run_config: RunConfig, user_classes: Collection[str]
) -> tuple[list[Task], list[Task]]:
    """Load and check training and held-out tasks.

    TaskError, naming the file, for a class that may not be imported, or a task without ground
    truth.
    """
    training, held_out = load_bfcl_tasks(config, user_classes)
    check_tasks(training, str(config.dataset_path), config, run_config)
    check_tasks(held_out, str(config.eval_dataset_path or config.dataset_path), config, run_config)
    return training, held_out


def check_tasks(
    tasks: Sequence[Task], path: str, config: TrainConfig, run_config: RunConfig
) -> None:
    """Raise TaskError for a task with a forbidden class or without truth."""
    tool_paths_of_tasks(tasks, path, allowed=run_config.allow_task_tools)
    without = [t for t in tasks if t.ground_truth is None and t.category not in WITHOUT_ANSWER]
    if without and ":" not in config.reward:  # a reward of one's own may need no ground truth
        raise TaskError(
            f"{path}: {without[0].id}: {len(without)} of {len(tasks)} tasks have no ground truth, "
            'so nothing could earn a reward: expected a field "ground_truth" in each entry, or '
            "possible_answer/ with a file of the same name beside this one; or give a reward of "
            "your own, --reward MODULE:NAME"
        )


def _tool_text_setup(config: TrainConfig, run_config: RunConfig) -> TaskSetup:
    """Make ToolTextEnvs with tools in mid-generation that share one ToolBox."""
    from fctncalling.algorithms.rollout.task_sampler import CandidateTask

    keywords = dict[str, Any]()
    if run_config.handler in TEXT_HANDLERS:
        keywords["handler"] = run_config.handler
    elif run_config.handler != "auto":
        raise SettingError(
            f'--handler: got "{run_config.handler}", expected one of '
            f"{', '.join(TEXT_HANDLERS)} with --env_name {config.env_name}"
        )
    if (path := run_config.prompt_path) is not None:
        try:
            keywords["prompt"] = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"--prompt_path {path}: cannot be read ({error})") from None
    keywords |= _inline_tools(config, run_config)
    candidates = [
        CandidateTask(f"train_{number}", config.env_name) for number in range(GENERATED_TASKS)
    ]
    held_out_ids = [f"held_out_{number}" for number in range(config.eval_episodes)]
    if config.dataset_path is not None:
        training, held_out = load_question_tasks(config, config.dataset_path)
        every = {task.id: task for task in (*training, *held_out)}
        keywords["tasks"] = TaskList(tuple(every.values()), config.dataset_path)
        candidates = [CandidateTask(task.id, task.category) for task in training]
        held_out_ids = [task.id for task in held_out]
    elif config.env_name == "tool_text":
        raise SettingError(
            "--env_name tool_text: needs --dataset_path, JSON Lines of questions and answers"
        )
    return TaskSetup(partial(JOBS[config.env_name], **keywords), candidates, held_out_ids)


def _inline_tools(config: TrainConfig, run_config: RunConfig) -> dict[str, Any]:
    """Return keywords for the tools of inline calls, and the number of calls that is allowed.

    Tools are the executor, the calculator and, where what ranks pages is installed, the local
    search; those that a configuration file enables, where there is one. Raises SettingError naming
    the flag.
    """
    keywords: dict[str, Any] = {"max_turns": min(MAX_TURNS, config.max_steps_per_turn)}
    path = run_config.tool_config_path
    is_configured = run_config.enable_tool_use or path or run_config.num_tool_executors
    if config.env_name == "calculator" and not is_configured:
        return keywords
    needs = "env_name: its tools need the Python executor"
    executor, tools = _configured_tools(run_config, "num_tool_executors", needs)
    if path is None:
        with contextlib.suppress(MissingExtra):  # an extra: the other tools do without it
            tools.append(search_tool())
    keywords["tools"] = ToolBox(tools, num_processes=executor.max_running)
    if executor.max_tools_per_generation is not None:
        keywords["max_turns"] = executor.max_tools_per_generation
    return keywords
