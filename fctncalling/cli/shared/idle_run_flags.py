"""Idle flags of environments, Ray workers and vLLM: refuse or report what has no effect."""

from __future__ import annotations

from collections.abc import Collection

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.config.idle_flags import Rule, apply_rules
from fctncalling.envs.tool_text.presets import JOBS
from fctncalling.training.run_config import RunConfig

OUR_ENV = "fctncalling_env"
TEAM = "team"
CLARIFY = "clarify"  # the same environment, over tasks made for questions


def _has_no_workers(_: TrainConfig, run_config: RunConfig) -> bool:
    return not run_config.num_rollout_workers


def _samples_locally(config: TrainConfig, _: RunConfig) -> bool:
    return config.rollout_engine == "local"


def _samples_on_server(config: TrainConfig, _: RunConfig) -> bool:
    return config.rollout_engine == "vllm"


def _is_other_env(config: TrainConfig, _: RunConfig) -> bool:
    return config.env_name != OUR_ENV


def _is_no_preset(config: TrainConfig, _: RunConfig) -> bool:
    return config.env_name not in JOBS


def _is_registered_env(config: TrainConfig, _: RunConfig) -> bool:
    return config.env_name not in (OUR_ENV, CLARIFY, TEAM, *JOBS)


def _has_no_bfcl_tasks(config: TrainConfig, _: RunConfig) -> bool:
    return config.env_name not in (OUR_ENV, CLARIFY)


def _has_no_price(config: TrainConfig, _: RunConfig) -> bool:
    return config.env_name != CLARIFY


def _is_no_team(config: TrainConfig, _: RunConfig) -> bool:
    return config.env_name != TEAM


def _has_no_roles(config: TrainConfig, _: RunConfig) -> bool:
    return config.env_name in (OUR_ENV, CLARIFY, *JOBS)


def _plays_no_bfcl_tasks(config: TrainConfig, _: RunConfig) -> bool:
    return config.env_name not in (OUR_ENV, CLARIFY, TEAM)


def _has_no_executor(config: TrainConfig, _: RunConfig) -> bool:
    return config.env_name not in (OUR_ENV, CLARIFY, *JOBS)


RULES = (
    Rule(("user",), _has_no_bfcl_tasks, f"--env_name {OUR_ENV}, {CLARIFY}"),
    Rule(("question_cost",), _has_no_price, f"--env_name {CLARIFY}"),
    Rule(("team",), _is_no_team, f"--env_name {TEAM}"),
    Rule(
        ("frozen_roles",),
        _has_no_roles,
        f"--env_name {TEAM}, or an environment of your own whose info names roles",
    ),
    Rule(("reward",), _is_other_env, f"--env_name {OUR_ENV}: other environments have their own"),
    Rule(("ray_address", "rollout_worker_gpus"), _has_no_workers, "--num_rollout_workers above 0"),
    Rule(
        ("vllm_url", "vllm_adapter_dir", "vllm_patience_s", "vllm_logprob_tolerance"),
        _samples_locally,
        "--rollout_engine vllm",
    ),
    Rule(
        ("max_cache_tokens",),
        _samples_on_server,
        "--rollout_engine local: the server has its own cache",
        refused=False,
    ),
    Rule(
        ("corrective_feedback", "allow_task_tools", "prompt_style"),
        _plays_no_bfcl_tasks,
        f"--env_name {OUR_ENV}, {CLARIFY}, {TEAM}",
        refused=False,
    ),
    Rule(
        ("mcp", "mcp_timeout_s"),
        _has_no_bfcl_tasks,
        f"--env_name {OUR_ENV}, {CLARIFY}",
        refused=False,
    ),
    Rule(("prompt_path",), _is_no_preset, f"--env_name {', '.join(JOBS)}", refused=False),
    Rule(
        ("dataset_path", "eval_dataset_path", "handler", "max_steps_per_turn"),
        _is_registered_env,
        f"--env_name {OUR_ENV}, {CLARIFY}, {TEAM}, {', '.join(JOBS)}",
        refused=False,
    ),
    Rule(
        ("enable_tool_use", "num_tool_executors", "tool_config_path"),
        _has_no_executor,
        f"--env_name {OUR_ENV}, {CLARIFY}, {', '.join(JOBS)}",
        refused=False,
    ),
)


def idle_run_flag_notes(
    config: TrainConfig, run_config: RunConfig, given: Collection[str]
) -> list[str]:
    """Return a line for each kind of given flags that is harmless and idle.

    SettingError for one that misleads. given: as of `idle_flag_notes`.
    """
    return apply_rules(RULES, given, config, run_config)
