"""Log-probabilities and entropies of given tokens, from hidden states in chunks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MAX_LOGITS = 2**24  # (positions x vocabulary) of one chunk: 64 MiB in fp32


def token_logprobs_and_entropies(
    model: Any, hidden: Tensor, tokens: Tensor, *, temperature: float, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies of tokens, both (N,) fp32.

    From the hidden states (N, H) at the positions before them.

    model: a causal language model. Several chunks are checkpointed: each recomputes its logits in
    the backward pass, so that only one chunk's logits exist at a time.
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
        model_logit_scaling(model.get_output_embeddings()(hidden).float(), model.config)
        / temperature
    )
    log_softmax = logits.log_softmax(-1)  # (N, V)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropies = -(log_softmax.exp() * log_softmax).sum(-1)
    return log_softmax.gather(1, tokens[:, None]).squeeze(1), entropies


def model_logit_scaling(logits: Tensor, config: Any) -> Tensor:
    """Return the logits as the model's own forward scales or caps them (Granite, Cohere; Gemma)."""
    if scaling := getattr(config, "logits_scaling", None):
        logits = logits / scaling
    if scale := getattr(config, "logit_scale", None):
        logits = logits * scale
    if cap := getattr(config, "final_logit_softcapping", None):
        logits = torch.tanh(logits / cap) * cap
    return logits
