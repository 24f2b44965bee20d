"""KV cache with prefix sharing.

A group's prompt is held once, as a row of a second KVCache (`prompts`), and each episode's own
tokens in a row of this one. Attention over both is one softmax over the scores side by side,
[prompt | own], so it equals attention over a row that holds all. The scores of a prompt are one
product for all rows that begin with it: rows are laid out by prompt (`PrefixGroups`), G prompts
with equally many places each, unused places computed and thrown away. What must hold: positions go
on where the prompt ends (`begins`), and a prompt goes when the last row that has it does.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fctncalling.algorithms.generation.kv_cache import (
    KVCache,
    PackedTokens,
    PrefixGroups,
    States,
    next_capacity,
    round_up_columns,
)


class SharedPrefixKVCache(KVCache):
    """KV cache with shared prefixes: each row follows a shared prompt, or none.

    A prompt lives as long as a row follows it. Attention is over [prompt | own] columns: as many
    prompt columns as the longest prompt has, then the row's own.
    """

    def __init__(
        self, num_layers: int, num_rows: int, num_heads: int, head_size: int, like: Tensor
    ) -> None:
        super().__init__(num_layers, num_rows, num_heads, head_size, like)
        self.prompts = KVCache(num_layers, 0, num_heads, head_size, like)
        self._num_prompts = 0  # the first rows of them; the others are free
        # a row -> its prompt's row among the prompts
        self._prompt_of: list[int | None] = [None] * num_rows
        self._grouped_prompts: list[int | None] = []  # prompt of each row that `_groups` is made of
        self._groups: PrefixGroups | None = None

    def clear_row(self, row: int) -> None:
        """Clear a row: forget its tokens, and its prompt if no other row follows it."""
        super().clear_row(row)
        left, self._prompt_of[row] = self._prompt_of[row], None
        # No counter of followers: a list of a few dozen rows is searched faster than kept right.
        if left is None or left in self._prompt_of:
            return
        # The last prompt takes its place: those in use are the first rows.
        self._num_prompts = last = self._num_prompts - 1
        self.prompts.clear_row(left)
        if left != last:
            with torch.inference_mode():
                moved = self.prompts.cached_states(last, 0, self.prompts.lengths[last])
                self.prompts.append_states(left, moved)
            self.prompts.clear_row(last)
        # Given back by halves: prompts come and go, and each resize copies those that stay.
        if last <= self.prompts.keys.shape[1] // 2:
            longest = max(self.prompts.lengths[:last], default=0)
            self.prompts.resize(round_up_columns(longest), last)
        self._prompt_of = [left if prompt == last else prompt for prompt in self._prompt_of]
        self._groups = None

    def swap_rows(self, one: int, other: int) -> None:
        """Swap two rows; the contents of empty rows are dropped."""
        super().swap_rows(one, other)
        prompts = self._prompt_of
        prompts[one], prompts[other] = prompts[other], prompts[one]

    def add_prompt(self, count: int, states: States | None = None) -> int:
        """Add a prompt to share, with room for `count` tokens; return its number.

        `cached_states`: keys and values of the first of them.
        """
        number, buffer = self._num_prompts, self.prompts.keys
        rows, columns = buffer.shape[1], buffer.shape[-1]
        longest = round_up_columns(max([count, *self.prompts.lengths[:number]]))
        if number == rows or longest > columns:
            # In steps that grow with it, and shrink so below: each prompt is copied a few times.
            longest = longest if longest <= columns else next_capacity(columns, longest)
            self.prompts.resize(longest, rows + 1 + rows // 4 if number == rows else rows)
        self._num_prompts += 1
        self._groups = None
        if states is not None:
            self.prompts.append_states(number, states)
        return number

    def start_rows(self, rows: Sequence[int], prompt: int) -> None:
        """Start rows, empty ones, with a shared prompt."""
        for row in rows:
            # Positions go on where the prompt ends, though the row's own columns start at 0.
            self._prompt_of[row], self.begins[row] = prompt, self.prompts.lengths[prompt]

    def share_prefix(self, source: int, rows: Sequence[int], count: int) -> None:
        """Share a prefix: start empty rows with another's first `count` tokens as their prompt."""
        prompt = self._prompt_of[source]
        # The whole prompt of another row is shared as it is; a part of it becomes a new prompt.
        if prompt is None or self.prompts.lengths[prompt] != count:
            prompt = self.add_prompt(count, self.cached_states(source, 0, count))
        self.start_rows(rows, prompt)

    def cached_states(self, row: int, start: int, end: int) -> States:
        """Return cached states, keys and values (layers, heads, tokens, size), of [start, end)."""
        prompt, begin = self._prompt_of[row], self.begins[row]
        own = super().cached_states(row, max(start, begin) - begin, end - begin)
        if prompt is None or start >= begin:
            return own
        shared = self.prompts.cached_states(prompt, start, min(end, begin))
        if end <= begin:
            return shared
        return tuple(torch.cat(parts, -2) for parts in zip(shared, own, strict=True))

    def prefix_groups(self, rows: Sequence[int]) -> PrefixGroups | None:
        """Return the groups of rows by the shared prefixes that they follow; None without any."""
        prompts = [self._prompt_of[row] for row in rows]
        if prompts.count(None) == len(prompts):
            return None
        # Steps ask for the same rows over and over: the layout is made where they change.
        if self._groups is None or prompts != self._grouped_prompts:
            self._groups = self._new_prefix_groups(prompts)
            self._grouped_prompts = prompts
        return self._groups

    def _new_prefix_groups(self, prompts: Sequence[int | None]) -> PrefixGroups:
        device, lengths = self.keys.device, self.prompts.lengths[: self._num_prompts]
        rows_by_prompt: list[list[int]] = [[] for _ in lengths]
        for row, prompt in enumerate(prompts):
            rows_by_prompt[prompt or 0].append(row)
        # Equally many places a prompt, so that one batched product serves all; row 0 fills up, and
        # `back` picks none of what it computes there.
        places = max(map(len, rows_by_prompt))
        rows = [row for party in rows_by_prompt for row in (*party, *[0] * (places - len(party)))]
        ordered = rows == list(range(len(prompts)))
        back = [0] * len(prompts)
        for number, party in enumerate(rows_by_prompt):
            for place, row in enumerate(party):
                back[row] = number * places + place
        last = torch.tensor(lengths, device=device).repeat_interleave(self.keys.shape[2]) - 1
        none = [row for row, prompt in enumerate(prompts) if prompt is None]
        used, width = slice(len(lengths)), round_up_columns(max(lengths))
        return PrefixGroups(
            prompts=torch.tensor([prompt or 0 for prompt in prompts], device=device),
            mask=self.prompts.causal_mask_rows(last, width).unsqueeze(1),
            none=torch.tensor(none, device=device) if none else None,
            rows=None if ordered else torch.tensor(rows, device=device),
            back=None if ordered else torch.tensor(back, device=device),
            states=[
                (keys[used, ..., :width].flatten(0, 1), values[used, :, :width].flatten(0, 1))
                for keys, values in self.prompts.layers
            ],
        )

    def _products(self, layer: int, block: PackedTokens, queries: Tensor, mask: Tensor) -> Tensor:
        """Return the attention outputs of queries (n x heads, r, size), in the same shape.

        R of one row and kept head are one product.
        """
        if (groups := block.prefix_groups) is None:
            return super()._products(layer, block, queries, mask)
        keys, values = self._flat_own(layer, block)
        shared_keys, shared_values = groups.states[layer]
        by_row = (len(block.chosen), self.keys.shape[2], queries.shape[1], -1)
        own = torch.baddbmm(mask, queries, keys, alpha=self.scale).view(by_row)
        by_place = queries.view(by_row)
        scores = _per_prefix(groups, by_place, shared_keys, groups.mask, scale=self.scale)
        # Rows without a prompt sit at any: minus infinity takes its columns out of their softmax.
        if groups.none is not None:
            scores = scores.index_fill(0, groups.none, float("-inf"))
        # One softmax over both parts, so the result is that of a row that held all tokens.
        weights = torch.cat((scores, own), -1).softmax(-1)
        shared_weights, own_weights = weights.tensor_split((block.num_prefix_columns,), -1)
        read = _per_prefix(groups, shared_weights, shared_values).flatten(0, 1)
        return read.baddbmm_(own_weights.flatten(0, 1), values)

    def mask(self, block: PackedTokens, groups: int) -> Tensor | None:
        """Return the mask of attention, additive, of new tokens, shared prefixes included.

        As `KVCache.mask` over own columns where `_products` adds the prompts, else over [prompt |
        own] columns.
        """
        mask, prefix_groups = super().mask(block, groups), block.prefix_groups
        if mask is None or mask.dim() == 3 or prefix_groups is None:
            return mask
        of_prompts = prefix_groups.mask[:: self.keys.shape[2]].unsqueeze(1)
        seen = of_prompts.index_select(0, prefix_groups.prompts)
        if prefix_groups.none is not None:
            seen = seen.index_fill(0, prefix_groups.none, float("-inf"))
        return torch.cat((seen.expand(-1, -1, block.longest, -1), mask), -1)

    def _columns(self, layer: int, block: PackedTokens) -> tuple[Tensor, Tensor]:
        if block.prefix_groups is None:
            return super()._columns(layer, block)
        keys, values = (
            shared.view(-1, self.keys.shape[2], *shared.shape[1:])[block.prefix_groups.prompts]
            for shared in block.prefix_groups.states[layer]
        )
        own_keys, own_values = self._own(layer, block)
        every = torch.cat((keys, own_keys), -1).transpose(-1, -2).contiguous()
        return every, torch.cat((values, own_values), 2)


