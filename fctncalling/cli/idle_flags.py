"""Idle flags: refuse or report flags that have no effect under the other settings.

Whoever gives a flag expects it to do something.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.cli.train_flags import SETTINGS, CommandLine
from fctncalling.envs.tool_text.env import JOBS
from fctncalling.training.run_config import RunConfig

OUR_ENV = "fctncalling_env"
CLARIFY = "clarify"  # the same environment, over tasks made for questions
TEAM = "team"
NO_EFFECT = "no effect"


class IdleFlagRule(NamedTuple):
    """Rule of flags that are idle, of no effect, under some settings."""

    flags: str  # parted by blanks
    idle: Callable[[Any], bool]  # of a TrainConfig, in RUN_RULES of a RunConfig
    needs: str  # what they have an effect with
    refused: bool = True  # false: harmless, reported as a note
    without: str = NO_EFFECT  # what they do without it


Refused = IdleFlagRule
Noted = partial(IdleFlagRule, refused=False)


def _is_not(name: str) -> Callable[[TrainConfig], bool]:
    """Return a condition: a built-in algorithm other than the named one is used."""
    return lambda c: c.algorithm_name != name and not c.has_own_algorithm


def _is_grpo(config: TrainConfig) -> bool:
    return config.algorithm_name == "GRPO"


def _credits_states(config: TrainConfig) -> bool:
    return config.group_baseline == "state"


def _samples_what_it_learns(config: TrainConfig) -> bool:
    """Whether rollouts have the update's weights, engine and, as far as flags say, rounding."""
    on_cpu = (config.compute_dtype, config.device) == ("auto", "cpu")
    in_fp32 = config.compute_dtype == "float32" or on_cpu
    return config.max_staleness == 0 and config.rollout_engine == "local" and in_fp32


def _only_with(*envs: str, flags: str, refused: bool = False, more: str = "") -> IdleFlagRule:
    """Return the rule of flags, parted by blanks, that only these --env_name know."""
    needs = f"--env_name {', '.join(envs)}{more}"
    return IdleFlagRule(flags, lambda c: c.env_name not in envs, needs, refused)


