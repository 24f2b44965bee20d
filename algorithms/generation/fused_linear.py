"""Fused linear layers, active LoRA merged."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class FusedLinear:
    """Fused linear: one or several layers on one input, with concatenated outputs.

    Fused: the weights are copied into one matrix (H, sum of widths) in the compute dtype,
    transposed because products with few rows are faster so. Active LoRA adapters are merged into it
    in fp32. In half precision, where the small update of a young adapter would be rounded away,
    they stay two products of their own, as in training. Not fused (large models, other kinds of
    layers): the modules themselves are called.
    """

    def __init__(
        self, modules: Sequence[nn.Module], fused: bool, dtype: torch.dtype | None = None
    ) -> None:
        """dtype: compute dtype; None: that of the weights.

        Weights of another dtype are copied, fused or not.
        """
        self._modules = modules
        self._weight = None
        self._bias = None
        self._lora_a: Tensor | None = None  # (H, ranks) of adapters that are kept apart
        self._lora_b: Tensor | None = None  # (ranks, sum of widths)
        own = _base(modules[0]).weight.dtype
        self.dtype: torch.dtype = dtype or own
        copied = fused or own != self.dtype
        parts = [_linear_weights(it, self.dtype) if copied else None for it in modules]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return
        self._weight = torch.cat([part.weight for part in known]).t().contiguous()
        biases: list[Any] = [_base(module).bias for module in modules]
        if any(bias is not None for bias in biases):
            missing = [part.weight.new_zeros(len(part.weight)) for part in known]
            self._bias = torch.cat(
                [m if b is None else b.detach().to(m) for b, m in zip(biases, missing, strict=True)]
            )
        if any(part.lora_a for part in known):
            self._lora_a = torch.cat([it for part in known for it in part.lora_a]).t().contiguous()
            outer = [
                torch.cat([part.weight.new_zeros(len(part.weight), 0), *part.lora_b], 1)
                for part in known
            ]
            diagonal: Any = torch.block_diag  # whose author left it untyped
            self._lora_b = diagonal(*outer).t().contiguous()

    @property
    def is_fused(self) -> bool:
        """Whether the layer is fused: its weights are a copy, which can be changed."""
        return self._weight is not None

    def fold_scale(self, factors: Tensor) -> None:
        """Fold a scale of the inputs (H,) into the fused weight, if there is one."""
        if self._weight is not None:
            self._weight *= factors.unsqueeze(-1)

    def permute_outputs(self, order: Tensor) -> None:
        """Permute the first outputs of a fused weight: output i becomes what `order[i]` was."""
        if self._weight is not None:
            self._weight[:, : len(order)] = self._weight[:, order]
        if self._bias is not None:
            self._bias[: len(order)] = self._bias[order]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs (N, sum of widths) for x (N, H), in the compute dtype."""
        if x.dtype != self.dtype:
            x = x.to(self.dtype)
        if self._weight is None:
            return self._by_modules(x)
        y = (
            torch.mm(x, self._weight)
            if self._bias is None
            else torch.addmm(self._bias, x, self._weight)
        )
        if self._lora_a is not None and self._lora_b is not None:
            y = y + torch.mm(torch.mm(x, self._lora_a), self._lora_b)
        return y

    def add_to_residual(self, residual: Tensor, x: Tensor) -> Tensor:
        """Add the outputs to a residual, in its dtype."""
        plain = self._bias is None and self._lora_a is None
        if self._weight is not None and plain and residual.dtype == self.dtype == x.dtype:
            return torch.addmm(residual, x, self._weight)
        return residual + self(x)

    def _by_modules(self, x: Tensor) -> Tensor:
        whole = self.dtype == torch.float32 or all(type(it) is nn.Linear for it in self._modules)
        with contextlib.nullcontext() if whole else torch.autocast(x.device.type, dtype=self.dtype):
            outputs = [module(x) for module in self._modules]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)


class _LinearWeights(NamedTuple):
    """A linear layer's weight (out, H) and its LoRA factors, (rank, H) and (out, rank)."""

    weight: Tensor
    lora_a: Sequence[Tensor] = ()
    lora_b: Sequence[Tensor] = ()


def _base(module: Any) -> Any:
    """Return the linear layer inside a LoRA layer, or the layer itself."""
    return getattr(module, "base_layer", module)


def _linear_weights(module: Any, dtype: torch.dtype) -> _LinearWeights | None:
    """Return a linear layer's effective weights, active LoRA included; None for other layers."""
    base = _base(module)
    if type(base) is not nn.Linear:
        return None
    if base is not module and module.disable_adapters and module.merged:
        return None  # its own forward takes the adapters out again
    weight: Tensor = base.weight.detach().to(dtype)
    if base is module or module.disable_adapters or module.merged:
        return _LinearWeights(weight)
    if not hasattr(module, "lora_A"):
        return None  # another kind of adapter
    names = [name for name in module.active_adapters if name in module.lora_A]
    if any(name in module.lora_variant or module.lora_bias.get(name) for name in names):
        return None
    if dtype == torch.float32:
        for name in names:
            weight = weight + module.get_delta_weight(name).detach().to(weight)
        return _LinearWeights(weight)
    inner = [module.lora_A[name].weight.detach().to(dtype) for name in names]
    outer = [module.lora_B[name].weight.detach() * module.scaling[name] for name in names]
    return _LinearWeights(weight, inner, [it.to(dtype) for it in outer])
