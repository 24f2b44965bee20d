"""The training pass: hidden states where they are wanted, with gradients, of Llama, Qwen2 and Qwen3 models on a CPU.

Most tokens of a row are context, of which nobody asks a probability or a value. They matter as keys and values alone,
so above those of the last layer only the positions that are wanted are computed. The layers below, and all linear
layers with their adapters, are the model's own.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fctncalling.algorithms.decoder import has_fast_path


def has_training_pass(model: Any, decoder: Any) -> bool:
    """Return whether this file reads with a decoder of the model's kind just as its own forward does.

    Hooks on that (autocast, an onlooker's) would be passed over; elsewhere than on a CPU this is untried.
    """
    if not has_fast_path(model) or decoder._forward_pre_hooks or decoder._forward_hooks:
        return False
    weight: Tensor = decoder.embed_tokens.weight
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return bool(plain and decoder.config._attn_implementation == "sdpa")


def wanted_states(
    decoder: Any,
    ids: Tensor,  # (B, T), padded on the right
    rows: Tensor,  # (N,) ascending
    columns: Tensor,  # (N,) ascending within each row
) -> Tensor:
    """Return the last hidden states at the N wanted positions, (N, H)."""
    hidden = decoder.embed_tokens(ids)
    position_ids = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
    angles = decoder.rotary_emb(hidden, position_ids)
    *below, last = decoder.layers
    for layer in below:
        hidden = layer(hidden, attention_mask=None, position_ids=position_ids, position_embeddings=angles)
    states: Tensor = decoder.norm(_last_layer(last, hidden, rows, columns, *angles))
    return states


def _last_layer(layer: Any, hidden: Tensor, rows: Tensor, columns: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return the layer's output at the wanted positions, (N, H); cos and sin (1, T, head size)."""
    attention, states = layer.self_attn, layer.input_layernorm(hidden)
    size = int(attention.head_dim)
    keys = attention.k_proj(states).unflatten(-1, (-1, size))  # (B, T, kept heads, size)
    values = attention.v_proj(states).unflatten(-1, (-1, size))
    queries = attention.q_proj(states[rows, columns]).unflatten(-1, (-1, size))  # (N, heads, size)
    if hasattr(attention, "q_norm"):  # Qwen3
        queries, keys = attention.q_norm(queries), attention.k_norm(keys)
    cos, sin = cos[0].unsqueeze(1), sin[0].unsqueeze(1)  # (T, 1, head size)
    read = _read(_turned(queries, cos[columns], sin[columns]), _turned(keys, cos, sin), values, rows, columns)
    between = hidden[rows, columns] + attention.o_proj(read)
    output: Tensor = between + layer.mlp(layer.post_attention_layernorm(between))
    return output


def _turned(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return queries or keys turned by the angles of their positions."""
    first, second = heads.chunk(2, -1)
    return heads * cos + torch.cat((-second, first), -1) * sin


def _read(queries: Tensor, keys: Tensor, values: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return what N queries (N, heads, size) read of their rows' keys up to their own column, (N, heads x size)."""
    batch, length, kept_heads, _ = keys.shape
    counts = torch.bincount(rows, minlength=batch)
    place = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]  # among those of its row
    shape = (batch, int(counts.max()))
    padded = queries.new_zeros(*shape, *queries.shape[1:]).index_put((rows, place), queries)
    seen = columns.new_zeros(shape).index_put((rows, place), columns)
    mask = torch.arange(length, device=rows.device) <= seen.unsqueeze(-1)  # (B, most wanted of a row, T)
    groups = queries.shape[1] // kept_heads
    if groups > 1:
        keys, values = keys.repeat_interleave(groups, 2), values.repeat_interleave(groups, 2)
    read = F.scaled_dot_product_attention(
        padded.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=mask.unsqueeze(1)
    )
    return read.transpose(1, 2)[rows, place].flatten(1)
