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
    width: int  # k, columns to look at: as many as the longest row has, in whole lines
    chosen: Tensor  # (n,) int64, the rows
    place: Tensor  # (N,) int64, which of the n rows a token belongs to
    offset: Tensor  # (N,) int64, its number among the new tokens of its row
    ends: Tensor  # (n,) int64, the last token of each row among the N
    longest: int  # q, most new tokens of a row
    fresh: bool  # whether all rows were empty
    first: bool  # whether they are the first rows, in order
    own: Sequence[tuple[Tensor, Tensor]] = ()  # of a step: what `_ends_own` returns, layer by layer
    seats: Seats | None = None  # where rows begin with shared prompts

    @property
    def begin(self) -> int:
        """Columns in front of a row's own: p, or none."""
        return self.seats.mask.shape[-1] if self.seats is not None else 0


class Seats(NamedTuple):
    """How the n rows of a block sit at G shared prompts of up to p tokens, as many places at each."""

    prompts: Tensor  # (n,) int64, at which each row sits; at any where it has none
    mask: Tensor  # (G x heads, 1, p) additive, which of its columns a prompt has
    none: Tensor | None  # (m,) int64, the rows without a prompt, if any
    rows: Tensor | None  # (G x places,) int64, which of the rows sits in each place; None where they sit in their order
    back: Tensor | None  # (n,) int64, in which place each row sits


