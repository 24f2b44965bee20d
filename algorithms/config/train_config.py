"""TrainConfig: every setting of a training run."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fctncalling.algorithms.config.config_fields import SettingError, check_ranges
from fctncalling.algorithms.config.learning_settings import LearningSettings
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.algorithms.config.running_settings import RunningSettings

if TYPE_CHECKING:
    import torch


OWN_LAM = 0.95
"""--lam of an algorithm of one's own where none is given: nothing measures its values."""
POLICY_CREDIT = {
    "none": "{name}'s estimate{values}",
    "leave_one_out": "{name}'s estimate{values}, less the mean of the group's others "
    "(--group_baseline leave_one_out)",
    "state": "by matched states (--group_baseline state); {name}'s estimate trains the critic "
    "alone. --group_baseline none lets it train the policy",
}
"""--group_baseline -> what the policy is trained with."""


def check_combinations(config: TrainConfig) -> None:
    """Check combinations of settings; SettingError, naming flags, where two contradict."""
    experiment = Path(config.experiment_name)
    if not experiment.parts or experiment.is_absolute() or ".." in experiment.parts:
        raise SettingError(
            f'--experiment_name: got "{config.experiment_name}", expected the name of a folder '
            "below --results_dir"
        )
    _check_episode_numbers(config)
    _check_critic(config)
    _check_roles(config)
    _check_token_limits(config)
    if config.has_supervised_stage and config.kl_coef:
        raise SettingError(
            "--kl_coef: got a reference, which would be the model before --sft_tasks or "
            "--sft_episodes; learn these alone (--num_updates 0), then start a run from that "
            "checkpoint (--model_name_or_path)"
        )


def _check_episode_numbers(config: TrainConfig) -> None:
    if config.num_mini_batch > config.episodes_per_update:
        raise SettingError(
            f"--num_mini_batch: got {config.num_mini_batch}, expected at most "
            f"--episodes_per_update ({config.episodes_per_update}): a minibatch holds whole "
            "episodes"
        )
    if config.algorithm_name == "GRPO" and config.episodes_per_task < 2:
        raise SettingError(
            f"--group_size: got {config.episodes_per_task}, expected at least 2: GRPO compares "
            "episodes of one task"
        )
    size = config.episodes_per_task
    if left := config.episodes_per_update % size:
        below = config.episodes_per_update - left
        raise SettingError(
            f"--episodes_per_update: got {config.episodes_per_update}, expected a multiple of "
            f"--group_size ({size}), episodes of a task, such as {below or size}"
            + ("" if config.algorithm_name == "GRPO" else "; or --group_size 1")
        )


def _check_critic(config: TrainConfig) -> None:
    fits = {"--critic_warmup_episodes": config.critic_warmup_episodes}
    fits["--critic_window_updates"] = config.critic_window_updates
    given = [name for name, count in fits.items() if count]
    if config.algorithm_name == "GRPO" and (given or config.init_critic_from):
        raise SettingError(
            f"{', '.join(fits)}, --init_critic_from: GRPO has no critic; leave them out"
        )
    if given and (config.fsdp or config.team_critic == "per_role"):
        raise SettingError(
            f"{given[0]}: fits one value head that is whole in every process; leave it out, or "
            "--fsdp and --team_critic per_role"
        )
    if config.critic_window_updates and config.critic != "head":
        raise SettingError(
            f"--critic_window_updates: fits a value head alone; --critic {config.critic} learns "
            "by the value loss, leave one of them out"
        )
    if config.value_bins == 1 or config.value_high <= config.value_low:
        raise SettingError(
            f"--value_bins: got {config.value_bins} from {config.value_low} to "
            f"{config.value_high}, expected 2 or more, or 0, from --value_low to a higher "
            "--value_high"
        )
    if config.critic == "lora" and not config.lora_r:
        raise SettingError(
            "--critic: got lora, which needs --lora_r of at least 1; or take head or full"
        )


def _check_roles(config: TrainConfig) -> None:
    flags = [f"--team_critic {config.team_critic}"] if config.team_critic != "shared" else []
    if config.role_adapters:
        flags.append("--role_adapters")
        if not config.lora_r:
            raise SettingError("--role_adapters: needs --lora_r of at least 1, their rank")
    if config.critic_has_own_rows and config.critic == "head":
        flag = "--critic_sees truth" if config.critic_sees == "truth" else "--team_critic central"
        raise SettingError(
            f"{flag}: reads other rows than the policy does, which needs --critic "
            "full, or lora with --lora_r"
        )
    if flags and config.has_supervised_stage:
        raise SettingError(
            f"{flags[0]}: --sft_tasks and --sft_episodes are of one agent, without roles; leave "
            "them out"
        )


