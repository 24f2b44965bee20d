"""Known keys and values: read from a row of a KV cache, appended to another."""

from __future__ import annotations

from fctncalling.algorithms.generation.block_tree import States
from fctncalling.algorithms.generation.kv_cache import KVCache, whole_lines
from fctncalling.algorithms.generation.transformers_cache import next_capacity


def cached_states(cache: KVCache, row: int, start: int, end: int) -> States:
    """Return keys and values (layers, heads, tokens, size) of tokens [start, end): views."""
    columns = slice(start, max(start, end))
    keys, values = cache.keys[:, row, :, :, columns], cache.values[:, row, :, columns]
    return keys.transpose(-1, -2), values


def append_states(cache: KVCache, row: int, states: States) -> None:
    """Append tokens with known keys and values (layers, heads, tokens, size) to a row."""
    start = cache.lengths[row]
    cache.lengths[row] = end = start + states[0].shape[-2]
    if end > cache.keys.shape[-1]:
        cache.resize(whole_lines(next_capacity(cache.keys.shape[-1], end)))
    cache.keys[:, row, :, :, start:end] = states[0].transpose(-1, -2)
    cache.values[:, row, :, start:end] = states[1]
