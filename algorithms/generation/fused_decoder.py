"""Fused inference forward pass for Llama, Qwen2 and Qwen3.

On small models, and wherever one token at a time is decoded, the number of operations costs more
than their size. Therefore:

- Linear layers on the same input are one product: (q, k, v) and (gate, up). Large weights on a CPU,
  where a copy takes longer than it saves, are read where they lie (see fused_linear).
- The N new tokens of all rows form one tensor (N, H), without padding, everywhere but in attention.
- Keys are cached transposed in one buffer for all rows (see kv_cache).
- RMS norm weights are folded into the copy of the layer that follows (fp32 on a CPU).
- In the last layer only the last token of each row is computed beyond its keys and values.

What must hold: logits equal those of the model's own forward up to rounding (in half precision the
same roundings in the same places), since training runs that forward and compares log-probs.

RoPE rotates dimensions i and i + size/2 of each query and key head by one angle. Where weights are
copied anyway (fp32), the outputs of q and k are permuted to put each pair side by side: a
head (size,) is then size/2 complex numbers and rotation one complex product in place. Scores do not
change: queries and keys are permuted alike. Values are not permuted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fctncalling.algorithms.generation.decoder import Decoder
from fctncalling.algorithms.generation.fused_linear import FusedLinear
from fctncalling.algorithms.generation.kv_cache import KVCache, PackedTokens, States
from fctncalling.algorithms.generation.prefix_cache import SharedPrefixKVCache
from fctncalling.algorithms.policy.precision import compute_dtypes, without_autocast


class FusedNorm:
    """Fused norm (RMS) with the weights of a module."""

    def __init__(self, module: Any, dtype: torch.dtype, *, is_folded: bool = False) -> None:
        """is_folded: whether the layer that takes the output has the norm's weight in its own."""
        self._weight: Tensor = module.weight.detach().to(dtype)
        self._epsilon = float(module.variance_epsilon)
        plain = self._weight.device.type == "cpu" and dtype == torch.float32
        self._epsilon_tensor = torch.tensor(self._epsilon) if plain else None
        self._is_folded = is_folded

    def __call__(self, x: Tensor) -> Tensor:
        if self._epsilon_tensor is None:
            # Two operations, for in half precision transformers' own forward rounds twice.
            return F.rms_norm(x, self._weight.shape, None, self._epsilon) * self._weight
        # There `F.rms_norm` is eight operations; these are five, and as exact.
        length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = torch.addcmul(self._epsilon_tensor, length, length, value=1 / x.shape[-1]).rsqrt_()
        normal = x * scale
        return normal if self._is_folded else normal.mul_(self._weight)


class FusedLayer:
    """Fused layer of a decoder: one with fused weights."""

    def __init__(
        self,
        layer: Any,
        fused: bool,
        dtype: torch.dtype,
        residual_dtype: torch.dtype,
        pairs: Tensor | None,
    ) -> None:
        """dtype: of products; residual_dtype: of norms and of the residual stream.

        pairs: order (size,) of a query or key head's outputs for RoPE, if weights are copied.
        """
        attention, forward = layer.self_attn, layer.mlp
        size, config = attention.head_dim, attention.config
        num_heads, num_kv_heads = config.num_attention_heads, config.num_key_value_heads
        order = None
        if pairs is not None:
            heads = torch.arange((num_heads + num_kv_heads) * size).view(-1, size)
            order = heads[:, pairs].flatten()
        folds = layer.input_layernorm.weight.device.type == "cpu" and dtype == torch.float32

        def after(
            norm: Any, modules: Sequence[Any], order: Tensor | None
        ) -> tuple[FusedNorm, FusedLinear]:
            scale = norm.weight.detach().to(residual_dtype) if folds else None
            linear = FusedLinear(modules, fused, dtype, scale=scale, order=order)
            return FusedNorm(norm, residual_dtype, is_folded=folds and linear.is_copied), linear

        queries = (attention.q_proj, attention.k_proj, attention.v_proj)
        self.norm, self.qkv = after(layer.input_layernorm, queries, order)
        inner = (forward.gate_proj, forward.up_proj)
        self.second_norm, self.inner = after(layer.post_attention_layernorm, inner, None)
        self.output = FusedLinear((attention.o_proj,), fused, dtype)
        self.down = FusedLinear((forward.down_proj,), fused, dtype)
        # (heads + kv heads, size): Qwen3's norm weights of query and key heads
        self.head_scales: Tensor | None = None
        self.head_epsilon = 0.0
        if hasattr(attention, "q_norm"):
            scales = [attention.q_norm.weight.expand(num_heads, size)]
            scales.append(attention.k_norm.weight.expand(num_kv_heads, size))
            self.head_scales = torch.cat(scales).detach().to(residual_dtype)
            self.head_epsilon = attention.q_norm.variance_epsilon
            if pairs is not None:
                self.head_scales = self.head_scales[:, pairs]

    def feed_forward(self, x: Tensor) -> Tensor:
        """Return the feed-forward output of the layer."""
        gate, up = self.inner(self.second_norm(x)).chunk(2, -1)
        return self.down.add_to_residual(x, F.silu(gate) * up)


