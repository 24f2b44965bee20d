"""The zygote: a clean interpreter that imports what snippets may use, drops its rights, and then
only forks.

It sees neither code nor output, or one snippet could search its forked memory for another's. A
request brings four descriptors, [code, stdout, stderr, status]; the child reads its code itself,
already confined. On `status`, a SOCK_SEQPACKET socket of that one call, three messages come:
STARTED (zygote, with a pidfd), CONFINED (child, before it reads any code, so no code can forge it),
ENDED (zygote, what the kernel told of the exit).
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import importlib
import json
import os
import posix
import select
import signal
import socket
import struct
import sys
import time
from typing import Any, NamedTuple, NoReturn

from fctncalling.envs.tools.python_executor import confinement
from fctncalling.envs.tools.python_executor.confinement import Confinement, LayerError, prctl
from fctncalling.envs.tools.python_executor.preload import preload
from fctncalling.envs.tools.python_executor.snippet import MainModule, leave

# Memory bytes, cpu seconds, seed, whether there is one, whether the policy holds, whether it is a
# session.
REQUEST = struct.Struct("=QIQ???")
CODE_SIZE = struct.Struct("=Q")
SESSION_CALL = struct.Struct("=Q?Q")  # seed, whether there is one, bytes of code
STARTED, CONFINED, ENDED, FAILED = b"S", b"C", b"E", b"F"
ENDING = struct.Struct("=idQ")  # wait status, cpu seconds, peak resident KiB
# Descriptors of a child beside 0, 1, 2: the first two until it is confined, DONE in sessions.
DEV_NULL, STATUS, DONE = 3, 4, 5
SESSION_CODE = STATUS  # in its place, later
SETUP_FAILED = 125


class ChildProcess(NamedTuple):
    """One child the zygote waits for."""

    pid: int
    pidfd: int
    status: socket.socket


def reserve_low_descriptors() -> None:
    """Fill descriptors up to 9, so that what arrives later never lies where a child puts
    its own.
    """
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in range(DEV_NULL, 10):
        if descriptor != null:
            os.dup2(null, descriptor, inheritable=False)
    if null >= 10:
        os.close(null)


def above_reserved(descriptor: int) -> int:
    """Move a descriptor to a number that `reserve_low_descriptors` leaves alone."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


def drop_user(uid: int) -> str:
    """Become an unprivileged user if root, and return how the children run, in words."""
    if os.getuid() != 0:
        return "the caller's user"
    why = "nothing happened"
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        why = error.strerror or str(error)
    if {*os.getresuid(), *os.getresgid(), *os.getgroups()} != {uid}:
        return f"root (cannot become user {uid}: {why})"
    return f"user {uid}"


def preload_without_host_name(allowed: list[str]) -> None:
    """Import what snippets may use, then give back the real `os.uname`, which the kernel refuses to
    a snippet.

    Until here BOOT's own stood in its place: `platform` remembers what it is told, and NumPy asks
    for the release.
    """
    importlib.import_module("platform").uname()
    preload(allowed)
    os.uname = posix.uname


