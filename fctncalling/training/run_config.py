"""Default model and flags of the presets."""

from __future__ import annotations

from typing import Any

JOB_MODELS = {"calculator": "calculator", "python_math": "python_math"}
"""`--env_name` -> the embedded model that a run without --model_name_or_path starts from."""

_SHORT: dict[str, Any] = {
    "num_updates": 10,
    "eval_interval": 5,
    "save_interval": 0,
    "max_episode_tokens": 512,
    "lr": 3e-4,
    "log_episodes_interval": 1,
}
JOB_SETTINGS: dict[str, dict[str, Any]] = {
    "calculator": {"experiment_name": "calculator", **_SHORT},
    "python_math": {"experiment_name": "python_math", **_SHORT},
}
"""`--env_name` -> defaults of its own, by flag; flags that are given win."""
