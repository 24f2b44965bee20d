"""Prefix tree of token blocks: the keys and values of what sequences begin with.

A block is a run of BLOCK tokens. Its parent is the block before it, so a path from the root is the
beginning of a sequence, and sequences that begin alike share their first blocks. The least recently
used blocks are evicted first. To use a block is to use all blocks before it, these last: a parent
is more recent than its children, and the least recently used block is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

BLOCK = 16
States = tuple[Tensor, ...]
"""Keys and values of n tokens in all layers: tensors (..., n, head size)."""


@dataclass(eq=False, slots=True)
class CachedBlock:
    """Cached block of BLOCK tokens: their keys and values, which follow the parent's."""

    tokens: tuple[int, ...]
    states: States
    siblings: dict[tuple[int, ...], CachedBlock]  # the parent's children, this block among them
    children: dict[tuple[int, ...], CachedBlock] = field(default_factory=dict)


class BlockTree:
    """Tree of cached token blocks, at most `max_tokens` tokens at any time."""

    def __init__(self) -> None:
        self.max_tokens = 0
        self._roots: dict[tuple[int, ...], CachedBlock] = {}
        self._by_age: OrderedDict[CachedBlock, None] = OrderedDict()  # least recently used first

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the tree."""
        return len(self._by_age) * BLOCK

    def set_limit(self, max_tokens: int) -> None:
        """Set the limit of tokens, and evict those over it."""
        self.max_tokens = max_tokens
        while self.num_tokens > max_tokens:
            self._evict()

    def find(self, ids: Sequence[int]) -> list[CachedBlock]:
        """Find the cached blocks that a sequence begins with, and mark them as used."""
        path, children = list[CachedBlock](), self._roots
        for start in range(0, len(ids) - BLOCK + 1, BLOCK):
            block = children.get(tuple(ids[start : start + BLOCK]))
            if block is None:
                break
            path.append(block)
            children = block.children
        self._use(path)
        return path

    def add(self, ids: Sequence[int], states: Callable[[int, int], States]) -> None:
        """Add the whole blocks of a sequence, as many as the limit has room for.

        `states(start, end)` returns the keys and values of tokens [start, end); it is called once
        for all that is missing, if anything is.
        """
        path = self.find(ids)
        missing = min(len(ids), self.max_tokens) // BLOCK - len(path)
        if missing <= 0:
            return
        while self.num_tokens + missing * BLOCK > self.max_tokens:
            self._evict()  # never of the path: it is the most recent, and all of it has room
        first = len(path) * BLOCK
        added = states(first, first + missing * BLOCK)
        for number in range(missing):
            begin, children = first + number * BLOCK, path[-1].children if path else self._roots
            tokens = tuple(ids[begin : begin + BLOCK])
            own = slice(number * BLOCK, (number + 1) * BLOCK)
            kept = tuple(
                part[..., own, :].clone(memory_format=torch.contiguous_format) for part in added
            )
            children[tokens] = CachedBlock(tokens, kept, children)
            path.append(children[tokens])
        self._use(path)

    def _use(self, path: Sequence[CachedBlock]) -> None:
        for block in reversed(path):
            self._by_age[block] = None
            self._by_age.move_to_end(block)

    def _evict(self) -> None:
        block, _ = self._by_age.popitem(last=False)
        del block.siblings[block.tokens]


def concatenate_blocks(blocks: Sequence[CachedBlock]) -> States:
    """Concatenate consecutive blocks: their keys and values."""
    return tuple(
        torch.cat(parts, -2) for parts in zip(*(block.states for block in blocks), strict=True)
    )
