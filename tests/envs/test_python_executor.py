"""The executor's promises to its caller: statuses, limits, seeds, order, threads, life after all
kinds of death.
"""

from __future__ import annotations

import importlib
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fctncalling.data.unsafe_text import truncate_text
from fctncalling.envs.tools.python_executor import PythonExecutor, SandboxUnavailable, ToolResult
from fctncalling.envs.tools.python_executor.config import SEED_MODULES
from fctncalling.envs.tools.python_executor.confinement import LAYERS
from fctncalling.envs.tools.python_executor.preload import (
    ALWAYS,
    LATER_IMPORTS,
    NEVER_NEEDED,
    function_level_imports,
)
from fctncalling.envs.tools.python_executor.probe import SelfTestReport
from fctncalling.envs.tools.python_executor.result import BoundedOutput

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the zygote is Linux's")


@pytest.fixture(scope="module")
def executor() -> Iterator[PythonExecutor]:
    with PythonExecutor() as made:
        yield made


def own_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_kb(pid: int | str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def gone(pid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("code", "status", "stdout", "exit_code"),
    [
        ("print(14 + 34)", "ok", "48\n", 0),
        ("", "ok", "", 0),
        ("raise SystemExit(3)", "error", "", 3),
        ("raise SystemExit('why')", "error", "", 1),
        ("print('before')\n1 / 0", "error", "before\n", 1),
        ("b'x' * (4 << 30)", "error", "", 1),
        ("import numpy as np\nnp.ones(1 << 32)", "error", "", 1),
        ("import random\nrandom._os.abort()", "killed", "", -signal.SIGABRT),
        ("import random\nrandom._os.kill(random._os.getpid(), 9)", "killed", "", -signal.SIGKILL),
        (
            "x = b'x' * (300 << 20)\nimport random\nrandom._os.kill(random._os.getpid(), 9)",
            "memory",
            "",
            -9,
        ),
        ("while True: print('x' * 999)", "output_limit", None, -signal.SIGKILL),
        ("import sys", "error", "", 1),
        ("x = '\ud800'", "error", "", 1),
        ("print('na\u00efve \U0001f9ee')", "ok", "na\u00efve \U0001f9ee\n", 0),
    ],
)
def test_status_and_exit_code_tell_how_it_ended(
    executor: PythonExecutor, code: str, status: str, stdout: str | None, exit_code: int
) -> None:
    result = executor.run(code)
    assert (result.status, result.exit_code) == (status, exit_code), result
    assert stdout is None or result.stdout == stdout
    assert result.max_rss_mb > 1
    assert result.cpu_s > 0


def test_timeout_keeps_partial_output_and_overshoots_little(executor: PythonExecutor) -> None:
    result = executor.run("print('half', end='')\nwhile True: pass", timeout_s=0.5)
    assert (result.status, result.stdout) == ("timeout", "half")
    assert "Timed out after 0.5 s" in result.text
    assert 0.5 <= result.wall_s < 1.0


def test_traceback_shows_the_snippets_frames_alone(executor: PythonExecutor) -> None:
    text = executor.run("import json\ndef f(x):\n    return json.loads(x)\nf('{')").stderr
    assert 'File "<tool>", line 4, in <module>' in text
    assert 'File "<tool>", line 3, in f' in text
    assert text.rstrip().splitlines()[-1].startswith("json.decoder.JSONDecodeError")
    assert "/" not in text.replace("Expecting", "")


def test_output_is_cut_to_max_output_length_with_the_marker_inside() -> None:
    with PythonExecutor(max_output_length=200) as short:
        result = short.run("print('\U0001f9ee' * 5000)\nraise ValueError('y' * 5000)")
    assert len(result.stdout) <= 200
    assert "truncated" in result.stdout
    assert len(result.stderr) <= 200
    assert result.truncated
    assert result.stderr.endswith("yyy\n")


@pytest.mark.parametrize("limit", [1, 10, 60, 1000])
def test_kept_output_never_exceeds_its_limit_in_text_or_memory(limit: int) -> None:
    for keep_end in (False, True):
        kept = BoundedOutput(limit, keep_end=keep_end)
        for _ in range(100):
            kept.add("aé数🧮".encode() * 1000)
        assert len(kept.text()) <= limit
        assert len(kept._bytes) <= 2 * kept.max_bytes + 10_000
    assert truncate_text("x" * limit, limit) == "x" * limit
    assert len(truncate_text("x" * (limit + 1), limit)) <= limit


def test_the_models_text_keeps_its_limit_and_tells_the_error() -> None:
    for stdout in ("", "x" * 10, "x" * 5000):
        for stderr in ("", "Traceback\nValueError: why\n", "y" * 5000 + "\nValueError: why\n"):
            result = ToolResult("error", stdout, stderr, 1)
            for limit in (60, 100, 1000, 20_000):
                text = result.text_within(limit)
                assert len(text) <= limit
                assert text.endswith("Error: why") == bool(stderr) or limit == 60
            assert result.text_within(20_000) == result.text


def test_same_seed_same_streams_and_no_seed_fresh_streams(executor: PythonExecutor) -> None:
    code = (
        "import random, numpy as np\nprint(random.random(), np.random.rand(), "
        "np.random.default_rng().random())"
    )
    assert executor.run(code, seed=7).stdout == executor.run(code, seed=7).stdout
    assert executor.run(code, seed=7).stdout != executor.run(code, seed=8).stdout
    unseeded = {part for _ in range(3) for part in executor.run(code).stdout.split()}
    assert len(unseeded) == 9


def test_map_keeps_order_and_runs_at_once() -> None:
    with PythonExecutor(num_executors=8) as wide:
        start = time.perf_counter()
        results = wide.map([f"import time\ntime.sleep(0.4)\nprint({n})" for n in range(8)])
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(8)]
    assert time.perf_counter() - start < 8 * 0.4


