"""Leave-one-out baseline: what the critic does not know of a task's difficulty."""

from __future__ import annotations

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import AdvantageEstimate


def less_group_baseline(estimate: AdvantageEstimate, group: Tensor) -> AdvantageEstimate:
    """Return advantages less the mean first advantage of the group's other episodes.

    The gradient's expectation stays as it is: an episode's baseline does not depend on its own
    actions. Its variance between tasks goes, which a critic explains only once it has seen many
    tasks (leave-one-out: Kool et al. 2019; RLOO, arXiv:2402.14740). What the critic says of the
    tokens inside an episode stays. An episode alone in its group keeps its advantages.

    group: (E,) int64, equal for episodes of one task and environment seed.
    """
    first = estimate.loss_mask.float().argmax(dim=1, keepdim=True)  # (E, 1) first token that learns
    outcomes = estimate.advantages.gather(1, first).squeeze(1)
    outcomes = torch.where(estimate.loss_mask.any(dim=1), outcomes, 0.0)
    index = torch.unique(group, return_inverse=True)[1]
    sums, counts = (
        torch.zeros_like(outcomes).index_add_(0, index, values)[index]
        for values in (outcomes, torch.ones_like(outcomes))
    )
    others = (sums - outcomes) / (counts - 1.0).clamp(min=1.0)
    baselines = torch.where(counts > 1, others, 0.0)
    advantages = torch.where(
        estimate.loss_mask, estimate.advantages - baselines[:, None], estimate.advantages
    )
    return estimate._replace(advantages=advantages)
