"""Confinement: the layers that the kernel supports, prepared once and applied to every child.

seccomp is the layer that matters most, Landlock the second lock on files, TCP, abstract sockets and
signals; the address space limit is the only bound on memory. Everything reusable is built once
before the fork, since each page a child touches has to be copied. The zygote imports this room,
and knows nothing else of the project.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
from collections.abc import Callable

from fctncalling.envs.tools.python_executor.confinement.kernel_calls import (
    PR_SET_NO_NEW_PRIVS,
    ConfinementError,
    libc,
    prctl,
)
from fctncalling.envs.tools.python_executor.confinement.seccomp import (
    PID_MARK,
    install_filter,
    seccomp_filter,
)

LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446  # the same number on every architecture


def landlock_abi() -> int:
    """Return the version of the kernel's Landlock ABI, 0 if it has none."""
    if not hasattr(libc, "syscall"):
        return 0
    return max(0, int(libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def landlock_ruleset() -> int:
    """Create a Landlock ruleset that allows no paths and no network; return its descriptor.

    It shuts off paths, TCP, abstract sockets and signals to others. Each right exists from one ABI
    version on, and naming a later one is an error (linux/landlock.h).
    """
    abi = landlock_abi()
    if not abi:
        raise ConfinementError(errno.ENOSYS, "this kernel has no Landlock")
    files = (1 << 13) - 1
    for since, bit in ((2, 13), (3, 14), (5, 15)):  # refer, truncate, ioctl on devices
        files |= (1 << bit) if abi >= since else 0
    net = 3 if abi >= 4 else 0  # bind and connect
    scoped = 3 if abi >= 6 else 0  # abstract unix sockets and signals
    attributes = struct.pack("=QQQ", files, net, scoped)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    fd = int(libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    if fd < 0:
        raise ConfinementError(ctypes.get_errno(), "landlock_create_ruleset failed")
    return fd


def restrict_by_landlock(ruleset: int) -> None:
    """Restrict the calling process by a Landlock ruleset; needs no_new_privs."""
    if libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0):
        raise ConfinementError(ctypes.get_errno(), "landlock_restrict_self failed")


LAYERS = ("rlimits", "landlock", "seccomp")


def lower_resource_limit(name: str, soft: int, hard: int | None = None) -> None:
    """Lower a resource limit (setrlimit), never raise it.

    No effect where the system does not have it.
    """
    which = getattr(resource, f"RLIMIT_{name}", None)
    if which is None:
        return
    ceiling = resource.getrlimit(which)[1]
    hard = soft if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))


def mapped_address_space_bytes() -> int:
    """Return the size of this process's address space in bytes.

    A generous guess if the system does not say.
    """
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30


class Confinement:
    """Layers of confinement, prepared once and put on each child by `apply`.

    `layers` are the requested ones that this kernel supports, each tried in a trial process;
    `missing` has the reasons of the others.
    """

    def __init__(self, requested: tuple[str, ...], *, threads: bool) -> None:
        self.missing: dict[str, str] = {}
        self._threads = threads
        self._program = b""
        self._ruleset = -1
        self._base = mapped_address_space_bytes()
        if "landlock" in requested:
            self._prepare_landlock()
        if "seccomp" in requested:
            self._prepare_seccomp()
        self.layers = tuple(layer for layer in requested if layer not in self.missing)

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
        restrict_by_landlock(self._ruleset)

    def _install_filter(self) -> None:
        mark = struct.pack("=I", PID_MARK)
        install_filter(self._program.replace(mark, struct.pack("=I", os.getpid())))

    def apply(self, *, memory_bytes: int, cpu_s: int, close: Callable[[], None]) -> None:
        """Confine the calling process, irrevocably.

        `close` is called once no inherited descriptor is needed any more.
        """
        if "rlimits" in self.layers:
            lower_resource_limit("CPU", cpu_s, cpu_s + 1)
            for name, value in (
                ("CORE", 0),
                ("FSIZE", 0),
                ("NOFILE", 64),
                ("MEMLOCK", 0),
                ("MSGQUEUE", 0),
            ):
                lower_resource_limit(name, value)
            if self._threads:
                # Threads count too; without threads the filter allows no new task at all.
                lower_resource_limit("NPROC", 4096)
            # Address space, as Linux limits no resident memory: hence on top of what the zygote
            # has mapped.
            lower_resource_limit("AS", self._base + memory_bytes)
        # In this order: Landlock needs its ruleset's descriptor, which `close` closes, and the
        # filter refuses the system calls of both.
        if self._ruleset >= 0:
            self._restrict_by_landlock()
        close()
        if self._program:
            self._install_filter()


def _try_in_a_trial_process(layer: Callable[[], None]) -> None:
    """Apply a layer to a trial process; raises ConfinementError if that fails."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            layer()
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise ConfinementError(errno.EPERM, "this kernel refuses it")
