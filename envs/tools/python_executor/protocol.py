"""Messages between trainer, zygote and child, and the numbers of a child's descriptors.

A request goes to the zygote with five descriptors, [code, stdout, stderr, done, status]. On
`status`, a SOCK_SEQPACKET socket of that one child, three messages come back: STARTED (zygote, with
a pidfd), CONFINED (child, before it reads any code, so no code can forge it), ENDED (zygote, what
the kernel told of the exit); or FAILED. Before each snippet's code stands CALL, on the code's own
pipe. After a snippet that is not its last, the child writes the exit code to `done`; with that of
the last, it ends. A session has no last one.
"""

from __future__ import annotations

import fcntl
import os
import struct

REQUEST = struct.Struct("=QI?")  # memory bytes, cpu seconds, whether the policy holds
CALL = struct.Struct("=Q??Q")  # seed, whether there is one, is it the child's last, bytes of code
STARTED, CONFINED, ENDED, FAILED = b"S", b"C", b"E", b"F"
ENDING = struct.Struct("=idQ")  # wait status, cpu seconds, peak resident KiB
# Descriptors of a child beside 0, 1, 2: the first two until it is confined, DONE until its last.
DEV_NULL, STATUS, DONE = 3, 4, 5
CODE = STATUS  # in its place, later
SETUP_FAILED = 125


def reserve_low_descriptors() -> None:
    """Open descriptors up to 9, so that a child can put its descriptors there."""
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in range(DEV_NULL, 10):
        if descriptor != null:
            os.dup2(null, descriptor, inheritable=False)
    if null >= 10:
        os.close(null)


def move_above_reserved(descriptor: int) -> int:
    """Duplicate a descriptor to a number above the reserved ones."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved
