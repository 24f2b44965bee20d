"""No hostile snippet reaches anything: the shared corpus, and one of our own for every way out that
was thought of.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hostile_corpus
import pytest

from fctncalling.envs.tools.python_executor import PythonExecutor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel layers are Linux's")

RESIST = {"status": ["ok", "error", "killed", "timeout", "output_limit"], "max_wall_s": 4}
OS = "import random\nos = random._os\nsys = os.sys\nimp = sys.modules['builtins'].__import__\n"
LIBC = (
    OS + "c = imp('ctypes'); libc = c.CDLL(None, use_errno=True); libc.syscall.restype = c.c_long\n"
)


def attempt(body: str) -> str:
    """Return code that prints GOT where the body, an expression, does not raise and is not
    negative.
    """
    return (
        f"try:\n    value = {body}\n    print('no' if isinstance(value, int) and value < 0 else "
        "'GOT', value)\n"
        "except BaseException as error: print(type(error))"
    )


OWN = {
    "signal_by_descriptor_owner": LIBC
    + attempt("imp('fcntl').fcntl(1, 8, os.getppid())"),  # F_SETOWN
    "signal_choice": LIBC + attempt("imp('fcntl').fcntl(1, 10, 9)"),  # F_SETSIG
    "pipe_growth": LIBC + attempt("imp('fcntl').fcntl(1, 1031, 1 << 20)"),  # F_SETPIPE_SZ
    "executable_memory": LIBC + attempt("imp('mmap').mmap(-1, 4096, prot=7) and 1"),
    "own_kill_by_tid_of_another": LIBC
    + attempt("libc.syscall(234, os.getppid(), os.getppid(), 9)"),
    "queue_signal": LIBC + attempt("libc.syscall(129, os.getppid(), 9, b'\\0' * 128)"),
    "pidfd_open": LIBC + attempt("libc.syscall(434, os.getppid(), 0)"),
    "read_other_memory": LIBC + attempt("libc.syscall(310, os.getppid(), 0, 0, 0, 0, 0)"),
    "raise_limits": OS + attempt("imp('resource').setrlimit(9, (-1, -1)) or 1"),
    "lower_parent_limits": LIBC + attempt("libc.syscall(302, os.getppid(), 7, b'\\0' * 16, None)"),
    "raw_limits": LIBC + attempt("libc.syscall(160, 9, b'\\xff' * 16)"),
    "memfd": LIBC + attempt("libc.syscall(319, b'x', 0)"),
    "execveat": LIBC + attempt("libc.syscall(322, -100, b'/bin/true', None, None, 0)"),
    "io_uring": LIBC + attempt("libc.syscall(425, 8, b'\\0' * 120)"),
    "userfaultfd": LIBC + attempt("libc.syscall(323, 0)"),
    "bpf": LIBC + attempt("libc.syscall(321, 0, b'\\0' * 72, 72)"),
    "perf_event": LIBC + attempt("libc.syscall(298, b'\\0' * 128, 0, -1, -1, 0)"),
    "keyring": LIBC + attempt("libc.syscall(248, b'user', b'x', b'y', 1, -3)"),
    "shared_memory_segment": LIBC + attempt("libc.syscall(29, 4711, 4096, 0o1666)"),
    "message_queue": LIBC + attempt("libc.syscall(68, 4711, 0o1666)"),
    "posix_queue": LIBC + attempt("libc.syscall(240, b'x', 0o102, 0o666, None)"),
    "semaphores": LIBC + attempt("libc.syscall(64, 4711, 1, 0o1666)"),
    "socket_pair": LIBC + attempt("libc.syscall(53, 1, 1, 0, b'\\0' * 8)"),
    "netlink": LIBC + attempt("libc.syscall(41, 16, 3, 0)"),
    "vsock": LIBC + attempt("libc.syscall(41, 40, 1, 0)"),
    "unshare": LIBC + attempt("libc.syscall(272, 0x10000000)"),
    "mount_api": LIBC + attempt("libc.syscall(430, b'tmpfs', 0)"),
    "chroot": LIBC + attempt("libc.syscall(161, b'/')"),
    "new_landlock_over_ours": LIBC + attempt("libc.syscall(444, None, 0, 1)"),
    "shed_dumpable": LIBC + attempt("libc.prctl(4, 1, 0, 0, 0)"),
    "shed_death_signal": LIBC + attempt("libc.prctl(1, 0, 0, 0, 0)"),
    "host_name": OS + attempt("os.uname()"),
    "host_name_of_platform": OS + attempt("imp('platform').node() or -1"),
    "host_name_in_memory": OS
    + "platform = imp('platform')\nprint('GOT' if platform.uname().node else 'no', "
    "platform.machine())",
    "load": LIBC + attempt("libc.syscall(99, b'\\0' * 256)"),
    "affinity_of_another": LIBC + attempt("libc.syscall(204, os.getppid(), 128, b'\\0' * 128)"),
    "clock_of_another": LIBC + attempt("libc.syscall(228, (~os.getppid() << 3) | 2, b'\\0' * 16)"),
    "clock_resolution_of_another": LIBC + attempt("libc.syscall(229, (~os.getppid() << 3) | 2, 0)"),
    "sleep_by_the_clock_of_another": LIBC
    + attempt("libc.syscall(230, (~os.getppid() << 3) | 2, 0, b'\\0' * 16, 0)"),
    "priority_inheriting_futex": LIBC
    + "word = c.c_int(os.getppid())\n"  # ESRCH would tell that no such process is there
    + "libc.syscall(202, c.byref(word), 8, 0, 0)\nprint('no' if c.get_errno() == 1 else 'GOT')",
    "packets_in_a_pipe": LIBC + attempt("libc.fcntl(1, 4, os.O_DIRECT | 1)"),
    "signals_from_a_pipe": LIBC + attempt("libc.fcntl(1, 4, 0x2000 | 1)"),
    "priority_of_parent": OS + attempt("os.setpriority(0, os.getppid(), 19) or 1"),
    "affinity_of_parent": OS + attempt("os.sched_setaffinity(os.getppid(), {0}) or 1"),
    "open_by_handle": LIBC + attempt("libc.syscall(304, -100, b'\\0' * 64, 0)"),
    "open_how": LIBC + attempt("libc.syscall(437, -100, b'/etc/passwd', b'\\0' * 24, 24)"),
    "statx": LIBC + attempt("libc.syscall(332, -100, b'/etc/passwd', 0, 0xfff, b'\\0' * 256)"),
    "change_mode_of_null": OS + attempt("os.fchmod(0, 0) or 1"),
    "clone_with_thread_flags_and_more": LIBC + attempt("libc.syscall(56, 0x11, 0, 0, 0, 0)"),
    "clone3": LIBC + attempt("libc.syscall(435, b'\\0' * 64, 64)"),
    "vfork": LIBC + attempt("libc.syscall(58)"),
    "inherited_descriptors": OS
    + attempt("[fd for fd in range(3, 300) if os.fstat(fd)][:1].index(3)"),
}
BEHAVIOUR = {
    "thread_bomb": (
        OS + "t = imp('_thread')\nfor _ in range(5000): t.start_new_thread(imp('time').sleep, "
        "(9,))\nprint('GOT')"
    ),
    "stops_itself": OS + "os.kill(os.getpid(), 19)\nprint('GOT')",
    "ignores_the_cpu_limit": OS
    + "s = imp('signal')\nfor n in (1, 2, 13, 14, 15, 24): s.signal(n, s.SIG_IGN)\nwhile True: "
    "pass",
    "closes_everything": OS + "os.closerange(0, 100)\nprint('GOT')",
    "evil_exception": "class E(Exception):\n    def __str__(self): raise self\nraise E",
    "endless_exception_text": "class E(Exception):\n    def __str__(self):\n        while True: "
    "pass\nraise E",
    "base_exception": "class E(BaseException): pass\nraise E",
    "no_streams": OS + "sys.stdout = sys.stderr = None\n1 / 0",
    "exit_code_without_a_number": "class I(int):\n    def __and__(self, o): return 'x'\n"
    "    __rand__ = __index__ = __int__ = __bool__ = __and__\nraise SystemExit(I(5))",
    "exit_code_that_raises": "class E(SystemExit):\n    code = property(lambda self: 1 / 0)\nraise "
    "E",
    "exit_code_of_no_class": "class C:\n    __class__ = property(lambda self: 1 / 0)\nraise "
    "SystemExit(C())",
    "exit_code_of_a_false_class": "class C:\n    __class__ = int\nraise SystemExit(C())",
    "nameless_exception": "class M(type):\n    __name__ = property(lambda self: 1 / 0)\n"
    "class E(Exception, metaclass=M):\n    def __str__(self): raise self\nraise E",
    "exit_is_gone": OS + "os._exit = lambda code: None\nprint(1)",
    "alarms_after_the_end": OS + "s = imp('signal')\ndef ring(*_): raise ValueError\n"
    "s.signal(14, ring)\ns.setitimer(0, 0.0005, 0.00005)",
    "profiler_after_the_end": OS + "def profile(*_): raise ValueError\nsys.setprofile(profile)",
    "closed_and_raised": OS + "os.close(2)\n1 / 0",
    "forged_setup_error": OS
    + "os.write(2, b'ConfinementError: sandbox setup failed\\n')\nos._exit(125)",
    "binary_output": OS + "os.write(1, bytes(range(256)) * 64)",
    "null_byte": "x = 1\0",
    "regex": "import re\nre.match('(a+)+$', 'a' * 64 + 'b')",
    "integer_text": "print(len(str(10 ** 10 ** 7)))",
    "hash_flood": "class K:\n    def __hash__(self): return 1\nd = {K(): n for n in range(10 ** "
    "6)}",
}


@pytest.fixture(scope="module")
def executor() -> Iterator[PythonExecutor]:
    with PythonExecutor() as made:
        yield made


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> hostile_corpus.Arena:
    return hostile_corpus.Arena(tmp_path_factory.mktemp("arena"))


@pytest.mark.parametrize("name", OWN)
def test_no_system_call_beyond_computing_gets_through(
    executor: PythonExecutor, arena: hostile_corpus.Arena, name: str
) -> None:
    record = {"code": OWN[name], "expect": RESIST, "must_not": [{"stdout_regex": "GOT"}]}
    assert list(hostile_corpus.complaints(executor, arena, record, 2.0)) == []


@pytest.mark.parametrize("name", BEHAVIOUR)
def test_no_behaviour_outlives_its_call(
    executor: PythonExecutor, arena: hostile_corpus.Arena, name: str
) -> None:
    bans = [{"stdout_regex": "GOT"}, {"status_forged": True}, {"result_contains": ".py"}]
    record = {"code": BEHAVIOUR[name], "expect": RESIST, "must_not": bans}
    assert list(hostile_corpus.complaints(executor, arena, record, 0.5)) == []


def test_shared_corpus_gets_nothing(shared: Path) -> None:
    assert hostile_corpus.run_corpus(shared / "hostile" / "hostile_dev.jsonl", 0.5) == {}


CORPORA = ("hostile_dev", "hostile_new")


@pytest.mark.prove
@pytest.mark.parametrize("corpus", CORPORA)
def test_shared_corpus_gets_nothing_in_two_seconds_either(shared: Path, corpus: str) -> None:
    path = shared / "hostile" / f"{corpus}.jsonl"
    assert hostile_corpus.run_corpus(path, 2.0) == {}


def test_one_call_cannot_find_anothers_code_in_memory(executor: PythonExecutor) -> None:
    executor.run("secret = 'the answer is seventeen million'")
    search = (
        "import random\nsys = random._os.sys\ngc = sys.modules['gc']\n"
        "found = [o for o in gc.get_objects() for s in ([o] if isinstance(o, str) else [])]\n"
        "ours = [m for name, m in list(sys.modules.items()) if 'executor' in name]\n"
        "text = repr([list(vars(m).values()) for m in ours] + found)\n"
        "print('GOT' if 'seventeen' + ' million' in text else 'no')"
    )
    assert executor.run(search).stdout == "no\n"


@pytest.mark.prove
@pytest.mark.parametrize("corpus", CORPORA)
def test_shared_corpus_gets_nothing_from_an_unprivileged_executor(
    shared: Path, corpus: str
) -> None:
    if (
        os.getuid() != 0
        or shutil.which("setpriv") is None
        or shutil.which("python3", path="/usr/bin") is None
    ):
        pytest.skip("needs root, setpriv and /usr/bin/python3 to become someone else")
    packages = [entry for entry in sys.path if entry.endswith("site-packages")]
    environment = {
        "PYTHONPATH": ":".join([str(Path(__file__).parents[2]), *packages]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    become = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "--bounding-set",
        "-all",
        "--inh-caps",
        "-all",
    ]
    command = [
        *become,
        "/usr/bin/python3",
        hostile_corpus.__file__,
        str(shared / "hostile" / f"{corpus}.jsonl"),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout or "{}") == {"uid": 65534, "complaints": {}}, done.stderr
