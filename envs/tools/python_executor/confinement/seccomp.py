"""Filter of system calls (seccomp): a small BPF assembler, and the program for snippets.

The layer that matters most: no fork, no path, no socket, no other process.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
from pathlib import Path

from fctncalling.envs.tools.python_executor.confinement.kernel_calls import (
    PR_SET_SECCOMP,
    ConfinementError,
    prctl,
)

Numbers = dict[str, tuple[int | None, int | None]]
"""Name -> its number on x86_64 (`asm/unistd_64.h`) and aarch64 (`asm-generic/unistd.h`); None where
an architecture has no such call. The aarch64 column has not been run on such a machine.
"""
_TABLES: dict[str, Numbers] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
ALLOWED = _TABLES["allowed"]
"""Whatever a pure computation with threads, timers and pipes needs, and nothing that names another
process or a file. uname is missing on purpose: it tells the host's name. So are sysinfo, which
tells its load, and membarrier, which interrupts every core of the machine.
"""
PATHS = _TABLES["paths"]
"""Everything that names a path: refused with EACCES, which Python raises as PermissionError."""
JUDGED = _TABLES["judged"]
"""Decided by their arguments: one rule for each in `_judged`."""

AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What seccomp sees as the calling convention; a call by another one (int 0x80) has other numbers.
"""

ARCHITECTURE = os.uname().machine


def syscall_numbers(table: Numbers) -> dict[str, int]:
    """Return this machine's syscall numbers by name; {} for an unknown machine."""
    if ARCHITECTURE not in AUDIT_ARCHITECTURE:
        return {}
    column = 0 if ARCHITECTURE == "x86_64" else 1
    return {name: row[column] for name, row in table.items() if row[column] is not None}  # type: ignore[misc]


LOAD, AND, JUMP, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_ANY_BIT, RETURN = (
    *(0x20, 0x54, 0x05),
    *(0x15, 0x35, 0x45, 0x06),
)
NUMBER_OFFSET, ARCHITECTURE_OFFSET, FIRST_ARGUMENT_OFFSET = 0, 4, 16  # of struct seccomp_data
PASS, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
CLONE_THREAD, PROT_EXEC, X32_BIT = 0x10000, 4, 0x40000000
F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC = 0, 1, 2, 3, 4, 1030
# Never F_SETOWN or F_SETSIG: they aim signals.
FCNTL_COMMANDS = (F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC)
# The access mode, O_APPEND, O_NONBLOCK and the kernel's two O_LARGEFILE. Not O_DIRECT: it makes
# every write to a pipe a packet, which its reader has to take one by one. Not O_ASYNC: it sends
# signals.
FILE_FLAGS = 0x3 | 0x400 | 0x800 | 0x8000 | 0x20000
# WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET. None that inherits priority:
# those take a thread id of any process, and tell whether there is one.
FUTEX_COMMANDS, FUTEX_COMMAND_MASK = (0, 1, 3, 4, 5, 9, 10), 0x7F
PID_MARK = 0x5EC0FFEE  # stands for the child's own pid until the child knows it


# struct sock_filter. `if_true` and `if_false` count instructions to skip; so blocks are joined like
# text, and a jump over a block is its length.
def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value & 0xFFFFFFFF)


def _length(block: bytes) -> int:
    return len(block) // 8


def _give(action: int) -> bytes:
    return _instruction(RETURN, action)


def _refuse(error: int) -> bytes:
    return _give(REFUSE | error)


def _argument(index: int, *, high: bool = False) -> bytes:
    return _instruction(LOAD, FIRST_ARGUMENT_OFFSET + 8 * index + (4 if high else 0))


def _only_values(index: int, values: tuple[int, ...], mask: int = 0) -> bytes:
    """Allow a call if an argument is one of the values.

    The kernel reads these arguments as 32-bit integers.
    """
    block = _argument(index) + (_instruction(AND, mask) if mask else b"")
    for value in values:
        block += _instruction(JUMP_EQUAL, value, 0, 1) + _give(PASS)
    return block + _refuse(errno.EPERM)


def _only_harmless_fcntl() -> bytes:
    """Allow commands that duplicate or query a descriptor, and F_SETFL with harmless flags."""
    flags = _unless_bit(2, ~FILE_FLAGS)
    skip = _instruction(JUMP_EQUAL, F_SETFL, 0, _length(flags))
    return _argument(1) + skip + flags + _only_values(1, FCNTL_COMMANDS)


