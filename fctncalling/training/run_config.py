"""RunConfig: settings of a run outside the learning algorithm, and defaults per environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fctncalling.algorithms.config.config_fields import setting
from fctncalling.envs.handlers import HANDLERS, TEXT_HANDLERS
from fctncalling.envs.prompting.prompts import PROMPT_STYLES
from fctncalling.envs.rewards import QUESTION_COST
from fctncalling.envs.teams import BUILT_IN_TEAMS
from fctncalling.envs.tools.box.tool_server import TIMEOUT_S
from fctncalling.envs.users.user_names import NAMES

ENV_MODELS = {name: name for name in ("calculator", "python_math", "clarify", "team")}
"""`--env_name` -> the embedded model that a run without --model_name_or_path starts from."""

_SHORT: dict[str, Any] = {
    "num_updates": 10,
    "eval_interval": 5,
    "save_interval": 0,
    "max_episode_tokens": 512,
    "lr": 3e-4,
    "log_episodes_interval": 1,
}
ENV_DEFAULTS: dict[str, dict[str, Any]] = {
    "calculator": {"experiment_name": "calculator", **_SHORT},
    "python_math": {"experiment_name": "python_math", **_SHORT},
    "clarify": {
        "experiment_name": "clarify",
        **_SHORT,
        "num_updates": 30,
        "lr": 5e-4,
        "lr_schedule": "linear",
        "eval_interval": 10,
        "max_steps_per_turn": 3,
        "eval_episodes": 200,
    },
    "team": {
        "experiment_name": "team",
        **_SHORT,
        "num_updates": 12,
        "episodes_per_update": 128,
        "eval_interval": 6,
        "lr": 1e-3,
        "max_episode_tokens": 256,
        "eval_episodes": 100,
    },
}
"""`--env_name` -> defaults of its own, by flag; flags that are given win."""

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
"""Defaults of the main job's embedded model, as docs/speedrun.md found them.

