"""Hidden states of a decoder at requested positions, by the cheapest pass that gives them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fctncalling.algorithms.policy.gradient_checkpointing import (
    LayerRunner,
    RecordingRunner,
    layers_run_by,
    run_layer,
)
from fctncalling.algorithms.policy.shared_prefixes import (
    PrefixTree,
    reads_by_segment,
    tree_states_at,
)
from fctncalling.algorithms.policy.sparse_forward import hidden_states_at, supports_sparse_forward


def states_at(
    model: Any,  # the causal language model
    decoder: Any,  # its own, or a copy of that
    ids: Tensor,  # (B, T)
    attention_mask: Tensor,  # (B, T) bool
    position_ids: Tensor | None,  # (B, T); None: counted over the attended tokens of each row
    rows: Tensor,  # (N,) ascending
    columns: Tensor,  # (N,) ascending within each row
    tree: PrefixTree | None = None,  # of the rows, padded on the right
    run: LayerRunner = run_layer,  # calls the layers
    num_layers: int = 1,
) -> Tensor:
    """Return a decoder's hidden states at N positions, (N, H); computes no logits.

    They are the last layer's, after the final norm; with num_layers those of so many last ones,
    side by side, (N, num_layers x H).
    """
    if num_layers > 1:
        if tree is not None and not reads_by_segment(model, decoder):
            tree = None  # its forward would lay the trees side by side
        kept = RecordingRunner(run)
        read = (ids, attention_mask, position_ids, rows, columns, tree)
        last = states_at(model, decoder, *read, kept)
        places = (rows, columns) if tree is None else (tree.row_index[rows, columns],)
        below = kept.outputs[: model.config.num_hidden_layers - 1][1 - num_layers :]
        return torch.cat([*(layer[places] for layer in below), last], dim=-1)
    if tree is not None:
        return tree_states_at(model, decoder, tree, rows, columns, run)
    mask: Tensor | None = attention_mask
    if position_ids is None and _padded_right(attention_mask):
        # A causal model never looks right: no mask is needed, and attention without one is faster.
        if supports_sparse_forward(model, decoder):
            return hidden_states_at(decoder, ids, rows, columns, run)
        mask, position_ids = None, torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    elif position_ids is None:
        # Explicit: models with absolute positions would count the padding on the left.
        position_ids = (attention_mask.long().cumsum(1) - 1).clamp(min=0)
    with layers_run_by(decoder, run):
        outputs = decoder(
            input_ids=ids, attention_mask=mask, position_ids=position_ids, use_cache=False
        )
    states: Tensor = outputs.last_hidden_state[rows, columns]
    return states


def acted_places(acted: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the N acted tokens, (N,) each; ValueError where one is first."""
    rows, columns = acted.nonzero(as_tuple=True)
    if bool((columns == 0).any()):
        raise ValueError(
            "acted[:, 0] is true: the first token of a row has no token before it to be predicted "
            "from"
        )
    return rows, columns


def _padded_right(attention_mask: Tensor) -> bool:
    """Return whether no row has padding before a token."""
    return bool((attention_mask[:, :-1] >= attention_mask[:, 1:]).all())
