"""Forward pass over a prefix tree: each token attends to its ancestors and to itself.

Attention is computed in parts, each a contiguous range of queries on a contiguous range of keys:
the tokens of a block on each other, and all descendants of a segment on that segment, without a
mask. The parts of a query are merged by their log-sum-exp, as in FlashAttention (Dao et al. 2022).

What must hold: with the output and log-sum-exp of a query over *all* its parts, FlashAttention's
backward pass gives the exact gradient of each part on its own. So only queries, keys, values,
outputs and log-sum-exps are saved, and no key is copied for the rows that share it.

The CPU kernels are those behind `F.scaled_dot_product_attention`, which returns no log-sum-exp.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fctncalling.algorithms.policy.gradient_checkpointing import LayerRunner
from fctncalling.algorithms.policy.precision import compute_dtype_context, half_precision_dtype
from fctncalling.algorithms.policy.shared_prefixes.prefix_tree import (
    PrefixTree,
    Segment,
    build_tree,
)
from fctncalling.algorithms.policy.sparse_forward import (
    keys_and_values,
    layer_output,
    rotated_queries,
)

KeysAndValues = tuple[Tensor, Tensor]

BLOCK = 128  # tokens that attend to each other through a mask: half of it is computed in vain
_FORWARD = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
_BACKWARD = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None)


def is_tree_attention_available() -> bool:
    """Whether tree attention is available: this version of torch has the kernels."""
    return _FORWARD is not None and _BACKWARD is not None


class AttentionPart(NamedTuple):
    """Part of tree attention: queries [query, query_end) on keys [key, key_end)."""

    query: int
    query_end: int
    key: int
    key_end: int
    bias: Tensor | None  # (queries, keys), 0 where attended and -inf elsewhere; None: no mask


def attention_parts(
    tree: PrefixTree, queries: Sequence[int] | None = None, *, dtype: torch.dtype = torch.float32
) -> list[AttentionPart]:
    """Return the parts of attention over a tree, those with a bias first.

    The others are one for every query.

    queries: the tokens in ascending order; None: all of them.
    """
    tokens: Sequence[int] = range(len(tree.ids)) if queries is None else queries
    subtree_ends = tree.subtree_ends().numpy()
    blocks, ancestors = list[AttentionPart](), list[AttentionPart]()
    for run in _runs(tree.segments):
        start, end, descendants_end = run[0].start, run[-1].end, run[-1].descendants_end
        # Inside a run queries meet keys of branches beside theirs: those blocks need a mask.
        for key in range(start, end, BLOCK):
            key_end = min(key + BLOCK, end)
            first, last = bisect_left(tokens, key), bisect_left(tokens, key_end)
            if first < last:
                bias = _mask(tokens[first:last], key, subtree_ends[key:key_end])
                blocks.append(AttentionPart(first, last, key, key_end, bias.to(dtype)))
                if key > start:  # a run of several segments is no longer than a block
                    ancestors.append(AttentionPart(first, last, start, key, None))
        # All tokens below a segment see all of it: a rectangle without a mask.
        first, last = bisect_left(tokens, end), bisect_left(tokens, descendants_end)
        if first < last:
            ancestors.append(AttentionPart(first, last, start, end, None))
    # `forward` overwrites outputs with the parts that have a bias, and merges the others into
    # them. Each query has exactly one such part, its own block's.
    return blocks + ancestors


def _mask(queries: Sequence[int], key: int, subtree_ends: NDArray[np.int64]) -> Tensor:
    """Return the bias of queries on the keys from `key` on, of which the ends are given."""
    tokens = np.asarray(queries)[:, None]
    attended = (np.arange(key, key + len(subtree_ends)) <= tokens) & (tokens < subtree_ends)
    return torch.from_numpy(np.where(attended, np.float32(0.0), np.float32(-np.inf)))


def _runs(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Yield the segments in order: those with descendants singly, leaves together up to a block."""
    run: list[Segment] = []
    for segment in segments:
        is_leaf = segment.end == segment.descendants_end
        if run and not (is_leaf and segment.end - run[0].start <= BLOCK):
            yield run
            run = []
        run.append(segment)
        if not is_leaf:
            yield run
            run = []
    if run:
        yield run


