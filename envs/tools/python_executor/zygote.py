"""Zygote: a clean interpreter that imports modules, drops its privileges, then only forks.

Three processes take part. The trainer (`link.py`) asks for a child and watches its pipes. The
zygote forks it and reports its start and its end. The child (`snippet.py`) confines itself,
reads its code from its own pipe, runs it and exits. Their messages: `protocol.py`.

What must hold, and why it is done this way:
- The zygote sees neither code nor output, or a snippet could search its forked memory for
  another's: they go through pipes whose ends only pass through here.
- It has one thread, since a fork copies no other, and only forks: a child finds its modules
  imported, which costs a fresh interpreter far more time than the call itself.
- No code is read before the child is confined, so none can forge CONFINED or escape a layer.
- A child is named by its pidfd, which can never come to mean another process.
- The zygote outlives no trainer (it looks at its parent each second, for a fork of the trainer may
  hold the socket open) and no child the zygote (PR_SET_PDEATHSIG).
- Memory is frozen before the first fork (`gc.freeze`), so that a child's collector copies no page.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import posix
import select
import signal
import socket
import sys
import time
from typing import Any, NamedTuple, NoReturn

from fctncalling.envs.tools.python_executor.confinement import Confinement, ConfinementError, prctl
from fctncalling.envs.tools.python_executor.confinement.kernel_calls import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
)
from fctncalling.envs.tools.python_executor.preload import preload_modules
from fctncalling.envs.tools.python_executor.protocol import (
    ENDED,
    ENDING,
    FAILED,
    REQUEST,
    SETUP_FAILED,
    STARTED,
    move_above_reserved,
    reserve_low_descriptors,
)
from fctncalling.envs.tools.python_executor.snippet import (
    MainModule,
    exit_process,
    serve_snippets,
)


class ChildProcess(NamedTuple):
    """Running child of the zygote."""

    pid: int
    pidfd: int
    status: socket.socket


def drop_privileges(uid: int) -> str:
    """Drop root's privileges; return in words the user that children run as."""
    # Without root there is no other user to become: confinement alone protects.
    if os.getuid() != 0:
        return "the caller's user"
    why = "nothing happened"
    try:
        # Groups first: they cannot be changed any more once root is given up.
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        why = error.strerror or str(error)
    # A container may ignore the calls without an error, so the result is looked at.
    if {*os.getresuid(), *os.getresgid(), *os.getgroups()} != {uid}:
        return f"root (cannot become user {uid}: {why})"
    return f"user {uid}"


def preload_without_host_name(allowed: list[str]) -> None:
    """Import modules for snippets while `os.uname` hides the host name.

    BOOT replaced it: `platform` caches the answer, and NumPy needs the release. The real function
    is put back afterwards, for the kernel refuses it to a snippet.
    """
    importlib.import_module("platform").uname()
    preload_modules(allowed)
    os.uname = posix.uname


