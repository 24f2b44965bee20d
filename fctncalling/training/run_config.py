"""Settings of a run outside the learning algorithm, and defaults per environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fctncalling.algorithms.config.config_fields import Setting, Settings
from fctncalling.envs.handlers import HANDLERS, TEXT_HANDLERS
from fctncalling.envs.prompting.prompts import PROMPT_STYLES
from fctncalling.envs.rewards import QUESTION_COST
from fctncalling.envs.teams import BUILT_IN_TEAMS
from fctncalling.envs.tools.box.toolbox import TIMEOUT_S
from fctncalling.envs.users.user_names import NAMES

HANDLER_NAMES = ", ".join((*HANDLERS, *TEXT_HANDLERS))
_SHORT: dict[str, Any] = {
    "num_updates": 10,
    "eval_interval": 5,
    "save_interval": 0,
    "max_episode_tokens": 512,
    "lr": 3e-4,
    "log_episodes_interval": 1,
}
_CLARIFY: dict[str, Any] = {
    "num_updates": 30,
    "lr": 5e-4,
    "lr_schedule": "linear",
    "eval_interval": 10,
    "max_steps_per_turn": 3,
    "eval_episodes": 200,
}
_TEAM: dict[str, Any] = {
    "num_updates": 12,
    "episodes_per_update": 128,
    "eval_interval": 6,
    "lr": 1e-3,
    "max_episode_tokens": 256,
    "eval_episodes": 100,
}
_ENVS = {"calculator": {}, "python_math": {}, "clarify": _CLARIFY, "team": _TEAM}
ENV_DEFAULTS: dict[str, dict[str, Any]] = {
    name: {"experiment_name": name, **_SHORT, **defaults} for name, defaults in _ENVS.items()
}
"""`--env_name` -> defaults of its own, by flag; flags that are given win."""
ENV_MODELS = {name: name for name in ENV_DEFAULTS}
"""`--env_name` -> the embedded model that a run without --model_name_or_path starts from."""

EMBEDDED_MODEL_DEFAULTS: dict[str, Any] = {
    "num_updates": 32,
    "episodes_per_update": 64,
    "group_size": 4,
    "dynamic_sampling": 2,
    "ppo_epoch": 2,
    "lr": 4e-4,
    "lr_schedule": "linear",
    "min_lr_ratio": 0.1,
    "eval_interval": 0,
}
"""Defaults of the main job's embedded model, as benchmarks/jobs/speedrun.py found them.