def tree_attention(
    queries: Tensor,  # (n, heads, size)
    keys: Tensor,  # (U, key heads, size)
    values: Tensor,  # (U, key heads, size)
    parts: Sequence[AttentionPart],
) -> Tensor:
    """Return tree attention, its output for each query, (n, heads, size).

    With grouped-query attention (heads > key heads), the query heads that share a key head are
    taken as further queries of it.
    """
    num, _, size = queries.shape
    keys, values = keys.to(queries.dtype), values.to(queries.dtype)  # rotated queries are in fp32
    # No key head is repeated: its query heads stand side by side, as a longer query list.
    grouped = queries.view(num, keys.shape[1], -1, size).transpose(0, 1).contiguous()
    attended: Tensor = _TreeAttention.apply(  # type: ignore[no-untyped-call]
        grouped, keys.transpose(0, 1), values.transpose(0, 1), parts
    )
    return attended.transpose(0, 1).reshape(queries.shape)


class _TreeAttention(torch.autograd.Function):
    """Queries (key heads, n, group, size) on keys and values (key heads, U, size)."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, parts: Any) -> Tensor:
        heads, num, group, size = queries.shape
        flat = queries.reshape(1, heads, num * group, size)
        outputs, log_sums = torch.empty_like(flat), flat.new_empty(1, heads, num * group)
        # Softmax over the union of two key sets: outputs weighted by exp(log-sum-exp) of each.
        for part in parts:
            rows, columns = _ranges(part, group)
            output, log_sum = _FORWARD(  # type: ignore[misc]
                flat[:, :, rows],
                keys[None, :, columns],
                values[None, :, columns],
                attn_mask=_bias(part, group),
            )
            if part.bias is not None:
                outputs[:, :, rows] = output
                log_sums[:, :, rows] = log_sum
                continue
            total = torch.logaddexp(log_sums[:, :, rows], log_sum)
            outputs[:, :, rows].lerp_(output, (log_sum - total).exp_().unsqueeze(-1))
            log_sums[:, :, rows] = total
        ctx.parts = parts
        ctx.save_for_backward(flat, keys, values, outputs, log_sums)
        return outputs.view(queries.shape)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = grad_outputs
        flat, keys, values, outputs, log_sums = ctx.saved_tensors
        group = gradient.shape[2]
        of_outputs = gradient.reshape(flat.shape)
        of_queries, of_keys, of_values = (torch.zeros_like(it) for it in (flat, keys, values))
        # The kernel rebuilds the probabilities of a part from the log-sum-exp over all parts, so
        # each part's gradient is its share of the whole; keys of several parts add theirs up.
        for part in ctx.parts:
            rows, columns = _ranges(part, group)
            found = _BACKWARD(  # type: ignore[misc]
                of_outputs[:, :, rows],
                flat[:, :, rows],
                keys[None, :, columns],
                values[None, :, columns],
                outputs[:, :, rows],
                log_sums[:, :, rows],
                0.0,
                False,
                attn_mask=_bias(part, group),
            )
            of_queries[:, :, rows] += found[0]
            of_keys[:, columns] += found[1][0]
            of_values[:, columns] += found[2][0]
        return of_queries.view(gradient.shape), of_keys, of_values, None


def _ranges(part: AttentionPart, group: int) -> tuple[slice, slice]:
    """Return the rows of a part among queries times heads of a group, and its keys."""
    return slice(part.query * group, part.query_end * group), slice(part.key, part.key_end)


def _bias(part: AttentionPart, group: int) -> Tensor | None:
    """Return the bias with each query's row once for every head of a group."""
    if part.bias is None or group == 1:
        return part.bias
    return part.bias.repeat_interleave(group, 0)


