"""Policy weights as numpy arrays, for synchronising remote rollout workers."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from fctncalling.algorithms.policy.actor_critic import ActorCritic

Weights = dict[str, NDArray[np.float32]]


def policy_state(policy: ActorCritic) -> Weights:
    """Return the policy's state: a copy of its trainable weights by name, or of its adapter's.

    Without critic, reference and frozen base: a remote worker loads the base itself.
    """
    trained = {id(weight) for weight in policy.policy_parameters()}
    named = (
        (name, weight) for name, weight in policy.model.named_parameters() if id(weight) in trained
    )
    return {name: weight.detach().float().cpu().numpy().copy() for name, weight in named}


@torch.no_grad()
def load_policy_state(policy: ActorCritic, weights: Weights) -> None:
    """Load a policy's state; ValueError where the names are not those of its model."""
    trained = {id(weight) for weight in policy.policy_parameters()}
    own = {
        name: weight for name, weight in policy.model.named_parameters() if id(weight) in trained
    }
    if mismatched := sorted(own.keys() ^ weights.keys()):
        raise ValueError(
            f"these weights are another model's: {len(mismatched)} names differ, such as "
            f"{mismatched[0]}"
        )
    for name, weight in own.items():
        # A copy: what came through shared memory cannot be written.
        weight.copy_(torch.tensor(weights[name]))
