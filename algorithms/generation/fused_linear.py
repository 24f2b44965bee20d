"""Fused linear layers, active LoRA merged."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

MAX_COPIED = 2**18  # numbers; larger weights are read where they lie on a CPU
FEW_ROWS = 2  # of an input, for which even a large weight is better read from a copy


class FusedLinear:
    """Fused linear: one or several layers on one input, with concatenated outputs.

    Fused: the weights are copied into one matrix (H, sum of widths) in the compute dtype,
    transposed because products with few rows are faster so. Large weights on a CPU are copied only
    once there is an input of few rows: a prefill takes less time than their copy. Active LoRA
    adapters are merged in fp32. In half precision, where the small update of a young adapter would
    be rounded away, they stay two products of their own, as in training. Not fused (large models,
    other kinds of layers): the modules themselves are called.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        fused: bool,
        dtype: torch.dtype | None = None,
        *,
        scale: Tensor | None = None,
        order: Tensor | None = None,
    ) -> None:
        """dtype: compute dtype; None: that of the weights, which are copied if it is another.

        What goes into a copy alone: scale, factors (H,) of the inputs; order, which permutes the
        first outputs: output i becomes what `order[i]` was.
        """
        self._modules = modules
        self._weight: Tensor | None = None  # the copy
        self._parts: list[Tensor] = []  # weights (width, H), where there is no copy
        self._bias: Tensor | None = None
        self._lora_a: Tensor | None = None  # (H, ranks) of adapters that are kept apart
        self._lora_b: Tensor | None = None  # (ranks, sum of widths)
        own = _base(modules[0]).weight.dtype
        self.dtype: torch.dtype = dtype or own
        copied = fused or own != self.dtype
        parts = [_linear_weights(it, self.dtype) if copied else None for it in modules]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return
        weights = [part.weight for part in known]
        is_large = sum(weight.numel() for weight in weights) > MAX_COPIED
        if is_large and weights[0].device.type == "cpu":
            self._parts, order = weights, None
        else:
            weight = _permuted(torch.cat(weights), order)
            self._weight = (weight if scale is None else weight * scale).t().contiguous()
        biases: list[Any] = [_base(module).bias for module in modules]
        if any(bias is not None for bias in biases):
            missing = [weight.new_zeros(len(weight)) for weight in weights]
            filled = [
                m if b is None else b.detach().to(m) for b, m in zip(biases, missing, strict=True)
            ]
            self._bias = _permuted(torch.cat(filled), order)
        if any(part.lora_a for part in known):
            self._lora_a = torch.cat([it for part in known for it in part.lora_a]).t().contiguous()
            outer = [
                torch.cat([part.weight.new_zeros(len(part.weight), 0), *part.lora_b], 1)
                for part in known
            ]
            diagonal: Any = torch.block_diag  # whose author left it untyped
            self._lora_b = diagonal(*outer).t().contiguous()

    @property
    def is_copied(self) -> bool:
        """Whether the weights are copied, with scale and order."""
        return self._weight is not None

    @cached_property
    def _transposed(self) -> Tensor:
        """Weights (H, sum of widths); those of a single layer as a view."""
        if self._weight is not None:
            return self._weight
        if len(self._parts) == 1:
            return self._parts[0].t()
        return torch.cat(self._parts).t().contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs (N, sum of widths) for x (N, H), in the compute dtype."""
        if x.dtype != self.dtype:
            x = x.to(self.dtype)
        if self._weight is None and not self._parts:
            return self._by_modules(x)
        if len(self._parts) > 1 and len(x) > FEW_ROWS:
            widths = [len(part) for part in self._parts]
            y = x.new_empty(len(x), sum(widths))
            for part, place in zip(self._parts, torch.split(y, widths, 1), strict=True):
                torch.mm(x, part.t(), out=place)
            y = y if self._bias is None else y.add_(self._bias)
        elif self._bias is None:
            y = torch.mm(x, self._transposed)
        else:
            y = torch.addmm(self._bias, x, self._transposed)
        if self._lora_a is not None and self._lora_b is not None:
            y = y + torch.mm(torch.mm(x, self._lora_a), self._lora_b)
        return y

    def add_to_residual(self, residual: Tensor, x: Tensor) -> Tensor:
        """Add the outputs to a residual, in its dtype."""
        is_plain = self._bias is None and self._lora_a is None
        is_known = self._weight is not None or len(self._parts) == 1
        if is_known and is_plain and residual.dtype == self.dtype == x.dtype:
            return torch.addmm(residual, x, self._transposed)
        return residual + self(x)

    def _by_modules(self, x: Tensor) -> Tensor:
        whole = self.dtype == torch.float32 or all(type(it) is nn.Linear for it in self._modules)
        with contextlib.nullcontext() if whole else torch.autocast(x.device.type, dtype=self.dtype):
            outputs = [module(x) for module in self._modules]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)


def _permuted(outputs: Tensor, order: Tensor | None) -> Tensor:
    return outputs if order is None else torch.cat((outputs[order], outputs[len(order) :]))


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
