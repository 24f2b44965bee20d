"""Index tensors of one padding-free forward pass over the KV cache.

A pass reads N new tokens of n rows, side by side without padding. Each row has up to q of them and
looks at k columns of the cache; `heads` are key heads, of which each serves `groups` query heads.
What must hold in `KVCache`, which makes these blocks:
- column p of a row is its p-th own token; what lies behind its length is masked by minus infinity
  and must still be finite numbers, since 0 x inf would be NaN;
- a plan (`append_plan`, `append_step_plan`) comes before `write`, and `write` before `attend`;
- views of the buffers (`layers`, `flat`) are made anew wherever `resize` moves the buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class PrefixGroups(NamedTuple):
    """Places of a block's n rows at G shared prompts of up to p tokens."""

    prompts: Tensor  # (n,) int64, at which each row sits; at any where it has none
    mask: Tensor  # (G x heads, 1, p) additive, which of its columns a prompt has
    none: Tensor | None  # (m,) int64, the rows without a prompt, if any
    rows: (
        Tensor | None
        # (G x places,) int64, which of the rows sits in each place; None: in their own order
    )
    back: Tensor | None  # (n,) int64, in which place each row sits


class TokenBlock(NamedTuple):
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
    own: Sequence[tuple[Tensor, Tensor]] = ()  # of a step: what `_flat_own` returns, layer by layer
    prefix_groups: PrefixGroups | None = None  # where rows begin with shared prompts

    @property
    def begin(self) -> int:
        """Columns in front of a row's own: p, or none."""
        return self.prefix_groups.mask.shape[-1] if self.prefix_groups is not None else 0

    def last_tokens(self) -> TokenBlock:
        """Return the block of each row's last token alone."""
        if self.longest == 1:
            return self
        number, columns = (
            torch.arange(len(self.chosen), device=self.chosen.device),
            self.columns[self.ends],
        )
        return self._replace(
            positions=self.positions[self.ends],
            rows=self.chosen,
            columns=columns,
            place=number,
            offset=number * 0,
            ends=number,
            longest=1,
            fresh=False,
        )

    def padded(self, states: Tensor) -> Tensor:
        """Return states (N, ...) as (n, q, ...), each row's from its first on."""
        shape = (len(self.chosen), self.longest, *states.shape[1:])
        if len(states) == shape[0] * shape[1]:
            return states.view(shape)
        padded = states.new_zeros(shape)
        padded[self.place, self.offset] = states
        return padded

    def unpadded(self, states: Tensor) -> Tensor:
        """Return states (n, q, ...) as (N, ...)."""
        dense = len(self.place) == states.shape[0] * states.shape[1]
        return states.flatten(0, 1) if dense else states[self.place, self.offset]
