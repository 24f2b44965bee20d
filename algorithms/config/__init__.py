"""Settings of a training run: one dataclass, its flags, presets and checks."""

from fctncalling.algorithms.config.config_fields import SettingError, add_arguments
from fctncalling.algorithms.config.train_config import TrainConfig, resolve_device

__all__ = ["SettingError", "TrainConfig", "add_arguments", "resolve_device"]