def _per_prefix(
    prefix_groups: PrefixGroups,
    states: Tensor,
    matrices: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Return states (n, heads, g, x) times their prompt's matrix, (n, heads, g, y).

    The matrices are (G x heads, x, y).

    One product per prompt and head, times `scale` and plus `mask` (G x heads, 1, y) where given.
    """
    if prefix_groups.rows is not None:
        states = states.index_select(0, prefix_groups.rows)
    _, heads, queries, width = states.shape
    shape = (len(matrices) // heads, -1, heads, queries, width)  # by prompt and place
    by_prompt = states.transpose(0, 1) if shape[0] == 1 else states.view(shape).transpose(1, 2)
    by_prompt = by_prompt.reshape(len(matrices), -1, width)
    if mask is None:
        product = torch.bmm(by_prompt, matrices)
    else:
        product = torch.baddbmm(mask, by_prompt, matrices, alpha=scale)
    of_prompt = (heads, -1, queries, matrices.shape[-1])
    if shape[0] == 1:  # the same as below, by fewer steps
        by_row = product.view(of_prompt).transpose(0, 1)
    else:
        by_row = product.view(shape[0], *of_prompt).transpose(1, 2).flatten(0, 1)
    return by_row if prefix_groups.back is None else by_row.index_select(0, prefix_groups.back)
