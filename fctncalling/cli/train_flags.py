"""--config FILE: settings from a YAML or JSON file, or from the config.json of a run."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.config.config_fields import SettingError, SettingSpec, format_value
from fctncalling.algorithms.config.idle_flags import IdleFlagRule, idle_rule_notes
from fctncalling.envs.tool_text.env import JOBS
from fctncalling.training.run_config import RunConfig

DESCRIPTION_KEYS = ("command", "machine", "num_processes", "resolved", "versions")
"""Entries of a run's config.json that are no settings."""


MAX_CHARS = 1 << 18
MAX_DEPTH = 8


def read_config_file(path: Path, known: Sequence[SettingSpec]) -> dict[str, Any]:
    """Read a config file, its settings: flag name -> value.

    Raises SettingError, naming file and setting, for what cannot be read, for unknown names and
    for values out of range.
    """
    entries = _entries(path)
    by_name = {name: flag for flag in known for name in (flag.name, *flag.aliases)}
    settings = {}
    for name, value in entries.items():
        if name in DESCRIPTION_KEYS or (name == "resume" and "command" in entries):
            continue  # that a run was resumed is no setting of another one
        if name in FORMER_SETTINGS:
            usual, successor = FORMER_SETTINGS[name]
            if value != usual:
                raise SettingError(f"--config {path}: {name} went with version 0.3: {successor}")
            continue  # as every config.json of earlier versions has it
        if name not in by_name:
            near = difflib.get_close_matches(str(name), by_name, n=1, cutoff=0.75)
            hint = f"; is {near[0]} meant?" if near else ""
            raise SettingError(f"--config {path}: no setting is called {name!r}{hint}")
        flag = by_name[name]
        settings[flag.name] = _value(path, str(name), value, flag)
    return settings


def _entries(path: Path) -> Mapping[Any, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise SettingError(f"--config {path}: cannot be read: {reason}") from None
    if len(text) > MAX_CHARS:
        raise SettingError(f"--config {path}: has more than {MAX_CHARS:,} characters")
    try:
        entries = json.loads(text) if path.suffix == ".json" else _yaml(text)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise SettingError(f"--config {path}: cannot be parsed: {reason}") from None
    if not isinstance(entries, Mapping):
        raise SettingError(
            f"--config {path}: expected settings by name, such as lr: 1e-5, got "
            f"{type(entries).__name__}"
        )
    return entries


def _yaml(text: str) -> Any:
    import yaml

    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):  # a few lines of them stand for gigabytes
                raise ValueError("aliases (*name) are not read: write the values out")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise ValueError("it is nested too deep")
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _value(path: Path, name: str, value: Any, flag: SettingSpec) -> Any:
    """Return a value as the command line would have it: YAML reads 1e-5 as text, say."""
    if flag.many and isinstance(value, list):
        value = flag.separator.join(map(str, value))
    if isinstance(value, Mapping):  # of --chat_template_kwargs
        value = json.dumps(value)
    if value is None and flag.base is float and not flag.optional:
        value = "inf"  # for which JSON has no number
    plain = value is None or isinstance(value, bool)
    try:
        return flag.parse(str(value).lower() if plain else str(value))
    except argparse.ArgumentTypeError:
        raise SettingError(
            f"--config {path}: {name}: got {format_value(value)}, expected "
            f"{flag.expected}{flag.suggestion(value)}"
        ) from None


_BY_FLAG: dict[str, str] = json.loads(
    Path(__file__).with_name("names_elsewhere.json").read_text(encoding="utf-8")
)
NAMES_ELSEWHERE = {name: flag for flag, names in _BY_FLAG.items() for name in names.split()}
"""A flag's name in another trainer -> its name here; neither with dashes."""


FORMER_SETTINGS: dict[str, tuple[Any, str]] = {
    "env_processes": (0, "torchrun and --num_rollout_workers play in several processes"),
    "replay_arrivals": (None, "--wait_for_tools always makes a seed repeat a run"),
    "cut_patience": (5, "the alarm cut_actions tells, and no run is ended"),
    "normalize_rewards": (False, "--reward_scale multiplies them by a constant"),
    "entropy_target": (None, "--entropy_coef is a constant"),
    "entropy_coef_step": (0.001, "--entropy_coef is a constant"),
    "loss_token_divisor": (None, "the divisor of token_sum is --max_episode_tokens"),
    "sft_warmup_share": (0.05, "it is 0.05"),
    "sft_final_lr_share": (0.05, "it is 0.05"),
}
"""Setting that went with version 0.3 -> what it was where nobody gave it, and what is there now."""


