"""Fused linear layers, active LoRA merged."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class FusedLinear:
    """One or several linear layers, whose outputs lie side by side.

    Fused, their weights are copied into one matrix, in the precision that is computed in, and
    transposed: products with few rows are quicker so. What adapters in use add is part of it in
    fp32; in half precision, which would round away what a young adapter adds, they are two products
    beside it, as in training. Else (large models, layers of any other kind) the modules themselves
    are called.
    """

    def __init__(
        self, modules: Sequence[nn.Module], fused: bool, dtype: torch.dtype | None = None
    ) -> None:
        """dtype: what is computed in; None: the weights' own. Weights of another are copied, fused
        or not.
        """
        self._modules = modules
        self._weight = None
        self._bias = None
        self._inner: Tensor | None = None  # (H, ranks) of adapters that are kept apart
        self._outer: Tensor | None = None  # (ranks, sum of widths)
        own = _base(modules[0]).weight.dtype
        self.dtype: torch.dtype = dtype or own
        parts = [_parts(it, self.dtype) for it in modules] if fused or own != self.dtype else [None]
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
        if any(part.inner for part in known):
            self._inner = torch.cat([it for part in known for it in part.inner]).t().contiguous()
            outer = [
                torch.cat([part.weight.new_zeros(len(part.weight), 0), *part.outer], 1)
                for part in known
            ]
            diagonal: Any = torch.block_diag  # whose author left it untyped
            self._outer = diagonal(*outer).t().contiguous()

    @property
    def fused(self) -> bool:
        """Whether the weights are a copy, which can be changed."""
        return self._weight is not None

    def fold_scale(self, factors: Tensor) -> None:
        """Let a fused weight be what it is after multiplying the inputs (N, H) by factors (H,);
        else do nothing.
        """
        if self._weight is not None:
            self._weight *= factors.unsqueeze(-1)

    def permute_outputs(self, order: Tensor) -> None:
        """Let the first outputs of a fused weight come in another order: i is what `order[i]` was;
        else do nothing.
        """
        if self._weight is not None:
            self._weight[:, : len(order)] = self._weight[:, order]
        if self._bias is not None:
            self._bias[: len(order)] = self._bias[order]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs (N, sum of widths) for x (N, H),
        in the precision that is computed in.
        """
        if self._weight is None:
            return self._by_modules(x)
        if x.dtype != self.dtype:
            x = x.to(self.dtype)
        y = (
            torch.mm(x, self._weight)
            if self._bias is None
            else torch.addmm(self._bias, x, self._weight)
        )
        if self._inner is not None and self._outer is not None:
            y = y + torch.mm(torch.mm(x, self._inner), self._outer)
        return y

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return the outputs added to a residual stream, in the stream's precision."""
        plain = self._bias is None and self._inner is None
        if self._weight is not None and plain and residual.dtype == self.dtype == x.dtype:
            return torch.addmm(residual, x, self._weight)
        return residual + self(x)

    def _by_modules(self, x: Tensor) -> Tensor:
        whole = self.dtype == torch.float32 or all(type(it) is nn.Linear for it in self._modules)
        with contextlib.nullcontext() if whole else torch.autocast(x.device.type, dtype=self.dtype):
            outputs = [module(x) for module in self._modules]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)


class _Parts(NamedTuple):
    """A linear layer's weight (out, H), and those of adapters beside it: (rank, H) and (out, rank)
    each.
    """

    weight: Tensor
    inner: Sequence[Tensor] = ()
    outer: Sequence[Tensor] = ()


def _base(module: Any) -> Any:
    """Return the layer that an adapter wraps, or the layer."""
    return getattr(module, "base_layer", module)


def _parts(module: Any, dtype: torch.dtype) -> _Parts | None:
    """Return a linear layer's weights as they work now;
    None where only the module itself can tell.
    """
    base = _base(module)
    if type(base) is not nn.Linear:
        return None
    if base is not module and module.disable_adapters and module.merged:
        return None  # its own forward takes the adapters out again
    weight: Tensor = base.weight.detach().to(dtype)
    if base is module or module.disable_adapters or module.merged:
        return _Parts(weight)
    if not hasattr(module, "lora_A"):
        return None  # another kind of adapter
    names = [name for name in module.active_adapters if name in module.lora_A]
    if any(name in module.lora_variant or module.lora_bias.get(name) for name in names):
        return None
    if dtype == torch.float32:
        for name in names:
            weight = weight + module.get_delta_weight(name).detach().to(weight)
        return _Parts(weight)
    inner = [module.lora_A[name].weight.detach().to(dtype) for name in names]
    outer = [module.lora_B[name].weight.detach() * module.scaling[name] for name in names]
    return _Parts(weight, inner, [it.to(dtype) for it in outer])
