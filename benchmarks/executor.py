"""Cost of a confined call, against floors measured at the same moment.

The floor is fork + eval + pipe + wait in a single-threaded process with NumPy loaded: nothing that
forks is faster. Floor and subject take turns, and medians of per-round ratios are compared, since a
shared machine's speed drifts. Prints a table; exits 1 if a target is missed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from figures import Figure, benchmark_parser, report
from harness import LineProcess

from fctncalling.envs.tools.python_executor import PythonExecutor

FLOOR_PROGRAM = """
import os, sys, numpy
for line in sys.stdin:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, repr(eval("1+1")).encode())
        os._exit(0)
    os.close(writer)
    os.read(reader, 64)
    os.close(reader)
    os.waitpid(pid, 0)
    sys.stdout.write("1\\n")
    sys.stdout.flush()
"""
SNIPPET = "print(1+1)"


def seconds(action: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def many(action: Callable[[], object], times: int) -> None:
    """Do one thing several times."""
    for _ in range(times):
        action()


def interleaved(rounds: int, actions: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the wall seconds of every action, measured in turns."""
    for action in actions.values():
        action()
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            times[name].append(seconds(action))
    return times


def median_ratio(above: list[float], below: list[float]) -> float:
    """Return the median of per-round ratios."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def fresh_interpreter(numpy: bool) -> None:
    """Run the snippet as most tool modules do: a new interpreter for every call."""
    code = f"import numpy\n{SNIPPET}" if numpy else SNIPPET
    subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True)


def latency(rounds: int, executor: PythonExecutor, floor: Callable[[], object]) -> list[Figure]:
    """Measure single calls."""
    with PythonExecutor(layers=("rlimits",), allow_degraded=True) as open_executor:
        times = interleaved(
            rounds,
            {
                "floor": floor,
                "confined": lambda: executor.run(SNIPPET),
                "rlimits": lambda: open_executor.run(SNIPPET),
            },
        )
    few = interleaved(
        max(5, rounds // 20),
        {
            "confined": lambda: executor.run(SNIPPET),
            "fresh": lambda: fresh_interpreter(False),
            "numpy": lambda: fresh_interpreter(True),
        },
    )
    floor_p50 = statistics.median(times["floor"])
    p95 = statistics.quantiles(times["confined"], n=20)[-1]
    fresh, numpy = (median_ratio(few[name], few["confined"]) for name in ("fresh", "numpy"))
    to_floor, to_rlimits = (
        median_ratio(times["confined"], times[name]) for name in ("floor", "rlimits")
    )
    return [
        Figure("fork floor, p50 in ms", 1e3 * floor_p50),
        Figure(f"`{SNIPPET}` over the floor, p50", to_floor, at_most=4),
        Figure(f"`{SNIPPET}` over the floor, p95", p95 / floor_p50, at_most=8),
        Figure("all layers over resource limits alone", to_rlimits, at_most=1.5),
        Figure("fresh interpreter over a confined call", fresh, at_least=2),
        Figure("fresh interpreter with NumPy over a confined call", numpy, at_least=15),
    ]


def throughput(rounds: int, floor: Callable[[], object]) -> Figure:
    """Measure the rate of two concurrent calls as a share of one floor's rate."""
    batch = 20
    with PythonExecutor(num_executors=2) as executor:
        times = interleaved(
            max(3, rounds // batch),
            {
                "floor": lambda: many(floor, batch),
                "confined": lambda: executor.map([SNIPPET] * batch),
            },
        )
    share = median_ratio(times["floor"], times["confined"])
    return Figure("throughput of 2 in flight over the floor's", share, at_least=0.35)


def waiting(executor: PythonExecutor) -> list[Figure]:
    """Measure time limits and many sleeping calls."""
    endless = ("while True: pass", "import time\ntime.sleep(9)")
    overshoot = max(executor.run(code, timeout_s=2).wall_s - 2 for code in endless)
    with PythonExecutor(num_executors=32) as wide:
        wide.map([SNIPPET] * 32)
        asleep = seconds(lambda: wide.map(["import time\ntime.sleep(1)"] * 32))
    return [
        Figure("overshoot of a limit of 2 s, in s", overshoot, at_most=0.2),
        Figure("32 sleeps of 1 s, 32 in flight, in s", asleep, at_most=1.5),
    ]


def boot(rounds: int) -> Figure:
    """Measure the start of an executor, self-test included, against an interpreter that imports
    NumPy.
    """
    times = interleaved(
        max(3, rounds // 50),
        {"numpy": lambda: fresh_interpreter(True), "boot": lambda: PythonExecutor().close()},
    )
    ratio = median_ratio(times["boot"], times["numpy"])
    return Figure("start over `import numpy`", ratio, at_most=2)


def main() -> int:
    """Measure, print, and return 1 if a target is missed."""
    parser = benchmark_parser(__doc__)
    parser.add_argument(
        "--rounds", type=int, default=300, help="floor and subject take this many turns"
    )
    options = parser.parse_args()
    rounds = options.rounds
    with (
        LineProcess([sys.executable, "-c", FLOOR_PROGRAM]) as process,
        PythonExecutor() as executor,
    ):
        floor = process.ask
        floor()  # starts
        figures = [
            *latency(rounds, executor, floor),
            throughput(rounds, floor),
            *waiting(executor),
            boot(rounds),
        ]
    return report(figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
