"""Keys and values of many growing sequences, in two buffers, and attention over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fctncalling.algorithms.cache import grown


class Block(NamedTuple):
    """Where new tokens go. N tokens, lying side by side without padding, of n rows."""

    positions: Tensor  # (N,) int64, of each token in its own sequence
    rows: Tensor  # (N,) int64, the row of each token; of a step: the first rows
    columns: Tensor  # (N,) int64, where its key and value are put
    width: int  # k, the longest row with the new tokens
    chosen: Tensor  # (n,) int64, the rows
    place: Tensor  # (N,) int64, which of the n rows a token belongs to
    offset: Tensor  # (N,) int64, its number among the new tokens of its row
    ends: Tensor  # (n,) int64, the last token of each row among the N
    longest: int  # q, most new tokens of a row
    fresh: bool  # whether all rows were empty
    first: bool  # whether they are the first rows, in order


class KeptRows:
    """Rows of one buffer of keys and one of values; token p of a row lies in column p.

    Keys lie transposed, (layers, rows, heads, size, columns): the product with one query is then a walk along memory.
    The last column takes what a step writes for rows that it passes over.
    """

    def __init__(self, num_layers: int, num_rows: int, num_heads: int, head_size: int, like: Tensor) -> None:
        self.lengths = [0] * num_rows
        self._capacity = 0
        self._keys = like.new_zeros(num_layers, num_rows, num_heads, head_size, 1)
        self._values = like.new_zeros(num_layers, num_rows, num_heads, 1, head_size)

    @property
    def num_bytes(self) -> int:
        """Memory of both buffers."""
        return self._keys.nbytes + self._values.nbytes

    def swap(self, one: int, other: int) -> None:
        """Let two rows change places; what an empty one holds is not kept."""
        here, there = self.lengths[one], self.lengths[other]
        for buffer in (self._keys, self._values.transpose(-1, -2)):
            held = buffer[:, one, ..., :here].clone()
            buffer[:, one, ..., :there] = buffer[:, other, ..., :there]
            buffer[:, other, ..., :here] = held
        self.lengths[one], self.lengths[other] = there, here

    def share(self, source: int, row: int, count: int) -> None:
        """Copy the first `count` tokens of a row to the begin of an empty one."""
        self._keys[:, row, ..., :count] = self._keys[:, source, ..., :count]
        self._values[:, row, :, :count] = self._values[:, source, :, :count]
        self.lengths[row] = count

    def place_step(self, active: Sequence[bool]) -> Block:
        """Announce one new token for each of the first rows that are active."""
        device, first = self._keys.device, self.lengths[: len(active)]
        for row, goes_on in enumerate(active):
            self.lengths[row] += goes_on
        width = max(self.lengths[: len(active)])
        self._grow(width)
        positions = torch.tensor(first, device=device)
        columns = [length if goes_on else self._capacity for length, goes_on in zip(first, active, strict=True)]
        rows = torch.arange(len(active), device=device)
        return Block(
            positions.clamp_(max=width - 1), rows, torch.tensor(columns, device=device), width,
            rows, rows, torch.zeros_like(rows), rows, 1, False, True,
        )  # fmt: skip

    def place(self, counts: Sequence[int], rows: Sequence[int]) -> Block:
        """Announce `counts[i]` new tokens for row `rows[i]`."""
        device = self._keys.device
        before = [self.lengths[row] for row in rows]
        for row, count in zip(rows, counts, strict=True):
            self.lengths[row] += count
        width = max(self.lengths[row] for row in rows)
        self._grow(width)
        numbers, chosen = torch.tensor(counts, device=device), torch.tensor(list(rows), device=device)
        place = torch.arange(len(rows), device=device).repeat_interleave(numbers)
        ends = numbers.cumsum(0) - 1
        offset = torch.arange(len(place), device=device) - (ends - numbers + 1)[place]
        positions = torch.tensor(before, device=device)[place] + offset
        first = list(rows) == list(range(len(rows)))
        return Block(
            positions, chosen[place], positions, width, chosen, place, offset, ends, max(counts), not any(before), first
        )

    def write(self, layer: int, block: Block, keys: Tensor, values: Tensor) -> None:
        """Keep the announced tokens' keys and values (N, heads, size) of one layer."""
        self._keys[layer][block.rows, :, :, block.columns] = keys
        self._values[layer][block.rows, :, block.columns] = values

    def end_mask(self, block: Block) -> Tensor:
        """Return what the last token of each row adds to its scores, (n x heads, 1, k)."""
        hidden = torch.arange(block.width, device=self._keys.device) > block.positions[block.ends].unsqueeze(1)
        mask = self._keys.new_zeros(hidden.shape).masked_fill_(hidden, float("-inf"))
        return mask.repeat_interleave(self._keys.shape[2], 0).unsqueeze(1)

    def attend_ends(self, layer: int, block: Block, queries: Tensor, mask: Tensor, scale: float) -> Tensor:
        """Return what the query (n, query heads, size) of each row's last token reads, (n, heads x size)."""
        count, heads, size = len(queries), self._keys.shape[2], queries.shape[-1]
        rows: slice | Tensor = slice(count) if block.first else block.chosen
        keys = self._keys[layer][rows, :, :, : block.width].flatten(0, 1)
        values = self._values[layer][rows, :, : block.width].flatten(0, 1)
        grouped = queries.reshape(count * heads, -1, size)  # query heads that share keys are rows of one product
        weights = torch.baddbmm(mask, grouped, keys, alpha=scale).softmax(-1)
        return torch.bmm(weights, values).view(count, -1)

    def mask(self, block: Block) -> Tensor | None:
        """Return which columns each new token may see, additive (n, 1, q, k); None where rows were empty."""
        if block.fresh:
            return None
        last = block.positions.new_zeros(len(block.chosen), block.longest)
        last[block.place, block.offset] = block.positions
        hidden = torch.arange(block.width, device=last.device) > last.unsqueeze(-1)
        return self._keys.new_zeros(hidden.shape).masked_fill_(hidden, float("-inf")).unsqueeze(1)

    def attend(
        self, layer: int, block: Block, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Return what the queries (N, query heads, size) of announced tokens read, (N, heads x size)."""
        padded = self._padded(block, queries)
        if mask is None:
            kept, kept_values = self._padded(block, keys), self._padded(block, values)
        else:
            kept = self._keys[layer][block.chosen, :, :, : block.width].transpose(-1, -2).contiguous()
            kept_values = self._values[layer][block.chosen, :, : block.width]
        grouped = padded.shape[1] != kept.shape[1]
        read = F.scaled_dot_product_attention(
            padded, kept, kept_values, attn_mask=mask, is_causal=mask is None, enable_gqa=grouped
        )
        return read.transpose(1, 2)[block.place, block.offset].flatten(1)

    def _padded(self, block: Block, states: Tensor) -> Tensor:
        """Return states (N, heads, size) as (n, heads, q, size), each row's from its first column on."""
        padded = states.new_zeros(len(block.chosen), block.longest, *states.shape[1:])
        padded[block.place, block.offset] = states
        return padded.transpose(1, 2)

    def _grow(self, width: int) -> None:
        if width <= self._capacity:
            return
        old, capacity = self._capacity, grown(self._capacity, width)
        keys = self._keys.new_zeros(*self._keys.shape[:-1], capacity + 1)
        values = self._values.new_zeros(*self._values.shape[:-2], capacity + 1, self._values.shape[-1])
        keys[..., :old], values[..., :old, :] = self._keys[..., :old], self._values[..., :old, :]
        self._keys, self._values, self._capacity = keys, values, capacity
