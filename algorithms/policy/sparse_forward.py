"""Training forward that computes hidden states at requested positions only.

Losses need log-probs and values at the N acted tokens only; most of the B x T tokens are context.
In every layer but the last all positions must be computed, for the next layer's keys and values
depend on them. In the last layer context matters as keys and values alone: queries, attention
output, feed-forward and final norm are computed at the N positions, (N, H) in place of (B, T, H).

What must hold: the result equals the model's own forward up to rounding, and gradients flow through
the model's own modules (norms, linear layers, LoRA), which are called, never copied. Rows are
padded on the right, so a causal mask needs no padding mask: padding lies after every token that
counts.

Queries go through attention in blocks of QUERY_BLOCK with the keys up to the block's end: on a CPU,
`is_causal` attention multiplies with future keys too and then masks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fctncalling.algorithms.policy.gradient_checkpointing import (
    LayerRunner,
    run_without_checkpointing,
)

MODELS = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
ROTARY_KINDS = ("default", "linear", "llama3", "yarn")  # whose angles depend on the position alone
QUERY_BLOCK = 128  # queries per attention call: with fewer, calls cost more than products saved


def supports_fused_decoder(model: Any) -> bool:
    """Whether the fused decoder supports the model, with equal outputs."""
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


def supports_sparse_forward(model: Any, decoder: Any, *, known_hooks: int = 0) -> bool:
    """Whether the sparse forward (`hidden_states_at`) supports this decoder.

    False with forward hooks on the decoder (autocast, a profiler's), which it would skip, and on
    other devices than the CPU, where it is untested. known_hooks: of each sort, those that the
    caller does the work of.
    """
    hooks = (decoder._forward_pre_hooks, decoder._forward_hooks)
    if not supports_fused_decoder(model) or any(len(each) > known_hooks for each in hooks):
        return False
    weight: Tensor = decoder.embed_tokens.weight
    plain = (
        weight.device.type == "cpu"
        and weight.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
    )
    drops = decoder.training and decoder.config.attention_dropout
    return bool(plain and not drops and decoder.config._attn_implementation == "sdpa")


def hidden_states_at(
    decoder: Any,
    ids: Tensor,  # (B, T), padded on the right
    rows: Tensor,  # (N,) ascending
    columns: Tensor,  # (N,) ascending within each row
    run: LayerRunner = run_without_checkpointing,
) -> Tensor:
    """Return hidden states at N positions, the decoder's last, (N, H).

    run: calls the layers, but for the last one: the backward pass needs that first.
    """
    hidden = decoder.embed_tokens(ids)
    angles = decoder.rotary_emb(hidden, torch.arange(ids.shape[1], device=ids.device).unsqueeze(0))
    *below, last = decoder.layers
    cos, sin = angles[0][0].unsqueeze(1), angles[1][0].unsqueeze(1)  # (T, 1, head size)
    biases = _causal_biases(hidden)
    for layer in below:
        hidden = run(_layer, layer, hidden, cos, sin, biases)
    states = last.input_layernorm(hidden)
    queries = rotated_queries(last, states[rows, columns], cos[columns], sin[columns])
    keys, values = _for_all_heads(last, *keys_and_values(last, states, cos, sin))
    attended = _attention_at(queries, keys, values, rows, columns)
    selected: Tensor = decoder.norm(layer_output(last, hidden[rows, columns], attended))
    return selected


def _layer(
    layer: Any, hidden: Tensor, cos: Tensor, sin: Tensor, biases: Sequence[Tensor]
) -> Tensor:
    """Return the layer's output (B, T, H) from its input (B, T, H)."""
    states = layer.input_layernorm(hidden)
    # Queries before keys: gradients are added up in the reverse order, down to the last bit.
    queries = rotated_queries(layer, states, cos, sin)
    keys, values = _for_all_heads(layer, *keys_and_values(layer, states, cos, sin))
    return layer_output(layer, hidden, _causal_attention(queries, keys, values, biases))


def rotated_queries(layer: Any, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return rotated queries (RoPE), (..., heads, size), of states (..., H)."""
    attention = layer.self_attn
    queries = attention.q_proj(states).unflatten(-1, (-1, int(attention.head_dim)))
    # Qwen3 normalises queries.
    return _apply_rope(
        attention.q_norm(queries) if hasattr(attention, "q_norm") else queries, cos, sin
    )


def keys_and_values(layer: Any, states: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values of states (..., H), keys rotated by RoPE."""
    attention = layer.self_attn
    keys, values = (
        it(states).unflatten(-1, (-1, int(attention.head_dim)))
        for it in (attention.k_proj, attention.v_proj)
    )
    keys = _apply_rope(attention.k_norm(keys) if hasattr(attention, "k_norm") else keys, cos, sin)
    return keys, values


def _for_all_heads(layer: Any, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values (B, T, heads, size).

    With grouped-query attention each key head is repeated for the query heads that share it.
    """
    groups = int(layer.self_attn.num_key_value_groups)
    if groups == 1:
        return (keys, values)
    return (keys.repeat_interleave(groups, 2), values.repeat_interleave(groups, 2))


def layer_output(layer: Any, hidden: Tensor, attended: Tensor) -> Tensor:
    """Return a layer's output (..., H) from its input and its attention output.

    The input is (..., H), the attention output (..., heads, size).
    """
    residual = hidden + layer.self_attn.o_proj(attended.flatten(-2))
    output: Tensor = residual + layer.mlp(layer.post_attention_layernorm(residual))
    return output


def _apply_rope(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return queries or keys rotated by the angles of their positions (RoPE, halves paired)."""
    first, second = heads.chunk(2, -1)
    return heads * cos + torch.cat((-second, first), -1) * sin


def _causal_biases(hidden: Tensor) -> list[Tensor]:
    """Return the bias (queries, keys to the block's end) of each block of QUERY_BLOCK queries.

    Empty where one block is enough.
    """
    length = hidden.shape[1]
    if length <= QUERY_BLOCK:
        return []
    biases = []
    for start in range(0, length, QUERY_BLOCK):
        end = min(start + QUERY_BLOCK, length)
        causal_mask_rows = hidden.new_full((end - start, end), float("-inf")).triu(start + 1)
        biases.append(causal_mask_rows)
    return biases


def _causal_attention(
    queries: Tensor, keys: Tensor, values: Tensor, biases: Sequence[Tensor]
) -> Tensor:
    """Return causal attention of queries to keys and values; all (B, T, heads, size)."""
    if not biases:
        return _attention(queries, keys, values, is_causal=True)
    blocks = []
    for bias in biases:
        end = bias.shape[1]
        block = queries[:, end - len(bias) : end]
        blocks.append(_attention(block, keys[:, :end], values[:, :end], attn_mask=bias))
    return torch.cat(blocks, 1)


def _attention_at(
    queries: Tensor, keys: Tensor, values: Tensor, rows: Tensor, columns: Tensor
) -> Tensor:
    """Return attention of N queries (N, heads, size) to their rows' keys up to their columns.

    keys, values: (B, T, heads, size); rows, columns: (N,), ascending; result (N, heads, size). The
    queries are padded to (B, Q, heads, size), where Q is the most queries of any row, and gathered
    again; what padding queries attend to is discarded.
    """
    batch, length = keys.shape[:2]
    counts = torch.bincount(rows, minlength=batch)
    # Among those of its row.
    slot = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    shape = (batch, int(counts.max()))
    padded = queries.new_zeros(*shape, *queries.shape[1:]).index_put((rows, slot), queries)
    last_visible = columns.new_zeros(shape).index_put((rows, slot), columns)
    mask = torch.arange(length, device=rows.device) <= last_visible.unsqueeze(-1)  # (B, Q, T)
    return _attention(padded, keys, values, attn_mask=mask.unsqueeze(1))[rows, slot]


def _attention(queries: Tensor, keys: Tensor, values: Tensor, **options: Any) -> Tensor:
    queries, keys, values = (states.transpose(1, 2) for states in (queries, keys, values))
    return F.scaled_dot_product_attention(queries, keys, values, **options).transpose(1, 2)