def test_waiting_for_a_place_costs_no_time_of_the_call() -> None:
    with PythonExecutor(num_executors=1) as narrow:
        results = narrow.map(["import time\ntime.sleep(0.4)"] * 3, timeout_s=0.8)
    assert [result.status for result in results] == ["ok"] * 3
    assert results[2].queue_s >= 0.8


def test_64_threads_share_one_executor(executor: PythonExecutor) -> None:
    with ThreadPoolExecutor(64) as threads:
        results = list(threads.map(lambda n: executor.run(f"print({n} ** 2)"), range(128)))
    assert [result.stdout for result in results] == [f"{n**2}\n" for n in range(128)], [
        r for r in results if r.status != "ok"
    ]


def test_a_10_mb_snippet_runs_and_a_larger_one_is_denied(executor: PythonExecutor) -> None:
    assert executor.run(f"x = '{'a' * (10 << 20)}'\nprint(len(x))").stdout == f"{10 << 20}\n"
    assert executor.run("#" * (17 << 20)).status == "denied"


def test_killed_zygote_loses_the_calls_in_flight_and_no_other() -> None:
    with PythonExecutor(num_executors=4) as made, ThreadPoolExecutor(1) as thread:
        first = made.zygote_pid
        assert first is not None
        batch = thread.submit(made.map, ["import time\ntime.sleep(5)"] * 4)
        time.sleep(0.5)
        os.kill(first, signal.SIGKILL)
        assert [result.status for result in batch.result(5)] == ["setup_error"] * 4
        assert made.run("print(1)").stdout == "1\n"
        assert made.zygote_pid not in (first, None)


@pytest.mark.prove
def test_zygote_that_keeps_dying_is_reported_not_retried_for_ever() -> None:
    def kill_and_run(made: PythonExecutor) -> None:
        assert made.zygote_pid is not None
        os.kill(made.zygote_pid, signal.SIGKILL)
        time.sleep(0.05)
        assert made.run("1").status == "ok"

    with PythonExecutor() as made:
        for _ in range(4):
            kill_and_run(made)
        with pytest.raises(SandboxUnavailable, match="died 5 times"):
            kill_and_run(made)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_killed_parent_leaves_no_process() -> None:
    program = (
        "from fctncalling.envs.tools.python_executor import PythonExecutor\n"
        "executor = PythonExecutor(num_executors=2)\n"
        "print(executor.zygote_pid, flush=True)\n"
        "executor.map(['import time\\ntime.sleep(60)'] * 2, timeout_s=60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    zygote = int(parent.stdout.readline())
    time.sleep(0.5)
    running = children(zygote)
    assert len(running) == 2
    parent.kill()
    parent.communicate()
    assert gone(zygote, 3)
    assert all(gone(child, 1) for child in running)


def test_a_fork_of_a_trainer_whose_places_are_taken_has_places_of_its_own() -> None:
    with PythonExecutor(num_executors=1) as made, ThreadPoolExecutor(1) as thread:
        call = thread.submit(made.run, "import time\ntime.sleep(1)\nprint('parent')")
        time.sleep(0.3)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writer, made.run("print('fork')").stdout.encode())
            made.close()
            os._exit(0)
        os.close(writer)
        assert select.select([reader], [], [], 10)[0], "the fork waits for ever"
        assert os.read(reader, 100) == b"fork\n"
        os.waitpid(pid, 0)
        os.close(reader)
        assert call.result(5).stdout == "parent\n"