STATE_CREDIT = "another --group_baseline than state, which is the policy's credit"
NO_CRITIC = "a critic, which GRPO has none of"
GROUPS = "--group_size of at least 2"
FITTED = "--critic_window_updates 0: the head is fitted to whole returns in place of the value loss"
BEHIND = "--max_staleness above 0, --rollout_engine vllm or --compute_dtype bfloat16"
OF_HEAD = "critic_head critic_layers critic_sees value_bins team_critic group_baseline"
OF_VALUES = "lam lam_value value_coef value_clip huber_delta critic_lr critic_hidden critic_detach"
OF_SFT = "sft_epochs sft_lr sft_batch_size sft_group_by_prefix sft_fixed_prefixes sft_save_interval"
OF_VLLM = "vllm_url vllm_adapter_dir vllm_patience_s vllm_logprob_tolerance"
RULES = (
    Refused("group_credit group_std sequence_ratio", _is_not("GRPO"), "--algorithm_name GRPO"),
    Refused(
        "dynamic_sampling", lambda c: c.episodes_per_task < 2 and c.dynamic_sampling > 1, GROUPS
    ),
    Refused(
        "group_baseline", lambda c: c.episodes_per_task < 2 and c.group_baseline != "none", GROUPS
    ),
    Refused("action_logprob_norm", _is_not("APPO"), "--algorithm_name APPO"),
    Refused("gamma_token lam_token", _is_not("TPPO"), "--algorithm_name TPPO"),
    Noted(
        "gamma_token lam_token",
        lambda c: _credits_states(c) and not c.critic_window_updates,
        STATE_CREDIT,
        without="moves the critic's targets alone",
    ),
    Noted("lam_token", lambda c: _credits_states(c) and c.critic_window_updates > 0, STATE_CREDIT),
    Noted(
        "algorithm_name",
        lambda c: _credits_states(c) and c.algorithm_name in ("NTPO", "POAD"),
        STATE_CREDIT,
        without="differs from TPPO in the critic's targets alone",
    ),
    Refused(f"critic {OF_HEAD}", _is_grpo, NO_CRITIC),
    Noted(f"{OF_VALUES} truncation_bootstrap whiten_advantages", _is_grpo, NO_CRITIC),
    Noted(
        "value_coef value_clip critic_detach lam_value",
        lambda c: c.critic_window_updates > 0,
        FITTED,
    ),
    Noted(
        "value_clip huber_delta critic_detach critic_lr lam_value",
        lambda c: not c.value_coef and not c.critic_window_updates,
        "--value_coef above 0",
    ),
    Noted(
        "entropy_coef critic_detach",
        lambda c: c.permute_advantages,
        "--permute_advantages false: the control has no bonus, and detaches the critic",
    ),
    Noted("critic_sees", lambda c: c.critic_sees == "progress" and c.lam is not None, "--lam auto"),
    Refused("kl_mode", lambda c: not c.kl_coef, "--kl_coef above 0"),
    Refused("lora_alpha lora_targets", lambda c: not c.lora_r, "--lora_r above 0"),
    Refused(
        "overlong_penalty overlong_buffer", lambda c: c.overlong != "penalty", "--overlong penalty"
    ),
    Refused(OF_SFT, lambda c: not c.has_supervised_stage, "--sft_tasks or --sft_episodes"),
    Refused(
        "min_lr_ratio", lambda c: c.lr_schedule == "constant", "--lr_schedule linear or cosine"
    ),
    Noted("importance_cap", _samples_what_it_learns, BEHIND),
    Refused("value_low value_high", lambda c: not c.value_bins, "--value_bins"),
    Refused("value_clip huber_delta", lambda c: c.value_bins > 0, "--value_bins 0"),
    Noted("critic_hidden", lambda c: c.critic_head == "linear", "--critic_head mlp"),
    _only_with(OUR_ENV, CLARIFY, flags="user", refused=True),
    _only_with(CLARIFY, flags="question_cost", refused=True),
    _only_with(TEAM, flags="team", refused=True),
    Refused(
        "frozen_roles",
        lambda c: c.env_name in (OUR_ENV, CLARIFY, *JOBS),
        f"--env_name {TEAM}, or an environment of your own whose info names roles",
    ),
    _only_with(OUR_ENV, flags="reward", refused=True, more=": other environments have their own"),
    Refused(OF_VLLM, lambda c: c.rollout_engine == "local", "--rollout_engine vllm"),
    Noted(
        "max_cache_tokens",
        lambda c: c.rollout_engine == "vllm",
        "--rollout_engine local: the server has its own cache",
    ),
    _only_with(
        *(OUR_ENV, CLARIFY, TEAM), flags="corrective_feedback allow_task_tools prompt_style"
    ),
    _only_with(OUR_ENV, CLARIFY, flags="mcp mcp_timeout_s"),
    _only_with(*JOBS, flags="prompt_path"),
    _only_with(
        *(OUR_ENV, CLARIFY, TEAM, *JOBS),
        flags="dataset_path eval_dataset_path handler max_steps_per_turn",
    ),
    _only_with(
        *(OUR_ENV, CLARIFY, *JOBS), flags="enable_tool_use num_tool_executors tool_config_path"
    ),
)
RUN_RULES = (
    Refused("memory", lambda c: c.plan == "off", "--plan"),
    Refused(
        "ray_address rollout_worker_gpus",
        lambda c: not c.num_rollout_workers,
        "--num_rollout_workers above 0",
    ),
)


def idle_settings(settings: Mapping[str, Any]) -> set[str]:
    """Return the names of settings that have no effect in a run, given its config.json.

    Empty for a run whose settings are not understood, as of another version.
    """
    try:
        idle = _idle_rules(*CommandLine(Namespace(**settings), set(), set()).configs())
    except (TypeError, ValueError):
        return set()
    return {name for rule in idle if rule.without == NO_EFFECT for name in rule.flags.split()}


def _idle_rules(config: TrainConfig, run_config: RunConfig) -> list[IdleFlagRule]:
    idle = [rule for rule in RULES if rule.idle(config)]
    return idle + [rule for rule in RUN_RULES if rule.idle(run_config)]


def idle_flag_notes(
    config: TrainConfig, run_config: RunConfig, given: Collection[str]
) -> list[str]:
    """Return notes on idle flags: given, but of no effect under the other settings.

    SettingError for one that misleads.

    given: the names of settings that flags or a file of one's own have, whatever their values;
    defaults are never reported.
    """
    notes = []
    for rule in _idle_rules(config, run_config):
        named = [SETTINGS[name].label for name in rule.flags.split() if name in given]
        if not named:
            continue
        note = f"{', '.join(named)}: {rule.without} without {rule.needs}"
        if rule.refused:
            raise SettingError(f"{note}; leave it out, or give that")
        notes.append(note)
    if config.sequence_ratio and config.loss_aggregation != "row_mean":
        notes.append(
            "--sequence_ratio: GSPO's loss is --loss_aggregation row_mean; with "
            f"{config.loss_aggregation} long rows weigh more"
        )
    return notes
