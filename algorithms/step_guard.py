"""Guard of optimiser steps: no step may take the policy too far from the one that collected.

A step is tried before the next one builds on it: where the divergence is above --target_kl, half of
it is taken back, then half of the rest; where a quarter is still too far, all of it, and the update
ends.

What is bounded is the mean over actions of the KL of their tokens, those whose advantage is not 0:
a long wording counts no more than a short one, and what nobody praised or blamed does not count.
The bound is --target_kl for each nat of entropy a token above 1, for free words move further than
words that are all but certain.

A trial is a pass over an eighth of the rows. It is made after the first step of an update, and
where the divergence that the training passes measure anyway, of the steps before, would reach half
of the bound if it goes on to grow with the square of the steps.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from fctncalling.algorithms import losses
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.losses import LossTerms, Targets
from fctncalling.algorithms.metrics import Metrics
from fctncalling.algorithms.minibatches import Passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.targets import policy_outputs

EVERY_ROW = 8  # every eighth row with an advantage is passed in a trial
WORTH_A_TRIAL = 0.5  # of the bound, that a divergence is expected to reach
SHARES = (1.0, 0.5, 0.25, 0.0)  # of a step that are tried, the last without a pass


class StepGuard:
    """Guard of the policy's steps in one update."""

    def __init__(
        self,
        policy: ActorCritic,
        optimiser: torch.optim.Optimizer,  # AdamW of the policy
        passes: Passes,
        targets: Targets,
        config: TrainConfig,
        processes: ProcessGroup,
    ) -> None:
        self._policy = policy
        self._optimiser = optimiser
        self._passes = passes
        self._targets = targets
        self._config = config
        self._processes = processes
        self._credited = targets.raw_advantages != 0.0
        rows = passes.experience.tokens.row[self._credited]
        self._trial = passes.over(sorted(set(rows.tolist()))[::EVERY_ROW])
        self._tokens = passes.experience.token_indices(itertools.chain(*self._trial))
        self._steps = 0

    def check(self, indices: Tensor, terms: LossTerms) -> Metrics:
        """Check the last step by the loss terms of its tokens; take back the excess.

        Return the share of the step that stays, and the divergence if it was tried.
        """
        self._steps += 1
        before = self.divergence(terms.token_log_ratios, indices)
        entropy = float(terms.token_entropies.mean())
        bound = (self._config.target_kl or 0.0) * max(1.0, entropy)
        expected = before * (self._steps / max(1, self._steps - 1)) ** 2
        if self._steps > 1 and expected < WORTH_A_TRIAL * bound:
            return {"losses/step_share": 1.0}
        tried = math.nan
        for share, less in itertools.pairwise(SHARES):
            tried = self._try()
            if tried <= bound:  # not where it is NaN
                return {"losses/step_share": share, "losses/trial_kl": tried}
            take_back(self._optimiser, share - less)
        return {"losses/step_share": 0.0, "losses/trial_kl": tried}

    def divergence(self, log_ratios: Tensor, indices: Tensor) -> float:
        """Return the mean over actions of their credited tokens' KL; 0 without any.

        log_ratios: (n,) of the tokens of these indices. The smaller of k2 and k3 is taken: one
        rare token that is praised would make k3, an exponential, all of the mean.
        """
        credited = self._credited[indices]
        kls = torch.minimum(losses.kl_k2(log_ratios), losses.kl_k3(log_ratios))[credited]
        if not len(kls):
            return 0.0
        actions = self._passes.experience.tokens.action[indices][credited]
        action = torch.unique(actions, return_inverse=True)[1]
        sums, counts = (
            torch.zeros(int(action.max()) + 1, device=kls.device).index_add_(0, action, each)
            for each in (kls, torch.ones_like(kls))
        )
        return float((sums / counts).mean())

    def _try(self) -> float:
        """Return the divergence of the trial's rows under the current weights."""
        logprobs, _ = policy_outputs(
            self._policy, self._passes, [self._trial], self._config, self._processes
        )
        old = self._targets.old_logprobs[self._tokens]
        return self.divergence(losses.log_ratio(logprobs[self._tokens], old), self._tokens)


@torch.no_grad()
def take_back(optimiser: torch.optim.Optimizer, share: float) -> None:
    """Take back a share of AdamW's last step; weight decay and the moments stay.

    The step follows from the moments, so no copy of the weights is kept.
    """
    for group in optimiser.param_groups:
        beta1, beta2 = group["betas"]
        for weight in group["params"]:
            if weight.grad is None or not (state := optimiser.state.get(weight)):
                continue
            steps = float(state["step"])
            mean = state["exp_avg"] / (1.0 - beta1**steps)
            root = (state["exp_avg_sq"] / (1.0 - beta2**steps)).sqrt() + group["eps"]
            weight.addcdiv_(mean, root, value=share * group["lr"])
