"""System calls by ctypes (prctl), and the error of a layer that the kernel refuses."""

from __future__ import annotations

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = (
    1,
    4,
    22,
    36,
    38,
)


class ConfinementError(OSError):
    """Error of a confinement layer that could not be applied."""


def prctl(
    option: int, value: int | ctypes.c_char_p = 0, pointer: ctypes.c_char_p | None = None
) -> None:
    """Call prctl(2); raise ConfinementError if the kernel refuses."""
    if libc.prctl(option, value, pointer, 0, 0):
        raise ConfinementError(
            ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}"
        )
