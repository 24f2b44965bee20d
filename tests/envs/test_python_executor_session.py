"""A session's snippets share names, and nothing else is less confined, limited or tidy than in
single calls.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fctncalling.envs.tools.python_executor import PythonExecutor, PythonSession

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel layers are Linux's")
RAW = "import random\nos = random._os\n"


@pytest.fixture(scope="module")
def executor() -> Iterator[PythonExecutor]:
    with PythonExecutor(timeout_s=2, memory_mb=256) as made:
        yield made


@pytest.fixture
def session(executor: PythonExecutor) -> Iterator[PythonSession]:
    with executor.session() as made:
        yield made


def test_names_of_earlier_calls_are_there_and_other_sessions_have_their_own(
    executor: PythonExecutor, session: PythonSession
) -> None:
    assert session.run("import math\nx = 3\ndef half(y): return y / 2").status == "ok"
    result = session.run("x += 1\nprint(half(x), math.pi > 3)")
    assert (result.status, result.stdout, result.exit_code) == ("ok", "2.0 True\n", 0)
    with executor.session() as other:
        assert "NameError" in other.run("print(x)").stderr
    assert "NameError" in executor.run("print(x)").stderr


def test_a_large_process_is_not_taken_for_the_memory_of_its_snippets() -> None:
    block = bytearray(b"x") * (200 << 20)  # Linux hands a process's peak down to those it starts
    with PythonExecutor(memory_mb=256, num_executors=1) as executor:
        result = executor.run(RAW + "os.kill(os.getpid(), 9)")
    assert len(block) == 200 << 20
    assert (result.status, result.max_rss_mb < 100) == ("killed", True)


def test_a_call_that_fails_keeps_the_names_and_tells_its_own_lines(session: PythonSession) -> None:
    session.run("x = 1\ndef fail():\n    return x / 0")
    told = session.run("fail()").stderr
    assert 'File "<tool 2>", line 1, in <module>' in told
    assert 'File "<tool>", line 3, in fail' in told
    assert session.run("raise SystemExit(3)").exit_code == 3
    assert session.run("b'x' * (1 << 30)").reason == "It ran out of memory"
    assert "not allowed" in session.run("import os").stderr
    assert session.run("print(x)").stdout == "1\n"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("while True: pass", "timeout"),
        ("while True: print('x' * 999)", "output_limit"),
        (RAW + "os.kill(os.getpid(), 9)", "killed"),
        (RAW + "os.kill(os.getpid(), 19)", "timeout"),
        (RAW + "os._exit(7)", "error"),
    ],
)
def test_a_call_that_is_killed_takes_the_names_with_it_and_says_so(
    session: PythonSession, code: str, status: str
) -> None:
    session.run("x = 1")
    result = session.run(code, timeout_s=0.5)
    assert (result.status, "names of this session are lost" in result.reason) == (status, True)
    after = session.run("print('x' in globals())")
    assert (after.status, after.stdout, after.reason) == ("ok", "False\n", "")


def test_memory_and_cpu_time_are_limited_for_the_whole_session(executor: PythonExecutor) -> None:
    with executor.session(max_cpu_s=1) as session:
        assert session.run("kept = [b'x' * (140 << 20)]").status == "ok"
        assert session.run("kept.append(b'x' * (140 << 20))").reason == "It ran out of memory"
        burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
        results = [session.run(burn)]
        while results[-1].status == "ok" and len(results) < 8:
            results.append(session.run(burn))
    assert 2 <= len(results) <= 7  # the kernel looks at its clock's ticks
    assert "of CPU time" in results[-1].reason
    assert results[0].cpu_s >= 0.3


def test_nothing_of_a_session_works_between_its_calls(session: PythonSession) -> None:
    session.run(
        "import random, time\nn = 0\ndef tick(*_):\n    global n\n    n += 1\n"
        "s = random._os.sys.modules['builtins'].__import__('signal')\n"
        "s.signal(s.SIGALRM, tick)\ns.setitimer(s.ITIMER_REAL, 0.01, 0.01)"
    )
    time.sleep(0.3)
    assert int(session.run("print(n)").stdout) <= 10  # of 30; a busy machine stops it late


def test_a_snippet_that_says_it_is_done_lies_about_itself_alone(session: PythonSession) -> None:
    code = RAW + "for _ in range(9): os.write(5, b'\\0')\nprint('late')"
    assert session.run(code).status == "ok"
    said: list[str] = []
    while said[-1:] != ["next\n"] and len(said) < 20:
        time.sleep(0.1)  # what the lies ended too early comes to its end
        result = session.run("print('next')")
        assert result.status == "ok"
        said.append(result.stdout)
    assert said[-1] == "next\n"


@pytest.mark.parametrize("attack", ["os.open('/etc/passwd', 0)", "os.fork()", "os.kill(1, 0)"])
def test_a_session_is_as_confined_as_a_call(session: PythonSession, attack: str) -> None:
    for _ in range(2):
        assert "PermissionError" in session.run(RAW + attack).stderr


def test_a_session_whose_child_is_killed_from_outside_says_that_names_are_lost(
    session: PythonSession,
) -> None:
    session.run("x = 1")
    live = session._live
    assert live is not None
    deadline = time.monotonic() + 10
    while live.pid is None and time.monotonic() < deadline:
        assert not live.check_ended()  # reads what the zygote says; the call may have ended before
    os.kill(live.pid, signal.SIGKILL)
    time.sleep(0.2)
    result = session.run("print('x' in globals())")
    assert (result.status, result.stdout) == ("ok", "False\n")
    assert "names of this session are lost" in result.reason


def test_a_session_that_a_fork_begins_keeps_its_names_there(session: PythonSession) -> None:
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            session.run("x = 41")
            os.write(writer, session.run("print(x + 1)").stdout.encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader) as answer:
        assert answer.read() == "42\n"


def test_sessions_leave_no_descriptor_and_no_process(executor: PythonExecutor) -> None:
    def used() -> int:
        return len(os.listdir("/proc/self/fd"))

    before, children = used(), []
    for _ in range(3):
        with executor.session() as session:
            session.run("x = 1")
            assert session._live is not None
            children.append(session._live.pid)
    forgotten = executor.session()
    forgotten.run("x = 1")
    del forgotten
    assert used() == before
    time.sleep(0.1)
    assert not any(os.path.exists(f"/proc/{child}") for child in children)


def test_more_sessions_than_places_take_turns(executor: PythonExecutor) -> None:
    sessions = [executor.session() for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        for step in range(2):
            results = list(threads.map(lambda s: s.run("n = globals().get('n', 0) + 1"), sessions))
            assert [result.status for result in results] == ["ok"] * 6, step
    assert [session.run("print(n)").stdout for session in sessions] == ["2\n"] * 6
    for session in sessions:
        session.close()
    with pytest.raises(ValueError, match="closed"):
        sessions[0].run("1")