A model of one's own starts with those of TrainConfig, which are careful.
"""


@dataclass
class RunConfig(Settings):
    """Settings of a run outside the algorithm: environments, tools, logs, workers."""

    handler: Annotated[
        str, Setting(group="environments and tools", metavar="NAME", names=HANDLER_NAMES)
    ] = "auto"
    """How calls are written; auto: as the chat template writes them, or in BFCL's form where it
    writes none; any known form is read. auto:NAME writes that form and reads any. One of {names}.
    """
    prompt_style: Annotated[str, Setting(choices=tuple(PROMPT_STYLES))] = "bfcl"
    """How functions stand in the prompt of a model whose chat template takes no tools: bfcl, as
    JSON as BFCL shows them, or compact, as signatures in a fifth to a half of the tokens."""
    chat_template: Annotated[str | None, Setting(metavar="FILE")] = None
    """File with a chat template; none: the tokenizer's own."""
    chat_template_kwargs: Annotated[str | None, Setting(metavar="JSON")] = None
    """Arguments of the chat template in every rendering, such as {"enable_thinking": false};
    none: those of the run that --resume goes on with, or none."""
    no_doctor: bool = False
    """Whether a run starts though template or tokenizer spoil it (doctor --model tells how)."""
    corrective_feedback: bool = False
    """Whether a wrong call's result says what to mend, in evaluations too; verdicts stay."""
    team: Annotated[str | None, Setting(metavar="FILE", names=", ".join(BUILT_IN_TEAMS))] = None
    """Roles of --env_name team: a JSON or YAML file, or one of {names}; none: parcels, and
    planner_caller with --dataset_path."""
    prompt_path: str | None = None
    """Text file put before every question (calculator, python_math, tool_text); none: nothing."""
    user: Annotated[str | None, Setting(metavar="NAME", names=NAMES)] = None
    """Who answers a message that calls nothing: {names}, hf:FOLDER; none: rule in tasks made for
    questions, else the task's script."""
    question_cost: Annotated[float, Setting("[0, inf)")] = QUESTION_COST
    """Price of a question with --env_name clarify, where right calls pay 1."""
    tools: Annotated[str | None, Setting(metavar="NAME=MODULE:CLASS", many=True)] = None
    """Stateful classes of your own, by the names that tasks give them; several parted by blanks."""
    tools_seed: Annotated[str | None, Setting(metavar="DIR")] = None
    """Folder whose files fill {tmp} in the commands of MCP servers of tools."""
    allow_task_tools: bool = False
    """Whether classes that tasks name by path are imported, which runs their modules' code."""
    enable_tool_use: bool = False
    """Whether a confined Python executor and a calculator stand beside the tasks' own functions."""
    num_tool_executors: Annotated[int | None, Setting("[1, inf)")] = None
    """Snippets that run at once; none: the configuration's, or one a core."""
    tool_config_path: str | None = None
    """JSON file with tools, execution and security, as in OpenRLHF; none: the defaults."""
    mcp: Annotated[str | None, Setting(metavar="COMMAND_OR_URL", many=True, separator="\n")] = None
    """MCP servers whose tools are offered next to the functions of every task whose calls are
    executed; PREFIX=COMMAND puts a prefix before their names; several parted by blanks."""
    mcp_timeout_s: Annotated[float, Setting("(0, inf)")] = TIMEOUT_S
    """Longest call of an MCP server's tool, in seconds, after which its episode is invalid."""
    agent_command: Annotated[str | None, Setting(group="agents outside", metavar="COMMAND")] = None
    """Command of an agent that plays the episodes in place of environments, through an
    OpenAI-compatible server in this process; started once, it gets a JSON line an episode."""
    agent_per_episode: bool = False
    """Whether --agent_command is started anew for each episode, which it finds in
    OPENAI_BASE_URL, OPENAI_API_KEY and FCTNCALLING_TASK."""
    agent_timeout_s: Annotated[float, Setting("(0, inf)", metavar="S", has_flag=False)] = 300.0
    """Seconds that the agent has for an episode from its first request; then it is invalid."""
    plan: Annotated[Literal["off", "text", "json"], Setting(const="text", group="memory plan")] = (
        "off"
    )
    """Print what the run needs in memory, by these flags and on this device, whether that is
    there, the largest microbatch that fits and what to change, and on a CPU an estimate of its
    time; no weights are loaded and nothing is trained. Exit code 0 if it fits, 1 if not."""
    memory: Annotated[str | None, Setting(metavar="SIZE")] = None
    """Memory that --plan plans for, such as 24GB, of this machine or of the --device named,
    which need not be here; none: what is free here."""
    tensorboard: Annotated[bool, Setting(group="logs")] = True
    """Whether tensorboard events are written, where it is installed."""
    wandb: Literal["off", "online", "offline"] = "off"
    """Whether curves go to wandb, which the user installs; offline: for wandb sync later."""
    num_rollout_workers: Annotated[int, Setting("[0, inf)", group="rollout workers and vLLM")] = 0
    """Ray workers that play the episodes, on any machines of a cluster; 0: those who learn play."""
    ray_address: str | None = None
    """Ray cluster to join, host:port, or auto for this machine's; none: one of this machine."""
    rollout_worker_gpus: Annotated[float, Setting("[0, inf)")] = 0.0
    """GPUs that each Ray worker takes; a fraction shares one."""
    vllm_url: Annotated[str | None, Setting(metavar="URL", many=True)] = None
    """Addresses of the vLLM servers of --rollout_engine vllm, such as http://localhost:8000;
    requests are spread over them, and one that fails is left out until it answers again."""
    vllm_adapter_dir: str | None = None
    """Folder that this process and the vLLM servers all see, for versions of the adapter, or of
    all weights; none: adapters in the run's own results folder."""
    vllm_logprob_tolerance: Annotated[float | None, Setting("(0, inf)", has_flag=False)] = None
    """Nats a token by which a vLLM server's log-probabilities of a fixed text may differ from
    training's, given all weights; none: 1e-5 where passes compute in float32, 0.05 in bfloat16."""
    vllm_patience_s: Annotated[float, Setting("(0, inf)", metavar="S", has_flag=False)] = 600.0
    """Seconds that all vLLM servers may be away before the run is saved and ends."""
    profile: Annotated[bool, Setting(group="logs")] = False
    """Whether profile/ gets a torch profiler trace of the second update, and a table of times."""
    log_episodes_interval: Annotated[int, Setting("[0, inf)")] = 10
    """Updates between two whose training episodes are written, first and last always; 0: none."""
    log_tokens_interval: Annotated[int | None, Setting("[0, inf)")] = None
    """Updates between two token files (tokens/update_N.npz: mask, log-probabilities, values,
    advantages of each token), with their episodes; none: as --log_episodes_interval; 0: none."""
