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
    gathered_bytes: int  # of the language model's weights, as FSDP gathers them for a rollout
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
    fused, linear = supports_fused_decoder(model), _linear_weights(model, config, device)
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
        cast_bytes=sum(
            it.num_bytes for it in _linear_weights(policy, config, device) if it.is_cast
        ),
        copied_bytes=_copied_bytes(model, linear, fused=fused, gathered=config.fsdp),
        gathered_bytes=sum(it.numel() * it.element_size() for it in model.parameters())
        - sum(
            it.weight.numel() * it.weight.element_size() - it.num_bytes
            for it in linear
            if not (it.is_head or it.is_adapter)
        ),
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


class _LinearWeight(NamedTuple):
    """Weight of a linear layer, its compute dtype, and its kind of layer."""

    weight: torch.Tensor
    dtype: torch.dtype
    is_head: bool
    is_adapter: bool

    @property
    def is_cast(self) -> bool:
        """Whether a pass computes with a copy in another dtype."""
        return self.weight.dtype != self.dtype

    @property
    def num_bytes(self) -> int:
        """Bytes of such a copy."""
        return self.weight.numel() * self.dtype.itemsize


def _linear_weights(
    module: nn.Module, config: TrainConfig, device: torch.device
) -> list[_LinearWeight]:
    """Return the weights of linear layers, without the value head's."""
    dtype = compute_dtype(config, device)
    head_dtype = torch.float32 if config.cast_lm_head_to_fp32 else dtype
    outputs = [getattr(part, "get_output_embeddings", lambda: None)() for part in module.modules()]
    heads = {id(output.weight) for output in outputs if output is not None}
    return [
        _LinearWeight(weight, head_dtype if is_head else dtype, is_head, "lora_" in name)
        for name, weight in module.named_parameters()
        for is_head in [id(weight) in heads]
        if is_head or (weight.dim() == 2 and "embed" not in name and "value_head" not in name)
    ]


def _copied_bytes(
    model: nn.Module, linear: Sequence[_LinearWeight], *, fused: bool, gathered: bool
) -> int:
    """Return the bytes of weights that a rollout's decoder copies, at most.

    Those of another dtype than it computes in, but for layers gathered in that (FSDP). fused: all
    layers of a model that is not too large, and a small output layer.
    """
    fused = fused and sum(it.numel() for it in model.parameters()) <= MAX_FUSED_PARAMETERS
    return sum(
        it.num_bytes
        for it in linear
        if (it.is_cast and not (gathered and not it.is_head))
        or (
            (fused and not it.is_adapter)
            and (not it.is_head or it.weight.numel() <= MAX_HEAD_PARAMETERS)
        )
    )
