"""Weight and compute dtypes, by device or flag.

What learns (weights, adapters, heads, their optimisers) is in fp32 always: a step of 1e-6 on a
weight of 0.01 is lost in half precision. A frozen base may be in bf16, and passes through either
may compute in it. Base and passes may be of
any pair of precisions:

    base  passes  what is computed in which
    fp32  fp32    everything in fp32
    fp32  bf16    as under autocast: products in bf16, norms and the sums between layers in fp32
    bf16  bf16    everything in bf16, as transformers does; adapters' products too
    bf16  fp32    everything in fp32, with the rounded weights

The output layer has a precision of its own: fp32, unless --cast_lm_head_to_fp32 is false.
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


class PassDtypes(NamedTuple):
    """In which precision a model's passes multiply: its decoder, and its output layer."""

    decoder: torch.dtype
    head: torch.dtype


def base_dtype(config: TrainConfig, device: torch.device) -> torch.dtype:
    """Return the precision of the language model's own weights; SettingError where they learn and
    it is not fp32.
    """
    if config.base_dtype == "auto":
        return torch.bfloat16 if config.lora_r and device.type == "cuda" else torch.float32
    dtype = NAMES[config.base_dtype]
    if dtype != torch.float32 and not config.lora_r:
        raise SettingError(
            f"--base_dtype: got {config.base_dtype}, but without --lora_r these weights learn, and "
            "small steps are "
            "lost in half precision; give --lora_r, or leave it out (--compute_dtype bfloat16 "
            "computes in it)"
        )
    return dtype


def compute_dtype(config: TrainConfig, device: torch.device) -> torch.dtype:
    """Return the precision of passes through the language model: bf16 on CUDA, where it is many
    times faster.
    """
    if config.compute_dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return NAMES[config.compute_dtype]


def corrects_sampling(config: TrainConfig, device: torch.device) -> bool:
    """Return whether losses are weighted by how likely learning's weights find what was sampled.

    They are where other weights or another engine sample, and where passes compute in bf16:
    sampling and training then round differently, by a per cent and more on single tokens.
    """
    return config.importance_cap is not None and (
        config.max_staleness > 0
        or config.rollout_engine != "local"
        or compute_dtype(config, device) != torch.float32
    )


def computing(config: TrainConfig, device: torch.device) -> Context:
    """Return a context for many passes with the same weights: what they compute in is made of the
    weights once.
    """
    dtype = compute_dtype(config, device)
    return (
        contextlib.nullcontext()
        if dtype == torch.float32
        else torch.autocast(device.type, dtype=dtype)
    )


def without_autocast(device: torch.device) -> Context:
    """Return a context in which every operation computes in the precision of its inputs."""
    enabled = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if enabled else contextlib.nullcontext()


def pass_dtypes(model: Any) -> PassDtypes:
    """Return the precision of a model's passes: what `compute_in` was told, else autocast's, else
    the weights' own.
    """
    told: PassDtypes | None = getattr(model, "_pass_dtypes", None)
    if told is not None:
        return told
    weight = next(model.parameters())
    if torch.is_autocast_enabled(weight.device.type):
        dtype = torch.get_autocast_dtype(weight.device.type)
        return PassDtypes(dtype, dtype)
    return PassDtypes(weight.dtype, weight.dtype)


def compute_in(
    model: Any, dtype: torch.dtype, device: torch.device, *, fp32_head: bool = True
) -> None:
    """Let every pass through a language model, or a decoder, compute in the precision; value heads
    stay in fp32.

    fp32_head: whether the output layer computes in fp32 all the same. In bf16 it would round each
    logit to 8 bits, and with it every log-probability (MiniMax-M1, arXiv:2506.13585; ScaleRL,
    arXiv:2510.13786).
    """
    is_whole = (
        hasattr(model, "lm_head")
        or getattr(model, "get_output_embeddings", lambda: None)() is not None
    )
    decoder = model.get_decoder() if is_whole else model
    if dtype == torch.float32 and all(it.dtype == dtype for it in decoder.parameters()):
        return
    _let_compute(decoder, dtype, device)
    if is_whole:
        head_dtype = torch.float32 if fp32_head else dtype
        _let_compute(model.get_output_embeddings(), head_dtype, device)
        model._pass_dtypes = PassDtypes(dtype, head_dtype)


def _let_compute(module: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Let a module compute in the precision, by hooks, which copies of the module keep."""
    if dtype != torch.float32:
        _around(module, lambda this: torch.autocast(device.type, dtype=dtype))
        return
    _around(module, lambda this: without_autocast(device))
    module.register_forward_pre_hook(_widened_inputs)
    for part in module.modules():
        if any(it is not None and it.dtype in HALF for it in part._parameters.values()):
            if isinstance(part, nn.Embedding):
                part.register_forward_hook(lambda this, args, output: output.float())
            else:
                _around(part, _widened)


def _widened_inputs(this: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(it.float() if isinstance(it, Tensor) and it.dtype in HALF else it for it in args)


@contextlib.contextmanager
def _widened(this: nn.Module) -> Any:
    """Put fp32 copies in the place of a module's own frozen weights of half precision until the
    block is left.
    """
    own = {n: it for n, it in this._parameters.items() if it is not None and it.dtype in HALF}
    parameters: dict[str, Any] = this._parameters
    parameters |= {name: weight.float() for name, weight in own.items()}
    try:
        yield
    finally:
        parameters |= own


def _around(module: nn.Module, context: Callable[[nn.Module], Context]) -> None:
    """Put a context around the module's forward by hooks, which copies of the module keep."""
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
    """Raise TypeError for a trainable half-precision weight: an optimiser step of 1e-6 on 0.01
    rounds to nothing there.

    Frozen weights may have any precision.
    """
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.dtype in (torch.float16, torch.bfloat16):
            raise TypeError(
                f"{name} is trainable and {parameter.dtype}: small optimiser steps are lost in "
                "half precision. "
                "Load the model with dtype=torch.float32, or freeze the weight."
            )
