"""Per-token losses of the clipped actor-critic update, and their aggregation.

N is the number of tokens (or any other shape; all arguments of a call share it). Entries outside
`mask` are replaced by 0 *before* any arithmetic, so that NaN or 1e6 there reaches neither the loss
nor the gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0  # exp(20) is 4.9e8: still a finite ratio, and long past any clip range


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