A model of one's own starts with those of TrainConfig, which are careful.
"""


@dataclass
class RunConfig:
    """Configuration of a run outside the algorithm: environments, tools, logs, workers."""

    handler: str = setting(
        "auto",
        "How calls are written; auto: as the chat template writes them, or in BFCL's form where it "
        "writes none; any known form is read. auto:NAME writes that form and reads any. One of "
        + ", ".join((*HANDLERS, *TEXT_HANDLERS))
        + ".",
        group="environments and tools",
        metavar="NAME",
    )
    prompt_style: str = setting(
        "bfcl",
        "How functions stand in the prompt of a model whose chat template takes no tools: bfcl, as "
        "JSON as BFCL shows them, or compact, as signatures in a fifth to a half of the tokens.",
        choices=tuple(PROMPT_STYLES),
    )
    chat_template: str | None = setting(
        None, "File with a chat template; none: the tokenizer's own.", metavar="FILE"
    )
    chat_template_kwargs: str | None = setting(
        None,
        "Arguments of the chat template in every rendering, such as "
        '{"enable_thinking": false}; none: those of the run that --resume goes on with, or none.',
        metavar="JSON",
    )
    no_doctor: bool = setting(
        False,
        "Whether a run starts though chat template or tokenizer would spoil it (doctor --model "
        "tells how).",
    )
    corrective_feedback: bool = setting(
        False,
        "Whether a wrong call's result goes on to say what to mend, in evaluations too; verdicts "
        "stay the same.",
    )
    team: str | None = setting(
        None,
        "Roles of --env_name team: a JSON or YAML file, or one of "
        + ", ".join(BUILT_IN_TEAMS)
        + "; none: parcels, and planner_caller with --dataset_path.",
        metavar="FILE",
    )
    prompt_path: str | None = setting(
        None,
        "File whose text stands before every question (calculator, python_math, tool_text); none: "
        "nothing.",
    )
    user: str | None = setting(
        None,
        f"Who answers a message that calls nothing: {NAMES}, hf:FOLDER; none: rule in tasks made "
        "for questions, else the task's script.",
        metavar="NAME",
    )
    question_cost: float = setting(
        QUESTION_COST,
        "Price of a question with --env_name clarify, where right calls pay 1.",
        interval="[0, inf)",
    )
    tools: str | None = setting(
        None,
        "Stateful classes of your own, by the names that tasks involve them by; several parted by "
        "blanks.",
        metavar="NAME=MODULE:CLASS",
        many=True,
    )
    tools_seed: str | None = setting(
        None,
        "Folder whose files fill {tmp} in the commands of MCP servers of tools.",
        metavar="DIR",
    )
    allow_task_tools: bool = setting(
        False,
        "Whether classes that a task file names by their path are imported, which runs their "
        "modules' code.",
    )
    enable_tool_use: bool = setting(
        False,
        "Whether a confined Python executor and a calculator are offered beside the tasks' own "
        "functions.",
    )
    num_tool_executors: int | None = setting(
        None,
        "Snippets that run at once; none: the configuration's, or one a core.",
        interval="[1, inf)",
    )
    tool_config_path: str | None = setting(
        None,
        "JSON file with tools, execution and security, as OpenRLHF's tool use has it; none: the "
        "defaults.",
    )
    mcp: str | None = setting(
        None,
        "MCP servers whose tools are offered next to the functions of every task whose calls are "
        "executed; PREFIX=COMMAND puts a prefix before their names; several parted by blanks.",
        metavar="COMMAND_OR_URL",
        many=True,
        separator="\n",
    )
    mcp_timeout_s: float = setting(
        TIMEOUT_S,
        "Longest call of an MCP server's tool, in seconds, after which its episode is invalid.",
        interval="(0, inf)",
    )
    agent_command: str | None = setting(
        None,
        "Command of an agent that plays the episodes in place of environments, through an "
        "OpenAI-compatible server in this process; it is started once and gets a JSON line an "
        "episode.",
        group="agents outside",
        metavar="COMMAND",
    )
    agent_per_episode: bool = setting(
        False,
        "Whether --agent_command is started anew for each episode, which it finds in "
        "OPENAI_BASE_URL, OPENAI_API_KEY and FCTNCALLING_TASK.",
    )
    agent_timeout_s: float = setting(
        300.0,
        "Seconds that the agent has for an episode from its first request, after which it is "
        "invalid.",
        interval="(0, inf)",
        metavar="S",
    )
    plan: str = setting(
        "off",
        "Print what the run needs in memory, by these flags and on this device, whether that is "
        "there, the largest microbatch that fits and what to change; no weights are loaded and "
        "nothing is trained. Exit code 0 if it fits, 1 if not.",
        choices=("off", "text", "json"),
        const="text",
        group="memory plan",
    )
    memory: str | None = setting(
        None,
        "Memory that --plan plans for, such as 24GB, of this machine or of the --device named, "
        "which need not be here; none: what is free here.",
        metavar="SIZE",
    )
    tensorboard: bool = setting(
        True, "Whether tensorboard events are written, where it is installed.", group="logs"
    )
    wandb: str = setting(
        "off",
        "Whether curves go to wandb, which the user installs; offline: for wandb sync later.",
        choices=("off", "online", "offline"),
    )
    num_rollout_workers: int = setting(
        0,
        "Ray workers that play the episodes, on any machines of a cluster; 0: those who learn "
        "play.",
        interval="[0, inf)",
        group="rollout workers and vLLM",
    )
    ray_address: str | None = setting(
        None,
        "Ray cluster to join, host:port, or auto for the one this machine is in; none: one of this "
        "machine alone.",
    )
    rollout_worker_gpus: float = setting(
        0.0, "GPUs that each Ray worker takes; a fraction shares one.", interval="[0, inf)"
    )
    vllm_url: str | None = setting(
        None,
        "Addresses of the vLLM servers of --rollout_engine vllm, such as http://localhost:8000; "
        "requests are spread over them, and one that fails is left out until it answers again.",
        metavar="URL",
        many=True,
    )
    vllm_adapter_dir: str | None = setting(
        None,
        "Folder that this process and the vLLM servers all see, for versions of the adapter, or of "
        "all weights; none: adapters in the run's own results folder.",
    )
    vllm_logprob_tolerance: float | None = setting(
        None,
        "Nats a token by which a vLLM server's log-probabilities of a fixed text may differ from "
        "training's after it was given all weights; none: 1e-5 where passes compute in float32, "
        "0.05 in bfloat16.",
        interval="(0, inf)",
    )
    vllm_patience_s: float = setting(
        600.0,
        "Seconds that all vLLM servers may be away before the run is saved and ends.",
        interval="(0, inf)",
        metavar="S",
    )
    profile: bool = setting(
        False,
        "Whether profile/ gets a torch profiler trace of the second update, and a table of where "
        "time goes.",
        group="logs",
    )
    log_episodes_interval: int = setting(
        10,
        "Updates between two whose training episodes are written out, first and last always; 0: "
        "none.",
        interval="[0, inf)",
    )
    log_tokens_interval: int | None = setting(
        None,
        "Updates between two token files (tokens/update_N.npz: mask, log-probabilities, values, "
        "advantages of every token), whose episodes are written out too; none: as "
        "--log_episodes_interval; 0: no token file.",
        interval="[0, inf)",
    )
