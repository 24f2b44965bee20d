"""Transformers decoder: any causal language model there, with a cache of ragged rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from fctncalling.algorithms.generation.decoder import Decoder
from fctncalling.algorithms.generation.kv_cache import States, next_capacity
from fctncalling.algorithms.policy.precision import compute_dtypes


class NewTokenPositions(NamedTuple):
    """New tokens' positions in a left-padded block: n rows, q columns."""

    positions: Tensor  # (n, q) int64, position of each token in its own row; negative on padding
    width: int  # k


class RaggedCache(Cache):
    """Ragged cache of transformers: rows of different lengths, keys and values without holes.

    Buffers are (rows, heads, capacity + 1, head size).

    Token p of a row always lies in column p of that row. The last column takes the padding of a
    block and is never attended to. Rows are read where they lie (the first n) or gathered (any
    others), and change places by copying.
    """

    def __init__(self, num_rows: int) -> None:
        super().__init__(layers=[])
        self.lengths = [0] * num_rows  # tokens kept in each row
        self.buffers: list[Tensor] = []  # keys and values of each layer in turn
        self._rows: Tensor | None = None
        self._columns = torch.zeros(0, 0, dtype=torch.int64)
        self._width = 0
        self._capacity = 0

    def reserve_positions(
        self, counts: Sequence[int], block_width: int, rows: Sequence[int], device: Any
    ) -> NewTokenPositions:
        """Reserve cache positions for a left-padded block of new tokens.

        `counts[i]` >= 0 new tokens for row `rows[i]`.
        """
        for row, count in zip(rows, counts, strict=True):
            self.lengths[row] += count
        ends = [self.lengths[row] for row in rows]
        self._width = max(1, *ends)
        self._grow(self._width)
        block = torch.arange(block_width)
        positions = torch.tensor(ends).unsqueeze(1) - block_width + block
        padding = block < block_width - torch.tensor(counts).unsqueeze(1)
        positions = positions.masked_fill(padding, -1).to(device)
        self._columns = positions.where(positions >= 0, self._capacity)
        is_first = list(rows) == list(range(len(counts)))
        self._rows = None if is_first else torch.tensor(list(rows), device=device)
        return NewTokenPositions(positions, self._width)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Update the cache: write the reserved block's keys and values (n, heads, q, size).

        Return those of the whole rows (n, heads, k, size).
        """
        if 2 * layer_idx == len(self.buffers):
            for states in (key_states, value_states):
                shape = (len(self.lengths), states.shape[1], self._capacity + 1, states.shape[-1])
                self.buffers.append(states.new_zeros(shape))
        return self._write(2 * layer_idx, key_states), self._write(2 * layer_idx + 1, value_states)

    def length(self, row: int) -> int:
        """Return the length of a row in tokens."""
        return self.lengths[row]

    def clear_row(self, row: int) -> None:
        """Clear a row: forget its tokens."""
        self.lengths[row] = 0

    def swap_rows(self, one: int, other: int) -> None:
        """Swap two rows; the contents of empty rows are dropped."""
        here, there = self.lengths[one], self.lengths[other]
        for buffer in self.buffers:
            held = buffer[one, :, :here].clone()
            buffer[one, :, :there] = buffer[other, :, :there]
            buffer[other, :, :here] = held
        self.lengths[one], self.lengths[other] = there, here

    def share_prefix(self, source: int, rows: Sequence[int], count: int) -> None:
        """Share a prefix: copy a row's first `count` tokens to empty ones."""
        for row in rows:
            self.append_states(row, self.cached_states(source, 0, count))

    def cached_states(self, row: int, start: int, end: int) -> States:
        """Return the cached states, keys and values (heads, tokens, size), of [start, end)."""
        return tuple(buffer[row, :, start:end] for buffer in self.buffers)

    def append_states(self, row: int, states: States) -> None:
        """Append computed keys and values of tokens to a row."""
        start = self.lengths[row]
        self.lengths[row] = end = start + states[0].shape[-2]
        self._grow(end)
        for buffer, known in zip(self.buffers, states, strict=True):
            buffer[row, :, start:end] = known

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Get the sequence length (seq), that of the longest row."""
        return max(self.lengths, default=0)

    def _write(self, number: int, states: Tensor) -> Tensor:
        """Write the reserved block's states into a buffer; return its rows of the block."""
        buffer, count = self.buffers[number], len(states)
        rows = torch.arange(count, device=states.device) if self._rows is None else self._rows
        buffer[rows.unsqueeze(1), :, self._columns] = states.transpose(1, 2)
        kept = buffer[:count] if self._rows is None else buffer.index_select(0, self._rows)
        return kept[:, :, : self._width]

    def _grow(self, width: int) -> None:
        if width <= self._capacity:
            return
        capacity = next_capacity(self._capacity, width)
        for number, old in enumerate(self.buffers):
            new = old.new_zeros(*old.shape[:2], capacity + 1, old.shape[3])
            new[:, :, : self._capacity] = old[:, :, : self._capacity]
            self.buffers[number] = new
        self._capacity = capacity


