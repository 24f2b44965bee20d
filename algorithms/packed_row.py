"""A token record as it travels between processes: six bytes a token, and made in microseconds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FIELDS = ("ids", "acted", "ends_action", "rollout_logprobs", "rewards")


class PackedRow(NamedTuple):
    """Token record as bytes: floats are exact, and given for acted tokens alone."""

    num_tokens: int
    num_acted: int
    ids: bytes  # int32
    acted: bytes  # a bit a token
    ends_action: bytes  # a bit an acted token
    rollout_logprobs: bytes  # float64, of acted tokens
    rewards: bytes  # float64, of acted tokens

    @property
    def first_acted(self) -> int:
        """Index of the first acted token."""
        return int(_bools(self.acted, self.num_tokens).argmax())

    def lists(self) -> dict[str, list[Any]]:
        """Return the record's fields."""
        acted = _bools(self.acted, self.num_tokens)

        def spread(values: NDArray[Any]) -> list[Any]:
            whole = np.zeros(self.num_tokens, dtype=values.dtype)
            whole[acted] = values
            return whole.tolist()  # type: ignore[no-any-return]

        return {
            "ids": np.frombuffer(self.ids, dtype=np.int32).tolist(),
            "acted": acted.tolist(),
            "ends_action": spread(_bools(self.ends_action, self.num_acted)),
            "rollout_logprobs": spread(np.frombuffer(self.rollout_logprobs, dtype=np.float64)),
            "rewards": spread(np.frombuffer(self.rewards, dtype=np.float64)),
        }


def pack_row(row: Any) -> PackedRow | None:
    """Return a token record packed; None where that would lose something, as of a faulty one."""
    try:
        ids = np.asarray(row.ids, dtype=np.int32)
    except OverflowError:
        return None
    acted = np.asarray(row.acted, dtype=bool)
    ends, logprobs, rewards = (
        np.asarray(values, dtype=dtype)
        for values, dtype in (
            (row.ends_action, bool),
            (row.rollout_logprobs, np.float64),
            (row.rewards, np.float64),
        )
    )
    if any(array.shape != ids.shape for array in (acted, ends, logprobs, rewards)):
        return None
    if any(array[~acted].any() for array in (ends, logprobs, rewards)):  # NaN counts as well
        return None
    return PackedRow(
        num_tokens=len(ids),
        num_acted=int(acted.sum()),
        ids=ids.tobytes(),
        acted=np.packbits(acted).tobytes(),
        ends_action=np.packbits(ends[acted]).tobytes(),
        rollout_logprobs=logprobs[acted].tobytes(),
        rewards=rewards[acted].tobytes(),
    )


def _bools(bits: bytes, count: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=count).astype(bool)
