"""Fused inference forward pass for Llama, Qwen2 and Qwen3.

On small models, and wherever one token at a time is read, what costs is the number of operations,
not their size. So linear layers on the same input are one, keys are kept transposed in one buffer
for all rows, and tokens of all rows lie side by side without padding everywhere but in attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fctncalling.algorithms.generation.decoder import DecoderOutput
from fctncalling.algorithms.generation.fused_linear import FusedLinear
from fctncalling.algorithms.generation.kv_cache import KVCache
from fctncalling.algorithms.generation.prefix_cache import PrefixKVCache
from fctncalling.algorithms.generation.token_block import TokenBlock
from fctncalling.algorithms.policy.precision import pass_dtypes, without_autocast

MODELS = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
ROTARY_KINDS = ("default", "linear", "llama3", "yarn")  # whose angles depend on the position alone
MOST_FUSED = 2**30  # parameters of a model whose linear layers are joined, which copies them
MOST_COPIED = 2**24  # parameters of a head that is copied, which gains little where it is large


def supports_fused_decoder(model: Any) -> bool:
    """Return whether a model is of a kind this file reads exactly as its own forward does."""
    if type(model).__name__ not in MODELS or not type(model).__module__.startswith("transformers."):
        return False
    config = model.config
    sliding = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    rotary = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    sharded = any(hasattr(parameter, "full_tensor") for parameter in model.parameters())
    plain = type(model.model.embed_tokens) is nn.Embedding
    return (
        plain
        and not sliding
        and not sharded
        and rotary in ROTARY_KINDS
        and config.hidden_act == "silu"
    )


class FusedDecoder:
    """Decodes as `TransformersDecoder` does, in inference mode; joined weights are those of
    the first read.

    The precisions are `pass_dtypes`' of the model. Weights are cast once, and autocast is off in
    here: it would hand an operation that works in place a copy to work on, and its result would be
    lost.
    """

    def __init__(self, model: Any, num_rows: int, *, max_tokens: int = 4096) -> None:
        """max_tokens: of one forward over several rows."""
        config, decoder = model.config, model.model
        self.head_size = int(
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.num_heads = int(config.num_attention_heads)
        self.num_kv_heads = int(config.num_key_value_heads)
        self.max_tokens = max_tokens
        self.num_tokens = 0
        self._model = model
        self._rotary = decoder.rotary_emb
        self._fused = sum(parameter.numel() for parameter in model.parameters()) <= MOST_FUSED
        self._weight: Tensor = decoder.embed_tokens.weight
        dtype, head_dtype = pass_dtypes(model)
        self._dtype = dtype
        self._head_dtype = head_dtype
        # Between layers fp32 stays fp32, as under autocast.
        self._stream = self._weight.dtype if self._dtype != torch.float32 else torch.float32
        self._kept = PrefixKVCache(
            len(decoder.layers),
            num_rows,
            self.num_kv_heads,
            self.head_size,
            self._weight.new_empty(0, dtype=self._dtype),
        )
        self._norm = _Norm(decoder.norm, self._stream)
        self._table: Tensor = self._weight[:0]  # what positions turn queries and keys by
        self._paired = False  # whether what is turned together lies side by side: a complex number

    @cached_property
    def _layers(self) -> list[_Layer]:
        """The layers' weights, which a reader that reads nothing does not copy."""
        layers = [
            _Layer(layer, self._fused, self._dtype, self._stream)
            for layer in self._model.model.layers
        ]
        if self._dtype == torch.float32 and all(layer.qkv.fused for layer in layers):
            self._paired = True
            for layer in layers:
                layer.interleave_rope(self.num_heads + self.num_kv_heads, self.head_size)
        return layers

    @cached_property
    def _head(self) -> FusedLinear:
        is_small = self._fused and self._weight.numel() <= MOST_COPIED
        return FusedLinear((self._model.lm_head,), is_small, self._head_dtype)

    @property
    def num_bytes(self) -> int:
        """Memory of the keys and values kept, rows' free places included."""
        return self._kept.num_bytes

    def length(self, row: int) -> int:
        """Return how many tokens a row holds."""
        return self._kept.begins[row] + self._kept.lengths[row]

    def empty(self, row: int) -> None:
        """Forget a row's tokens."""
        self._kept.empty(row)

    def swap(self, one: int, other: int) -> None:
        """Let two rows change places."""
        self._kept.swap(one, other)

    def open(self, rows: Sequence[int], prompt: Sequence[int]) -> None:
        """Let empty rows begin with the same tokens, which are read and kept once."""
        number = self._kept.new_prompt(len(prompt))
        with without_autocast(self._weight.device):
            self._prefill_chunk(self._kept.prompts, [number], [prompt])
        self._kept.begin(rows, number)

    def share(self, source: int, rows: Sequence[int], count: int) -> None:
        """Let empty rows begin with the first `count` tokens of another, those it was opened with
        if it was.
        """
        self._kept.share(source, rows, count)

    def prefill(self, rows: Sequence[int], news: Sequence[Sequence[int]]) -> DecoderOutput:
        """Pass new tokens through the model, rows of like length together."""
        with without_autocast(self._weight.device):
            return self._read_together(rows, news)

    def decode(self, tokens: Sequence[int], active: Sequence[bool]) -> DecoderOutput:
        """Pass one token of each of the first rows through."""
        self.num_tokens += sum(active)
        with without_autocast(self._weight.device):
            return self._lm_head(
                self._pass(self._kept, self._kept.append_step_plan(active), tokens)
            )

    def _read_together(self, rows: Sequence[int], news: Sequence[Sequence[int]]) -> DecoderOutput:
        order = sorted(range(len(rows)), key=lambda i: len(news[i]))
        hidden: list[Tensor] = []
        start = 0
        for end in range(1, len(order) + 1):
            # One more row would pad all of them to its own length in attention.
            if end == len(order) or (end + 1 - start) * len(news[order[end]]) > self.max_tokens:
                group = order[start:end]
                hidden.append(
                    self._prefill_chunk(
                        self._kept, [rows[i] for i in group], [news[i] for i in group]
                    )
                )
                start = end
        back = torch.tensor(order, device=self._weight.device).argsort()
        return self._lm_head(torch.cat(hidden)[back])

    def _prefill_chunk(
        self, kept: KVCache, rows: Sequence[int], news: Sequence[Sequence[int]]
    ) -> Tensor:
        """Return the last layer's states (n, H) behind the last token of each row."""
        block = kept.append_plan([len(new) for new in news], rows)
        self.num_tokens += len(block.positions)
        return self._pass(kept, block, [token for new in news for token in new])

    def _pass(self, kept: KVCache, block: TokenBlock, tokens: Sequence[int]) -> Tensor:
        """Return the last layer's states (n, H) behind the last token of each of a block's rows."""
        layers, groups = self._layers, self.num_heads // self.num_kv_heads
        angles = self._rope_table(block.begin + block.width).index_select(0, block.positions)
        mask = kept.mask(block, groups)
        x: Tensor = self._weight.index_select(0, kept.tensor(tokens)).to(self._stream)
        for number, layer in enumerate(layers):
            queries, keys, values = self._qkv(layer, layer.norm(x), angles)
            kept.write(number, block, keys, values)
            if block.longest > 1 and number + 1 == len(layers):
                # Above the last layer only the last token of each row matters.
                x, queries, block = x[block.ends], queries[block.ends], block.last_tokens()
                mask = kept.mask(block, groups)
            read = kept.attend(number, block, queries, keys, values, mask)
            x = layer.feed_forward(layer.output.add_to(x, read))
        return x

    def _lm_head(self, x: Tensor) -> DecoderOutput:
        hidden = self._norm(x)
        return DecoderOutput(self._head(hidden), hidden)

    def _qkv(self, layer: _Layer, x: Tensor, angles: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (N, heads, size) and keys, values (N, kept heads, size), turned to their
        positions.
        """
        joined = layer.qkv(x).view(len(x), -1, self.head_size)
        turned = joined[:, : self.num_heads + self.num_kv_heads]
        if layer.head_scales is not None:
            turned = F.rms_norm(turned, (self.head_size,), None, layer.head_epsilon)
            turned = turned * layer.head_scales
        if self._paired:
            torch.view_as_complex(turned.view(*turned.shape[:2], -1, 2)).mul_(angles)
        else:
            (cos, sin), turned = angles.unbind(1), turned.to(self._stream)
            other_half = turned.roll(self.head_size // 2, -1)
            if self._dtype == torch.float32:
                turned = torch.addcmul(turned * cos, other_half, sin)
            else:  # rounded where transformers' own forward, which trains, rounds
                turned = (turned * cos + other_half * sin).to(self._dtype)
        return (
            turned[:, : self.num_heads],
            turned[:, self.num_heads :],
            joined[:, -self.num_kv_heads :],
        )

    def _rope_table(self, width: int) -> Tensor:
        """Return what each position turns by: complex (positions, 1, half the head size) where
        pairs lie together.

        Else cosines and sines (positions, 2, 1, head size); the first half of the sines is
        negative.
        """
        if len(self._table) < width:
            positions = torch.arange(max(64, 2 * width), device=self._weight.device)
            like = self._weight.new_empty(0, dtype=self._stream)
            cos, sin = (part[0] for part in self._rotary(like, positions.unsqueeze(0)))
            half = self.head_size // 2
            if self._paired:
                self._table = torch.complex(cos[:, :half], sin[:, :half]).unsqueeze(1)
            else:
                sin = torch.cat((-sin[:, :half], sin[:, half:]), -1)
                self._table = torch.stack((cos, sin), 1).unsqueeze(2)
        return self._table


class _Norm:
    """Root mean square normalisation with the weights of a module."""

    def __init__(self, module: Any, dtype: torch.dtype, onto: FusedLinear | None = None) -> None:
        """onto: what reads it alone, which takes the weights over (fp32 on a CPU) where it is
        fused.
        """
        self._weight: Tensor = module.weight.detach().to(dtype)
        self._epsilon = float(module.variance_epsilon)
        plain = self._weight.device.type == "cpu" and self._weight.dtype == torch.float32
        self._added = torch.tensor(self._epsilon) if plain else None
        self._left = plain and onto is not None and onto.fused and onto.dtype == torch.float32
        if self._left and onto is not None:
            onto.fold_scale(self._weight)

    def __call__(self, x: Tensor) -> Tensor:
        if self._added is None:
            # Two operations, for in half precision transformers' own forward rounds twice.
            return F.rms_norm(x, self._weight.shape, None, self._epsilon) * self._weight
        # There `F.rms_norm` is eight operations; these are five, and as exact.
        length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = torch.addcmul(self._added, length, length, value=1 / x.shape[-1]).rsqrt_()
        normal = x * scale
        return normal if self._left else normal.mul_(self._weight)


class _Layer:
    """One decoder layer's weights, as few and large as can be."""

    def __init__(self, layer: Any, fused: bool, dtype: torch.dtype, stream: torch.dtype) -> None:
        """dtype: of products; stream: of norms, and of the sums between layers."""
        attention, forward = layer.self_attn, layer.mlp
        self.qkv = FusedLinear((attention.q_proj, attention.k_proj, attention.v_proj), fused, dtype)
        self.output = FusedLinear((attention.o_proj,), fused, dtype)
        self.inner = FusedLinear((forward.gate_proj, forward.up_proj), fused, dtype)
        self.down = FusedLinear((forward.down_proj,), fused, dtype)
        self.norm = _Norm(layer.input_layernorm, stream, self.qkv)
        self.second_norm = _Norm(layer.post_attention_layernorm, stream, self.inner)
        self.head_scales: Tensor | None = (
            None  # (heads + kept heads, size): Qwen3 normalises queries and keys
        )
        self.head_epsilon = 0.0
        if hasattr(attention, "q_norm"):
            size, config = attention.head_dim, attention.config
            scales = [attention.q_norm.weight.expand(config.num_attention_heads, size)]
            scales.append(attention.k_norm.weight.expand(config.num_key_value_heads, size))
            self.head_scales = torch.cat(scales).detach().to(stream)
            self.head_epsilon = attention.q_norm.variance_epsilon

    def interleave_rope(self, num_turned: int, size: int) -> None:
        """Let the dimensions i and i + half of queries and keys, which are turned together, lie
        side by side.
        """
        pairs = torch.arange(size).view(2, -1).t().flatten()
        heads = torch.arange(num_turned * size).view(-1, size)
        self.qkv.permute_outputs(heads[:, pairs].flatten())
        if self.head_scales is not None:
            self.head_scales = self.head_scales[:, pairs]

    def feed_forward(self, x: Tensor) -> Tensor:
        gate, up = self.inner(self.second_norm(x)).chunk(2, -1)
        return self.down.add_to(x, F.silu(gate) * up)
