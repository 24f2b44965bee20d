"""KV cache of many growing sequences, the index tensors of a pass, and attention over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

States = tuple[Tensor, ...]
"""Keys and values of n tokens in all layers: tensors (..., n, head size)."""


class PrefixGroups(NamedTuple):
    """Prefix groups of a block: its n rows by the G shared prompts (up to p tokens) they follow."""

    prompts: Tensor  # (n,) int64, at which each row sits; at any where it has none
    mask: Tensor  # (G x heads, 1, p) additive, which of its columns a prompt has
    none: Tensor | None  # (m,) int64, the rows without a prompt, if any
    # (G x places,) int64, which of the rows sits in each place; None: in their own order
    rows: Tensor | None
    back: Tensor | None  # (n,) int64, in which place each row sits
    # of each layer, views of the cache: keys (G x heads, size, p) and values (G x heads, p, size)
    states: Sequence[tuple[Tensor, Tensor]]


class PackedTokens(NamedTuple):
    """Packed tokens, the new ones of n rows: N of them side by side, without padding.

    Each row has up to q of them and looks at k columns of the cache; `heads` are key heads, each of
    which serves `groups` query heads. What must hold in `KVCache`, which makes these blocks:
    - column p of a row is its p-th own token; what lies behind its length is masked by minus
      infinity and must still be finite numbers, since 0 x inf would be NaN;
    - `reserve_positions` or `reserve_step_positions` comes before `write`, and `write` before
      `attend`;
    - views of the buffers (`layers`) are made anew wherever `resize` moves the buffers.
    """

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
    run: slice | None  # the rows, if they are consecutive
    own: Sequence[tuple[Tensor, Tensor]] = ()  # of a step: what `_flat_own` returns, layer by layer
    prefix_groups: PrefixGroups | None = None  # where rows begin with shared prompts

    @property
    def num_prefix_columns(self) -> int:
        """Number of columns of shared prefixes, in front of a row's columns."""
        return self.prefix_groups.mask.shape[-1] if self.prefix_groups is not None else 0

    def last_tokens(self) -> PackedTokens:
        """Return the last token of each row alone, packed."""
        # The last layer is computed for these alone: nobody reads the others' outputs.
        if self.longest == 1:
            return self
        number = torch.arange(len(self.chosen), device=self.chosen.device)
        return self._replace(
            positions=self.positions[self.ends],
            rows=self.chosen,
            columns=self.columns[self.ends],
            place=number,
            offset=number * 0,
            ends=number,
            longest=1,
            fresh=False,
        )

    def pad(self, states: Tensor) -> Tensor:
        """Pad states (N, ...) to (n, q, ...)."""
        shape = (len(self.chosen), self.longest, *states.shape[1:])
        # All rows have equally many tokens: a view, no copy.
        if len(states) == shape[0] * shape[1]:
            return states.view(shape)
        padded = states.new_zeros(shape)
        padded[self.place, self.offset] = states
        return padded

    def unpad(self, states: Tensor) -> Tensor:
        """Unpad states (n, q, ...) to (N, ...)."""
        dense = len(self.place) == states.shape[0] * states.shape[1]
        return states.flatten(0, 1) if dense else states[self.place, self.offset]


# Of one layer, held thrice at once; where there would be more, attention goes piece by piece.
MAX_SCORES = 2**22


