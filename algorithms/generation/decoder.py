"""Decoder protocol (prefill, decode) and its transformers implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fctncalling.algorithms.generation.kv_cache import States
from fctncalling.algorithms.generation.transformers_cache import (
    RaggedCache,
    attention_mask,
    check_supported_cache,
)
from fctncalling.algorithms.policy.precision import compute_dtypes


class Decoder(Protocol):
    """Interface of a decoder: a model with a KV cache of one growing sequence per row."""

    num_tokens: int  # passed through the model so far, without padding

    def prefill(self, rows: Sequence[int], new_tokens: Sequence[Sequence[int]]) -> Tensor:
        """Prefill rows: append several tokens to each in one pass.

        Return the logits (n, V) after the last of each. One or more passes.
        """
        ...

    def decode(self, tokens: Sequence[int], active: Sequence[bool]) -> Tensor:
        """Decode one step: append one token to each active row among the first.

        Return the logits (n, V) after it; those of the other rows are undefined.
        """
        ...

    def length(self, row: int) -> int:
        """Return the length of a row in tokens."""
        ...

    def clear_row(self, row: int) -> None:
        """Clear a row: forget its tokens."""

    def swap_rows(self, one: int, other: int) -> None:
        """Swap two rows."""

    def start_rows(
        self, rows: Sequence[int], prompt: Sequence[int], known: States | None = None
    ) -> None:
        """Start rows, empty ones, with the same prompt, which passes through the model once.

        `known`: keys and values of its first tokens, which do not.
        """

    def share_prefix(self, source: int, rows: Sequence[int], count: int) -> None:
        """Share a prefix: start empty rows with the first `count` tokens of another."""

    def cached_states(self, row: int, start: int, end: int) -> States:
        """Return cached states (keys and values) of a row's tokens [start, end), as views maybe."""
        ...

    def append_states(self, row: int, states: States) -> None:
        """Append states to a row: tokens with known keys and values."""


class TransformersDecoder:
    """Transformers decoder: any causal language model there, through its own forward."""

    def __init__(self, model: nn.Module, num_rows: int, *, max_tokens: int = 8192) -> None:
        """max_tokens: padded tokens of one forward over several rows."""
        check_supported_cache(model)
        self.model = model
        self.max_tokens = max_tokens
        self.cache = RaggedCache(num_rows)
        self.num_tokens = 0
        self._parameter = next(model.parameters())

    def prefill(self, rows: Sequence[int], new_tokens: Sequence[Sequence[int]]) -> Tensor:
        """Prefill rows: pass new tokens, rows of like length in one left-padded block."""
        by_length = sorted(range(len(new_tokens)), key=lambda i: len(new_tokens[i]))
        logits: dict[int, Tensor] = {}
        while by_length:
            width = len(new_tokens[by_length[-1]])
            # Rows shorter than half the block would be mostly padding, which costs as much as text.
            most = max(1, self.max_tokens // width)
            group = [i for i in by_length if 2 * len(new_tokens[i]) > width][-most:]
            del by_length[-len(group) :]
            block = [[0] * (width - len(new_tokens[i])) + list(new_tokens[i]) for i in group]
            counts = [len(new_tokens[i]) for i in group]
            found = self._forward(block, counts, [rows[i] for i in group])
            logits |= dict(zip(group, found, strict=True))
        return torch.stack([logits[i] for i in range(len(new_tokens))])

    def decode(self, tokens: Sequence[int], active: Sequence[bool]) -> Tensor:
        """Decode one step: pass one token of each of the first rows through the model."""
        return self._forward(
            [[token] for token in tokens], list(map(int, active)), range(len(tokens))
        )

    def length(self, row: int) -> int:
        """Return the length of a row in tokens."""
        return self.cache.lengths[row]

    def clear_row(self, row: int) -> None:
        """Clear a row: forget its tokens."""
        self.cache.lengths[row] = 0

    def swap_rows(self, one: int, other: int) -> None:
        """Swap two rows."""
        self.cache.swap_rows(one, other)

    def start_rows(
        self, rows: Sequence[int], prompt: Sequence[int], known: States | None = None
    ) -> None:
        """Start rows, empty ones, with the same prompt, which passes once and is copied."""
        if known is not None:
            self.append_states(rows[0], known)
        if rest := prompt[self.length(rows[0]) :]:
            self.prefill(rows[:1], [rest])
        self.share_prefix(rows[0], rows[1:], len(prompt))

    def share_prefix(self, source: int, rows: Sequence[int], count: int) -> None:
        """Share a prefix: start empty rows with a copy of another's first `count` tokens."""
        for row in rows:
            self.cache.share_prefix(source, row, count)

    def cached_states(self, row: int, start: int, end: int) -> States:
        """Return the cached states, keys and values (heads, tokens, size), of [start, end)."""
        return self.cache.cached_states(row, start, end)

    def append_states(self, row: int, states: States) -> None:
        """Append states to a row: tokens with known keys and values."""
        self.cache.append_states(row, states)

    def _forward(self, block: list[list[int]], counts: list[int], rows: Sequence[int]) -> Tensor:
        """Return the logits (n, V) after the last column of a left-padded block (n, width).

        Row i has `counts[i]` tokens.
        """
        device, model = self._parameter.device, self.model
        positions = self.cache.reserve_positions(counts, len(block[0]), rows, device)
        self.num_tokens += sum(counts)
        output: Any = model(
            input_ids=torch.tensor(block, device=device),
            attention_mask=attention_mask(model, positions, compute_dtypes(model).decoder),
            position_ids=positions.positions.clamp(min=0),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits
