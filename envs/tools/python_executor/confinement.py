"""The kernel layers around one call: resource limits, Landlock, seccomp; by ctypes, no library
needed.

seccomp is the layer that matters most (no fork, no path, no socket, no other process); Landlock is
the second lock on files, TCP, abstract sockets and signals; the address space limit is the only
bound on memory. Everything reusable is built once before the fork, since each page a child touches
has to be copied. This file is imported by the zygote, which knows nothing else of the project.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
from collections.abc import Callable

from fctncalling.envs.tools.python_executor.syscalls import (
    ALLOWED,
    ARCHITECTURE,
    AUDIT_ARCHITECTURE,
    JUDGED,
    PATHS,
    numbers,
)

LAYERS = ("rlimits", "landlock", "seccomp")

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = (
    1,
    4,
    22,
    36,
    38,
)
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446  # the same number on every architecture


class LayerError(OSError):
    """A layer that was asked for could not be put on."""


def prctl(
    option: int, value: int | ctypes.c_char_p = 0, pointer: ctypes.c_char_p | None = None
) -> None:
    """Call prctl(2) and raise LayerError where the kernel refuses."""
    if libc.prctl(option, value, pointer, 0, 0):
        raise LayerError(ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}")


def landlock_abi() -> int:
    """Return the kernel's Landlock version, 0 where there is none."""
    if not hasattr(libc, "syscall"):
        return 0
    return max(0, int(libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def landlock_ruleset() -> int:
    """Return a descriptor of a ruleset that allows no path, no TCP, no abstract socket, no signal
    to outside.

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


# --- seccomp: a small assembler
# -------------------------------------------------------------------------------------

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
    """Pass where an argument is one of the values. The kernel reads these arguments as 32-bit
    integers.
    """
    block = _argument(index) + (_instruction(AND, mask) if mask else b"")
    for value in values:
        block += _instruction(JUMP_EQUAL, value, 0, 1) + _give(PASS)
    return block + _refuse(errno.EPERM)


def _only_harmless_fcntl() -> bytes:
    """Pass the commands that duplicate a descriptor or ask, and F_SETFL with harmless flags."""
    flags = _unless_bit(2, ~FILE_FLAGS)
    skip = _instruction(JUMP_EQUAL, F_SETFL, 0, _length(flags))
    return _argument(1) + skip + flags + _only_values(1, FCNTL_COMMANDS)


def _only_own_clocks() -> bytes:
    """Pass the system's clocks; a negative number is the clock of a process, and tells whether
    there is one.
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
    """Pass prlimit64(0 or own pid, resource, NULL, out): asking is harmless, setting is not."""
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
        "clone3": _refuse(
            errno.ENOSYS
        ),  # its flags lie in memory, where no filter can look; glibc falls back to clone
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
    """Return code that finds the last rule whose number is <= the one at hand.

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
    """Return the BPF program for this architecture, with PID_MARK where the child's pid belongs."""
    if ARCHITECTURE not in AUDIT_ARCHITECTURE:
        raise LayerError(errno.ENOSYS, f"no system call table for {ARCHITECTURE}")
    actions = {number: _give(PASS) for number in numbers(ALLOWED).values()}
    actions |= {number: _refuse(errno.EACCES) for number in numbers(PATHS).values()}
    actions |= {number: _judged(threads)[name] for name, number in numbers(JUDGED).items()}
    rules, default = [(0, _refuse(errno.EPERM))], _refuse(errno.EPERM)
    for number in range(max(actions) + 2):
        action = actions.get(number, default)
        if action != rules[-1][1]:
            rules.append((number, action))
    if ARCHITECTURE == "x86_64":
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
    """Put a BPF program on the calling thread for good; needs no_new_privs."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HxxxxxxQ", _length(program), ctypes.addressof(buffer))
    prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(header))


# --- one child
# --------------------------------------------------------------------------------------------------


def lower_limit(name: str, soft: int, hard: int | None = None) -> None:
    """Lower a resource limit; never above what the process already has, and silent where the system
    has no such one.
    """
    which = getattr(resource, f"RLIMIT_{name}", None)
    if which is None:
        return
    ceiling = resource.getrlimit(which)[1]
    hard = soft if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))


def address_space() -> int:
    """Return the bytes of address space this process maps now; a generous guess where the system
    does not tell.
    """
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30


class Confinement:
    """What is prepared once and put on every child by `apply`.

    `layers` are those of the wanted ones that this kernel takes, tried in a trial process each;
    `missing` tells of the others, layer -> reason.
    """

    def __init__(self, wanted: tuple[str, ...], *, threads: bool) -> None:
        self.missing: dict[str, str] = {}
        self._threads = threads
        self._program = b""
        self._ruleset = -1
        self._base = address_space()
        if "landlock" in wanted:
            self._prepare_landlock()
        if "seccomp" in wanted:
            self._prepare_seccomp()
        self.layers = tuple(layer for layer in wanted if layer not in self.missing)

    def _prepare_landlock(self) -> None:
        try:
            self._ruleset = landlock_ruleset()
            prctl(PR_SET_NO_NEW_PRIVS, 1)
            _try_in_a_trial_process(self._restrict_by_landlock)
        except (OSError, AttributeError) as error:
            self.missing["landlock"], self._ruleset = str(error), -1

    def _prepare_seccomp(self) -> None:
        try:
            self._program = seccomp_filter(threads=self._threads)
            prctl(PR_SET_NO_NEW_PRIVS, 1)
            _try_in_a_trial_process(self._install_filter)
        except (OSError, AttributeError) as error:
            self.missing["seccomp"], self._program = str(error), b""

    def _restrict_by_landlock(self) -> None:
        if libc.syscall(LANDLOCK_RESTRICT_SELF, self._ruleset, 0):
            raise LayerError(ctypes.get_errno(), "landlock_restrict_self failed")

    def _install_filter(self) -> None:
        mark = struct.pack("=I", PID_MARK)
        install_filter(self._program.replace(mark, struct.pack("=I", os.getpid())))

    def apply(self, *, memory_bytes: int, cpu_s: int, close: Callable[[], None]) -> None:
        """Confine the calling process for good; `close` is called once no inherited descriptor is
        needed any more.
        """
        if "rlimits" in self.layers:
            lower_limit("CPU", cpu_s, cpu_s + 1)
            for name, value in (
                ("CORE", 0),
                ("FSIZE", 0),
                ("NOFILE", 64),
                ("MEMLOCK", 0),
                ("MSGQUEUE", 0),
            ):
                lower_limit(name, value)
            if self._threads:
                lower_limit(
                    "NPROC", 4096
                )  # threads count too; without threads the filter allows no new task at all
            lower_limit("AS", self._base + memory_bytes)
        if self._ruleset >= 0:
            self._restrict_by_landlock()
        close()
        if self._program:
            self._install_filter()


def _try_in_a_trial_process(layer: Callable[[], None]) -> None:
    """Put a layer on a process made for it; raises LayerError where that fails."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            layer()
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise LayerError(errno.EPERM, "this kernel refuses it")