class KVCache:
    """KV cache: rows of one buffer of keys and one of values.

    Keys lie transposed, (layers, rows, heads, size, columns): the product with one query is then a
    walk along memory. A step writes for rows that it passes over too: into their next column, which
    whatever comes next overwrites.
    """

    def __init__(
        self, num_layers: int, num_rows: int, num_heads: int, head_size: int, like: Tensor
    ) -> None:
        self.scale = head_size**-0.5
        # a row's first token is in position `begins`
        self.lengths = [0] * num_rows
        self.begins = [0] * num_rows
        self._capacity = 0
        self.keys = like.new_zeros(num_layers, num_rows, num_heads, head_size, 0)
        self.values = like.new_zeros(num_layers, num_rows, num_heads, 0, head_size)
        self.layers: list[tuple[Tensor, Tensor]] = []  # the same, layer by layer
        self._places: list[tuple[Tensor, Tensor]] = []  # both (rows, columns, heads, size)
        self._first: list[tuple[Tensor, Tensor]] = []  # what `_flat_own` returns for the first rows
        self._num_first = (0, 0)  # how many rows, and columns, those are
        self._ramp = like[:0]
        self._numbers = torch.arange(num_rows, device=like.device)

    def length(self, row: int) -> int:
        """Return the length of a row in tokens, from the beginning of its sequence."""
        return self.begins[row] + self.lengths[row]

    def cached_states(self, row: int, start: int, end: int) -> States:
        """Return cached states, views of keys and values (layers, heads, tokens, size)."""
        columns = slice(start, max(start, end))
        return self.keys[:, row, :, :, columns].transpose(-1, -2), self.values[:, row, :, columns]

    def append_states(self, row: int, states: States) -> None:
        """Append computed keys and values (layers, heads, tokens, size) to a row."""
        start = self.lengths[row]
        self.lengths[row] = end = start + states[0].shape[-2]
        self._width(end)
        self.keys[:, row, :, :, start:end] = states[0].transpose(-1, -2)
        self.values[:, row, :, start:end] = states[1]

    def clear_row(self, row: int) -> None:
        """Clear a row: forget its tokens."""
        held = self.lengths[row] + 1  # a step over others may have written one more
        if held > 1:
            # Zeros: what overflowed would spoil the next sequence, masked or not.
            with torch.inference_mode():
                self.keys[:, row, ..., :held] = 0
                self.values[:, row, :, :held] = 0
        self.lengths[row], self.begins[row] = 0, 0

    def swap_rows(self, one: int, other: int) -> None:
        """Swap two rows; the contents of empty rows are dropped."""
        # Only what is held is copied: rows are as long as the longest sequence ever was.
        here, there = self.lengths[one], self.lengths[other]
        for buffer in (self.keys, self.values.transpose(-1, -2)):
            held = buffer[:, one, ..., :here].clone()
            buffer[:, one, ..., :there] = buffer[:, other, ..., :there]
            buffer[:, other, ..., :here] = held
        for numbers in (self.lengths, self.begins):
            numbers[one], numbers[other] = numbers[other], numbers[one]

    def reserve_step_positions(self, active: Sequence[bool]) -> PackedTokens:
        """Reserve step positions: for one new token of each active row."""
        before = self.lengths[: len(active)]
        for row, goes_on in enumerate(active):
            self.lengths[row] += goes_on
        width = self._width(max(before) + 1)
        positions = [begin + column for begin, column in zip(self.begins, before, strict=False)]
        at, columns = self.index_tensor([positions, before]).unbind()
        rows, offset = self._numbers[: len(active)], self._numbers[:1].expand(len(active))
        # Views of a step's rows are kept: between two changes of width steps differ in nothing
        # else, and making them costs as much as a small product.
        if self._num_first != (len(active), width):
            self._num_first, first = (len(active), width), slice(len(active))
            self._first = [
                (k[first, ..., :width].flatten(0, 1), v[first, :, :width].flatten(0, 1))
                for k, v in self.layers
            ]
        groups = self.prefix_groups(range(len(active)))
        return PackedTokens(
            positions=at,
            rows=rows,
            columns=columns,
            width=width,
            chosen=rows,
            place=rows,
            offset=offset,
            ends=rows,
            longest=1,
            fresh=False,
            run=slice(len(active)),
            own=self._first,
            prefix_groups=groups,
        )

    def reserve_positions(self, counts: Sequence[int], rows: Sequence[int]) -> PackedTokens:
        """Reserve cache positions for `counts[i]` new tokens of row `rows[i]`."""
        device = self.keys.device
        before = [self.lengths[row] for row in rows]
        for row, count in zip(rows, counts, strict=True):
            self.lengths[row] += count
        width = self._width(max(self.lengths[row] for row in rows))
        numbers, chosen = self.index_tensor(counts), self.index_tensor(rows)
        place = torch.arange(len(rows), device=device).repeat_interleave(numbers)
        ends = numbers.cumsum(0) - 1
        offset = torch.arange(len(place), device=device) - (ends - numbers + 1)[place]
        columns = self.index_tensor(before)[place] + offset
        positions = self.index_tensor([self.begins[row] for row in rows])[place] + columns
        groups = self.prefix_groups(rows)
        run = slice(rows[0], rows[0] + len(rows))
        return PackedTokens(
            positions=positions,
            rows=chosen[place],
            columns=columns,
            width=width,
            chosen=chosen,
            place=place,
            offset=offset,
            ends=ends,
            longest=max(counts),
            fresh=not any(before) and groups is None,
            run=run if list(rows) == list(range(run.start, run.stop)) else None,
            prefix_groups=groups,
        )

    def prefix_groups(self, rows: Sequence[int]) -> PrefixGroups | None:
        """Return the groups of rows by the shared prefixes that they follow, if any."""
        return None

    def write(self, layer: int, block: PackedTokens, keys: Tensor, values: Tensor) -> None:
        """Write one layer's keys and values (N, heads, size) at the reserved positions."""
        at, (kept_keys, kept_values) = (block.rows, block.columns), self._places[layer]
        kept_keys.index_put_(at, keys)
        kept_values.index_put_(at, values)

    def mask(self, block: PackedTokens, groups: int) -> Tensor | None:
        """Return the mask of attention, additive, of new tokens; None: plain causal attention.

        `groups` query heads share a key head. (n x heads, q x groups, k) for products, (n, 1, q, k)
        where there would be too many scores to hold.
        """
        if block.fresh:
            return None
        heads = self.keys.shape[2]
        # One query a row: the same row of the mask for all heads that read it.
        if block.longest == 1:
            columns = block.columns.repeat_interleave(heads)
            return self.causal_mask_rows(columns, block.width).unsqueeze(1)
        last = block.pad(block.columns)
        num_scores = last.numel() * heads * groups * (block.num_prefix_columns + block.width)
        # Products round scores to the buffers' precision; where that is half, only one token a row
        # is read so.
        if num_scores > MAX_SCORES or self.keys.dtype != torch.float32:
            hidden = self.causal_mask_rows(last.flatten(), block.width)
            return hidden.view(len(last), 1, block.longest, -1)
        rows = last[:, None, :, None].expand(-1, heads, -1, groups)
        hidden = self.causal_mask_rows(rows.flatten(), block.width)
        return hidden.view(len(last) * heads, block.longest * groups, -1)

    def causal_mask_rows(self, columns: Tensor, width: int) -> Tensor:
        """Return rows of an additive causal mask: row i hides what lies behind columns[i].

        Minus infinity behind one column each (n,).
        """
        # The ramp is zeros, then minus infinities. Each mask row is a window into it that starts so
        # that the zeros end at the row's column: rows are gathered, none is computed.
        return self._ramp.unfold(0, width, 1).index_select(0, self._capacity - 1 - columns)

    def attend(
        self,
        layer: int,
        block: PackedTokens,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        """Attend from new tokens' queries to the cache: outputs (N, query heads x size).

        Queries are (N, query heads, size).
        """
        if mask is not None and mask.dim() == 3:
            read = self._products(layer, block, self._grouped(block, queries), mask)
            return self._ungrouped(block, read)
        groups = queries.shape[1] // keys.shape[1]
        # Fresh rows attend to what they bring: nothing is read back from the buffers.
        if mask is None:
            keys, values = (block.pad(states).transpose(1, 2) for states in (keys, values))
        else:
            keys, values = self._columns(layer, block)
            if groups > 1 and keys.device.type != "cpu":
                # There only the math kernel takes a mask and key heads that queries share.
                keys, values = (states.repeat_interleave(groups, 1) for states in (keys, values))
        read = F.scaled_dot_product_attention(
            block.pad(queries).transpose(1, 2),
            keys,
            values,
            attn_mask=mask,
            is_causal=mask is None,
            enable_gqa=queries.shape[1] != keys.shape[1],
        )
        return block.unpad(read.transpose(1, 2)).flatten(1)

    def _products(self, layer: int, block: PackedTokens, queries: Tensor, mask: Tensor) -> Tensor:
        """Return the attention outputs of queries (n x heads, r, size), in the same shape.

        R of one row and kept head are one product.
        """
        # `baddbmm` adds the mask within the product; scores are never held without it.
        keys, values = self._flat_own(layer, block)
        weights = torch.baddbmm(mask, queries, keys, alpha=self.scale).softmax(-1)
        read: Tensor = torch.bmm(weights, values)
        return read

    def _grouped(self, block: PackedTokens, queries: Tensor) -> Tensor:
        """Return queries (N, query heads, size) as (n x heads, q x groups, size)."""
        heads, size = self.keys.shape[2:4]
        if block.longest == 1:
            return queries.reshape(len(queries) * heads, -1, size)
        padded = block.pad(queries).view(len(block.chosen), block.longest, heads, -1, size)
        return padded.transpose(1, 2).reshape(len(block.chosen) * heads, -1, size)

    def _ungrouped(self, block: PackedTokens, read: Tensor) -> Tensor:
        """Return what was read, (n x heads, q x groups, size), as (N, query heads x size)."""
        if block.longest == 1:
            return read.view(len(block.chosen), -1)
        groups, size = read.shape[1] // block.longest, read.shape[2]
        padded = read.view(len(block.chosen), -1, block.longest, groups, size)
        return block.unpad(padded.transpose(1, 2)).flatten(1)

    def _flat_own(self, layer: int, block: PackedTokens) -> tuple[Tensor, Tensor]:
        """Return keys (n x heads, size, k) and values (n x heads, k, size) of a block's rows."""
        if block.own:
            return block.own[layer]
        keys, values = self._own(layer, block)
        return keys.flatten(0, 1), values.flatten(0, 1)

    def _own(self, layer: int, block: PackedTokens) -> tuple[Tensor, Tensor]:
        """Return keys (n, heads, size, k) and values (n, heads, k, size) of a block's rows."""
        keys, values = self.layers[layer]
        # A slice is a view; an index would copy all columns.
        rows = block.chosen if block.run is None else block.run
        return keys[rows, :, :, : block.width], values[rows, :, : block.width]

    def _columns(self, layer: int, block: PackedTokens) -> tuple[Tensor, Tensor]:
        """Return keys and values (n, heads, k, size) of the k columns under the mask."""
        keys, values = self._own(layer, block)
        # The kernel wants keys in rows; they lie transposed for the products of single steps.
        return keys.transpose(-1, -2).contiguous(), values

    def index_tensor(self, numbers: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        """Return an index tensor of whole numbers on the buffers' device."""
        return torch.from_numpy(np.array(numbers, dtype=np.int64)).to(self.keys.device)

    def _width(self, longest: int) -> int:
        """Return how many columns to look at for the longest row, after making room for them."""
        if longest > self._capacity:
            self.resize(round_up_columns(next_capacity(self._capacity, longest)))
        return round_up_columns(longest)

    def resize(self, capacity: int, rows: int | None = None) -> None:
        """Resize the buffers to that many columns and rows (default: as many as there are)."""
        layers, before, heads, size, _ = self.keys.shape
        rows = before if rows is None else rows
        count, columns = min(rows, before), min(capacity, self._capacity)
        keys, values = self.keys[:, :count], self.values[:, :count]
        self.keys = keys.new_empty(layers, rows, heads, size, capacity)
        self.values = keys.new_empty(layers, rows, heads, capacity, size)
        # In place of zeros everywhere, which would be written twice. What is masked must be
        # numbers, too.
        transposed = self.values.transpose(-1, -2), values.transpose(-1, -2)
        for new, old in ((self.keys, keys), transposed):
            new[:, :count, ..., :columns] = old[..., :columns]
            new[:, :count, ..., columns:] = 0
            new[:, count:] = 0
        self.layers = list(zip(self.keys.unbind(), self.values.unbind(), strict=True))
        self.lengths = self.lengths[:count] + [0] * (rows - count)
        self.begins = self.begins[:count] + [0] * (rows - count)
        self._places = [(k.permute(0, 3, 1, 2), v.transpose(1, 2)) for k, v in self.layers]
        # or they would keep the old buffers
        self._first = []
        self._num_first = (0, 0)
        self._capacity = capacity
        self._numbers = torch.arange(rows, device=keys.device)
        hidden = keys.new_full((capacity,), float("-inf"))
        self._ramp = torch.cat((keys.new_zeros(capacity), hidden))


def round_up_columns(columns: int) -> int:
    """Round up columns, their number, to whole cache lines."""
    return -(-columns // 16) * 16


def next_capacity(capacity: int, width: int) -> int:
    """Return the next capacity of a buffer for `width` tokens.

    It grows by a fourth, so little is unused.
    """
    return max(width, capacity + max(32, capacity // 4))
