"""The critic's value head, one for all or one for each role of a team, and its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.policy.lora import CRITIC, Adapters

VALUE_HEAD_FILE = "value_head.safetensors"
CRITIC_MODEL_FILE = "critic_model.safetensors"
EXPORTED_VALUE_HEAD = f"value_head/{VALUE_HEAD_FILE}"
"""Where an exported model has it: servers take every .safetensors beside config.json for weights.
"""


def find_value_head_file(folder: Path) -> Path | None:
    """Find the file of a value head in a model folder; None where it has none."""
    files = (folder / VALUE_HEAD_FILE, folder / EXPORTED_VALUE_HEAD)
    return next((file for file in files if file.is_file()), None)


def has_value_head_to_load(folder: Path, value_head: ValueHead) -> bool:
    """Whether a model folder has a value head to load into this one.

    One of another shape that has learned nothing is left: that of supervised fine-tuning alone.
    """
    from safetensors.torch import load_file

    if (file := find_value_head_file(folder)) is None:
        return False
    saved, own = load_file(file), value_head.state_dict()
    if {it: saved[it].shape for it in saved} == {it: own[it].shape for it in own}:
        return True
    outputs = [weight for name, weight in saved.items() if name.split(".")[-2:-1] == ["out"]]
    return not outputs or any(bool(weight.any()) for weight in outputs)


class ValueHead(nn.Module):
    """Value head: maps hidden states (..., H) to values (...).

    The output layer starts at 0, so the first advantages equal the returns. With the centres of
    bins it classifies returns, and a value is the mean of their distribution.
    """

    centres: Tensor  # (K,) of the bins; empty without

    def __init__(
        self,
        hidden_size: int,
        *,
        kind: str = "mlp",
        width: int = 128,
        bin_centres: Sequence[float] = (),
    ) -> None:
        super().__init__()
        if kind not in ("linear", "mlp"):
            raise ValueError(f'value head: got kind "{kind}", expected "linear" or "mlp"')
        self.num_features = hidden_size
        self.hidden = nn.Linear(hidden_size, width) if kind == "mlp" else None
        self.out = nn.Linear(
            hidden_size if self.hidden is None else width, max(1, len(bin_centres))
        )
        self.register_buffer("centres", torch.tensor(bin_centres), persistent=False)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Forward pass: the values (...) of hidden states (..., H)."""
        return self.values(self.scores(hidden_states))

    def scores(self, hidden_states: Tensor) -> Tensor:
        """Return the scores of the output layer (..., K): the value, or a logit for each bin."""
        features = hidden_states.float()
        if self.hidden is not None:
            features = torch.tanh(self.hidden(features))
        scores: Tensor = self.out(features)
        return scores

    def values(self, scores: Tensor) -> Tensor:
        """Return the values (...) of scores (..., K)."""
        if scores.shape[-1] == 1:
            return scores.squeeze(-1)
        values: Tensor = scores.softmax(-1) @ self.centres
        return values

    def head_of_role(self, role: str) -> ValueHead:
        """Return the head of a role: this head for all roles."""
        return self

    def load(self, path: Path) -> None:
        """Load the weights from a file; ValueError where their shapes differ."""
        from safetensors.torch import load_file

        self._load(load_file(path), path)

    def _load(self, saved: dict[str, Tensor], path: Path) -> None:
        expected = {name: tuple(weight.shape) for name, weight in self.state_dict().items()}
        found = {name: tuple(weight.shape) for name, weight in saved.items()}
        if found.keys() != expected.keys() and any(name.startswith("heads.") for name in found):
            raise ValueError(
                f"{path}: it holds value heads of other roles than this run's; give --team_critic "
                "per_role and their team, or remove the file to start a fresh head"
            )
        if found != expected:
            raise ValueError(
                f"{path}: the saved value head has {found}, this run's has {expected}. Give the "
                "--critic_head, critic_hidden, --critic_layers and --value_bins it was trained "
                "with, or remove the file to start a fresh head."
            )
        self.load_state_dict(saved)


class RoleValueHeads(ValueHead):
    """Role value heads: one for each role of a team."""

    def __init__(
        self, hidden_size: int, roles: Sequence[str], *, kind: str = "mlp", **shape: Any
    ) -> None:
        nn.Module.__init__(self)  # without a head of its own
        self.num_features = hidden_size
        heads = {_key(role): ValueHead(hidden_size, kind=kind, **shape) for role in roles}
        self.heads = nn.ModuleDict(heads)

    def head_of_role(self, role: str) -> ValueHead:
        """Return the head of a role; SettingError for a role that has none."""
        if _key(role) not in self.heads:
            raise SettingError(
                f'--team_critic per_role: the environment\'s info["role"] is "{role}", which its '
                "attribute roles does not have"
            )
        return cast("ValueHead", self.heads[_key(role)])

    def _load(self, saved: dict[str, Tensor], path: Path) -> None:
        """Load a head for each role; one that was trained for all becomes each role's."""
        if not any(name.startswith("heads.") for name in saved):
            saved = {f"heads.{key}.{name}": it for key in self.heads for name, it in saved.items()}
        super()._load(saved, path)


def make_value_head(
    hidden_size: int, roles: Sequence[str] = (), *, kind: str = "mlp", **shape: Any
) -> ValueHead:
    """Make a value head for all, or one for each of the roles."""
    if roles:
        return RoleValueHeads(hidden_size, roles, kind=kind, **shape)
    return ValueHead(hidden_size, kind=kind, **shape)


def _key(role: str) -> str:
    """Return the key of a role's head: torch reserves some names for attributes."""
    return f"role_{role}"


def save_critic(folder: Path, value_head: ValueHead, critic_model: nn.Module | None) -> None:
    """Save the critic in a folder: its value head, and its model if it has one."""
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
