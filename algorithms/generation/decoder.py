"""Decoder: prefill and decoding over a KV cache of one growing sequence per row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from fctncalling.algorithms.generation.kv_cache import States


class RowCache(Protocol):
    """KV cache of a decoder, row by row."""

    def length(self, row: int) -> int:
        """Return the length of a row in tokens."""
        ...

    def clear_row(self, row: int) -> None:
        """Clear a row: forget its tokens."""

    def swap_rows(self, one: int, other: int) -> None:
        """Swap two rows; the contents of empty rows are dropped."""

    def share_prefix(self, source: int, rows: Sequence[int], count: int) -> None:
        """Share a prefix: start empty rows with the first `count` tokens of another."""

    def cached_states(self, row: int, start: int, end: int) -> States:
        """Return cached states (keys and values) of a row's tokens [start, end), as views maybe."""
        ...

    def append_states(self, row: int, states: States) -> None:
        """Append computed keys and values of tokens to a row."""


Cache = TypeVar("Cache", bound=RowCache)


class Decoder(ABC, Generic[Cache]):
    """Decoder of a model, an interface."""

    cache: Cache
    num_tokens = 0  # passed through the model so far, without padding
    pads = False  # whether padding is computed as tokens are

    def __init__(self, max_tokens: int) -> None:
        """max_tokens: of one pass over several rows, padding included."""
        self.max_tokens = max_tokens

    def prefill(self, rows: Sequence[int], new_tokens: Sequence[Sequence[int]]) -> Tensor:
        """Prefill rows: append several tokens to each, rows of similar length in one pass.

        Return the logits (n, V) after the last of each.
        """
        order = sorted(range(len(rows)), key=lambda i: len(new_tokens[i]))
        groups: list[list[int]] = []
        for number in order:
            width = len(new_tokens[number])
            is_full = not groups or (len(groups[-1]) + 1) * width > self.max_tokens
            # Where padding costs as much as text, no row is padded to twice its length.
            if is_full or (self.pads and 2 * len(new_tokens[groups[-1][0]]) <= width):
                groups.append([])
            groups[-1].append(number)
        read = [self._read([rows[i] for i in g], [new_tokens[i] for i in g]) for g in groups]
        back = torch.tensor(order, device=read[0].device).argsort()
        return self._logits(torch.cat(read)[back])

    @abstractmethod
    def decode(self, tokens: Sequence[int], active: Sequence[bool]) -> Tensor:
        """Decode one step: append one token to each active row among the first.

        Return the logits (n, V) after it; those of the other rows are undefined.
        """

    @abstractmethod
    def start_rows(
        self, rows: Sequence[int], prompt: Sequence[int], known: States | None = None
    ) -> None:
        """Start rows, empty ones, with the same prompt, which passes through the model once.

        `known`: keys and values of its first tokens, which do not.
        """

    @abstractmethod
    def _read(self, rows: Sequence[int], new_tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append tokens to rows in one pass; return what `_logits` makes logits of, (n, ...)."""

    def _logits(self, read: Tensor) -> Tensor:
        return read