class TransformersDecoder(Decoder[RaggedCache]):
    """Transformers decoder: any causal language model of transformers, by its forward method."""

    pads = True

    def __init__(self, model: nn.Module, num_rows: int, *, max_tokens: int = 8192) -> None:
        check_supported_cache(model)
        super().__init__(max_tokens)
        self.model = model
        self.cache = RaggedCache(num_rows)
        self._device = next(model.parameters()).device

    def decode(self, tokens: Sequence[int], active: Sequence[bool]) -> Tensor:
        """Decode one step: pass one token of each of the first rows through the model."""
        block = torch.tensor(tokens).unsqueeze(1)
        return self._forward(block, list(map(int, active)), range(len(tokens)))

    def start_rows(
        self, rows: Sequence[int], prompt: Sequence[int], known: States | None = None
    ) -> None:
        """Start rows, empty ones, with the same prompt, which passes once and is copied."""
        if known is not None:
            self.cache.append_states(rows[0], known)
        if rest := prompt[self.cache.length(rows[0]) :]:
            self.prefill(rows[:1], [rest])
        self.cache.share_prefix(rows[0], rows[1:], len(prompt))

    def _read(self, rows: Sequence[int], new_tokens: Sequence[Sequence[int]]) -> Tensor:
        counts = list(map(len, new_tokens))
        block = [[0] * (max(counts) - len(new)) + list(new) for new in new_tokens]
        return self._forward(torch.tensor(block), counts, rows)

    def _forward(self, block: Tensor, counts: list[int], rows: Sequence[int]) -> Tensor:
        """Return the logits (n, V) after the last column of a left-padded block (n, width).

        Row i has `counts[i]` tokens.
        """
        model: Any = self.model
        positions = self.cache.reserve_positions(counts, block.shape[1], rows, self._device)
        self.num_tokens += sum(counts)
        output = model(
            input_ids=block.to(self._device),
            attention_mask=attention_mask(model, positions, compute_dtypes(model).decoder),
            position_ids=positions.positions.clamp(min=0),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits


def attention_mask(
    model: nn.Module, block: NewTokenPositions, dtype: torch.dtype
) -> Tensor | dict[str, Tensor]:
    """Return the attention mask, additive, (n, 1, q, k), or one per layer type if mixed.

    Additive: every attention implementation takes it, and scaled dot-product attention on a CPU is
    10-15 % faster with it than with a boolean one. Padding looks at column 0, as a token that may
    look at nothing would be NaN.
    """
    config: Any = model.config
    columns = torch.arange(block.width, device=block.positions.device)
    last = block.positions.clamp(min=0).unsqueeze(-1)  # (n, q, 1)
    full = columns <= last
    window = getattr(config, "sliding_window", None)
    types = set(getattr(config, "layer_types", None) or ())
    if window is None or (types and "sliding_attention" not in types):
        return _additive(full, dtype)
    sliding = _additive(full & (columns > last - window), dtype)
    if types:
        return {"full_attention": _additive(full, dtype), "sliding_attention": sliding}
    return sliding


def _additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    mask = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return mask.masked_fill_(~allowed, torch.finfo(dtype).min).unsqueeze(1)


def check_supported_cache(model: nn.Module) -> None:
    """Check that a model's cache is supported; ValueError unless it is keys and values."""
    config: Any = getattr(model, "config", None)
    if config is None:
        raise ValueError(
            f"{type(model).__name__} has no transformers config: give a causal one of transformers"
        )
    unsupported = {
        t
        for t in getattr(config, "layer_types", None) or ()
        if t not in ("full_attention", "sliding_attention")
    }
    if unsupported or getattr(config, "is_encoder_decoder", False):
        raise ValueError(
            f"{type(model).__name__} has layers "
            f"({', '.join(sorted(unsupported)) or 'encoder-decoder'}) whose cache cannot be "
            "kept row by row: use a decoder with full or sliding-window attention"
        )
    if config._attn_implementation not in ("sdpa", "eager"):
        raise ValueError(
            f"attention implementation {config._attn_implementation!r} takes no explicit mask: "
            "load the model with attn_implementation='sdpa' or 'eager'"
        )
