"""Log-probabilities and entropies of given tokens, from hidden states in chunks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MAX_LOGITS = (
    2**24
)  # logits held at once, 64 MiB in fp32: positions are taken in chunks of this over the vocabulary


def token_logprobs_and_entropies(
    model: Any, hidden: Tensor, tokens: Tensor, *, temperature: float, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies, both (N,) fp32, of tokens (N,), from hidden states
    (N, H) before them.

    model: a causal language model. Chunk after chunk where there are many, each computed again in
    the backward pass.
    """
    chunk = max(1, MAX_LOGITS // model.get_output_embeddings().weight.shape[0])
    pieces = list(zip(torch.split(hidden, chunk), torch.split(tokens, chunk), strict=True))
    if len(pieces) <= 1:
        return _chunk(model, hidden, tokens, temperature, entropy_gradient)
    scores = [
        checkpoint(_chunk, model, *piece, temperature, entropy_gradient, use_reentrant=False)
        for piece in pieces
    ]
    logprobs, entropies = zip(*scores, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _chunk(
    model: Any, hidden: Tensor, tokens: Tensor, temperature: float, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    logits = (
        _model_logit_scaling(model.get_output_embeddings()(hidden).float(), model.config)
        / temperature
    )
    log_softmax = logits.log_softmax(-1)  # (N, V)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropies = -(log_softmax.exp() * log_softmax).sum(-1)
    return log_softmax.gather(1, tokens[:, None]).squeeze(1), entropies


def _model_logit_scaling(logits: Tensor, config: Any) -> Tensor:
    """Return the logits as the model's own forward scales or caps them (Granite, Cohere; Gemma)."""
    if scaling := getattr(config, "logits_scaling", None):
        logits = logits / scaling
    if scale := getattr(config, "logit_scale", None):
        logits = logits * scale
    if cap := getattr(config, "final_logit_softcapping", None):
        logits = torch.tanh(logits / cap) * cap
    return logits
