"""Prefix sharing in training: tokens that rows begin with alike are computed once."""

from fctncalling.algorithms.policy.shared_prefixes.prefix_sharing import (
    PrefixSharing,
    prefix_sharing_of,
)
from fctncalling.algorithms.policy.shared_prefixes.prefix_tree import PrefixTree
from fctncalling.algorithms.policy.shared_prefixes.tree_states import (
    runs_by_segment,
    tree_states_at,
)

__all__ = ["PrefixSharing", "PrefixTree", "prefix_sharing_of", "runs_by_segment", "tree_states_at"]