def segment_states_at(
    decoder: Any, tree: PrefixTree, rows: Tensor, columns: Tensor, run: LayerRunner
) -> Tensor:
    """Return hidden states at N positions of a tree's rows, (N, H), after the final norm."""
    fixed = tree.fixed
    # Rows that share a token ask for the same state: it is computed once, then copied by index.
    selected, index = torch.unique(tree.row_index[rows, columns], return_inverse=True)
    hidden = decoder.embed_tokens(tree.ids[fixed:])  # (U - fixed, H)
    cos, sin = _angles(decoder, hidden, tree.positions[fixed:])
    learned = range(fixed, len(tree.ids)) if fixed else None
    parts = attention_parts(tree, learned, dtype=hidden.dtype)
    half = half_precision_dtype(decoder)
    *below, last = decoder.layers
    *known_below, known = _fixed_keys_and_values(decoder, tree)
    for layer, before in zip(below, known_below, strict=True):
        hidden = run(_layer, layer, hidden, cos, sin, parts, half, before)
    # Nothing reads the last layer's states but the caller, so only the selected are computed;
    # their keys and values are those of all tokens.
    parts = attention_parts(tree, selected.tolist(), dtype=hidden.dtype)
    at = selected - fixed
    with compute_dtype_context(half, hidden.device):
        states = last.input_layernorm(hidden)
        queries = rotated_queries(last, states[at], cos[at], sin[at])
        keys, values = _behind(known, keys_and_values(last, states, cos, sin))
        attended = tree_attention(queries, keys, values, parts)
        outputs: Tensor = decoder.norm(layer_output(last, hidden[at], attended))
    return outputs[index]


def _angles(decoder: Any, hidden: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of the positions' angles, both (U, 1, head size)."""
    cos, sin = decoder.rotary_emb(hidden, positions.unsqueeze(0))
    return cos[0].unsqueeze(1), sin[0].unsqueeze(1)


@torch.no_grad()
def _fixed_keys_and_values(decoder: Any, tree: PrefixTree) -> list[KeysAndValues | None]:
    """Return of each layer the keys and values of the tree's fixed tokens; None without any."""
    if not tree.fixed:
        return [None] * len(decoder.layers)
    # The fixed tokens are the beginning of the root: a tree of one row.
    root = build_tree([tree.ids[: tree.fixed].cpu().numpy()]).to(tree.ids.device)
    hidden = decoder.embed_tokens(root.ids)
    cos, sin = _angles(decoder, hidden, root.positions)
    parts, half = attention_parts(root, dtype=hidden.dtype), half_precision_dtype(decoder)
    found: list[KeysAndValues | None] = []
    for layer in decoder.layers:
        with compute_dtype_context(half, hidden.device):
            states = layer.input_layernorm(hidden)
            known = keys_and_values(layer, states, cos, sin)
            attended = tree_attention(rotated_queries(layer, states, cos, sin), *known, parts)
            hidden = layer_output(layer, hidden, attended)
        found.append(known)
    return found


def _behind(known: KeysAndValues | None, found: KeysAndValues) -> KeysAndValues:
    """Append keys and values to a prefix, in the dtype of the new ones."""
    if known is None:
        return found
    keys, values = (
        torch.cat([one.to(two.dtype), two]) for one, two in zip(known, found, strict=True)
    )
    return keys, values


def _layer(
    layer: Any,
    hidden: Tensor,
    cos: Tensor,
    sin: Tensor,
    parts: Sequence[AttentionPart],
    half: torch.dtype | None,  # of the linear layers' products; attention is in fp32
    known: KeysAndValues | None,  # of the tokens before
) -> Tensor:
    """Return the layer's output (U, H) from its input (U, H)."""
    with compute_dtype_context(half, hidden.device):
        states = layer.input_layernorm(hidden)
        keys, values = _behind(known, keys_and_values(layer, states, cos, sin))
        attended = tree_attention(rotated_queries(layer, states, cos, sin), keys, values, parts)
        return layer_output(layer, hidden, attended)
