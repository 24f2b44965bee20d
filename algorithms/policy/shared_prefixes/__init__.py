"""Prefix sharing in training: tokens at the start of several rows are computed once."""

from fctncalling.algorithms.policy.shared_prefixes.prefix_sharing import (
    PrefixSharing,
    prefix_sharing_of,
    runs_by_segment,
    tree_states_at,
)
from fctncalling.algorithms.policy.shared_prefixes.prefix_tree import PrefixTree

__all__ = ["PrefixSharing", "PrefixTree", "prefix_sharing_of", "runs_by_segment", "tree_states_at"]
