"""Linear layers on the same input as one, LoRA adapters in use included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Projection:
    """One or several linear layers, whose outputs lie side by side.

    Fused, their weights are copied into one matrix, with what adapters in use add to them, and transposed: products
    with few rows are quicker so. Else (large models, layers of any other kind) the modules themselves are called.
    """

    def __init__(self, modules: Sequence[nn.Module], fused: bool) -> None:
        self._modules, self._weight, self._bias = modules, None, None
        weights = [_weight(module) for module in modules] if fused else [None]
        if all(weight is not None for weight in weights):
            self._weight = (
                torch.cat([weight for weight in weights if weight is not None]).t().contiguous()
            )
            biases: list[Any] = [_base(module).bias for module in modules]
            if any(bias is not None for bias in biases):
                missing = [
                    weight.new_zeros(len(weight)) for weight in weights if weight is not None
                ]
                self._bias = torch.cat(
                    [m if b is None else b.detach() for b, m in zip(biases, missing, strict=True)]
                )

    @property
    def fused(self) -> bool:
        """Whether the weights are a copy, which can be changed."""
        return self._weight is not None

    def take_factors(self, factors: Tensor) -> None:
        """Let a fused weight be what it is after multiplying the inputs (N, H) by factors (H,); else do nothing."""
        if self._weight is not None:
            self._weight *= factors.unsqueeze(-1)

    def reorder(self, order: Tensor) -> None:
        """Let the first outputs of a fused weight come in another order: i is what `order[i]` was; else do nothing."""
        if self._weight is not None:
            self._weight[:, : len(order)] = self._weight[:, order]
        if self._bias is not None:
            self._bias[: len(order)] = self._bias[order]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs (N, sum of widths) for x (N, H)."""
        if self._weight is not None:
            return (
                torch.mm(x, self._weight)
                if self._bias is None
                else torch.addmm(self._bias, x, self._weight)
            )
        outputs = [module(x) for module in self._modules]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)

    def onto(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return the outputs added to a residual stream."""
        if self._weight is not None and self._bias is None:
            return torch.addmm(residual, x, self._weight)
        return residual + self(x)


def _base(module: Any) -> Any:
    """Return the layer that an adapter wraps, or the layer."""
    return getattr(module, "base_layer", module)


def _weight(module: Any) -> Tensor | None:
    """Return a linear layer's weight as it works now; None where only the module itself can tell."""
    base = _base(module)
    if type(base) is not nn.Linear:
        return None
    if base is not module and module.disable_adapters and module.merged:
        return None  # its own forward takes the adapters out again
    weight: Tensor = base.weight.detach()
    if base is module or module.disable_adapters or module.merged:
        return weight
    if not hasattr(module, "lora_A"):
        return None  # another kind of adapter
    for name in module.active_adapters:
        if name in module.lora_A:
            if name in module.lora_variant or module.lora_bias.get(name):
                return None
            weight = weight + module.get_delta_weight(name).detach().to(weight)
    return weight
