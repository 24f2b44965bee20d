"""TrainConfig: every setting of a training run."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from fctncalling.algorithms.config import config_fields
from fctncalling.algorithms.config.config_fields import SettingError, check_ranges, take_synonyms
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.algorithms.config.setting_conflicts import check_combinations
from fctncalling.algorithms.config.settings.credit import CreditSettings
from fctncalling.algorithms.config.settings.critic import CriticSettings
from fctncalling.algorithms.config.settings.data_and_model import DataAndModelSettings
from fctncalling.algorithms.config.settings.evaluation import EvaluationSettings
from fctncalling.algorithms.config.settings.loss import LossSettings
from fctncalling.algorithms.config.settings.optimiser import OptimiserSettings
from fctncalling.algorithms.config.settings.rollout import RolloutSettings
from fctncalling.algorithms.config.settings.run import RunSettings
from fctncalling.algorithms.config.settings.single_algorithms import SingleAlgorithmSettings
from fctncalling.algorithms.config.settings.supervised import SupervisedSettings
from fctncalling.algorithms.config.settings.task_sampling import TaskSamplingSettings


@dataclass
class TrainConfig(
    CriticSettings,
    LossSettings,
    OptimiserSettings,
    SingleAlgorithmSettings,
    CreditSettings,
    TaskSamplingSettings,
    EvaluationSettings,
    RolloutSettings,
    SupervisedSettings,
    DataAndModelSettings,
    RunSettings,
):
    """Settings of a training run. A bad value raises SettingError naming flag, value and range.

    The bases stand in reverse: a dataclass takes the fields of its last base first, and their order
    is that of the flags in --help and of config.json.
    """

    def __post_init__(self) -> None:
        take_synonyms(self)
        check_ranges(self)
        check_combinations(self)

    @property
    def frozen(self) -> tuple[str, ...]:
        """The roles that learn nothing."""
        return tuple(self.frozen_roles.split(",")) if self.frozen_roles else ()

    @property
    def roles_apart(self) -> bool:
        """Whether the roles of a team have weights of their own."""
        return self.role_adapters or self.team_critic == "per_role"

    def critic_learns_alone(self, update: int) -> bool:
        """Whether the language model stands still in an update, counted from 0."""
        return update < self.critic_warmup_updates

    @property
    def discount(self) -> float:
        """The discount from one action to the next.

        --gamma, or what the algorithm has where it is left open.
        """
        if self.gamma is not None:
            return self.gamma
        return 1.0 if self.algorithm_name == "GRPO" else 0.99

    @property
    def episodes_per_task(self) -> int:
        """Episodes of each task in one update: --group_size, or the algorithm's own."""
        if self.group_size is not None:
            return self.group_size
        return 8 if self.algorithm_name == "GRPO" else 1

    @property
    def has_supervised_stage(self) -> bool:
        """Whether demonstrations are learned before reinforcement learning."""
        return self.sft_tasks is not None or self.sft_episodes is not None

    @property
    def detaches_critic(self) -> bool:
        """Whether the value loss trains the critic alone.

        Where asked for, and in the control experiment.
        """
        return self.critic_detach or self.permute_advantages

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return the settings of a --preset, with changes."""
        if name not in PRESETS:
            raise SettingError(f"--preset: got {name!r}, expected one of {', '.join(PRESETS)}")
        return cls(**{**PRESETS[name], "preset": name, **changes})

    @classmethod
    def from_args(cls, namespace: argparse.Namespace) -> Self:
        """Return the settings of parsed arguments.

        Arguments that are no field of ours are left to others.
        """
        return cls(
            **{field.name: getattr(namespace, field.name) for field in dataclasses.fields(cls)}
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag to the parser for every field of TrainConfig."""
    config_fields.add_arguments(parser, TrainConfig)
