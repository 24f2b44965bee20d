"""Gradient checkpointing: layers are computed again in the backward pass (Chen et al. 2016,
arXiv:1604.06174).

A pass keeps the inputs of its layers alone. The same operations run on the same numbers, so the
gradient is the same to the last bit. It costs one more forward pass; what stays in memory is
(tokens, hidden size) a layer, and one whole layer.

transformers' own switch works in training mode only, in which dropout would be on. Passes here are
in evaluation mode, so the layers that it would recompute are wrapped for the length of a pass.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from fctncalling.algorithms.config import SettingError

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGE_BLOCK = 2**22

LayerRunner = Callable[..., Any]
"""(function, *args, **kwargs) -> the function's result: how a pass calls each layer."""


def run_layer(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a layer as it is: everything that its backward pass needs stays in memory."""
    return function(*args, **kwargs)


def recomputing(context: Callable[[], contextlib.AbstractContextManager[Any]]) -> LayerRunner:
    """Return a runner under which a layer keeps its inputs alone.

    context: entered while a layer is computed again, which happens long after the pass, when
    another adapter may be active.
    """
    return_large_blocks()

    def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return function(*args, **kwargs)
        return checkpoint(
            function,
            *args,
            use_reentrant=False,
            preserve_rng_state=False,  # evaluation mode: no layer draws a random number
            context_fn=lambda: (contextlib.nullcontext(), context()),
            **kwargs,
        )

    return run


@functools.cache
def return_large_blocks() -> None:
    """Make malloc give blocks of 4 MiB and more back to the system as they are freed, in this whole
    process; other C libraries than glibc are left alone.

    By default glibc holds freed blocks of up to 32 MiB. Each layer's inputs, which stay, then lie
    between what was freed, and the holes are as large as what checkpointing saves.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(M_TRIM_THRESHOLD, 16 * LARGE_BLOCK)


@contextlib.contextmanager
def layers_run_by(decoder: nn.Module, run: LayerRunner) -> Iterator[None]:
    """Context manager: the decoder's own forward calls its layers by `run`."""
    layers = [] if run is run_layer else recomputed_layers(decoder)
    for layer in layers:
        # On the instance, inside its hooks: FSDP gathers a layer's weights in one of these.
        layer.__dict__["forward"] = partial(run, layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["forward"]


def recomputed_layers(decoder: nn.Module) -> list[nn.Module]:
    """Return the layers of a transformers model that can be computed again; SettingError where it
    has none.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers: list[nn.Module] = [
        it for it in decoder.modules() if isinstance(it, GradientCheckpointingLayer)
    ]
    if not layers:
        raise SettingError(
            f"--gradient_checkpointing: {type(decoder).__name__} has no layers that transformers "
            "could compute again; leave it out, and lower --max_microbatch_tokens to save memory"
        )
    return layers
