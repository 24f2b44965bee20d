"""Space of Python strings (UnicodeText), with handlers for Gymnasium's vector environments.

`gymnasium.spaces.Text` rejects JSON and most of Unicode, and in `AsyncVectorEnv` with shared memory
it keeps showing the texts of the first read (the batch is read once, and a tuple of strings cannot
follow the memory below it). `UnicodeText` holds any `str`, lone surrogates included, and reads
shared memory as a view that follows it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from copy import deepcopy
from ctypes import c_uint8
from typing import Any, overload

import numpy as np
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Space, Tuple
from gymnasium.spaces.utils import flatten, flatten_space, is_space_dtype_shape_equiv, unflatten
from gymnasium.vector.utils import (
    batch_differing_spaces,
    batch_space,
    concatenate,
    create_empty_array,
)
from gymnasium.vector.utils.shared_memory import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.wrappers.utils import create_zero_array

from fctncalling.data.unsafe_text import cut_text

OBSERVATION_BYTES = 512 * 1024
"""Bytes of UTF-8 one observation may take, and hence of shared memory per environment (the longest
official single-turn prompt takes 37 kB, the longest multi-turn one about 100 kB).
"""

_LENGTH_BYTES = 8  # the text's own length stands before it in shared memory
# Models do emit half of a surrogate pair; strict UTF-8 would raise.
_CODEC = ("utf-8", "surrogatepass")
_SAMPLE_LENGTH = 64  # characters of the longest random text
_SAMPLE_ALPHABET = "".join(
    chr(point)
    for low, high in (
        (0x20, 0x7F),
        (0xA1, 0x180),
        (0x391, 0x3CA),
        (0x4E00, 0x4E40),
        (0x1F600, 0x1F640),
    )
    for point in range(low, high)
    if chr(point).isprintable()
)


class UnicodeText(Space[str]):
    """Gymnasium space of texts of at most `max_bytes` bytes in UTF-8; None: unbounded.

    A bound is what makes shared memory possible: `max_bytes + 8` bytes are reserved per
    environment.
    """

    def __init__(
        self, max_bytes: int | None = None, seed: int | np.random.Generator | None = None
    ) -> None:
        if max_bytes is not None and max_bytes < 1:
            raise ValueError(
                f"UnicodeText: max_bytes={max_bytes!r}; expected a positive number of bytes, or "
                "None."
            )
        self.max_bytes = max_bytes
        super().__init__(dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Whether texts flatten to a NumPy array: False, as their lengths vary."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Sample a random printable text of 0 to 64 characters, some of them outside ASCII."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText.sample takes no mask and no probability: leave both out.")
        points = self.np_random.integers(
            len(_SAMPLE_ALPHABET), size=int(self.np_random.integers(_SAMPLE_LENGTH + 1))
        )
        text = "".join(_SAMPLE_ALPHABET[point] for point in points)
        return text if self.max_bytes is None else cut_text(text, self.max_bytes)[0]

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string within the bound."""
        if not isinstance(x, str):
            return False
        # A code point takes at most 4 bytes: most texts need not be encoded to know.
        return (
            self.max_bytes is None
            or len(x) * 4 <= self.max_bytes
            or len(x.encode(*_CODEC)) <= self.max_bytes
        )

    def __repr__(self) -> str:
        return f"UnicodeText(max_bytes={self.max_bytes})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_bytes == other.max_bytes

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_bytes))


class SharedMemoryTexts(Sequence[str]):
    """Live view of the texts of all environments in shared memory; a deep copy is a tuple."""

    def __init__(self, memory: Any, stride: int, n: int) -> None:
        self._bytes = memoryview(memory.get_obj()).cast("B")
        self._stride = stride
        self._n = n

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return the current text of one environment (or of several)."""
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._n)))
        if not -self._n <= index < self._n:
            raise IndexError(f"SharedMemoryTexts: index {index} of {self._n} environments.")
        start = (index % self._n) * self._stride
        body = start + _LENGTH_BYTES
        length = int.from_bytes(self._bytes[start:body], "little")
        return bytes(self._bytes[body : body + length]).decode(*_CODEC)

    def __len__(self) -> int:
        return self._n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"SharedMemoryTexts{tuple(self)!r}"


def _bound(space: UnicodeText) -> int:
    if space.max_bytes is None:
        raise CustomSpaceError(
            f"{space} has no bound, so no shared memory can be reserved for it: give max_bytes, or "
            'pass vector_kwargs={"shared_memory": False}.'
        )
    return space.max_bytes


def _create_shared_texts(space: UnicodeText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.Array(c_uint8, n * (_bound(space) + _LENGTH_BYTES))


def _read_shared_texts(space: UnicodeText, shared_memory: Any, n: int = 1) -> SharedMemoryTexts:
    return SharedMemoryTexts(shared_memory, _bound(space) + _LENGTH_BYTES, n)


def _write_shared_text(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    encoded, bound = value.encode(*_CODEC), _bound(space)
    if len(encoded) > bound:
        raise ValueError(
            f"a text of {len(encoded)} bytes does not fit the {bound} bytes of {space}: cut it "
            "first (fctncalling.data.unsafe_text.cut_text), or raise max_bytes."
        )
    memory = memoryview(shared_memory.get_obj()).cast("B")
    start = index * (bound + _LENGTH_BYTES)
    memory[start : start + _LENGTH_BYTES] = len(encoded).to_bytes(_LENGTH_BYTES, "little")
    memory[start + _LENGTH_BYTES : start + _LENGTH_BYTES + len(encoded)] = encoded


class TextBatch(Tuple[Any]):
    """Space of a batch of texts.

    A Tuple of spaces, as for Gymnasium's own Text, that accepts the live view: `copy=False` hands
    out that view, as a tuple cannot follow the memory.
    """

    def contains(self, x: Any) -> bool:
        """Whether `x` has a text of each space."""
        return bool(super().contains(tuple(x) if isinstance(x, SharedMemoryTexts) else x))


def _batch_text(space: UnicodeText, n: int = 1) -> TextBatch:
    seeds = deepcopy(space.np_random).integers(0, int(1e8), n)
    return TextBatch(
        [UnicodeText(space.max_bytes, seed=int(seed)) for seed in seeds],
        seed=deepcopy(space.np_random),
    )


def _batch_differing_texts(spaces: Sequence[UnicodeText]) -> TextBatch:
    return TextBatch([deepcopy(space) for space in spaces], seed=deepcopy(spaces[0].np_random))


# `iterate` is deliberately absent: registered for one text it would make `iterate(Tuple)` walk the
# characters of each text instead of the texts.
_VECTOR_HANDLERS: list[Any] = [
    (batch_space, _batch_text),
    (batch_differing_spaces, _batch_differing_texts),
    (concatenate, lambda space, items, out: tuple(items)),
    (create_empty_array, lambda space, n=1, fn=np.zeros: ("",) * n),
    (create_zero_array, lambda space: ""),
    (create_shared_memory, _create_shared_texts),
    (read_from_shared_memory, _read_shared_texts),
    (write_to_shared_memory, _write_shared_text),
    (is_space_dtype_shape_equiv, lambda space_1, space_2: space_1 == space_2),
    (flatten_space, lambda space: space),  # like Graph and Sequence: as flat as it gets
    (flatten, lambda space, x: x),
    (unflatten, lambda space, x: x),
]
for _dispatch, _handler in _VECTOR_HANDLERS:
    _dispatch.register(UnicodeText, _handler)
