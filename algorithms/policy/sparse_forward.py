"""Training forward that computes hidden states at requested positions only.

Most tokens of a row are context, of which nobody asks a probability or a value. They matter as keys
and values alone, so above those of the last layer only the positions that are wanted are computed.
Queries are taken in blocks, for on a CPU attention that is called causal multiplies with every key,
those of the future too. Norms and all linear layers with their adapters are the model's own.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 128  # queries at a time: fewer cost more calls than they save products


def supports_sparse_forward(model: Any, decoder: Any) -> bool:
    """Return whether this file reads with a decoder of the model's kind just as its own forward
    does.

    Hooks on that (autocast, an onlooker's) would be passed over; elsewhere than on a CPU this is
    untried.
    """
    from fctncalling.algorithms.generation.fused_decoder import (
        supports_fused_decoder,
    )  # loads transformers, which losses do not need

    if not supports_fused_decoder(model) or decoder._forward_pre_hooks or decoder._forward_hooks:
        return False
    weight: Tensor = decoder.embed_tokens.weight
    plain = (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
    )
    drops = decoder.training and decoder.config.attention_dropout
    return bool(plain and not drops and decoder.config._attn_implementation == "sdpa")


def hidden_states_at(
    decoder: Any,
    ids: Tensor,  # (B, T), padded on the right
    rows: Tensor,  # (N,) ascending
    columns: Tensor,  # (N,) ascending within each row
) -> Tensor:
    """Return the last hidden states at the N wanted positions, (N, H)."""
    hidden = decoder.embed_tokens(ids)
    angles = decoder.rotary_emb(hidden, torch.arange(ids.shape[1], device=ids.device).unsqueeze(0))
    *below, last = decoder.layers
    cos, sin = angles[0][0].unsqueeze(1), angles[1][0].unsqueeze(1)  # (T, 1, head size)
    for layer in below:
        states = layer.input_layernorm(hidden)
        read = _causal_attention(
            _queries(layer, states, cos, sin), *_keys_and_values(layer, states, cos, sin)
        )
        hidden = _layer_output(layer, hidden, read)
    states = last.input_layernorm(hidden)
    queries = _queries(last, states[rows, columns], cos[columns], sin[columns])
    read = _attention_at(queries, *_keys_and_values(last, states, cos, sin), rows, columns)
    wanted: Tensor = decoder.norm(_layer_output(last, hidden[rows, columns], read))
    return wanted


def _queries(layer: Any, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return the queries of normed states (..., H), turned to their positions, (..., heads,
    size).
    """
    attention = layer.self_attn
    queries = attention.q_proj(states).unflatten(-1, (-1, int(attention.head_dim)))
    return _apply_rope(
        attention.q_norm(queries) if hasattr(attention, "q_norm") else queries, cos, sin
    )  # Qwen3


def _keys_and_values(layer: Any, states: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values (B, T, heads, size) of normed states (B, T, H), those that queries
    share repeated.
    """
    attention = layer.self_attn
    keys, values = (
        it(states).unflatten(-1, (-1, int(attention.head_dim)))
        for it in (attention.k_proj, attention.v_proj)
    )
    keys = _apply_rope(attention.k_norm(keys) if hasattr(attention, "k_norm") else keys, cos, sin)
    groups = int(attention.num_key_value_groups)
    return (
        (keys, values)
        if groups == 1
        else (keys.repeat_interleave(groups, 2), values.repeat_interleave(groups, 2))
    )


def _layer_output(layer: Any, hidden: Tensor, read: Tensor) -> Tensor:
    """Return the layer's output (..., H) from its input and from what attention read (..., heads,
    size).
    """
    between = hidden + layer.self_attn.o_proj(read.flatten(-2))
    output: Tensor = between + layer.mlp(layer.post_attention_layernorm(between))
    return output


def _apply_rope(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return queries or keys turned by the angles of their positions."""
    first, second = heads.chunk(2, -1)
    return heads * cos + torch.cat((-second, first), -1) * sin


def _causal_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return what each query reads of the keys up to its own column; all (B, T, heads, size)."""
    length = queries.shape[1]
    if length <= BLOCK:
        return _attention(queries, keys, values, is_causal=True)
    blocks = []
    for start in range(0, length, BLOCK):
        end = min(start + BLOCK, length)
        mask = torch.ones(end - start, end, dtype=torch.bool, device=keys.device).tril(start)
        blocks.append(
            _attention(queries[:, start:end], keys[:, :end], values[:, :end], attn_mask=mask)
        )
    return torch.cat(blocks, 1)


def _attention_at(
    queries: Tensor, keys: Tensor, values: Tensor, rows: Tensor, columns: Tensor
) -> Tensor:
    """Return what N queries (N, heads, size) read of their rows' keys up to their own column, (N,
    heads, size).
    """
    batch, length = keys.shape[:2]
    counts = torch.bincount(rows, minlength=batch)
    place = (
        torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    )  # among those of its row
    shape = (batch, int(counts.max()))
    padded = queries.new_zeros(*shape, *queries.shape[1:]).index_put((rows, place), queries)
    seen = columns.new_zeros(shape).index_put((rows, place), columns)
    mask = torch.arange(length, device=rows.device) <= seen.unsqueeze(
        -1
    )  # (B, most wanted of a row, T)
    return _attention(padded, keys, values, attn_mask=mask.unsqueeze(1))[rows, place]


def _attention(queries: Tensor, keys: Tensor, values: Tensor, **which: Any) -> Tensor:
    queries, keys, values = (states.transpose(1, 2) for states in (queries, keys, values))
    return F.scaled_dot_product_attention(queries, keys, values, **which).transpose(1, 2)
