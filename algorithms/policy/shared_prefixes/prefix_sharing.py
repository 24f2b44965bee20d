"""Prefix sharing of one model: which rows pass together, whether that pays, and their states.

Two ways lead to the hidden states of rows from one pass over their prefix tree. A model of
`sparse_forward`'s families is read segment by segment, and its last layer at the requested
positions only. Any other transformers model reads each tree of the forest as one sequence through
its own forward, with a 4-D attention mask and position ids; whether it takes those,
`accepts_tree_masks` tries out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fctncalling.algorithms.policy.gradient_checkpointing import (
    LayerRunner,
    run_without_checkpointing,
    use_layer_runner,
)
from fctncalling.algorithms.policy.precision import half_precision_dtype
from fctncalling.algorithms.policy.shared_prefixes.prefix_tree import (
    Ids,
    PrefixTree,
    build_tree,
    common_prefix_with_previous,
)
from fctncalling.algorithms.policy.shared_prefixes.tree_attention import (
    BLOCK,
    is_tree_attention_available,
    segment_states_at,
)
from fctncalling.algorithms.policy.sparse_forward import supports_sparse_forward

TRIAL_ROWS = ((1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 7), (1, 2, 8, 9, 1, 5, 2), (6, 5, 4))
TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-3}  # of hidden states; else HALF_TOLERANCE
HALF_TOLERANCE = 0.05
MAX_COST = 0.9  # of the cost of separate rows; nearer to it the estimate could be wrong
CALL_FLOPS = 4e6  # an attention call of a layer takes as long as so many operations of a product
MIN_ROOT_SHARE = 0.5  # a mask over a whole tree costs its square: rows with less in common stay out


class PrefixSharing(NamedTuple):
    """Prefix sharing of a model: cost estimates of passes over trees and padded rows."""

    layer_flops: int  # of the linear layers for a token, in each layer
    pair_flops: int  # of attention for a pair of query and key
    by_segment: bool  # without a mask over whole trees
    max_row: int | None  # tokens; in a longer row a sliding window would hide tokens; None: any
    mask_price: float = 1.0  # of attention with a mask over a tree, for one without

    def build_tree(self, rows: Sequence[Ids]) -> PrefixTree:
        """Build the prefix tree of rows, as this model's passes take it."""
        if self.by_segment:
            return build_tree(rows, min_saving=max(1, round(CALL_FLOPS / self.layer_flops)))
        return build_tree(rows, min_root_share=MIN_ROOT_SHARE)

    def microbatches(
        self,
        rows: Sequence[Ids],
        *,
        max_tokens: int,
        num_parts: int = 1,
        groups: Sequence[int] | None = None,
    ) -> list[list[int]]:
        """Return microbatches of rows that share prefixes, as row indices.

        Each holds at most max_tokens tokens of its tree (a longer row forms one by itself). It
        ends, within its last half, where the next row has least in common with it. num_parts: cut
        the rows first into so many parts of equal size; where there are enough groups (of each row,
        default: one of its own) no part ends within one, as it would be read twice.
        """
        # Neighbours share most, so a pass takes a run of neighbours, and new tokens add up.
        order = sorted(range(len(rows)), key=lambda row: rows[row].tobytes())
        common = common_prefix_with_previous([rows[row] for row in order])
        new = [len(rows[row]) - shared for row, shared in zip(order, common, strict=True)]
        ends = [
            place
            for place in range(1, len(order) + 1)
            if place == len(order) or not groups or groups[order[place]] != groups[order[place - 1]]
        ]
        ends = ends if len(ends) >= num_parts else list(range(1, len(order) + 1))
        read = np.cumsum([0, *new])
        wanted = read[-1] * np.arange(1, num_parts) / num_parts
        # The end of a group that lies nearest to each equal part.
        cuts = np.abs(read[ends][:, None] - wanted).argmin(0)
        bounds = [0, *(ends[cut] for cut in cuts), len(order)]
        passes = list[list[int]]()
        for start, last in pairwise(bounds):
            while start < last:
                size, end, middle = len(rows[order[start]]), start + 1, start + 1
                while end < last and size + new[end] <= max_tokens:
                    size, end = size + new[end], end + 1
                    middle = end if size <= max_tokens // 2 else middle
                # Both sides of a cut read their common prefix: take the shortest in the last half.
                if end < last:
                    end = min(range(end, middle - 1, -1), key=lambda row: common[row])
                passes.append(order[start:end])
                start = end
        return passes

    def may_save_tokens(self, rows: Sequence[Ids], longest: int) -> bool:
        """Whether sharing may save enough tokens of the rows; a quick check.

        The longest pass has so many tokens.
        """
        if self.max_row is not None and longest > self.max_row:
            return False
        ordered = sorted(rows, key=lambda row: row.tobytes())
        # Neighbours' prefixes count every shared token once: what an ideal tree would save.
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
            # Trees are slow to build: most of them need not be, where separate rows have won.
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
            # A token attends to its ancestors, as many as its position, and to itself.
            return self._cost(tokens, tokens + positions, tokens // BLOCK + len(tree.segments))
        # A mask is as wide as the longest tree, for each of the forest's trees.
        sizes = [end - start for start, end in tree.tree_spans()]
        padded = len(sizes) * max(sizes)
        return self._cost(padded, self.mask_price * padded * max(sizes), 1)

    def _cost(self, tokens: int, pairs: float, calls: int) -> float:
        return tokens + (pairs * self.pair_flops + calls * CALL_FLOPS) / self.layer_flops


def prefix_sharing_of(model: Any, decoder: Any) -> PrefixSharing | str:
    """Return the prefix sharing of a model's passes, or the reason why they cannot share."""
    layers = getattr(decoder, "layers", None) or getattr(decoder, "h", None)
    config = getattr(model, "config", None)
    by_segment = layers is not None and runs_by_segment(model, decoder)
    if not by_segment and not accepts_tree_masks(decoder):
        return f"{type(model).__name__} takes no attention mask over a tree of rows"
    # Of an unknown architecture the whole decoder counts as one layer.
    blocks = [decoder] if layers is None else list(layers)
    weights = sum(weight.numel() for block in blocks for weight in block.parameters())
    return PrefixSharing(
        layer_flops=max(1, 2 * weights // len(blocks)),
        pair_flops=4 * int(getattr(config, "hidden_size", 1)),
        by_segment=by_segment,
        max_row=_window(config),
    )


def _window(config: Any) -> int | None:
    """Return the size of a model's sliding window in tokens; None without one."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and not {"sliding_attention", "chunked_attention"} & set(kinds):
        return None
    sizes = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    return min((int(size) for size in sizes if size), default=None)


def tree_states_at(
    model: Any,
    decoder: Any,
    tree: PrefixTree,
    rows: Tensor,  # (N,)
    columns: Tensor,  # (N,)
    run: LayerRunner = run_without_checkpointing,
) -> Tensor:
    """Return tree states at N positions, hidden states of a prefix tree's rows, (N, H).

    After the final norm; `run` calls its layers.
    """
    if runs_by_segment(model, decoder):
        return segment_states_at(decoder, tree, rows, columns, run)
    with use_layer_runner(decoder, run):
        return _masked_states_at(decoder, tree, rows, columns)


def runs_by_segment(model: Any, decoder: Any) -> bool:
    """Whether a tree's forward pass runs by segment, without a mask."""
    # Autocast's hook, which the layers enter themselves.
    own_hooks = int(half_precision_dtype(decoder) is not None)
    return is_tree_attention_available() and supports_sparse_forward(
        model, decoder, known_hooks=own_hooks
    )


def accepts_tree_masks(decoder: Any) -> bool:
    """Whether a decoder accepts attention masks over a tree, by a trial pass."""
    # Dropout would make the trial's passes differ.
    was_training = decoder.training
    decoder.eval()
    try:
        with torch.no_grad():
            return _passes_trial(decoder)
    except (TypeError, ValueError, RuntimeError, LookupError, AttributeError, NotImplementedError):
        return False  # its forward knows no such mask
    finally:
        decoder.train(was_training)


def _passes_trial(decoder: Any) -> bool:
    tree = build_tree([np.asarray(row, dtype=np.int64) for row in TRIAL_ROWS])
    device = next(decoder.parameters()).device
    for number, row in enumerate(TRIAL_ROWS):
        ids = torch.tensor([row], device=device)
        positions = torch.arange(len(row), device=device).unsqueeze(0)
        # The row alone, by the model's own causal mask, is what the tree has to give.
        expected = decoder(input_ids=ids, position_ids=positions, use_cache=False)
        wanted = expected.last_hidden_state[0]
        at = (torch.full((len(row),), number, device=device), positions[0])
        found = _masked_states_at(decoder, tree.to(device), *at)
        tolerance = TOLERANCES.get(wanted.dtype, HALF_TOLERANCE) * float(wanted.abs().max())
        if not torch.allclose(found, wanted, rtol=0.0, atol=tolerance):
            return False
    return True


def _masked_states_at(decoder: Any, tree: PrefixTree, rows: Tensor, columns: Tensor) -> Tensor:
    device = tree.ids.device
    bounds = torch.tensor(tree.tree_spans(), device=device)  # (R, 2)
    # Trees have different sizes: shorter ones repeat their last token, which is dropped below.
    token = bounds[:, :1] + torch.arange(int((bounds[:, 1] - bounds[:, 0]).max()), device=device)
    inside = token < bounds[:, 1:]  # (R, M)
    token = token.where(inside, bounds[:, 1:] - 1)
    # Depth-first order: a token's descendants are those from itself to the end of its subtree.
    ends = tree.subtree_ends().to(device)[token]
    attended = (token[:, None, :] <= token[:, :, None]) & (token[:, :, None] < ends[:, None, :])
    attended &= inside[:, None, :]  # padding repeats a tree's last token, and attends to the tree
    outputs = decoder(
        input_ids=tree.ids[token],
        attention_mask=_as_mask(decoder, attended.unsqueeze(1)),
        position_ids=tree.positions[token],
        use_cache=False,
    )
    states: Tensor = outputs.last_hidden_state[inside]  # (U, H), trees end to end
    return states[tree.row_index[rows, columns]]


def _as_mask(decoder: Any, attended: Tensor) -> Tensor:
    """Return which tokens are attended to, (R, 1, M, M), as the decoder's attention takes it.

    Bool for SDPA, else a bias.
    """
    if getattr(decoder.config, "_attn_implementation", None) == "sdpa":
        return attended
    dtype = next(decoder.parameters()).dtype
    return torch.zeros(attended.shape, dtype=dtype, device=attended.device).masked_fill(
        ~attended, torch.finfo(dtype).min
    )