def _only_own_clocks() -> bytes:
    """Allow the system's clocks.

    A negative number is the clock of a process, and tells whether there is one.
    """
    negative = _instruction(JUMP_GREATER_EQUAL, 1 << 31, 0, 1)
    return _argument(0) + negative + _refuse(errno.EPERM) + _give(PASS)


def _unless_bit(index: int, bit: int) -> bytes:
    return (
        _argument(index)
        + _instruction(JUMP_ANY_BIT, bit, 0, 1)
        + _refuse(errno.EPERM)
        + _give(PASS)
    )


def _only_limit_queries() -> bytes:
    """Allow prlimit64(0 or this pid, resource, NULL, out): a query, not a change."""
    # BPF loads 32 bits at a time: the pointer to the new limit is NULL if both its halves are 0.
    block = b""
    for index, high in ((2, False), (2, True), (0, False)):
        block += (
            _argument(index, high=high) + _instruction(JUMP_EQUAL, 0, 1, 0) + _refuse(errno.EPERM)
        )
    return block + _give(PASS)


def _judged(threads: bool) -> dict[str, bytes]:
    only_threads = (
        _argument(0)
        + _instruction(JUMP_ANY_BIT, CLONE_THREAD, 0, 1)
        + _give(PASS)
        + _refuse(errno.EPERM)
    )
    return {
        "clone": only_threads if threads else _refuse(errno.EPERM),
        # its flags lie in memory, where no filter can look; glibc falls back to clone
        "clone3": _refuse(errno.ENOSYS),
        "kill": _only_values(0, (PID_MARK,)),
        "tgkill": _only_values(0, (PID_MARK,)),
        "fcntl": _only_harmless_fcntl(),
        "futex": _only_values(1, FUTEX_COMMANDS, FUTEX_COMMAND_MASK),
        "sched_getaffinity": _only_values(0, (0, PID_MARK)),
        "clock_gettime": _only_own_clocks(),
        "clock_getres": _only_own_clocks(),
        "clock_nanosleep": _only_own_clocks(),
        "ioctl": _refuse(errno.ENOTTY),
        "prlimit64": _only_limit_queries(),
        "mmap": _unless_bit(2, PROT_EXEC),  # no new machine code
        "mprotect": _unless_bit(2, PROT_EXEC),
    }


def _search_tree(rules: list[tuple[int, bytes]]) -> bytes:
    """Return code that finds the last rule with a number <= the one loaded.

    A tree, not a list: at installation the kernel runs the filter once for every system call there
    is.
    """
    if len(rules) == 1:
        return rules[0][1]
    middle = len(rules) // 2
    low, high = _search_tree(rules[:middle]), _search_tree(rules[middle:])
    jump = _instruction(JUMP_GREATER_EQUAL, rules[middle][0], 0, 1) + _instruction(
        JUMP, _length(low)
    )
    return jump + low + high


def seccomp_filter(*, threads: bool) -> bytes:
    """Build the seccomp filter as a BPF program for this architecture.

    It has PID_MARK where the child's pid belongs.
    """
    if ARCHITECTURE not in AUDIT_ARCHITECTURE:
        raise ConfinementError(errno.ENOSYS, f"no system call table for {ARCHITECTURE}")
    actions = {number: _give(PASS) for number in syscall_numbers(ALLOWED).values()}
    actions |= {number: _refuse(errno.EACCES) for number in syscall_numbers(PATHS).values()}
    actions |= {number: _judged(threads)[name] for name, number in syscall_numbers(JUDGED).items()}
    # Numbers are cut into ranges of one action: (first number, action).
    rules, default = [(0, _refuse(errno.EPERM))], _refuse(errno.EPERM)
    for number in range(max(actions) + 2):
        action = actions.get(number, default)
        if action != rules[-1][1]:
            rules.append((number, action))
    if ARCHITECTURE == "x86_64":  # the same calls again, in the convention of x32
        rules.append((X32_BIT, _give(KILL)))
    other_convention = _instruction(JUMP_EQUAL, AUDIT_ARCHITECTURE[ARCHITECTURE], 1, 0) + _give(
        KILL
    )
    prologue = (
        _instruction(LOAD, ARCHITECTURE_OFFSET)
        + other_convention
        + _instruction(LOAD, NUMBER_OFFSET)
    )
    return prologue + _search_tree(rules)


def install_filter(program: bytes) -> None:
    """Install a seccomp filter on the calling thread; needs no_new_privs."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HxxxxxxQ", _length(program), ctypes.addressof(buffer))
    prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(header))
