"""Head padding and untying: models with other weights and the same outputs, for servers.

vLLM's CPU kernels, for one, take heads of 32, 64, 80, ... but not of 24, the embedded model's.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


def untie(model: Any) -> Any:
    """Untie a model's output layer from its embedding, with equal weights."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head.weight is embedding.weight:
        head.weight = nn.Parameter(embedding.weight.detach().clone())
    model.config.tie_word_embeddings = False
    return model


def pad_heads(model: Any, size: int) -> Any:
    """Return a model with the same outputs and heads of `size` dimensions.

    ValueError where that is not possible.

    New dimensions are 0 in queries, keys and values. Rotary pairs (i, i + half) keep their angle
    theta^(-2i/d), as theta^(size/d) is the base of the wider head, and queries grow by
    sqrt(size/d), as scores are divided by sqrt(size).
    """
    config = copy.deepcopy(model.config)
    old = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kind = config.rope_parameters.get("rope_type")
    if (
        config.model_type != "llama"
        or kind != "default"
        or config.attention_bias
        or size < old
        or size % 2
        or old % 2
    ):
        raise ValueError(
            f"heads of {old} cannot be made {size} wide: expected a llama model with default "
            f"rotary positions, without biases in attention, and an even width of at least {old}; "
            f"got {config.model_type}, {kind}"
        )
    config.head_dim = size
    config.rope_parameters = {
        **config.rope_parameters,
        "rope_theta": config.rope_parameters["rope_theta"] ** (size / old),
    }
    wide: nn.Module = type(model)(config).to(next(model.parameters()).dtype)
    wide.load_state_dict(_padded_weights(model, old, size))
    return wide.eval()


def _padded_weights(model: Any, old: int, size: int) -> dict[str, Tensor]:
    """Return the model's weights with heads of `old` dimensions widened to `size`."""
    weights = dict(model.state_dict())
    for name, weight in weights.items():
        part = name.split(".")[-2]
        if part in ("q_proj", "k_proj", "v_proj"):
            wider = _pad(weight, old, size)
            weights[name] = wider * (size / old) ** 0.5 if part == "q_proj" else wider
        elif part == "o_proj":
            weights[name] = _pad(weight.T, old, size).T.contiguous()
    return weights


def _pad(weight: Tensor, old: int, size: int) -> Tensor:
    """Return (heads * old, n) as (heads * size, n).

    Each half of a head at the start of the wider head's half.
    """
    halves = weight.view(-1, 2, old // 2, weight.shape[-1])
    wide = torch.zeros(
        len(halves), 2, size // 2, weight.shape[-1], dtype=weight.dtype, device=weight.device
    )
    wide[:, :, : old // 2] = halves
    return wide.view(-1, weight.shape[-1])