class Zygote:
    """The forking loop and what it needs, made ready by `prepare`."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self.control = control
        self.settings = settings
        self.running: dict[int, ChildProcess] = {}
        self.pid = os.getpid()
        self.parent = os.getppid()
        self.poll = select.poll()

    def prepare(self) -> dict[str, Any]:
        """Import, build, confine what can be confined for all children at once; return the
        greeting.
        """
        settings = self.settings
        preload_without_host_name(settings["allowed_modules"])
        time.tzset()
        os.chdir("/")
        self.stage = MainModule(
            frozenset(settings["allowed_modules"]), tuple(settings["restricted_functions"])
        )
        compile("x = 1", "<warm>", "exec")
        self.confinement = Confinement(tuple(settings["layers"]), threads=settings["threads"])
        with contextlib.suppress(OSError):
            prctl(confinement.PR_SET_CHILD_SUBREAPER, 1)
        with contextlib.suppress(OSError):
            _die_first_when_memory_is_short()
        user = drop_user(settings["user"])
        prctl(confinement.PR_SET_DUMPABLE, 0)
        gc.collect()
        gc.freeze()
        gc.disable()
        return {
            "user": user,
            "layers": self.confinement.layers,
            "missing": self.confinement.missing,
        }

    def serve(self) -> NoReturn:
        """Fork on request and tell endings, until the parent is gone."""
        self.poll.register(self.control, select.POLLIN)
        while True:
            for descriptor, _ in self.poll.poll(1000):
                if descriptor == self.control.fileno():
                    self.accept()
                else:
                    self.tell_ending(self.running.pop(descriptor))
            if os.getppid() != self.parent:  # a fork of the parent may still hold the socket open
                self.leave()

    def leave(self) -> NoReturn:
        """Kill what runs and exit."""
        for call in self.running.values():
            signal.pidfd_send_signal(call.pidfd, signal.SIGKILL)
        os._exit(0)

    def accept(self) -> None:
        """Fork one child for the next request."""
        message, ancillary, _, _ = self.control.recvmsg(REQUEST.size, socket.CMSG_SPACE(20))
        if not message:
            self.leave()
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2])
        memory_bytes, cpu_s, seed, seeded, policy, session = REQUEST.unpack(message)
        status = socket.socket(fileno=descriptors.pop())
        if not seeded and self.stage.numpy_random is not None:
            # numpy's global stream, unlike random's, is the same in every fork of one process.
            self.stage.numpy_random.seed(int.from_bytes(os.urandom(4), "little"))
        try:
            pid = os.fork()
        except OSError as error:
            status.send(FAILED + str(error).encode())
            pid = -1
        if pid == 0:
            places = [*descriptors, status.fileno()]
            self.child(places, memory_bytes, cpu_s, seed if seeded else None, policy, session)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid < 0:
            status.close()
            return
        self.tell_start(pid, status)

    def tell_start(self, pid: int, status: socket.socket) -> None:
        pidfd = os.pidfd_open(pid)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pidfd]))]
        try:
            status.sendmsg([STARTED + str(pid).encode()], rights)
        except OSError:  # the caller has gone: nobody will stop this child but us
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        self.running[pidfd] = ChildProcess(pid, pidfd, status)
        self.poll.register(pidfd, select.POLLIN)

    def tell_ending(self, call: ChildProcess) -> None:
        self.poll.unregister(call.pidfd)
        _, status, usage = os.wait4(call.pid, 0)
        if "seccomp" not in self.confinement.layers:
            self.kill_orphans()
        with contextlib.suppress(OSError):
            call.status.send(
                ENDED + ENDING.pack(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
            )
        call.status.close()
        os.close(call.pidfd)

    def kill_orphans(self) -> None:
        """Kill what dead children left behind: as subreaper we are its parent now. Only where forks
        are possible.
        """
        known = {call.pid for call in self.running.values()}
        for _ in range(64):
            orphans = [pid for pid in children_of(os.getpid()) if pid not in known]
            if not orphans:
                return
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def child(
        self,
        descriptors: list[int],
        memory_bytes: int,
        cpu_s: int,
        seed: int | None,
        policy: bool,
        session: bool,
    ) -> NoReturn:
        """Be the child: put descriptors in place, confine, read the code, run it, exit. Never
        returns.
        """
        code = SETUP_FAILED
        try:
            prctl(confinement.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self.pid:  # it died between the fork and here
                os._exit(SETUP_FAILED)
            # Of its own: flags that are set on an open file outlive the call that sets them.
            null = os.open("/dev/null", os.O_RDWR)
            code_in, stdout, stderr, *done, status = descriptors
            for number, descriptor in enumerate((code_in, stdout, stderr, null, status, *done)):
                os.dup2(descriptor, number)
            gc.enable()
            if session:
                serve_session(self.stage, self.confinement, memory_bytes, cpu_s)
            source = confine_and_read(self.confinement, memory_bytes, cpu_s)
            if seed is not None:
                self.stage.seed(seed)
            code = self.stage.run(source, policy=policy)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        finally:
            leave(code)


def confine(
    layers: Confinement, memory_bytes: int, cpu_s: int, *, first_inherited: int = DONE
) -> None:
    """Confine this process and say so on STATUS; no code has been read yet."""
    layers.apply(
        memory_bytes=memory_bytes,
        cpu_s=cpu_s,
        close=lambda: os.closerange(first_inherited, 1 << 16),
    )
    os.write(STATUS, CONFINED)
    os.close(STATUS)


def confine_and_read(layers: Confinement, memory_bytes: int, cpu_s: int) -> str:
    """Confine this process, and only then read the code from descriptor 0."""
    confine(layers, memory_bytes, cpu_s)
    size = CODE_SIZE.unpack(read_exactly(CODE_SIZE.size))[0]
    source = read_exactly(size)
    os.dup2(DEV_NULL, 0)
    os.close(DEV_NULL)
    # A lone surrogate is then the compiler's to refuse.
    return source.decode("utf-8", "surrogatepass")


def serve_session(
    stage: MainModule, layers: Confinement, memory_bytes: int, cpu_s: int
) -> NoReturn:
    """Confine this process, then run one snippet after the other, each with the names of those
    before.

    After each its exit code goes to DONE, one byte. A snippet can write one too: it then lies about
    its own end.
    """
    confine(layers, memory_bytes, cpu_s, first_inherited=DONE + 1)
    os.dup2(0, SESSION_CODE)
    os.dup2(DEV_NULL, 0)
    os.close(DEV_NULL)
    number = 0
    while True:
        seed, seeded, size = SESSION_CALL.unpack(read_exactly(SESSION_CALL.size, SESSION_CODE))
        source = read_exactly(size, SESSION_CODE).decode("utf-8", "surrogatepass")
        if seeded:
            stage.seed(seed)
        number += 1
        os.write(DONE, bytes([stage.run(source, number=number)]))


def read_exactly(size: int, descriptor: int = 0) -> bytes:
    """Read by length, not to the end: a stranger's fork may hold the other side open for ever."""
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            raise EOFError("the code ended early")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def children_of(parent: int) -> list[int]:
    """Return the children of a process: from its list of them, or where the kernel keeps none, from
    all processes.
    """
    try:
        with open(f"/proc/{parent}/task/{parent}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        pass
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(entry))
    return found


def _die_first_when_memory_is_short() -> None:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("900")


def main(descriptor: int, settings_text: str) -> NoReturn:
    """Run the zygote on a control socket; greet with what is there, or with what failed."""
    control = socket.socket(fileno=above_reserved(descriptor))
    reserve_low_descriptors()
    settings = json.loads(settings_text)
    sys.path += [folder for folder in settings["path"] if folder not in sys.path]
    zygote = Zygote(control, settings)
    try:
        greeting = zygote.prepare()
    except (ImportError, LayerError, OSError) as error:
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        os._exit(1)
    control.send(json.dumps(greeting).encode())
    zygote.serve()