class KeptRows:
    """Rows of one buffer of keys and one of values; token p of a row lies in column p.

    Keys lie transposed, (layers, rows, heads, size, columns): the product with one query is then a walk along memory.
    A step writes for rows that it passes over too: into their next column, which whatever comes next overwrites.
    """

    def __init__(self, num_layers: int, num_rows: int, num_heads: int, head_size: int, like: Tensor) -> None:
        self.lengths, self.begins = [0] * num_rows, [0] * num_rows  # a row's first token is in position `begins`
        self._capacity = 0
        self.keys = like.new_zeros(num_layers, num_rows, num_heads, head_size, 0)
        self.values = like.new_zeros(num_layers, num_rows, num_heads, 0, head_size)
        self.layers: list[tuple[Tensor, Tensor]] = []  # the same, layer by layer
        self._ramp, self._numbers = like[:0], torch.arange(num_rows, device=like.device)

    @property
    def num_bytes(self) -> int:
        """Memory of both buffers."""
        return self.keys.nbytes + self.values.nbytes

    def swap(self, one: int, other: int) -> None:
        """Let two rows change places; what an empty one holds is not kept."""
        here, there = self.lengths[one], self.lengths[other]
        for buffer in (self.keys, self.values.transpose(-1, -2)):
            held = buffer[:, one, ..., :here].clone()
            buffer[:, one, ..., :there] = buffer[:, other, ..., :there]
            buffer[:, other, ..., :here] = held
        for numbers in (self.lengths, self.begins):
            numbers[one], numbers[other] = numbers[other], numbers[one]

    def place_step(self, active: Sequence[bool]) -> Block:
        """Announce one new token for each of the first rows that are active."""
        before = self.lengths[: len(active)]
        for row, goes_on in enumerate(active):
            self.lengths[row] += goes_on
        width = self._width(max(before) + 1)
        positions = [begin + column for begin, column in zip(self.begins, before, strict=False)]
        at, columns = torch.tensor([positions, before], device=self.keys.device).unbind()
        rows, offset = self._numbers[: len(active)], self._numbers[:1].expand(len(active))
        keys = self.keys[:, : len(active), ..., :width].flatten(1, 2).unbind()
        values = self.values[:, : len(active), :, :width].flatten(1, 2).unbind()
        own = list(zip(keys, values, strict=True))
        return Block(at, rows, columns, width, rows, rows, offset, rows, 1, False, True, own)

    def place(self, counts: Sequence[int], rows: Sequence[int]) -> Block:
        """Announce `counts[i]` new tokens for row `rows[i]`."""
        device = self.keys.device
        before = [self.lengths[row] for row in rows]
        for row, count in zip(rows, counts, strict=True):
            self.lengths[row] += count
        width = self._width(max(self.lengths[row] for row in rows))
        numbers, chosen = torch.tensor(counts, device=device), torch.tensor(list(rows), device=device)
        place = torch.arange(len(rows), device=device).repeat_interleave(numbers)
        ends = numbers.cumsum(0) - 1
        offset = torch.arange(len(place), device=device) - (ends - numbers + 1)[place]
        columns = torch.tensor(before, device=device)[place] + offset
        positions = torch.tensor([self.begins[row] for row in rows], device=device)[place] + columns
        first = list(rows) == list(range(len(rows)))
        return Block(
            positions, chosen[place], columns, width, chosen, place, offset, ends, max(counts), not any(before), first
        )

    def write(self, layer: int, block: Block, keys: Tensor, values: Tensor) -> None:
        """Keep the announced tokens' keys and values (N, heads, size) of one layer."""
        kept_keys, kept_values = self.layers[layer]
        kept_keys[block.rows, :, :, block.columns] = keys
        kept_values[block.rows, :, block.columns] = values

    def end_mask(self, block: Block) -> Tensor:
        """Return what the last token of each row adds to its scores, (n x heads, 1, k)."""
        columns = block.columns if block.longest == 1 else block.columns[block.ends]
        return self.hidden_behind(columns.repeat_interleave(self.keys.shape[2]), block.width).unsqueeze(1)

    def attend_ends(self, layer: int, block: Block, queries: Tensor, mask: Tensor, scale: float) -> Tensor:
        """Return what the query (n, query heads, size) of each row's last token reads, (n, heads x size)."""
        keys, values = self._ends_own(layer, block)
        grouped = queries.reshape(len(keys), -1, queries.shape[-1])  # query heads that share keys: rows of one product
        weights = torch.baddbmm(mask, grouped, keys, alpha=scale).softmax(-1)
        return torch.bmm(weights, values).view(len(queries), -1)

    def mask(self, block: Block) -> Tensor | None:
        """Return which columns each new token may see, additive (n, 1, q, k); None where rows were empty."""
        if block.fresh:
            return None
        last = block.columns.new_zeros(len(block.chosen), block.longest)
        last[block.place, block.offset] = block.columns
        return self.hidden_behind(last.flatten(), block.width).view(len(last), 1, block.longest, -1)

    def hidden_behind(self, columns: Tensor, width: int) -> Tensor:
        """Return rows of `width` numbers to be added to scores: minus infinity behind one column each (n,)."""
        return self._ramp.unfold(0, width, 1).index_select(0, self._capacity - 1 - columns)

    def attend(
        self, layer: int, block: Block, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Return what the queries (N, query heads, size) of announced tokens read, (N, heads x size)."""
        padded = self._padded(block, queries)
        if mask is None:
            kept, kept_values = self._padded(block, keys), self._padded(block, values)
        else:
            kept, kept_values = self._columns(layer, block)
        grouped = padded.shape[1] != kept.shape[1]
        read = F.scaled_dot_product_attention(
            padded, kept, kept_values, attn_mask=mask, is_causal=mask is None, enable_gqa=grouped
        )
        return read.transpose(1, 2)[block.place, block.offset].flatten(1)

    def _ends_own(self, layer: int, block: Block) -> tuple[Tensor, Tensor]:
        """Return keys (n x heads, size, k) and values (n x heads, k, size) of a block's rows."""
        if block.own:
            return block.own[layer]
        keys, values = self._own(layer, block)
        return keys.flatten(0, 1), values.flatten(0, 1)

    def _own(self, layer: int, block: Block) -> tuple[Tensor, Tensor]:
        """Return keys (n, heads, size, k) and values (n, heads, k, size) of a block's rows."""
        keys, values = self.layers[layer]
        rows = slice(len(block.chosen)) if block.first else block.chosen
        return keys[rows, :, :, : block.width], values[rows, :, : block.width]

    def _columns(self, layer: int, block: Block) -> tuple[Tensor, Tensor]:
        """Return keys and values (n, heads, k, size), of all that the mask tells of."""
        keys, values = self._own(layer, block)
        return keys.transpose(-1, -2).contiguous(), values

    def _padded(self, block: Block, states: Tensor) -> Tensor:
        """Return states (N, heads, size) as (n, heads, q, size), each row's from its first column on."""
        padded = states.new_zeros(len(block.chosen), block.longest, *states.shape[1:])
        padded[block.place, block.offset] = states
        return padded.transpose(1, 2)

    def _width(self, longest: int) -> int:
        """Return how many columns to look at where the longest row has so many, after making room for them."""
        if longest > self._capacity:
            self.resize(whole_lines(grown(self._capacity, longest)))
        return whole_lines(longest)

    def resize(self, capacity: int, rows: Sequence[int] | None = None, *, new_rows: int = 0) -> None:
        """Keep all rows or some, in that many columns, and append empty ones."""
        keys, values = (self.keys, self.values) if rows is None else (self.keys[:, rows], self.values[:, rows])
        count, columns = keys.shape[1], min(capacity, self._capacity)
        layers, _, heads, size, _ = keys.shape
        self.keys = keys.new_zeros(layers, count + new_rows, heads, size, capacity)
        self.values = keys.new_zeros(layers, count + new_rows, heads, capacity, size)
        self.keys[:, :count, ..., :columns] = keys[..., :columns]
        self.values[:, :count, :, :columns] = values[:, :, :, :columns]
        self.layers = list(zip(self.keys.unbind(), self.values.unbind(), strict=True))
        if rows is not None:
            self.lengths, self.begins = [self.lengths[row] for row in rows], [self.begins[row] for row in rows]
        self.lengths += [0] * new_rows
        self.begins += [0] * new_rows
        self._capacity, self._numbers = capacity, torch.arange(count + new_rows, device=keys.device)
        self._ramp = torch.cat((keys.new_zeros(capacity), keys.new_full((capacity,), float("-inf"))))


def whole_lines(columns: int) -> int:
    """Return a number of columns rounded up so that rows of keys begin where lines of memory do."""
    return -(-columns // 16) * 16
