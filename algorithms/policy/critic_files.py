"""Files of a critic in a model folder: value head, and the critic's own model or adapter."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from fctncalling.algorithms.policy.lora import CRITIC, Adapters
from fctncalling.algorithms.policy.value_head import (
    VALUE_HEAD_FILE,
    ValueHead,
    find_value_head_file,
)

CRITIC_MODEL_FILE = "critic_model.safetensors"


def save_critic(folder: Path, value_head: ValueHead, critic_model: nn.Module | None) -> None:
    """Save the critic in a folder: its value head, and its own model if it has one."""
    _save_weights(value_head, folder / VALUE_HEAD_FILE)
    if critic_model is not None:
        _save_weights(critic_model, folder / CRITIC_MODEL_FILE)


def load_critic(
    folder: Path,
    value_head: ValueHead,
    critic_model: nn.Module | None,
    adapters: Adapters | None,
) -> None:
    """Load a critic that was saved: value head, model and adapter, where this has them.

    ValueError where the folder has none, or one of another kind or shape.
    """
    head_file, model_file = find_value_head_file(folder), folder / CRITIC_MODEL_FILE
    if head_file is None:
        raise ValueError(f"{folder} holds no critic ({VALUE_HEAD_FILE} is missing)")
    if critic_model is not None:
        if not model_file.exists():
            raise ValueError(
                f"{folder} holds no critic with a model of its own ({CRITIC_MODEL_FILE} is missing)"
            )
        from safetensors.torch import load_file

        critic_model.load_state_dict(load_file(model_file))
    if adapters is not None and CRITIC in adapters.names:
        adapters.load(folder, [CRITIC])
    value_head.load(head_file)


def _save_weights(module: nn.Module, path: Path) -> None:
    from safetensors.torch import save_file

    save_file({name: weight.contiguous() for name, weight in module.state_dict().items()}, path)
