"""Idle flags: refuse or report flags that have no effect under the other settings.

Whoever gives a flag expects it to do something.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from fctncalling.algorithms.config.config_fields import SettingError
from fctncalling.algorithms.config.train_config import TrainConfig


class IdleFlagRule(NamedTuple):
    """Rule of flags that are idle, of no effect, under some settings."""

    flags: str  # parted by blanks
    idle: Callable[..., bool]  # of a TrainConfig, or of whatever settings the rules are about
    needs: str  # what they have an effect with
    refused: bool = True  # false: harmless, reported as a note
    without: str = "no effect"  # what they do without it


def _is_not(name: str) -> Callable[[TrainConfig], bool]:
    """Return whether another algorithm of ours learns; one of the user's may read any setting."""
    return lambda config: config.algorithm_name != name and not config.has_own_algorithm


def _is_grpo(config: TrainConfig) -> bool:
    return config.algorithm_name == "GRPO"


def _credits_states(config: TrainConfig) -> bool:
    return config.group_baseline == "state"


def _samples_what_it_learns(config: TrainConfig) -> bool:
    """Whether rollouts have the update's weights, engine and, as far as flags say, rounding."""
    in_fp32 = config.compute_dtype == "float32" or (
        (config.compute_dtype, config.device) == ("auto", "cpu")
    )
    return config.max_staleness == 0 and config.rollout_engine == "local" and in_fp32


STATE_CREDIT = "another --group_baseline than state, which is the policy's credit"
NO_CRITIC = "a critic, which GRPO has none of"
OF_CRITIC = "critic critic_head team_critic group_baseline critic_layers critic_sees value_bins"
OF_VALUES = (
    "lam lam_value truncation_bootstrap whiten_advantages value_coef value_clip huber_delta "
    "critic_lr critic_hidden critic_detach"
)
OF_HEAD = (
    "lam lam_value group_baseline team_critic critic_head critic_layers critic_hidden critic_sees "
    "critic_lr critic_detach critic_warmup_episodes critic_window_updates init_critic_from "
    "value_bins value_coef value_clip huber_delta"
)
RULES = (
    IdleFlagRule("group_credit group_std sequence_ratio", _is_not("GRPO"), "--algorithm_name GRPO"),
    IdleFlagRule(
        "dynamic_sampling",
        lambda config: config.episodes_per_task < 2 and config.dynamic_sampling > 1,
        "--group_size of at least 2",
    ),
    IdleFlagRule(
        "group_baseline",
        lambda config: config.episodes_per_task < 2 and config.group_baseline != "none",
        "--group_size of at least 2",
    ),
    IdleFlagRule("action_logprob_norm", _is_not("APPO"), "--algorithm_name APPO"),
    IdleFlagRule("gamma_token lam_token", _is_not("TPPO"), "--algorithm_name TPPO"),
    IdleFlagRule(
        "gamma_token lam_token",
        lambda config: _credits_states(config) and not config.critic_window_updates,
        STATE_CREDIT,
        refused=False,
        without="moves the critic's targets alone",
    ),
    IdleFlagRule(
        "lam_token",
        lambda config: _credits_states(config) and config.critic_window_updates > 0,
        STATE_CREDIT,
        refused=False,
    ),
    IdleFlagRule(
        "algorithm_name",
        lambda config: _credits_states(config) and config.algorithm_name in ("NTPO", "POAD"),
        STATE_CREDIT,
        refused=False,
        without="differs from TPPO in the critic's targets alone",
    ),
    IdleFlagRule(OF_CRITIC, _is_grpo, NO_CRITIC),
    IdleFlagRule(OF_HEAD, lambda config: config.critic == "places", "a --critic that learns"),
    IdleFlagRule(OF_VALUES, _is_grpo, NO_CRITIC, refused=False),
    IdleFlagRule(
        "value_coef value_clip critic_detach lam_value",
        lambda config: config.critic_window_updates > 0,
        "--critic_window_updates 0: the head is fitted to whole returns in place of the value loss",
        refused=False,
    ),
    IdleFlagRule(
        "value_clip huber_delta critic_detach critic_lr lam_value",
        lambda config: not config.value_coef and not config.critic_window_updates,
        "--value_coef above 0",
        refused=False,
    ),
    IdleFlagRule(
        "entropy_coef critic_detach",
        lambda config: config.permute_advantages,
        "--permute_advantages false: the control has no bonus, and detaches the critic",
        refused=False,
    ),
    IdleFlagRule("kl_mode", lambda config: not config.kl_coef, "--kl_coef above 0"),
    IdleFlagRule("lora_alpha lora_targets", lambda config: not config.lora_r, "--lora_r above 0"),
    IdleFlagRule(
        "overlong_penalty overlong_buffer",
        lambda config: config.overlong != "penalty",
        "--overlong penalty",
    ),
    IdleFlagRule(
        "sft_epochs sft_lr sft_batch_size sft_group_by_prefix sft_fixed_prefixes sft_save_interval",
        lambda config: not config.has_supervised_stage,
        "--sft_tasks or --sft_episodes",
    ),
    IdleFlagRule(
        "min_lr_ratio",
        lambda config: config.lr_schedule == "constant",
        "--lr_schedule linear or cosine",
    ),
    IdleFlagRule(
        "importance_cap",
        _samples_what_it_learns,
        "--max_staleness above 0, --rollout_engine vllm or --compute_dtype bfloat16",
        refused=False,
    ),
    IdleFlagRule("value_low value_high", lambda config: not config.value_bins, "--value_bins"),
    IdleFlagRule("value_clip huber_delta", lambda config: config.value_bins > 0, "--value_bins 0"),
    IdleFlagRule(
        "critic_hidden",
        lambda config: config.critic_head == "linear",
        "--critic_head mlp",
        refused=False,
    ),
)


def idle_flag_notes(config: TrainConfig, given: Collection[str]) -> list[str]:
    """Return notes on idle flags: given, but of no effect under the other settings.

    SettingError for one that misleads.

    given: the names of flags that the command line has, whatever their values; defaults are never
    reported.
    """
    notes = idle_rule_notes(RULES, given, config)
    if config.sequence_ratio and config.loss_aggregation != "row_mean":
        notes.append(
            "--sequence_ratio: GSPO's loss is --loss_aggregation row_mean; with "
            f"{config.loss_aggregation} long rows weigh more"
        )
    return notes


def idle_rule_notes(
    rules: Iterable[IdleFlagRule], given: Collection[str], *settings: Any
) -> list[str]:
    """Return a note for each rule with flags that are given but have no effect.

    SettingError for a rule that refuses them.
    """
    notes = []
    for rule in rules:
        named = [name for name in rule.flags.split() if name in given]
        if not named or not rule.idle(*settings):
            continue
        note = f"{', '.join(f'--{name}' for name in named)}: {rule.without} without {rule.needs}"
        if rule.refused:
            raise SettingError(f"{note}; leave it out, or give that")
        notes.append(note)
    return notes
