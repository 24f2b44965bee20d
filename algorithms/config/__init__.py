"""Settings of a training run: one dataclass, its flags, presets and checks."""

from fctncalling.algorithms.config.config_fields import SettingError
from fctncalling.algorithms.config.device import resolve_device
from fctncalling.algorithms.config.train_config import TrainConfig, add_arguments

__all__ = ["SettingError", "TrainConfig", "add_arguments", "resolve_device"]
