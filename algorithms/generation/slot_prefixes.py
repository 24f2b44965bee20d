"""Prefix sharing between the slots of an engine, with a tree of cached token blocks.

- Slots with the same first prompt (a group) share all of it but its last token.
- Other slots that run at the same time share a prefix of whole blocks, which is computed and cached
  once (`Decoder.start_slots`).
- What no running slot holds any more is copied from the tree of blocks.

A block is a run of BLOCK tokens. Its parent is the block before it, so a path from the root is the
beginning of a sequence, and sequences that begin alike share their first blocks. The least recently
used blocks are evicted first. To use a block is to use all blocks before it, these last: a parent
is more recent than its children, and the least recently used block is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, takewhile
from typing import Any

import numpy as np
import torch
from torch import nn

from fctncalling.algorithms.generation.decoder import Decoder
from fctncalling.algorithms.generation.kv_cache import States
from fctncalling.algorithms.generation.sequence import Slot
from fctncalling.algorithms.policy.shared_prefixes.prefix_tree import common_prefix_with_previous

BLOCK = 16
# that sharing between different prompts must save: it takes passes of its own
MIN_SAVED_FLOPS = 1e9
MIN_COMMON = 0.75  # of the longest prefix: a shorter one that more slots share is as good
Tokens = tuple[int, ...]


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


def min_tokens_worth_sharing(model: nn.Module) -> int:
    """Return the minimal number of tokens worth sharing, for a model of this size."""
    num_weights = sum(weight.numel() for weight in model.parameters())
    return max(BLOCK, int(MIN_SAVED_FLOPS / (2 * num_weights)))


class SlotPrefixes:
    """Prefixes shared by slots: which slots hold them, and their cached blocks.

    rows: the decoder's row of each slot; it may change at any time. min_tokens: the shortest prefix
    that slots with different prompts share; None: they share nothing, and nothing is kept.
    """

    def __init__(self, decoder: Decoder[Any], rows: Sequence[int], min_tokens: int | None) -> None:
        self.tree = BlockTree()
        self._decoder = decoder
        self._rows = rows
        self._min_tokens = min_tokens
        self._holders: dict[Tokens, list[int]] = {}  # a prefix -> the slots that hold it
        self._prefixes: dict[int, list[Tokens]] = {}  # a slot -> those of them that it holds
        self._unkept: list[Slot] = []  # whose prompts the tree should hold once they are computed

    def forget_slot(self, slot: int) -> None:
        """Forget a slot's prefixes."""
        for prefix in self._prefixes.pop(slot, ()):
            self._holders[prefix].remove(slot)
            if not self._holders[prefix]:
                del self._holders[prefix]

    def start_slots(self, slots: Sequence[Slot]) -> set[int]:
        """Start slots, empty ones, with the prefixes they share; the rest of their prompts waits.

        The last token always does: each slot needs the logits after it. Returns the numbers of
        the slots of which nothing else is pending.
        """
        alike: dict[Tokens, list[Slot]] = {}
        for slot in slots:
            slot.prefix = tuple(slot.pending)
            alike.setdefault(slot.prefix, []).append(slot)
        opened, alone = set[int](), list[Slot]()
        for opening, members in alike.items():
            grouped = len(opening) > 1 and len(self._holders.get(opening, ())) + len(members) > 1
            if grouped:
                self._start(members, opening, opening[:-1])
                opened.update(slot.number for slot in members)
            else:
                self._hold(members, opening)
                alone += members
        if long := [slot for slot in alone if self._is_long(slot.prefix)]:
            for slot, count in zip(long, self._common(long), strict=True):
                self._start_alone(slot, count)
        return opened

    def keep_prompts(self) -> None:
        """Keep the prompts computed since `start_slots` in the tree of blocks."""
        for slot in self._unkept:
            self._add(slot, slot.prefix)
        self._unkept = []

    def _start_alone(self, slot: Slot, count: int) -> None:
        """Start a slot with the `count` tokens that it shares, and with cached blocks."""
        opening, row = slot.prefix, self._rows[slot.number]
        if count:
            self._start([slot], opening[:count], opening[:count])
        blocks = self.tree.find(opening[:-1])[count // BLOCK :]
        if blocks:
            self._decoder.cache.append_states(row, concatenate_blocks(blocks))
        slot.pending = list(opening[count + len(blocks) * BLOCK :])
        self._unkept.append(slot)

    def _start(self, slots: Sequence[Slot], prefix: Tokens, shared: Tokens) -> None:
        """Start slots with shared tokens, of a slot that holds the prefix if there is one."""
        rows = [self._rows[slot.number] for slot in slots]
        holders = [self._rows[number] for number in self._holders.get(prefix, ())]
        # The last to come shares what it began with, if any does; some have computed nothing yet.
        if ready := [row for row in holders if self._decoder.cache.length(row) >= len(shared)]:
            self._decoder.cache.share_prefix(ready[-1], rows, len(shared))
        else:
            blocks = self.tree.find(shared) if self._is_long(shared) else []
            self._decoder.start_rows(rows, shared, concatenate_blocks(blocks) if blocks else None)
            if self._is_long(shared):
                self._add(slots[0], shared)
        self._hold(slots, prefix)
        for slot in slots:
            slot.pending = list(slot.prefix[len(shared) :])

    def _add(self, slot: Slot, ids: Tokens) -> None:
        row = self._rows[slot.number]
        self.tree.add(ids, partial(self._decoder.cache.cached_states, row))

    def _hold(self, slots: Sequence[Slot], prefix: Tokens) -> None:
        for slot in slots:
            self._holders.setdefault(prefix, []).append(slot.number)
            self._prefixes.setdefault(slot.number, []).append(prefix)

    def _is_long(self, prefix: Tokens) -> bool:
        return self._min_tokens is not None and len(prefix) >= self._min_tokens

    def _common(self, slots: Sequence[Slot]) -> list[int]:
        """Return how many tokens of whole blocks each slot shares with other running slots."""
        openings = {prefixes[0] for prefixes in self._prefixes.values()}
        rows = sorted((np.array(opening) for opening in openings), key=lambda row: row.tobytes())
        common = [*common_prefix_with_previous(rows), 0]
        number = {tuple(row.tolist()): place for place, row in enumerate(rows)}
        found = [_most_shared(common, number[slot.prefix]) for slot in slots]
        most = [min(count, len(slot.prefix) - 1) for count, slot in zip(found, slots, strict=True)]
        whole = [count // BLOCK * BLOCK for count in most]
        return [count if count >= (self._min_tokens or 0) else 0 for count in whole]


def _most_shared(common: Sequence[int], row: int) -> int:
    """Return the tokens that a row shares with others.

    Common[i]: those of rows i - 1 and i, which are sorted.

    As many as with the most alike of them, or up to a quarter less where that is what more of them
    share: every shared prefix is cached in full.
    """
    longest = max(common[row], common[row + 1])
    counts = [longest]
    for neighbours in (common[row + 1 :], common[row::-1]):
        alike = accumulate(neighbours, min)
        counts += takewhile(lambda count: count >= MIN_COMMON * longest, alike)
    return min(counts)
