"""Prefix sharing of one model: which rows pass together, and whether that pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fctncalling.algorithms.policy.shared_prefixes.prefix_tree import (
    Ids,
    PrefixTree,
    build_tree,
    common_prefix_with_previous,
)
from fctncalling.algorithms.policy.shared_prefixes.tree_attention import BLOCK
from fctncalling.algorithms.policy.shared_prefixes.tree_states import (
    accepts_tree_masks,
    runs_by_segment,
)

MAX_COST = 0.9  # of the cost of separate rows; nearer to it the estimate could be wrong
CALL_FLOPS = 4e6  # an attention call of a layer takes as long as so many operations of a product
MIN_ROOT_SHARE = 0.5  # a mask over a whole tree costs its square: rows with less in common stay out


class PrefixSharing(NamedTuple):
    """Prefix sharing of a model's passes: what they cost, and whether a tree pays."""

    layer_flops: int  # of the linear layers for a token, in each layer
    pair_flops: int  # of attention for a pair of query and key
    by_segment: bool  # without a mask over whole trees
    max_row: int | None  # tokens; in a longer row a sliding window would hide tokens; None: any

    def build_tree(self, rows: Sequence[Ids]) -> PrefixTree:
        """Build the prefix tree of rows, as this model's passes take it."""
        if self.by_segment:
            return build_tree(rows, min_saving=max(1, round(CALL_FLOPS / self.layer_flops)))
        return build_tree(rows, min_root_share=MIN_ROOT_SHARE)

    def microbatches(
        self, rows: Sequence[Ids], *, max_tokens: int, num_parts: int = 1
    ) -> list[list[int]]:
        """Return microbatches of rows that share prefixes, as row indices.

        Each holds at most max_tokens tokens of its tree (a longer row forms one by itself), and at
        most a num_parts-th of all. It ends, within its last half, where the next row has least in
        common with it.
        """
        order = sorted(range(len(rows)), key=lambda row: rows[row].tobytes())
        common = common_prefix_with_previous([rows[row] for row in order])
        new = [len(rows[row]) - shared for row, shared in zip(order, common, strict=True)]
        limit = min(max_tokens, -(-sum(new) // num_parts))
        groups, start = list[list[int]](), 0
        while start < len(order):
            size, end, middle = len(rows[order[start]]), start + 1, start + 1
            while end < len(order) and size + new[end] <= limit:
                size, end = size + new[end], end + 1
                middle = end if size <= limit // 2 else middle
            if end < len(order):
                end = min(range(end, middle - 1, -1), key=lambda row: common[row])
            groups.append(order[start:end])
            start = end
        return groups

    def may_save_tokens(self, rows: Sequence[Ids], longest: int) -> bool:
        """Whether sharing may save enough tokens of the rows; a quick check.

        The longest pass has so many tokens.
        """
        if self.max_row is not None and longest > self.max_row:
            return False
        ordered = sorted(rows, key=lambda row: row.tobytes())
        saved, total = sum(common_prefix_with_previous(ordered)), sum(map(len, ordered))
        return saved > (1.0 - MAX_COST) * total

    def saves_tokens(
        self,
        rows: Sequence[Ids],
        shared: Sequence[Sequence[int]],  # microbatches that pass as trees
        padded: Sequence[Sequence[int]],  # those that would pass as padded rows
    ) -> bool:
        """Whether sharing saves tokens: trees cost clearly less than padded rows."""
        separate = sum(self._padded_cost([len(rows[row]) for row in group]) for group in padded)
        together = 0.0
        for group in shared:
            together += self._tree_cost(self.build_tree([rows[row] for row in group]))
            if together > MAX_COST * separate:
                return False
        return True

    def _padded_cost(self, lengths: Sequence[int]) -> float:
        longest = max(lengths)
        return self._cost(
            len(lengths) * longest, len(lengths) * longest**2 / 2, longest // BLOCK + 1
        )

    def _tree_cost(self, tree: PrefixTree) -> float:
        tokens, positions = len(tree.ids), int(tree.positions.sum())
        if self.by_segment:
            return self._cost(tokens, tokens + positions, tokens // BLOCK + len(tree.segments))
        sizes = [end - start for start, end in tree.tree_spans()]
        padded = len(sizes) * max(sizes)
        return self._cost(padded, padded * max(sizes), 1)

    def _cost(self, tokens: int, pairs: float, calls: int) -> float:
        return tokens + (pairs * self.pair_flops + calls * CALL_FLOPS) / self.layer_flops


def prefix_sharing_of(model: Any, decoder: Any) -> PrefixSharing | str:
    """Return the prefix sharing of a model's passes, or the reason why they cannot share."""
    layers = getattr(decoder, "layers", None) or getattr(decoder, "h", None)
    config = getattr(model, "config", None)
    by_segment = layers is not None and runs_by_segment(model, decoder)
    if not by_segment and not accepts_tree_masks(decoder):
        return f"{type(model).__name__} takes no attention mask over a tree of rows"
    blocks = [decoder] if layers is None else list(layers)
    weights = sum(weight.numel() for block in blocks for weight in block.parameters())
    return PrefixSharing(
        layer_flops=max(1, 2 * weights // len(blocks)),
        pair_flops=4 * int(getattr(config, "hidden_size", 1)),
        by_segment=by_segment,
        max_row=_window(config),
    )


def _window(config: Any) -> int | None:
    """Return the tokens of a model's sliding window, None where all its layers see everything."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and not {"sliding_attention", "chunked_attention"} & set(kinds):
        return None
    sizes = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    return min((int(size) for size in sizes if size), default=None)
