"""Policy weights as numpy arrays, for synchronising remote rollout workers."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from fctncalling.algorithms.policy.actor_critic import ActorCritic

Weights = dict[str, NDArray[np.float32]]


def policy_state(policy: ActorCritic) -> Weights:
    """Return a copy of the language model's trained weights by name: its adapter's alone, where it
    has one.

    No critic, no reference, no frozen base: who acts elsewhere has read the base itself.
    """
    trained = {id(weight) for weight in policy.policy_parameters()}
    named = (
        (name, weight) for name, weight in policy.model.named_parameters() if id(weight) in trained
    )
    return {name: weight.detach().float().cpu().numpy().copy() for name, weight in named}


@torch.no_grad()
def load_policy_state(policy: ActorCritic, weights: Weights) -> None:
    """Let the policy act with these weights. ValueError where they are not those of its own
    language model.
    """
    trained = {id(weight) for weight in policy.policy_parameters()}
    own = {
        name: weight for name, weight in policy.model.named_parameters() if id(weight) in trained
    }
    if strange := sorted(own.keys() ^ weights.keys()):
        raise ValueError(
            f"these weights are another model's: {len(strange)} names differ, such as {strange[0]}"
        )
    for name, weight in own.items():
        weight.copy_(
            torch.tensor(weights[name])
        )  # a copy: what came through shared memory cannot be written
