"""Heap trimming: pages that malloc holds between blocks that stay go back to the system.

A pass that autograd records makes large arrays that go at once between arrays and small things,
such as nodes of autograd's graph, that stay until the backward pass. The small ones are cut from
freed arrays, and the next array of that size no longer fits: the heap's holes grow with each layer,
by up to as much as what stays. Large arrays in maps of their own (M_MMAP_THRESHOLD) leave no holes,
but each is then cleared page by page, and an update takes up to 1.5 times as long.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

BYTES_A_TRIM = 2**23  # of layers' inputs; with less, a small model's time would go into trimming


class HeapTrimmer:
    """Heap trimmer between the layers of one pass, at each BYTES_A_TRIM of inputs."""

    def __init__(self) -> None:
        self._num_bytes = 0

    def before_layer(self, num_bytes: int) -> None:
        """Count a layer that is about to be computed from an input of so many bytes."""
        self._num_bytes += num_bytes
        if self._num_bytes >= BYTES_A_TRIM:
            self._num_bytes = 0
            trim_heap()


def input_bytes(arguments: Iterable[Any]) -> int:
    """Return the bytes of a layer's hidden states, the first tensor of its arguments.

    0 if they are not on a CPU.
    """
    states = next((it for it in arguments if isinstance(it, Tensor)), None)
    if states is None or states.device.type != "cpu":
        return 0
    return states.numel() * states.element_size()


def trim_heap() -> None:
    """Give free pages of the heap back to the system; other C libraries than glibc keep them."""
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
