"""Inverse-CDF sampling: tokens and log-probabilities from logits and uniform noise."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Largest uniform sample used: in fp32 one closer to 1 may round to 1, past the last likely token.
BELOW_ONE = 1 - 2**-23


class Sampled(NamedTuple):
    """Sampled token and log-probability of each of n rows of logits."""

    tokens: Tensor  # (n,) int64
    logprobs: Tensor  # (n,) float32, at the sampling temperature


def sample(logits: Tensor, noise: Tensor | None, temperature: float) -> Sampled:
    """Return a token for each row of logits (n, V).

    By inverse distribution function of noise (n,), uniform in [0, 1).

    None is greedy, with log-probabilities at temperature 1.
    """
    scaled = logits.float()
    if noise is not None and temperature != 1:
        scaled = scaled / temperature
    logprobs = scaled.log_softmax(-1)
    if noise is None:
        tokens = _likeliest(logprobs)
    else:
        below = logprobs.exp().cumsum(-1)
        threshold = noise.to(below).clamp_(max=BELOW_ONE).unsqueeze(-1) * below[:, -1:]
        tokens = torch.searchsorted(below, threshold, right=True).clamp_(max=logits.shape[-1] - 1)
    return Sampled(tokens.squeeze(-1), logprobs.gather(-1, tokens).squeeze(-1))


def _likeliest(logprobs: Tensor) -> Tensor:
    if logprobs.device.type == "cpu":  # where numpy's is ten times as fast
        return torch.from_numpy(logprobs.numpy().argmax(-1, keepdims=True))
    return logprobs.argmax(-1, keepdim=True)