MAX_FUSED_PARAMETERS = 2**30  # of a model: fused linear layers are copies of its weights
MAX_HEAD_PARAMETERS = 2**24  # of an output layer: copying a larger one gains little


class FusedDecoder(Decoder[SharedPrefixKVCache]):
    """Decoder with fused weights, for inference; they are copied at the first pass that needs it.

    Dtypes are those of `compute_dtypes(model)`. Weights are cast once, and autocast is off: it
    would give an in-place operation a cast copy to work on, and the result would be lost.
    """

    def __init__(self, model: Any, num_rows: int, *, max_tokens: int = 4096) -> None:
        super().__init__(max_tokens)
        config, decoder = model.config, model.model
        self.head_size = int(
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.num_heads = int(config.num_attention_heads)
        self.num_kv_heads = int(config.num_key_value_heads)
        self._model = model
        self._rotary = decoder.rotary_emb
        self._fused = (
            sum(parameter.numel() for parameter in model.parameters()) <= MAX_FUSED_PARAMETERS
        )
        self._weight: Tensor = decoder.embed_tokens.weight
        dtype, head_dtype = compute_dtypes(model)
        self._dtype = dtype
        self._head_dtype = head_dtype
        # Between layers fp32 stays fp32, as under autocast.
        self._residual_dtype = self._weight.dtype if self._dtype != torch.float32 else torch.float32
        self.cache = SharedPrefixKVCache(
            len(decoder.layers),
            num_rows,
            self.num_kv_heads,
            self.head_size,
            self._weight.new_empty(0, dtype=self._dtype),
        )
        self._norm = FusedNorm(decoder.norm, self._residual_dtype)
        self._table: Tensor = self._weight[:0]  # RoPE factors by position
        self._complex_rope = False  # rotated pairs are adjacent: complex numbers

    @cached_property
    def _layers(self) -> list[FusedLayer]:
        """The layers' weights, copied at first use."""
        settings = self._fused, self._dtype, self._residual_dtype
        if self._dtype == torch.float32:
            pairs = torch.arange(self.head_size).view(2, -1).t().flatten()
            layers = [FusedLayer(it, *settings, pairs) for it in self._model.model.layers]
            self._complex_rope = all(layer.qkv.is_copied for layer in layers)
            if self._complex_rope:
                return layers
        return [FusedLayer(it, *settings, None) for it in self._model.model.layers]

    @cached_property
    def _head(self) -> FusedLinear:
        is_small = self._fused and self._weight.numel() <= MAX_HEAD_PARAMETERS
        return FusedLinear((self._model.lm_head,), is_small, self._head_dtype)

    def start_rows(
        self, rows: Sequence[int], prompt: Sequence[int], known: States | None = None
    ) -> None:
        """Start rows, empty ones, with the same prompt, which is computed and cached once."""
        number = self.cache.add_prompt(len(prompt), known)
        if rest := prompt[self.cache.prompts.lengths[number] :]:
            with without_autocast(self._weight.device):
                self._read_into(self.cache.prompts, [number], [rest])
        self.cache.start_rows(rows, number)

    def prefill(self, rows: Sequence[int], new_tokens: Sequence[Sequence[int]]) -> Tensor:
        """Prefill rows: append several tokens to each, rows of similar length in one pass."""
        with without_autocast(self._weight.device):
            return super().prefill(rows, new_tokens)

    def decode(self, tokens: Sequence[int], active: Sequence[bool]) -> Tensor:
        """Decode one step: append one token to each active row among the first."""
        self.num_tokens += sum(active)
        with without_autocast(self._weight.device):
            plan = self.cache.reserve_step_positions(active)
            return self._logits(self._forward(self.cache, plan, tokens))

    def _read(self, rows: Sequence[int], new_tokens: Sequence[Sequence[int]]) -> Tensor:
        return self._read_into(self.cache, rows, new_tokens)

    def _read_into(
        self, cache: KVCache, rows: Sequence[int], new_tokens: Sequence[Sequence[int]]
    ) -> Tensor:
        """Append tokens to rows in one pass.

        Return hidden states (n, H) at the last token of each.
        """
        block = cache.reserve_positions([len(new) for new in new_tokens], rows)
        self.num_tokens += len(block.positions)
        return self._forward(cache, block, [token for new in new_tokens for token in new])

    def _forward(self, cache: KVCache, block: PackedTokens, tokens: Sequence[int]) -> Tensor:
        """Return the last layer's hidden states (n, H) at the last token of each row of a block.

        tokens: the block's N new tokens, row by row. Their keys and values enter the cache.
        """
        layers, groups = self._layers, self.num_heads // self.num_kv_heads
        angles = self._rope_table(block.num_prefix_columns + block.width).index_select(
            0, block.positions
        )
        mask = cache.mask(block, groups)
        x: Tensor = self._weight.index_select(0, cache.index_tensor(tokens)).to(
            self._residual_dtype
        )
        for number, layer in enumerate(layers):
            queries, keys, values = self._qkv(layer, layer.norm(x), angles)
            cache.write(number, block, keys, values)
            if block.longest > 1 and number + 1 == len(layers):
                # Above the last layer only the last token of each row matters.
                x, queries, block = x[block.ends], queries[block.ends], block.last_tokens()
                mask = cache.mask(block, groups)
            attended = cache.attend(number, block, queries, keys, values, mask)
            x = layer.feed_forward(layer.output.add_to_residual(x, attended))
        return x

    def _logits(self, read: Tensor) -> Tensor:
        return self._head(self._norm(read))

    def _qkv(self, layer: FusedLayer, x: Tensor, angles: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rotated queries, rotated keys and values of normed x (N, H).

        Queries are (N, heads, size), keys and values (N, kv heads, size).
        """
        projected = layer.qkv(x).view(len(x), -1, self.head_size)
        rotated = projected[:, : self.num_heads + self.num_kv_heads]
        if layer.head_scales is not None:
            rotated = F.rms_norm(rotated, (self.head_size,), None, layer.head_epsilon)
            rotated = rotated * layer.head_scales
        if self._complex_rope:
            torch.view_as_complex(rotated.view(*rotated.shape[:2], -1, 2)).mul_(angles)
        else:
            (cos, sin), rotated = angles.unbind(1), rotated.to(self._residual_dtype)
            other_half = rotated.roll(self.head_size // 2, -1)
            if self._dtype == torch.float32:
                rotated = torch.addcmul(rotated * cos, other_half, sin)
            else:  # rounded where transformers' own forward, which trains, rounds
                rotated = (rotated * cos + other_half * sin).to(self._dtype)
        return (
            rotated[:, : self.num_heads],
            rotated[:, self.num_heads :],
            projected[:, -self.num_kv_heads :],
        )

    def _rope_table(self, width: int) -> Tensor:
        """Return the RoPE factors of positions 0..width-1, computed for more and kept.

        Complex (positions, 1, size/2) where pairs are adjacent. Else cosines and sines (positions,
        2, 1, size), with the first half of the sines negated: rotation is then x * cos +
        roll(x, size/2) * sin.
        """
        if len(self._table) < width:
            positions = torch.arange(max(64, 2 * width), device=self._weight.device)
            like = self._weight.new_empty(0, dtype=self._residual_dtype)
            cos, sin = (part[0] for part in self._rotary(like, positions.unsqueeze(0)))
            half = self.head_size // 2
            if self._complex_rope:
                self._table = torch.complex(cos[:, :half], sin[:, :half]).unsqueeze(1)
            else:
                sin = torch.cat((-sin[:, :half], sin[:, half:]), -1)
                self._table = torch.stack((cos, sin), 1).unsqueeze(2)
        return self._table
