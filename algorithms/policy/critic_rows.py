"""Rows that a central critic reads in place of the actor's."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class CriticRows(NamedTuple):
    """Rows of a central critic, one for each of the actor's B rows, padded on the right to T'.

    They have the same acted tokens in the same order, with more in front of each: what the whole
    team had read and said by then.
    """

    ids: Tensor  # (B, T')
    attention_mask: Tensor  # (B, T') bool
    acted: Tensor  # (B, T') bool