def _check_token_limits(config: TrainConfig) -> None:
    if config.max_cache_tokens is not None and config.max_cache_tokens < config.max_episode_tokens:
        raise SettingError(
            f"--max_cache_tokens: got {config.max_cache_tokens}, which one episode of "
            f"--max_episode_tokens ({config.max_episode_tokens}) does not fit into: raise the one "
            "or lower the other"
        )
    if config.max_new_tokens >= config.max_episode_tokens:
        raise SettingError(
            f"--max_new_tokens: got {config.max_new_tokens}, expected less than "
            f"--max_episode_tokens ({config.max_episode_tokens}), which has to hold the prompt too"
        )


@dataclass
class TrainConfig(LearningSettings, RunningSettings):
    """Configuration (settings) of training. SettingError names flag, value and range of a bad one.

    A dataclass takes the fields of its last base first: --help and config.json begin with the run.
    """

    def __post_init__(self) -> None:
        check_ranges(self)
        former = self.critic_warmup_updates * self.episodes_per_update
        self.critic_warmup_episodes = max(self.critic_warmup_episodes, former)
        self.critic_warmup_updates = 0
        if self.has_own_algorithm and self.lam is None:
            self.lam = OWN_LAM
        if self.algorithm_name == "GRPO":  # its groups are their own baseline
            self.group_baseline = "none"
        if self.permute_advantages:  # a bonus alone would mend habits, by making them uncertain
            self.entropy_coef = 0.0
        check_combinations(self)

    @property
    def frozen_role_names(self) -> tuple[str, ...]:
        """Names of the roles that are not trained."""
        return tuple(self.frozen_roles.split(",")) if self.frozen_roles else ()

    @property
    def critic_has_own_rows(self) -> bool:
        """Whether the critic reads other rows: a team's conversation, or the truth first."""
        return self.team_critic == "central" or self.critic_sees == "truth"

    @property
    def roles_have_own_weights(self) -> bool:
        """Whether each role of a team has separate weights."""
        return self.role_adapters or self.team_critic == "per_role"

    @property
    def has_own_algorithm(self) -> bool:
        """Whether the algorithm is a user's, MODULE:NAME."""
        return ":" in self.algorithm_name

    @property
    def policy_credit(self) -> str:
        """Name of the advantage estimate that reaches the policy loss."""
        weighs = self.lam is None and self.algorithm_name != "GRPO"
        values = " of values weighed by what they know (--lam auto)" if weighs else ""
        if self.has_own_algorithm and not weighs:
            values = f" of the critic's values as they are (--lam {self.lam:g}; TPPO has auto)"
        return POLICY_CREDIT[self.group_baseline].format(name=self.algorithm_name, values=values)

    @property
    def resolved_gamma(self) -> float:
        """Discount per action; the algorithm's default if --gamma is not set."""
        if self.gamma is not None:
            return self.gamma
        return 1.0 if self.algorithm_name == "GRPO" else 0.99

    @property
    def discount(self) -> float:
        """Discount, the former name of `resolved_gamma`."""
        text = "TrainConfig.discount is now resolved_gamma; the former name goes with version 0.5"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self.resolved_gamma

    @property
    def episodes_per_task(self) -> int:
        """Number of episodes per task in one update: --group_size, or the algorithm's own."""
        if self.group_size is not None:
            return self.group_size
        return 8 if self.algorithm_name == "GRPO" else 1

    @property
    def has_supervised_stage(self) -> bool:
        """Whether training has a supervised stage, on demonstrations, before the updates."""
        return self.sft_tasks is not None or self.sft_episodes is not None

    @property
    def critic_shape(self) -> dict[str, Any]:
        """Shape of the critic's value head, as keywords of an ActorCritic."""
        number, low, width = self.value_bins, self.value_low, self.value_high - self.value_low
        return {
            "critic_head": self.critic_head,
            "critic_hidden": self.critic_hidden,
            "critic_layers": self.critic_layers,
            "bin_centres": [low + width * bin_ / (number - 1) for bin_ in range(number)],
        }

    @property
    def detaches_critic(self) -> bool:
        """Whether the critic is detached: the value loss trains it alone, not the backbone."""
        return self.critic_detach or self.permute_advantages

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return the settings from a preset, with changes."""
        if name not in PRESETS:
            raise SettingError(f"--preset: got {name!r}, expected one of {', '.join(PRESETS)}")
        return cls(**{**PRESETS[name], "preset": name, **changes})


def resolve_device(name: str) -> torch.device:
    """Resolve the name of --device to a torch device.

    SettingError where this machine has none of that kind.
    """
    import torch

    available = ["cuda"] * torch.cuda.is_available() + ["mps"] * torch.backends.mps.is_available()
    available.append("cpu")
    name = available[0] if name == "auto" else name
    if name not in available:
        raise SettingError(
            f'--device: got "{name}", but torch {torch.__version__} finds only '
            f"{', '.join(available)} here; or use auto"
        )
    return torch.device(name)