def test_root_that_cannot_become_nobody_is_refused_and_told() -> None:
    program = (
        "from fctncalling.envs.tools.python_executor import PythonExecutor, SandboxUnavailable\n"
        "make = lambda **more: PythonExecutor(allowed_modules=['math'], **more)\n"
        "try:\n    make()\n"
        "except SandboxUnavailable as error:\n    print('calls run as root' in str(error))\n"
        "with make(allow_degraded=True) as executor:\n"
        "    print(executor.report()['user'].split(' (')[0], executor.run('print(1)').stdout)\n"
    )
    if subprocess.run(["unshare", "-U", "-r", "true"], capture_output=True).returncode:
        pytest.skip("no user namespace can be made here")
    command = ["unshare", "-U", "-r", sys.executable, "-c", program]  # knows one user: root
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True\nroot 1\n\n"


def test_a_self_test_that_did_not_end_well_is_a_shortcoming() -> None:
    greeting = {"layers": LAYERS, "missing": {}, "user": "the caller's user"}
    assert SelfTestReport.from_result(ToolResult("ok", "{}"), greeting).shortcomings == []
    for result in (ToolResult("killed", "{}"), ToolResult("timeout", "{}"), ToolResult("ok", "")):
        assert (
            "self-test did not run"
            in SelfTestReport.from_result(result, greeting).refusal_message()
        )


def test_sets_of_texts_print_in_the_same_order_each_time() -> None:
    code = "print({str(n) for n in range(40)}, hash('a'))"
    seen = set()
    for _ in range(2):
        with PythonExecutor(allowed_modules=["math"]) as made:
            seen.add(made.run(code).stdout)
    assert len(seen) == 1


@pytest.mark.parametrize("timeout_s", [0, -5, float("inf"), float("nan"), True, "5", 1e9])
def test_a_time_limit_no_clock_can_hold_is_refused(
    executor: PythonExecutor, timeout_s: object
) -> None:
    with pytest.raises(ValueError, match=r"timeout_s is .*; expected seconds above 0 and at most"):
        executor.run("print(1)", timeout_s=timeout_s)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"timeout_s is .*expected seconds"):
        PythonExecutor(timeout_s=timeout_s)  # type: ignore[arg-type]


def test_writing_byte_by_byte_costs_the_caller_little(executor: PythonExecutor) -> None:
    code = "import random\nos = random._os\nfor _ in range(60_000): os.write(1, b'x')"
    before = time.process_time()
    result = executor.run(code)
    assert len(result.stdout) == 1000
    assert time.process_time() - before < max(0.5 * result.cpu_s, 0.05)


def test_the_self_test_reads_its_answer_however_short_the_output_may_be() -> None:
    with PythonExecutor(max_output_length=1, allowed_modules=["math"]) as made:
        assert not made.report()["degraded"]


def test_executor_works_in_a_fork_and_after_pickling(executor: PythonExecutor) -> None:
    clone = pickle.loads(pickle.dumps(executor))
    assert clone.run("print(2)").stdout == "2\n"
    assert clone.config == executor.config
    clone.close()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, executor.run("print('from a fork')").stdout.encode())
        executor.close()
        os._exit(0)
    assert os.read(reader, 100) == b"from a fork\n"
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(writer)
    assert executor.run("print('still here')").stdout == "still here\n"


def limit_that_leaves(spare: int) -> int:
    """Return the descriptor limit below which so many numbers are free, or one more (the listing's
    own).
    """
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    limit = 0
    while limit in used or spare:
        spare -= limit not in used
        limit += 1
    return limit


@pytest.mark.parametrize("spare", [0, 2, 4])
def test_lack_of_descriptors_is_a_setup_error_that_harms_no_other_call(spare: int) -> None:
    with PythonExecutor() as made:
        zygote, before = made.zygote_pid, own_descriptors()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit_that_leaves(spare), hard))
        try:
            statuses = {made.run("print(1)").status for _ in range(3)}
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert statuses == {"setup_error"}
        assert made.run("print(1)").stdout == "1\n"
        assert (made.zygote_pid, own_descriptors()) == (zygote, before)


def test_closed_executor_says_so() -> None:
    made = PythonExecutor()
    zygote = made.zygote_pid
    made.close()
    made.close()
    assert zygote is not None
    assert gone(zygote, 1)
    with pytest.raises(ValueError, match="closed"):
        made.run("1")


