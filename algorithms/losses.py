"""Per-token losses of the clipped actor-critic update, and their aggregation.

N is the number of tokens (or any other shape; all arguments of a call share it). Entries outside
`mask` are replaced by 0 *before* any arithmetic, so that NaN or 1e6 there reaches neither the loss
nor the gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import Algorithm, TokenGroups
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy.actor_critic import TokenOutputs

MAX_LOG_RATIO = 20.0  # exp(20) is 4.9e8: still a finite ratio, and long past any clip range


class Targets(NamedTuple):
    """Targets of training, of the N acted tokens, all (N,), fixed for the whole update."""

    old_logprobs: Tensor
    old_values: Tensor  # the critic's own
    values: Tensor  # as the estimate took them, by their source
    lam: Tensor  # lambda from the token's action to the next; NaN where --lam stands for all
    raw_advantages: Tensor  # before whitening; 0 outside loss_mask
    advantages: Tensor  # 0 at every token where the episodes hold no learning signal
    returns: Tensor
    loss_mask: Tensor  # bool, the token enters the losses
    loss_weights: Tensor  # weight of the token in the mean over a loss (--loss_aggregation)
    reference_logprobs: Tensor  # 0 without --kl_coef
    # truncated importance weight of the policy's loss: pi before the update / pi as sampled;
    # 1 without the correction
    importance: Tensor
    rewards: Tensor  # as the estimate took them: shaped, less the KL penalties of kl_mode reward
    bootstrap: Tensor  # of the token's episode, as the estimate took it, see `Trajectories`

    def select(self, token_indices: Tensor) -> Targets:
        """Select the targets of some tokens, by their indices."""
        return Targets(**{name: field[token_indices] for name, field in self._asdict().items()})


class LossTerms(NamedTuple):
    """Terms of the loss at each token of a pass, or of a minibatch; all (n,)."""

    token_log_ratios: Tensor
    log_ratios: Tensor  # as clipped
    policy_losses: Tensor
    value_losses: Tensor
    entropies: Tensor
    value_changes: Tensor  # value - old value
    loss_mask: Tensor  # bool
    loss_weights: Tensor
    reference_kl: Tensor  # divergence from the reference; meaningless without one
    logprobs: Tensor
    token_entropies: Tensor  # not averaged over actions, as the next
    token_reference_kl: Tensor


def loss_terms(
    outputs: TokenOutputs,
    targets: Targets,
    indices: Tensor,  # (n,) of the tokens among those of the targets
    groups: TokenGroups,
    algorithm: Algorithm,
    config: TrainConfig,
) -> LossTerms:
    """Return the loss terms of the n tokens of a pass."""
    target = targets.select(indices)
    token_log_ratios = log_ratio(outputs.logprobs, target.old_logprobs)
    kl_estimator = "k3" if config.kl_mode == "reward" else config.kl_mode
    reference_kl = KL_ESTIMATORS[kl_estimator](
        log_ratio(target.reference_logprobs, outputs.logprobs)
    )
    log_ratios = algorithm.log_ratio(token_log_ratios, groups, config)
    return LossTerms(
        token_log_ratios=token_log_ratios,
        log_ratios=log_ratios,
        policy_losses=policy_loss(
            log_ratios,
            target.advantages,
            target.loss_mask,
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            dual_clip=config.dual_clip,
        )
        * target.importance,
        value_losses=value_losses(
            outputs.values,
            outputs.value_scores,
            target.returns,
            target.old_values,
            target.loss_mask,
            config,
        ),
        entropies=algorithm.average(outputs.entropies, groups),
        value_changes=outputs.values - target.old_values,
        loss_mask=target.loss_mask,
        loss_weights=target.loss_weights,
        reference_kl=algorithm.average(reference_kl, groups),
        logprobs=outputs.logprobs,
        token_entropies=outputs.entropies,
        token_reference_kl=reference_kl,
    )


def total_loss(
    terms: LossTerms, config: TrainConfig, *, value_coef: float, divisor: float
) -> Tensor:
    """Return the loss of a pass: the weighted sum of its tokens' terms, over `divisor`."""
    token_losses = (
        terms.policy_losses
        + value_coef * terms.value_losses
        - config.entropy_coef * terms.entropies
    )
    if config.kl_coef and config.kl_mode != "reward":
        token_losses = token_losses + config.kl_coef * terms.reference_kl
    return aggregate(token_losses * terms.loss_weights, terms.loss_mask, divisor)


def value_losses(
    values: Tensor,  # (N,)
    scores: Tensor,  # (N, K) that they are made of
    returns: Tensor,
    old_values: Tensor,
    loss_mask: Tensor | None,
    config: TrainConfig,
) -> Tensor:
    """Return the value losses of tokens, (N,): regression, or with --value_bins classes."""
    if config.value_bins:
        centres = returns.new_tensor(config.critic_shape["bin_centres"])
        return binned_value_loss(scores, returns, centres, loss_mask)
    return value_loss(
        values,
        returns,
        old_values,
        loss_mask,
        value_clip=config.value_clip,
        huber_delta=config.huber_delta,
    )