class Zygote:
    """Process that forks a child for each call."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self.control = control
        self.settings = settings
        self.running: dict[int, ChildProcess] = {}
        self.pid = os.getpid()
        self.parent = os.getppid()
        self.poll = select.poll()

    def prepare(self) -> dict[str, Any]:
        """Prepare what all children share; return the greeting."""
        settings = self.settings
        preload_without_host_name(settings["allowed_modules"])
        time.tzset()
        os.chdir("/")
        self.main_module = MainModule(
            frozenset(settings["allowed_modules"]), tuple(settings["restricted_functions"])
        )
        # The parser's tables are made at its first use: here once, not in every child.
        compile("x = 1", "<warm>", "exec")
        self.confinement = Confinement(tuple(settings["layers"]), threads=settings["threads"])
        with contextlib.suppress(OSError):
            # What a dead child leaves running becomes ours, so that it can be killed.
            prctl(PR_SET_CHILD_SUBREAPER, 1)
        with contextlib.suppress(OSError):
            _die_first_when_memory_is_short()
        user = drop_privileges(settings["user"])
        # Not dumpable: children of the same user may not read this memory through /proc.
        prctl(PR_SET_DUMPABLE, 0)
        # Collected before it is frozen: garbage would stay for ever, and in every child.
        gc.collect()
        gc.freeze()
        gc.disable()
        return {
            "user": user,
            "layers": self.confinement.layers,
            "missing": self.confinement.missing,
        }

    def serve(self) -> NoReturn:
        """Fork children on request and report their ends, until the parent ends."""
        self.poll.register(self.control, select.POLLIN)
        while True:
            # A second is the longest that a zygote outlives its trainer.
            for descriptor, _ in self.poll.poll(1000):
                if descriptor == self.control.fileno():
                    self.fork_child()
                else:
                    self.report_end(self.running.pop(descriptor))
            if os.getppid() != self.parent:  # a fork of the parent may still hold the socket open
                self.shut_down()

    def shut_down(self) -> NoReturn:
        """Kill all children and exit."""
        for call in self.running.values():
            signal.pidfd_send_signal(call.pidfd, signal.SIGKILL)
        os._exit(0)

    def fork_child(self) -> None:
        """Fork a child for the next request."""
        message, ancillary, _, _ = self.control.recvmsg(REQUEST.size, socket.CMSG_SPACE(20))
        if not message:
            self.shut_down()
        # The pipes come as rights beside the message: the zygote passes them on unread.
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2])
        memory_bytes, cpu_s, policy = REQUEST.unpack(message)
        status = socket.socket(fileno=descriptors.pop())
        if self.main_module.numpy_random is not None:
            # numpy's global stream, unlike random's, is the same in every fork of one process.
            self.main_module.numpy_random.seed(int.from_bytes(os.urandom(4), "little"))
        try:
            pid = os.fork()
        except OSError as error:
            # The trainer has to hear of it, or it would wait for this child for ever.
            status.send(FAILED + str(error).encode())
            pid = -1
        if pid == 0:
            self.run_child([*descriptors, status.fileno()], memory_bytes, cpu_s, policy)
        # Ends that stayed open here would keep the trainer from seeing the pipe close.
        for descriptor in descriptors:
            os.close(descriptor)
        if pid < 0:
            status.close()
            return
        self.report_start(pid, status)

    def report_start(self, pid: int, status: socket.socket) -> None:
        """Report a child's start on its status socket, with a descriptor of the process."""
        pidfd = os.pidfd_open(pid)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pidfd]))]
        try:
            status.sendmsg([STARTED + str(pid).encode()], rights)
        except OSError:  # the caller has gone: nobody will stop this child but us
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        self.running[pidfd] = ChildProcess(pid, pidfd, status)
        self.poll.register(pidfd, select.POLLIN)

    def report_end(self, call: ChildProcess) -> None:
        """Report a child's end on its status socket."""
        self.poll.unregister(call.pidfd)
        # Waited for before it is reported: its id cannot be another's until then.
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
        """Kill the processes that dead children left running.

        The zygote is their parent now, as it is a subreaper. Each kill may orphan others, hence the
        repetition; it is bounded, so that a fork bomb cannot keep the zygote busy for ever.
        """
        running = {call.pid for call in self.running.values()}
        for _ in range(64):
            orphans = [pid for pid in child_processes(os.getpid()) if pid not in running]
            if not orphans:
                return
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def run_child(
        self, descriptors: list[int], memory_bytes: int, cpu_s: int, policy: bool
    ) -> NoReturn:
        """Run a forked child: confine it, read the code, run it, exit."""
        code = SETUP_FAILED
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self.pid:  # the zygote died before the prctl, which would miss that
                os._exit(SETUP_FAILED)
            # Opened anew: flags set on a shared open file would outlive the call that sets them.
            null = os.open("/dev/null", os.O_RDWR)
            code_in, stdout, stderr, done, status = descriptors
            # Low numbers are reserved (`reserve_low_descriptors`), so no copy overwrites another.
            for number, descriptor in enumerate((code_in, stdout, stderr, null, status, done)):
                os.dup2(descriptor, number)
            # A snippet may make garbage; what was frozen is not looked at.
            gc.enable()
            limits = memory_bytes, cpu_s
            code = serve_snippets(self.main_module, self.confinement, *limits, policy=policy)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        finally:
            exit_process(code)


def child_processes(parent: int) -> list[int]:
    """Return the ids of a process's children."""
    try:
        with open(f"/proc/{parent}/task/{parent}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        pass
    children = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                children.append(int(entry))
    return children


def _die_first_when_memory_is_short() -> None:
    # Where memory runs out, a snippet is to die before the trainer.
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("900")


def main(descriptor: int, settings_text: str) -> NoReturn:
    """Run a zygote: send the greeting, or the reason of a failure, and serve requests."""
    control = socket.socket(fileno=move_above_reserved(descriptor))
    reserve_low_descriptors()
    settings = json.loads(settings_text)
    sys.path += [folder for folder in settings["path"] if folder not in sys.path]
    zygote = Zygote(control, settings)
    try:
        greeting = zygote.prepare()
    except (ImportError, ConfinementError, OSError) as error:
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        os._exit(1)
    control.send(json.dumps(greeting).encode())
    zygote.serve()
