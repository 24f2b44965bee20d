"""Gradient checkpointing (layers are computed again, all but their attention) and heap trimming.

Chen et al. 2016, arXiv:1604.06174.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from fctncalling.algorithms.config import SettingError

BYTES_A_TRIM = 2**23  # of layers' inputs; with less, a small model's time would go into trimming


class HeapTrimmer:
    """Trimmer of the heap between the layers of one pass.

    A pass that autograd records makes large arrays that go at once between arrays and small things,
    such as nodes of autograd's graph, that stay until the backward pass. The small ones are cut
    from freed arrays, and the next array of that size no longer fits: the heap's holes grow with
    each layer, by up to as much as what stays. Large arrays in maps of their own (M_MMAP_THRESHOLD)
    leave no holes, but each is then cleared page by page, and an update takes up to 1.5 times as
    long.
    """

    def __init__(self) -> None:
        self._num_bytes = 0

    def before_layer(self, num_bytes: int) -> None:
        """Before a layer is computed, count its input of so many bytes, and trim when due."""
        self._num_bytes += num_bytes
        if self._num_bytes >= BYTES_A_TRIM:
            self._num_bytes = 0
            trim_heap()


def input_bytes(arguments: Iterable[Any]) -> int:
    """Return the input bytes of a layer: the size of its hidden states.

    0 if they are not on a CPU.
    """
    states = next((it for it in arguments if isinstance(it, Tensor)), None)
    if states is None or states.device.type != "cpu":
        return 0
    return states.numel() * states.element_size()


def trim_heap() -> None:
    """Trim the heap: give free pages back to the system, where the C library is glibc."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL("libc.so.6").malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


ATTENTION_KERNELS = tuple(
    getattr(torch.ops.aten, f"_scaled_dot_product_{name}").default
    for name in (
        "flash_attention_for_cpu",
        "flash_attention",
        "efficient_attention",
        "cudnn_attention",
    )
)
PAGES_BYTES = 2**24  # mapped at once
ALIGNMENT = 64  # bytes

LayerRunner = Callable[..., Any]
"""(function, *args, **kwargs) -> the function's result: how a pass calls each layer."""


def run_without_checkpointing(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a layer unchanged, without checkpointing."""
    return function(*args, **kwargs)


class HeapTrimmingRunner:
    """Trimming runner of layers: the heap is trimmed between them; serves one pass."""

    def __init__(self) -> None:
        self._heap = HeapTrimmer()

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            self._heap.before_layer(input_bytes((*args, *kwargs.values())))
        return function(*args, **kwargs)


class LayerOutputRecorder:
    """Recording runner of layers: it records what each returned; serves one pass."""

    def __init__(self, run: LayerRunner) -> None:
        self._run = run
        self.outputs: list[Tensor] = []

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = self._run(function, *args, **kwargs)
        self.outputs.append(found[0] if isinstance(found, tuple) else found)
        return found


class RecomputingRunner:
    """Recomputing runner of layers, in the backward pass (checkpointing); serves one pass.

    context: entered while a layer is computed again, which happens long after the pass, when
    another adapter may be active.
    """

    def __init__(self, context: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
        self._context = context
        self._memory = MemoryMappedCopies()
        self._heap = HeapTrimmer()

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return function(*args, **kwargs)
        num_bytes = input_bytes((*args, *kwargs.values()))
        self._heap.before_layer(num_bytes)
        keep = self._memory.copy_layer_output
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            return checkpoint(
                function,
                *args,
                use_reentrant=False,
                preserve_rng_state=False,  # evaluation mode: no layer draws a random number
                context_fn=partial(self._contexts, num_bytes),
                **kwargs,
            )

    def _contexts(self, num_bytes: int) -> tuple[Any, Any]:
        """Return the contexts of a layer's forward pass and of its second one."""
        kept: list[Any] = []
        return _Keeping(kept, self._memory), self._again(kept, num_bytes)

    @contextlib.contextmanager
    def _again(self, kept: list[Any], num_bytes: int) -> Iterator[None]:
        self._heap.before_layer(num_bytes)
        with self._context(), _Replaying(kept):
            yield


class MemoryMappedCopies:
    """Copies of tensors off the heap, in pages that are freed with them.

    What a pass keeps stays until the backward pass. In the heap it would lie between blocks that
    come and go, and the holes that those leave are as large as what checkpointing saves.
    """

    def __init__(self) -> None:
        self._pages: mmap.mmap | None = None  # copies hold on to theirs
        self._used = 0

    def copy(self, tensor: Tensor) -> Tensor:
        """Copy a tensor off the heap, with its strides where it is dense.

        One that is not on a CPU, as it is.
        """
        if tensor.device.type != "cpu" or not tensor.numel():
            return tensor
        num_bytes = tensor.numel() * tensor.element_size()
        if self._pages is None or self._used + num_bytes > len(self._pages):
            self._pages = mmap.mmap(-1, max(num_bytes, PAGES_BYTES))
            self._used = 0
        flat = torch.frombuffer(
            self._pages, dtype=tensor.dtype, count=tensor.numel(), offset=self._used
        )
        self._used += -(-num_bytes // ALIGNMENT) * ALIGNMENT
        return flat.as_strided(
            tensor.shape, torch.empty_like(tensor, device="meta").stride()
        ).copy_(tensor.detach())

    def copy_layer_output(self, tensor: Tensor) -> Tensor:
        """Copy a layer's output, the next one's input, off the heap.

        All else (rotary angles, biases) as it is.
        """
        return tensor if tensor.grad_fn is None else self.copy(tensor)


class _Keeping(TorchDispatchMode):
    """Mode that stores the outputs of attention kernels, in the order of the calls."""

    def __init__(self, kept: list[Any], memory: MemoryMappedCopies) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kept = kept
        self._memory = memory

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outputs = func(*args, **(kwargs or {}))
        if func in ATTENTION_KERNELS:
            self._kept.append(
                [self._memory.copy(it) if isinstance(it, Tensor) else it for it in outputs]
            )
        return outputs


class _Replaying(TorchDispatchMode):
    """Mode that returns stored outputs of attention kernels instead of calling them."""

    def __init__(self, kept: list[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kept = kept

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in ATTENTION_KERNELS:
            return tuple(self._kept.pop(0))
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def use_layer_runner(decoder: nn.Module, run: LayerRunner) -> Iterator[None]:
    """Context manager: use a layer runner in the decoder's forward method."""
    patched = isinstance(run, RecomputingRunner | LayerOutputRecorder)
    layers = checkpointable_layers(decoder) if patched else []
    for layer in layers:
        # On the instance, inside its hooks: FSDP gathers a layer's weights in one of these.
        layer.__dict__["forward"] = partial(run, layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["forward"]


def checkpointable_layers(decoder: nn.Module) -> list[nn.Module]:
    """Return the checkpointable layers of a model: those that can be recomputed.

    SettingError where it has none.
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