@pytest.mark.parametrize(
    "layers",
    [
        ("rlimits",),
        ("rlimits", "seccomp"),
        pytest.param(("rlimits", "landlock"), marks=pytest.mark.prove),
        pytest.param(("landlock", "seccomp"), marks=pytest.mark.prove),
    ],
)
def test_a_missing_layer_is_refused_and_named_unless_accepted(layers: tuple[str, ...]) -> None:
    with pytest.raises(SandboxUnavailable, match=r"missing.*allow_degraded"):
        PythonExecutor(layers=layers)
    with PythonExecutor(layers=layers, allow_degraded=True) as degraded:
        report = degraded.report()
        assert report["degraded"]
        assert degraded.run("print(1)").stdout == "1\n"
    assert ("OPEN" in report["processes"]) == ("seccomp" not in layers)
    assert ("OPEN" in report["memory"]) == ("rlimits" not in layers)
    assert ("OPEN" in report["files"]) == (layers == ("rlimits",))


def test_report_of_a_whole_executor_shows_no_shortcoming(executor: PythonExecutor) -> None:
    report = executor.report()
    assert not report["degraded"]
    assert report["shortcomings"] == []
    assert report["files"] == "landlock+seccomp"


def test_daemons_of_an_open_executor_are_still_killed() -> None:
    daemon = (
        "import random, time\nos = random._os\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    "
        "os._exit(0)\n"
        "os.wait()"
    )
    with PythonExecutor(layers=("rlimits",), allow_degraded=True) as open_executor:
        assert open_executor.run(daemon).status == "ok"
        zygote = open_executor.zygote_pid
        assert Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split() == []


def test_interpreter_of_snippets_inherits_nothing_of_the_trainer() -> None:
    code = "import random\nos = random._os\nprint(*os.environ)\nprint(*os.sys.modules)"
    with PythonExecutor(max_output_length=100_000) as wide:
        names, modules = wide.run(code).stdout.splitlines()
    assert set(names.split()) <= {
        "HOME",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "MALLOC_ARENA_MAX",
        "MKL_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PATH",
        "PYTHONHASHSEED",
        "TZ",
    }
    assert not {"gymnasium", "torch", "jsonschema", "pytest"} & set(modules.split())


def test_preload_table_covers_what_the_allowed_modules_import_later() -> None:
    for name in SEED_MODULES:
        importlib.import_module(name)
        covered = {*ALWAYS, *LATER_IMPORTS.get(name, ()), *NEVER_NEEDED, *sys.modules}
        assert function_level_imports(name) <= covered, name


@pytest.mark.parametrize(
    "code",
    [
        "from collections import Counter, "
        "namedtuple\nCounter('aab').most_common(1)\nnamedtuple('P', 'x y')(1, 2)",
        "import time\ntime.strptime('2024-02-29', '%Y-%m-%d')",
        "'é'.encode('cp1252')\n'x'.encode('idna')\n'\\N{GREEK SMALL LETTER "
        "ALPHA}'.encode('utf-16')",
        "import functools\n@functools.singledispatch\ndef f(x): ...\n@f.register\ndef _(x: int): "
        "return 1\nf(1)",
        "import numpy as np\nnp.linalg.svd(np.ones((2, 2)))\nnp.fft.fft([1, "
        "2])\nprint(np.array([1e300]))",
        "import numpy as np\nprint(np.random.default_rng(1).normal(), np.char.upper(['a']))",
        "import numpy as np\nprint(np.polynomial.Polynomial([1, 2])(3), np.ma.masked_array([1], "
        "[0]))",
        "import re\nre.compile(r'(?i)\\bß\\w+').findall('ßa')\nimport json\njson.dumps({'a': "
        "float('nan')}, indent=1)",
        "import numpy as np\nnp.array([1.0]) / 0",
    ],
)
def test_ordinary_snippets_need_nothing_they_cannot_load(
    executor: PythonExecutor, code: str
) -> None:
    result = executor.run(code)
    assert result.status == "ok", result.stderr


@pytest.mark.prove
def test_1000_timeouts_leave_descriptors_zombies_and_memory_flat() -> None:
    with PythonExecutor(num_executors=16) as made:
        made.map(["while True: pass"] * 32, timeout_s=0.02)
        before = own_descriptors(), resident_kb("self"), resident_kb(made.zygote_pid or 0)
        results = made.map(["while True: pass"] * 1000, timeout_s=0.02)
        assert {result.status for result in results} == {"timeout"}
        after = own_descriptors(), resident_kb("self"), resident_kb(made.zygote_pid or 0)
        zygote = made.zygote_pid
        assert Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split() == []
        assert len(os.listdir(f"/proc/{zygote}/fd")) < 20
    assert after[0] == before[0]
    assert after[1] < before[1] + 4096
    assert after[2] < before[2] + 1024


@pytest.mark.prove
def test_endless_output_does_not_grow_the_caller(executor: PythonExecutor) -> None:
    executor.run("while True: print('x' * 999)")
    before = resident_kb("self")
    for _ in range(20):
        assert executor.run("while True: print('x' * 65536)").status == "output_limit"
    assert resident_kb("self") < before + 2048  # two raw caps
