"""In which precision weights are kept and passes computed: by the device, unless the user says.

What learns (weights, adapters, heads, their optimisers) is in fp32 always: a step of 1e-6 on a weight of 0.01 is lost
in half precision. A frozen base may be in bf16, and passes through either may compute in it.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import torch
from torch import nn

from fctncalling.algorithms.config import SettingError, TrainConfig

NAMES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def base_dtype(config: TrainConfig, device: torch.device) -> torch.dtype:
    """Return the precision of the language model's own weights; SettingError where they learn and it is not fp32."""
    if config.base_dtype == "auto":
        return torch.bfloat16 if config.lora_r and device.type == "cuda" else torch.float32
    dtype = NAMES[config.base_dtype]
    if dtype != torch.float32 and not config.lora_r:
        raise SettingError(
            f"--base_dtype: got {config.base_dtype}, but without --lora_r these weights learn, and small steps are "
            "lost in half precision; give --lora_r, or leave it out (--compute_dtype bfloat16 computes in it)"
        )
    return dtype


def compute_dtype(config: TrainConfig, device: torch.device) -> torch.dtype:
    """Return the precision of passes through the language model: bf16 on CUDA, where it is many times faster."""
    if config.compute_dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return NAMES[config.compute_dtype]


def computing(config: TrainConfig, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Return a context for many passes with the same weights: what they compute in is made of the weights once."""
    dtype = compute_dtype(config, device)
    return (
        contextlib.nullcontext()
        if dtype == torch.float32
        else torch.autocast(device.type, dtype=dtype)
    )


def compute_in(model: Any, dtype: torch.dtype, device: torch.device) -> None:
    """Let every pass through a language model, or a decoder, compute in the precision; value heads stay in fp32."""
    if dtype == torch.float32:
        return
    is_whole = (
        hasattr(model, "lm_head")
        or getattr(model, "get_output_embeddings", lambda: None)() is not None
    )
    for module in (model.get_decoder(), model.get_output_embeddings()) if is_whole else (model,):
        _autocast(module, dtype, device)


def _autocast(module: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Put autocast around the module's forward by hooks, which copies of the module keep."""
    running: weakref.WeakKeyDictionary[nn.Module, list[torch.autocast]] = (
        weakref.WeakKeyDictionary()
    )

    def enter(this: nn.Module, _: Any) -> None:
        context = torch.autocast(device.type, dtype=dtype)
        running.setdefault(this, []).append(context)
        context.__enter__()  # type: ignore[no-untyped-call]

    def leave(this: nn.Module, *_: Any) -> None:
        if running.get(this):  # a pass that failed before it entered has nothing to leave
            running[this].pop().__exit__(None, None, None)

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave, always_call=True)
