"""Landlock ruleset: no path, no TCP, no abstract socket, no signal to outside.

The second lock on what seccomp refuses already.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from fctncalling.envs.tools.python_executor.confinement.kernel_calls import LayerError, libc

LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446  # the same number on every architecture


def landlock_abi() -> int:
    """Return the kernel's Landlock version, 0 where there is none."""
    if not hasattr(libc, "syscall"):
        return 0
    return max(0, int(libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def landlock_ruleset() -> int:
    """Return a descriptor of a ruleset without paths, TCP, abstract sockets, outside signals.

    Each right exists from one ABI version on, and naming a later one is an error
    (linux/landlock.h).
    """
    abi = landlock_abi()
    if not abi:
        raise LayerError(errno.ENOSYS, "this kernel has no Landlock")
    files = (1 << 13) - 1
    for since, bit in ((2, 13), (3, 14), (5, 15)):  # refer, truncate, ioctl on devices
        files |= (1 << bit) if abi >= since else 0
    net = 3 if abi >= 4 else 0  # bind and connect
    scoped = 3 if abi >= 6 else 0  # abstract unix sockets and signals
    attributes = struct.pack("=QQQ", files, net, scoped)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    fd = int(libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    if fd < 0:
        raise LayerError(ctypes.get_errno(), "landlock_create_ruleset failed")
    return fd


def restrict_by_landlock(ruleset: int) -> None:
    """Put a ruleset on the calling process for good; needs no_new_privs."""
    if libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0):
        raise LayerError(ctypes.get_errno(), "landlock_restrict_self failed")