def log_ratio(new_logprobs: Tensor, old_logprobs: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the log-ratio log(pi_new / pi_old) of each token, (N,).

    Clamped to +-20; 0 outside the mask.
    """
    return _masked(new_logprobs - old_logprobs, mask).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def policy_loss(
    log_ratios: Tensor,  # (N,)
    advantages: Tensor,  # (N,)
    mask: Tensor | None = None,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> Tensor:
    """Return the policy loss of each token, (N,): the clipped surrogate (Schulman 2017, eq. 7).

    clip_high > clip_low leaves rare tokens more room to grow (DAPO, arXiv:2503.14476). dual_clip
    bounds the loss of a bad token that became likely (Ye et al. 2020, eq. 5).
    """
    ratios, advantages = _masked(log_ratios, mask).exp(), _masked(advantages, mask)
    losses = torch.maximum(
        -ratios * advantages, -ratios.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages
    )
    if dual_clip is not None:
        losses = torch.where(advantages < 0, torch.minimum(losses, -dual_clip * advantages), losses)
    return losses


def value_loss(
    values: Tensor,  # (N,)
    returns: Tensor,  # (N,) targets
    old_values: Tensor,  # (N,) values before the update
    mask: Tensor | None = None,
    *,
    value_clip: float | None = None,
    huber_delta: float | None = None,
) -> Tensor:
    """Return the value loss of each token, (N,).

    Half the squared error, or Huber's beyond huber_delta.

    value_clip has its own range, in units of return: the policy's 0.2 would stop a critic whose
    targets lie 1 away.
    """
    values, returns, old_values = (
        _masked(values, mask),
        _masked(returns, mask),
        _masked(old_values, mask),
    )
    losses = _regression(values - returns, huber_delta)
    if value_clip is None:
        return losses
    clipped = old_values + (values - old_values).clamp(-value_clip, value_clip)
    return torch.maximum(losses, _regression(clipped - returns, huber_delta))


def binned_value_loss(
    scores: Tensor,  # (N, K) a logit for each bin
    returns: Tensor,  # (N,) targets
    centres: Tensor,  # (K,) of the bins, ascending and equally far apart
    mask: Tensor | None = None,
) -> Tensor:
    """Return the binned value loss, (N,): cross-entropy of each return's two nearest bins.

    They share it so that their mean is the return (two-hot, as in MuZero and DreamerV3; compared
    with regression in arXiv:2403.03950). Returns beyond the bins count as the outermost.
    """
    returns = _masked(returns, mask).clamp(float(centres[0]), float(centres[-1]))
    distances = (returns[:, None] - centres).abs() / (centres[1] - centres[0])
    return _masked(-((1.0 - distances).clamp(min=0.0) * scores.log_softmax(-1)).sum(-1), mask)


def aggregate(losses: Tensor, mask: Tensor | None, total: Tensor | float) -> Tensor:
    """Aggregate losses to a scalar: their sum over the mask / total.

    total is the same for every microbatch of an optimiser step: only then does splitting a
    minibatch leave its gradient unchanged. The update's is the same for all its steps too
    (`targets.loss_divisor`).
    """
    return _masked(losses, mask).sum() / total


def kl_k1(log_ratios: Tensor) -> Tensor:
    """Return KL k1 = -log r, (N,), an estimator: unbiased, noisy (CleanRL's old_approx_kl)."""
    return -log_ratios


def kl_k2(log_ratios: Tensor) -> Tensor:
    """Return KL k2 = (log r)^2 / 2, (N,), an estimator: biased, with the KL's gradient."""
    return 0.5 * log_ratios.square()


def kl_k3(log_ratios: Tensor) -> Tensor:
    """Return KL k3 = (r - 1) - log r, (N,), an estimator.

    Unbiased for KL(old || new) and never negative (Schulman, "Approximating KL").
    """
    return torch.expm1(log_ratios) - log_ratios


KL_ESTIMATORS = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3}


def _regression(errors: Tensor, huber_delta: float | None) -> Tensor:
    """Return e^2/2 within huber_delta, delta (|e| - delta/2) beyond it."""
    if huber_delta is None:
        return 0.5 * errors.square()
    size = errors.abs()
    return torch.where(
        size <= huber_delta, 0.5 * errors.square(), huber_delta * (size - 0.5 * huber_delta)
    )


def _masked(tensor: Tensor, mask: Tensor | None) -> Tensor:
    """Return the tensor with 0 outside the mask; a product would keep NaN (0 * NaN = NaN)."""
    return tensor if mask is None else torch.where(mask, tensor, 0.0)
