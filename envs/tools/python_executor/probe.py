"""Self-test: a snippet that tries what the confinement must stop, and its report.

It runs like any other call, only without the policy on names, and attempts what no kernel version
number can promise. Each attempt is harmless where it succeeds: a fork that exits at once, signal 0,
a datagram to the discard port.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fctncalling.envs.tools.python_executor.confinement import LAYERS
from fctncalling.envs.tools.python_executor.result import ToolResult

AREAS = ("files", "network", "processes", "signals", "memory")

_CODE = """
import errno, json, os, socket

found = {}

def attempt(area, what, action):
    try:
        action()
    except MemoryError:
        return
    except OSError as error:
        # these answers mean that the attempt got as far as the other side
        if error.errno not in (errno.ECONNREFUSED, errno.ENOENT, errno.ENOEXEC, errno.EHOSTUNREACH):
            return
    found.setdefault(area, []).append(what)

def write_file():
    for folder in ("/dev/shm", "/tmp", "."):
        path = "%s/fctncalling-probe-%d" % (folder, os.getpid())
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:
            continue
        os.unlink(path)
        return
    raise PermissionError(errno.EACCES, "none could be written")

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(1)
        client.connect(address)

def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"", ("127.0.0.1", 9))

attempt("files", "read a file", lambda: os.close(os.open("/etc/passwd", os.O_RDONLY)))
attempt("files", "list a folder", lambda: os.listdir("/"))
attempt("files", "write a file", write_file)
attempt("network", "TCP", lambda: connect(socket.AF_INET, ("127.0.0.1", 9)))
attempt("network", "UDP", datagram)
attempt("network", "abstract unix socket", lambda: connect(socket.AF_UNIX, "\\0fctncalling-probe"))
attempt("processes", "fork", fork)
attempt("processes", "exec", lambda: os.execv("/nonexistent", ["x"]))
attempt("signals", "signal the parent", lambda: os.kill(os.getppid(), 0))
attempt("memory", "more than memory_mb", lambda: len(bytearray(@BYTES@)))
print(json.dumps(found))
"""


def probe_code(memory_mb: int) -> str:
    """Return the code of the self-test, which tries what is forbidden."""
    return _CODE.replace("@BYTES@", str((memory_mb + 64) << 20))


@dataclass(frozen=True)
class SelfTestReport:
    """Report of the executor's self-test: what was tried and what held."""

    layers: tuple[str, ...]  # those put on every call
    missing: Mapping[str, str]  # layer -> why it is not there
    open_areas: Mapping[str, list[str]]  # area -> attempts that succeeded
    user: str
    failure: str = ""  # why the probe itself did not run

    @classmethod
    def from_result(cls, result: ToolResult, greeting: Mapping[str, Any]) -> SelfTestReport:
        """Make the report from a probe's result and the zygote's greeting."""
        layers, missing = tuple(greeting["layers"]), dict(greeting["missing"])
        missing |= {
            layer: "not asked for"
            for layer in LAYERS
            if layer not in layers and layer not in missing
        }
        attempts: dict[str, list[str]] = {}
        failure = ""
        try:
            attempts = json.loads(result.stdout)
            ran = result.status == "ok"  # one that was stopped halfway has not tried everything
        except ValueError:
            ran = False
        if not ran:
            failure = (
                f"the self-test did not run: {result.status}, "
                f"{result.reason or result.stderr[-300:]}"
            )
        return cls(layers, missing, attempts, greeting["user"], failure)

    @property
    def shortcomings(self) -> list[str]:
        """Shortcomings of the confinement, a sentence each."""
        sentences = [self.failure] if self.failure else []
        sentences += [f"layer {layer} is missing ({why})" for layer, why in self.missing.items()]
        sentences += [
            f"{area} are open: it could {', '.join(tries)}"
            for area, tries in self.open_areas.items()
        ]
        return sentences + ([f"calls run as {self.user}"] if self.user.startswith("root") else [])

    def refusal_message(self) -> str:
        """Return the error message of an executor with these shortcomings."""
        return (
            "Python snippets cannot be confined here: "
            + "; ".join(self.shortcomings)
            + ". Run it where they can, or "
            "accept this with allow_degraded=True (security.allow_degraded in the tool "
            "configuration)."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dict: area -> its guard; layers, user and shortcomings."""
        holders = {
            "files": ("landlock", "seccomp"),
            "network": ("landlock", "seccomp"),
            "processes": ("seccomp",),
            "signals": ("landlock", "seccomp"),
            "memory": ("rlimits",),
        }
        areas: dict[str, Any] = {}
        for area in AREAS:
            layers = "+".join(layer for layer in holders[area] if layer in self.layers)
            open_by = ", ".join(self.open_areas.get(area, ()))
            areas[area] = f"OPEN ({open_by})" if open_by else (layers or "held by the system")
        return {
            **areas,
            "layers": list(self.layers),
            "user": self.user,
            "degraded": bool(self.shortcomings),
            "shortcomings": self.shortcomings,
        }
