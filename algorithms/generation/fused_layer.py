"""Weights of one decoder layer for the fused forward pass: linear layers and RMS norms."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fctncalling.algorithms.generation.fused_linear import FusedLinear


class FusedNorm:
    """RMS norm with the weights of a module."""

    def __init__(
        self, module: Any, dtype: torch.dtype, following: FusedLinear | None = None
    ) -> None:
        """following: the only layer that takes the output.

        If fused (fp32, CPU), the norm's weight is folded into it.
        """
        self._weight: Tensor = module.weight.detach().to(dtype)
        self._epsilon = float(module.variance_epsilon)
        plain = self._weight.device.type == "cpu" and self._weight.dtype == torch.float32
        self._epsilon_tensor = torch.tensor(self._epsilon) if plain else None
        self._weight_folded = (
            plain and following is not None and following.fused and following.dtype == torch.float32
        )
        if self._weight_folded and following is not None:
            following.fold_scale(self._weight)

    def __call__(self, x: Tensor) -> Tensor:
        if self._epsilon_tensor is None:
            # Two operations, for in half precision transformers' own forward rounds twice.
            return F.rms_norm(x, self._weight.shape, None, self._epsilon) * self._weight
        # There `F.rms_norm` is eight operations; these are five, and as exact.
        length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = torch.addcmul(self._epsilon_tensor, length, length, value=1 / x.shape[-1]).rsqrt_()
        normal = x * scale
        return normal if self._weight_folded else normal.mul_(self._weight)


class FusedLayer:
    """Fused weights of a decoder layer."""

    def __init__(
        self, layer: Any, fused: bool, dtype: torch.dtype, residual_dtype: torch.dtype
    ) -> None:
        """dtype: of products; residual_dtype: of norms and of the residual stream."""
        attention, forward = layer.self_attn, layer.mlp
        self.qkv = FusedLinear((attention.q_proj, attention.k_proj, attention.v_proj), fused, dtype)
        self.output = FusedLinear((attention.o_proj,), fused, dtype)
        self.inner = FusedLinear((forward.gate_proj, forward.up_proj), fused, dtype)
        self.down = FusedLinear((forward.down_proj,), fused, dtype)
        self.norm = FusedNorm(layer.input_layernorm, residual_dtype, self.qkv)
        self.second_norm = FusedNorm(layer.post_attention_layernorm, residual_dtype, self.inner)
        # (heads + kv heads, size): Qwen3's norm weights of query and key heads
        self.head_scales: Tensor | None = None
        self.head_epsilon = 0.0
        if hasattr(attention, "q_norm"):
            size, config = attention.head_dim, attention.config
            scales = [attention.q_norm.weight.expand(config.num_attention_heads, size)]
            scales.append(attention.k_norm.weight.expand(config.num_key_value_heads, size))
            self.head_scales = torch.cat(scales).detach().to(residual_dtype)
            self.head_epsilon = attention.q_norm.variance_epsilon

    def interleave_rope(self, num_rotated: int, size: int) -> None:
        """Permute q's and k's outputs so that dimensions i and i + size/2 are adjacent."""
        pairs = torch.arange(size).view(2, -1).t().flatten()
        heads = torch.arange(num_rotated * size).view(-1, size)
        self.qkv.permute_outputs(heads[:, pairs].flatten())
        if self.head_scales is not None:
            self.head_scales = self.head_scales[:, pairs]

    def feed_forward(self, x: Tensor) -> Tensor:
        gate, up = self.inner(self.second_norm(x)).chunk(2, -1)
        return self.down.add_to(x, F.silu(gate) * up)
