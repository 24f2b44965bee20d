"""FSDP2, as accelerate configures it.

Generation through sharded weights would be a collective operation per token, and episodes differ in
length. So each process gathers the weights once, into a copy that lasts for one rollout.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fctncalling.algorithms.config import SettingError

if TYPE_CHECKING:
    from fctncalling.algorithms.policy.actor_critic import ActorCritic

FORWARD_METHODS = ("values_at", "reference_logprobs")  # of the policy, besides forward


class FSDP:
    """FSDP2 sharding of a policy: one unit per layer plus the rest."""

    def __init__(self, plugin: Any) -> None:
        """plugin: accelerate's FullyShardedDataParallelPlugin."""
        self.plugin = plugin
        self._copy: ActorCritic | None = None  # the policy with empty weights

    @classmethod
    def from_environment(cls) -> FSDP:
        """Return FSDP from accelerate's environment variables FSDP_....

        SettingError for version 1.
        """
        import os

        from accelerate import FullyShardedDataParallelPlugin  # type: ignore[import-untyped]

        version = os.environ.get("FSDP_VERSION", "2")
        if version != "2":
            raise SettingError(
                f"fsdp_version of accelerate's configuration: got {version}, expected 2; run "
                "accelerate config again, or give --fsdp and no configuration"
            )
        return cls(FullyShardedDataParallelPlugin(fsdp_version=2))

    def apply(self, policy: ActorCritic) -> None:
        """Apply FSDP to a policy: shard its weights in place; make optimisers afterwards."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import (
            MixedPrecisionPolicy,
            fully_shard,
            register_fsdp_forward_method,
        )

        # Its pre-backward hooks are on our outputs, some of which are views; none is changed in
        # place.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        self._copy = _on_meta_device(policy)
        # The weights' device: by default FSDP takes an accelerator, even one --device excludes.
        device = next(policy.parameters()).device
        options = {
            "mesh": init_device_mesh(device.type, (torch.distributed.get_world_size(),)),
            "mp_policy": self.plugin.mixed_precision_policy or MixedPrecisionPolicy(),
            "offload_policy": self.plugin.cpu_offload,
        }
        layers = set(
            self.plugin.transformer_cls_names_to_wrap
            or getattr(policy.model, "_no_split_modules", None)
            or ()
        )
        for module in [module for module in policy.modules() if type(module).__name__ in layers]:
            fully_shard(module, reshard_after_forward=self.plugin.reshard_after_forward, **options)
        fully_shard(policy, **options)
        for name in FORWARD_METHODS:
            register_fsdp_forward_method(policy, name)

    @contextlib.contextmanager
    def unsharded_copy(
        self, policy: ActorCritic, device: torch.device, rollout_dtype: torch.dtype | None = None
    ) -> Iterator[ActorCritic]:
        """Context manager: an unsharded copy of the policy with its current weights.

        rollout_dtype: of the passes of a rollout, which needs no critic, and the layers' linear
        weights in this dtype alone; None: all weights as they are.
        """
        if self._copy is None:
            yield policy  # not sharded yet
            return
        parameters = dict(self._copy.named_parameters())
        linear = {
            id(weight)
            for name, module in policy.model.get_decoder().named_modules()
            if isinstance(module, nn.Linear) and "lora_" not in name
            for weight in module.parameters(recurse=False)
        }
        with torch.no_grad():
            for name, weight in policy.named_parameters():
                if rollout_dtype is not None and not name.startswith("model."):
                    continue
                own = weight.detach()
                own = own.to(rollout_dtype) if id(weight) in linear else own
                parameters[name].data = full_tensor(own).to(device)
        try:
            yield self._copy
        finally:
            for parameter in parameters.values():
                parameter.data = parameter.data.new_empty(0)


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full tensor of a sharded one (a collective operation); others unchanged."""
    sharded: Any = tensor  # a DTensor, whose module is slow to import
    whole: Tensor = sharded.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole


def local_shard(tensor: Tensor) -> Tensor:
    """Return the local shard of a tensor, this rank's; others unchanged."""
    sharded: Any = tensor
    part: Tensor = sharded.to_local() if hasattr(tensor, "to_local") else tensor
    return part


def full_state_dict(optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Return an optimiser's state dict with full tensors, as a single process would save it."""
    state = optimiser.state_dict()
    slots = {
        number: {
            name: full_tensor(value) if isinstance(value, Tensor) else value
            for name, value in slot.items()
        }
        for number, slot in state["state"].items()
    }
    return {**state, "state": slots}


def load_full_state_dict(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load an optimiser's state dict with full tensors; each rank takes its shards.

    Moments and step counts are loaded; learning rates and other settings stay this run's.
    """
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    slots = {
        number: {name: _shard_like(value, parameters[number]) for name, value in slot.items()}
        for number, slot in state["state"].items()
    }
    own = optimiser.state_dict()["param_groups"]
    saved = [group["params"] for group in state["param_groups"]]
    if saved != [group["params"] for group in own]:
        raise ValueError("its optimisers have other groups of weights than --weight_decay gives")
    optimiser.load_state_dict({"state": slots, "param_groups": own})


def _shard_like(value: Any, parameter: Any) -> Any:
    """Return a value of an optimiser's state sharded as its parameter.

    ValueError if shapes differ.
    """
    if isinstance(value, Tensor) and value.dim() and value.shape != parameter.shape:
        raise ValueError(
            f"its optimisers hold moments of shape {tuple(value.shape)} for a weight of "
            f"{tuple(parameter.shape)}"
        )
    if (
        not hasattr(parameter, "device_mesh")
        or not isinstance(value, Tensor)
        or value.shape != parameter.shape
    ):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(
        value.to(local_shard(parameter).device), parameter.device_mesh, parameter.placements
    )


def _on_meta_device(policy: ActorCritic) -> ActorCritic:
    """Return a copy of the policy with empty weights; a reference model is shared, not copied."""
    known: dict[int, Any] = {id(policy._reference): policy._reference}
    for weight in policy.parameters():
        known[id(weight)] = nn.Parameter(
            weight.detach().new_empty(0), requires_grad=weight.requires_grad
        )
    return copy.deepcopy(policy, known)
