"""Sizes of a run's policy, counted on a copy without weights (torch's meta device).

The copy is made by the functions that make the policy itself, so that critics, adapters and tied
weights are counted as they are. Of a model's files only config.json is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.generation.fused_decoder import (
    MAX_FUSED_PARAMETERS,
    MAX_HEAD_PARAMETERS,
)
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.precision import compute_dtype, weights_dtype
from fctncalling.algorithms.policy.sparse_forward import supports_fused_decoder
from fctncalling.training.load_policy import ModelError, base_model

BYTES_FP32 = 4


class LayerWidths(NamedTuple):
    """Widths of one decoder layer, in numbers per token."""

    hidden: int
    queries: int  # heads * head size
    keys: int  # key heads * head size
    inner: int  # of the feed-forward
    heads: int
    lora_rank: int  # sum over the layer's adapted linear layers; 0: all weights are trained
    normed_heads: bool  # Qwen3 norms queries and keys
    other_widths: int  # of a family that is not Llama's: inputs and outputs of its linear layers


class PolicySizes(NamedTuple):
    """Sizes that determine the memory of a policy."""

    num_weights: int  # language model, critic and adapters
    num_trained: int
    weight_bytes: int  # of these, and of a reference model
    policy_weight_bytes: int  # of these alone
    largest_trained: int  # numbers of the largest trained weight
    tied: bool  # whether the embedding is the output layer too, and trained
    num_layers: int
    layer: LayerWidths
    layer_weights: int  # of one layer, adapters included
    vocabulary: int
    num_backbones: int  # 2 where the critic computes hidden states of its own
    cast_bytes: int  # of a pass's copies of weights in the dtype that it computes in
    copied_bytes: int  # the same of the rollout's decoder, and of weights that it fuses
    own_forward: bool  # read by our own sparse forward, on a CPU
    num_roles: int = 1  # of a team, where they have weights of their own or a central critic


def policy_sizes(
    config: TrainConfig, device: torch.device, roles: Sequence[str] = ()
) -> PolicySizes:
    """Count the sizes of the policy of these settings and roles.

    ModelError if the model cannot be read.
    """
    dtype = weights_dtype(config, device)
    policy = _empty_policy(config, dtype, roles)
    model, decoder = policy.model, policy.model.get_decoder()
    trained = [*policy.policy_parameters(), *policy.critic_parameters()]
    own_bytes = sum(weight.numel() * weight.element_size() for weight in policy.parameters())
    reference = bool(config.kl_coef) and not config.lora_r
    first = _layers(decoder)[0]
    head = model.get_output_embeddings().weight
    fused = supports_fused_decoder(model)
    return PolicySizes(
        num_weights=sum(weight.numel() for weight in policy.parameters()),
        num_trained=sum(weight.numel() for weight in trained),
        weight_bytes=own_bytes
        + reference * BYTES_FP32 * sum(weight.numel() for weight in model.parameters()),
        policy_weight_bytes=own_bytes,
        largest_trained=max(weight.numel() for weight in trained),
        tied=head is model.get_input_embeddings().weight and not config.lora_r,
        num_layers=len(_layers(decoder)),
        layer=_layer_sizes(model, first, config, is_llama=fused),
        layer_weights=sum(weight.numel() for weight in first.parameters()),
        vocabulary=head.shape[0],
        num_backbones=2
        if config.critic in ("full", "lora") and config.algorithm_name != "GRPO"
        else 1,
        cast_bytes=_copied_bytes(policy, config, device),
        copied_bytes=_copied_bytes(model, config, device, fused=fused),
        # sharded layers are called by transformers' own, whose hooks gather their weights
        own_forward=fused
        and not config.fsdp
        and device.type == "cpu"
        and config.compute_dtype != "bfloat16",
        num_roles=max(1, len(roles)),
    )


def _empty_policy(config: TrainConfig, dtype: torch.dtype, roles: Sequence[str]) -> ActorCritic:
    """Build the policy on the meta device: shapes without numbers."""
    from transformers import AutoConfig, AutoModelForCausalLM

    source = base_model(config)
    try:
        model_config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        with torch.device("meta"):
            make: Any = AutoModelForCausalLM.from_config
            model = make(model_config, dtype=dtype)
            policy = ActorCritic(
                model.requires_grad_(dtype == torch.float32),
                **config.critic_shape,
                critic_roles=roles if config.team_critic == "per_role" else (),
            )
            if config.critic == "full":
                policy.add_critic_model()
            if config.lora_r:
                policy.add_lora(
                    r=config.lora_r,
                    alpha=config.lora_alpha,
                    targets=config.lora_targets,
                    critic=config.critic == "lora",
                    roles=roles if config.role_adapters else (),
                )
    except (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError) as error:
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(
            f"--model_name_or_path {source}: its sizes cannot be read: {line}; expected a folder "
            "with config.json, or a name on the hub"
        ) from error
    return policy


def _layers(decoder: Any) -> Any:
    layers = getattr(decoder, "layers", None) or getattr(decoder, "h", None)
    return layers if layers is not None else [decoder]


def _layer_sizes(
    model: Any, layer: nn.Module, config: TrainConfig, *, is_llama: bool
) -> LayerWidths:
    settings, hidden = model.config, int(model.config.hidden_size)
    heads = int(getattr(settings, "num_attention_heads", 1))
    size = int(getattr(settings, "head_dim", None) or hidden // heads)
    key_heads = int(getattr(settings, "num_key_value_heads", None) or heads)
    matrices = {name: weight for name, weight in layer.named_parameters() if weight.dim() == 2}
    base = [weight for name, weight in matrices.items() if "lora_" not in name]
    # one adapter reads a row, by the name of whichever role
    adapters = {name.rpartition("lora_A.")[2] for name in matrices if "lora_A." in name}
    adapted = sum("lora_A." in name for name in matrices) // max(1, len(adapters))
    return LayerWidths(
        hidden=hidden,
        queries=heads * size,
        keys=key_heads * size,
        inner=int(getattr(settings, "intermediate_size", None) or 4 * hidden),
        heads=heads,
        lora_rank=adapted * config.lora_r,
        normed_heads=any(name.endswith("q_norm.weight") for name, _ in layer.named_parameters()),
        other_widths=0 if is_llama else sum(sum(weight.shape) for weight in base),
    )


def _copied_bytes(
    module: nn.Module, config: TrainConfig, device: torch.device, *, fused: bool = False
) -> int:
    """Return the bytes of copies of linear layers' weights.

    Those of another dtype than passes compute in; fused: all of a model that is not too large, with
    a small output layer.
    """
    dtype = compute_dtype(config, device)
    head_dtype = torch.float32 if config.cast_lm_head_to_fp32 else dtype
    weights = dict(module.named_parameters())
    fused = fused and sum(it.numel() for it in weights.values()) <= MAX_FUSED_PARAMETERS
    outputs = [getattr(part, "get_output_embeddings", lambda: None)() for part in module.modules()]
    heads = {id(output.weight) for output in outputs if output is not None}
    copied = 0
    for name, weight in weights.items():
        if id(weight) in heads:
            own, is_small = head_dtype, weight.numel() <= MAX_HEAD_PARAMETERS
        elif weight.dim() != 2 or any(part in name for part in ("embed", "value_head")):
            continue
        else:
            own, is_small = dtype, "lora_" not in name
        if weight.dtype != own or (fused and is_small):
            copied += weight.numel() * own.itemsize
    return copied
