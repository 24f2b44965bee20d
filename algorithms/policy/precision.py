"""Weight and compute dtypes, by device or flag.

Trainable weights (model, adapters, heads) and their optimiser states are always in fp32: a step of
1e-6 on a weight of 0.01 is lost in half precision. A frozen base may be stored in bf16, and passes
may compute in it. All four combinations work:

    base  passes  computation
    fp32  fp32    everything in fp32
    fp32  bf16    as under autocast: products in bf16, norms and the sums between layers in fp32
    bf16  bf16    everything in bf16, as transformers does; adapters' products too
    bf16  fp32    everything in fp32, with the rounded weights

The output layer has its own precision: fp32, unless cast_lm_head_to_fp32 is false.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fctncalling.algorithms.config import SettingError, TrainConfig

NAMES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
HALF = (torch.bfloat16, torch.float16)

Context = contextlib.AbstractContextManager[Any]


class ComputeDtypes(NamedTuple):
    """Compute dtypes of a model: its decoder's and its output layer's."""

    decoder: torch.dtype
    head: torch.dtype


def weights_dtype(config: TrainConfig, device: torch.device) -> torch.dtype:
    """Return the weights' dtype of the language model.

    SettingError for trainable weights not in fp32.
    """
    if config.base_dtype == "auto":
        return torch.bfloat16 if config.lora_r and device.type == "cuda" else torch.float32
    dtype = NAMES[config.base_dtype]
    if dtype != torch.float32 and not config.lora_r:
        raise SettingError(
            f"base_dtype: got {config.base_dtype}, but without --lora_r these weights learn, and "
            "small steps are lost in half precision; give --lora_r, or leave it out "
            "(--compute_dtype bfloat16 computes in it)"
        )
    return dtype


def compute_dtype(config: TrainConfig, device: torch.device) -> torch.dtype:
    """Return the dtype that passes compute in: --compute_dtype, by default bf16 on CUDA."""
    if config.compute_dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return NAMES[config.compute_dtype]


def uses_importance_weights(config: TrainConfig, device: torch.device) -> bool:
    """Whether a run uses importance weights: another engine samples, or older weights do.

    They do where stale weights or another engine sample, and where passes compute in bf16:
    rollout and training then round differently, by a per cent and more on single tokens.
    """
    return config.importance_cap is not None and (
        config.max_staleness > 0
        or config.rollout_engine != "local"
        or compute_dtype(config, device) != torch.float32
    )


def pass_autocast(config: TrainConfig, device: torch.device) -> Context:
    """Return the autocast context of passes with the same weights, which it casts once."""
    dtype = compute_dtype(config, device)
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)


def without_autocast(device: torch.device) -> Context:
    """Return a context without autocast: operations compute in the dtype of their inputs."""
    enabled = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if enabled else contextlib.nullcontext()


def compute_dtypes(model: Any) -> ComputeDtypes:
    """Return the compute dtypes of a model.

    Those of `set_compute_dtype`, else autocast's, else the weights'.
    """
    configured: ComputeDtypes | None = getattr(model, "_compute_dtypes", None)
    if configured is not None:
        return configured
    weight = next(model.parameters())
    if torch.is_autocast_enabled(weight.device.type):
        dtype = torch.get_autocast_dtype(weight.device.type)
        return ComputeDtypes(dtype, dtype)
    return ComputeDtypes(weight.dtype, weight.dtype)


def half_precision_dtype(decoder: Any) -> torch.dtype | None:
    """Return the half-precision dtype that a decoder computes in; None where it has fp32."""
    dtype: torch.dtype | None = getattr(decoder, "_half_dtype", None)
    return dtype


def compute_dtype_context(dtype: torch.dtype | None, device: torch.device) -> Context:
    """Return a context that sets the compute dtype, a half precision; None: unchanged."""
    if dtype is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)


def set_compute_dtype(
    model: Any, dtype: torch.dtype, device: torch.device, *, fp32_head: bool = True
) -> None:
    """Set the compute dtype of all passes of a language model, or of a decoder.

    Value heads stay fp32.

    fp32_head: keep the output layer in fp32. In bf16 it would round each logit to 8 bits, and so
    every log-probability (MiniMax-M1, arXiv:2506.13585; ScaleRL, arXiv:2510.13786).
    """
    is_whole = (
        hasattr(model, "lm_head")
        or getattr(model, "get_output_embeddings", lambda: None)() is not None
    )
    decoder = model.get_decoder() if is_whole else model
    if dtype == torch.float32 and all(it.dtype == dtype for it in decoder.parameters()):
        return
    _set_compute_dtype(decoder, dtype, device)
    if is_whole:
        head_dtype = torch.float32 if fp32_head else dtype
        _set_compute_dtype(model.get_output_embeddings(), head_dtype, device)
        model._compute_dtypes = ComputeDtypes(dtype, head_dtype)


def _set_compute_dtype(module: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Make a module compute in dtype through hooks; a deep copy of the module has them too."""
    if dtype != torch.float32:
        _add_context_hooks(module, lambda this: torch.autocast(device.type, dtype=dtype))
        marked: Any = module
        marked._half_dtype = dtype
        return
    _add_context_hooks(module, lambda this: without_autocast(device))
    module.register_forward_pre_hook(_fp32_inputs)
    for part in module.modules():
        if any(it is not None and it.dtype in HALF for it in part._parameters.values()):
            if isinstance(part, nn.Embedding):
                part.register_forward_hook(lambda this, args, output: output.float())
            else:
                _add_context_hooks(part, _fp32_weights)


def _fp32_inputs(this: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(it.float() if isinstance(it, Tensor) and it.dtype in HALF else it for it in args)


@contextlib.contextmanager
def _fp32_weights(this: nn.Module) -> Any:
    """Context manager: replace a module's half-precision (frozen) weights by fp32 copies."""
    own = {n: it for n, it in this._parameters.items() if it is not None and it.dtype in HALF}
    parameters: dict[str, Any] = this._parameters
    parameters |= {name: weight.float() for name, weight in own.items()}
    try:
        yield
    finally:
        parameters |= own


def _add_context_hooks(module: nn.Module, context: Callable[[nn.Module], Context]) -> None:
    """Run the module's forward inside a context, through hooks; a deep copy has them too."""
    running: weakref.WeakKeyDictionary[nn.Module, list[Context]] = weakref.WeakKeyDictionary()

    def enter(this: nn.Module, _: Any) -> None:
        entered = context(this)
        entered.__enter__()
        running.setdefault(this, []).append(entered)

    def leave(this: nn.Module, *_: Any) -> None:
        if running.get(this):  # a pass that failed before it entered has nothing to leave
            running[this].pop().__exit__(None, None, None)

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave, always_call=True)


def refuse_half_precision(module: nn.Module) -> None:
    """Refuse trainable half-precision weights by a TypeError; frozen ones may have any dtype.

    An optimiser step of 1e-6 on a weight of 0.01 rounds to nothing in half precision.
    """
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.dtype in (torch.float16, torch.bfloat16):
            raise TypeError(
                f"{name} is trainable and {parameter.dtype}: small optimiser steps are lost in "
                "half precision. Load the model with dtype=torch.float32, or freeze the weight."
            )
