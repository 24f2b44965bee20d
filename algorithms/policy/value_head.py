"""The critic's value head."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

VALUE_HEAD_FILE = "value_head.safetensors"


class ValueHead(nn.Module):
    """Value head: maps hidden states (..., H) to values (...).

    The output layer starts at 0, so the first advantages equal the returns.
    """

    def __init__(self, hidden_size: int, *, kind: str = "mlp", width: int = 128) -> None:
        super().__init__()
        if kind not in ("linear", "mlp"):
            raise ValueError(f'value head: got kind "{kind}", expected "linear" or "mlp"')
        self.hidden = nn.Linear(hidden_size, width) if kind == "mlp" else None
        self.out = nn.Linear(hidden_size if self.hidden is None else width, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, hidden_states: Tensor) -> Tensor:
        features = hidden_states.float()
        if self.hidden is not None:
            features = torch.tanh(self.hidden(features))
        values: Tensor = self.out(features).squeeze(-1)
        return values

    def load(self, path: Path) -> None:
        """Load the weights of a file; ValueError where their shapes differ."""
        from safetensors.torch import load_file

        saved = load_file(path)
        expected = {name: tuple(weight.shape) for name, weight in self.state_dict().items()}
        found = {name: tuple(weight.shape) for name, weight in saved.items()}
        if found != expected:
            raise ValueError(
                f"{path}: the saved value head has {found}, this run's has {expected}. Give the "
                "--critic_head and "
                "--critic_hidden it was trained with, or remove the file to start a fresh head."
            )
        self.load_state_dict(saved)