OUR_ENV = "fctncalling_env"
CLARIFY = "clarify"  # the same environment, over tasks made for questions
TEAM = "team"
BUILT_IN = (OUR_ENV, CLARIFY, TEAM, *JOBS)


def _only_with(*envs: str, flags: str, refused: bool = False, needs: str = "") -> IdleFlagRule:
    """Return the rule of flags, parted by blanks, that only these --env_name know."""
    needs = needs or f"--env_name {', '.join(envs)}"
    return IdleFlagRule(flags, lambda config, _: config.env_name not in envs, needs, refused)


RULES = (
    _only_with(OUR_ENV, CLARIFY, flags="user", refused=True),
    _only_with(CLARIFY, flags="question_cost", refused=True),
    _only_with(TEAM, flags="team", refused=True),
    IdleFlagRule(
        "frozen_roles",
        lambda config, _: config.env_name in (OUR_ENV, CLARIFY, *JOBS),
        f"--env_name {TEAM}, or an environment of your own whose info names roles",
    ),
    _only_with(
        OUR_ENV,
        flags="reward",
        refused=True,
        needs=f"--env_name {OUR_ENV}: other environments have their own",
    ),
    IdleFlagRule(
        "ray_address rollout_worker_gpus",
        lambda _, run_config: not run_config.num_rollout_workers,
        "--num_rollout_workers above 0",
    ),
    IdleFlagRule(
        "vllm_url vllm_adapter_dir vllm_patience_s vllm_logprob_tolerance",
        lambda config, _: config.rollout_engine == "local",
        "--rollout_engine vllm",
    ),
    IdleFlagRule(
        "max_cache_tokens",
        lambda config, _: config.rollout_engine == "vllm",
        "--rollout_engine local: the server has its own cache",
        refused=False,
    ),
    _only_with(
        *(OUR_ENV, CLARIFY, TEAM), flags="corrective_feedback allow_task_tools prompt_style"
    ),
    _only_with(OUR_ENV, CLARIFY, flags="mcp mcp_timeout_s"),
    _only_with(*JOBS, flags="prompt_path"),
    _only_with(*BUILT_IN, flags="dataset_path eval_dataset_path handler max_steps_per_turn"),
    _only_with(
        *(OUR_ENV, CLARIFY, *JOBS), flags="enable_tool_use num_tool_executors tool_config_path"
    ),
)


# No recipe, benchmark or example gives these as flags. Until version 0.4 they work, unlisted.
CONFIG_SETTINGS = (
    *("adam_beta1", "adam_beta2", "adam_eps", "agent_timeout_s"),
    *("base_dtype", "cast_lm_head_to_fp32", "critic_hidden", "dual_clip", "eval_samples"),
    *("huber_delta", "kl_mode", "lam_value", "lora_targets", "overlong_buffer"),
    *("overlong_penalty", "reward_scale", "tool_deadline_s"),
    *("truncation_bootstrap", "vllm_logprob_tolerance", "vllm_patience_s", "wait_for_tools"),
)
"""Settings of --config alone, in Python fields of TrainConfig or RunConfig like the others."""


def deprecated_flag_notes(given: Collection[str]) -> list[str]:
    """Return notes on given flags that will be settings of --config alone."""
    return [
        f"--{name}: the flag goes with version 0.4; a file has it, {name}: ..., for --config FILE"
        for name in CONFIG_SETTINGS
        if name in given
    ]


def idle_run_flag_notes(
    config: TrainConfig, run_config: RunConfig, given: Collection[str]
) -> list[str]:
    """Return notes on idle run flags: given, but idle under the other settings.

    SettingError for one that misleads. given: as of `idle_flag_notes`.
    """
    return idle_rule_notes(RULES, given, config, run_config)
