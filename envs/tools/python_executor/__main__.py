"""`python -m fctncalling.envs.tools.python_executor --self-test`.

Print what holds here, exit 1 if not all does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from fctncalling.envs.tools.python_executor import PythonExecutor, SandboxUnavailable, ToolResult

TRIALS: tuple[tuple[str, str, Callable[[ToolResult], bool]], ...] = (
    ("a snippet runs", "print(6 * 7)", lambda result: result.stdout == "42\n"),
    (
        "NumPy is there",
        "import numpy\nprint(numpy.ones(3).sum())",
        lambda result: result.stdout == "3.0\n",
    ),
    (
        "a sleeper is killed",
        "import time\ntime.sleep(60)",
        lambda result: result.status == "timeout",
    ),
    ("a busy loop is killed", "while True: pass", lambda result: result.status == "timeout"),
    (
        "what was printed before is kept",
        "print('a', end='')\nwhile True: pass",
        lambda result: result.stdout == "a",
    ),
    ("memory is bounded", "b'x' * (4 << 30)", lambda result: "MemoryError" in result.stderr),
    (
        "output is bounded",
        "while True: print('x' * 999)",
        lambda result: result.status == "output_limit",
    ),
    (
        "an escape by the object graph finds nothing",
        "import random\nrandom._os.listdir('/')",
        lambda r: r.status == "error",
    ),
    ("a crash is told", "import random\nrandom._os.abort()", lambda result: result.exit_code == -6),
)


def self_test(executor: PythonExecutor) -> bool:
    """Print the report and one line a trial; return whether everything holds."""
    report = executor.report()
    for key, value in report.items():
        print(f"{key:14} {', '.join(map(str, value)) or '-' if isinstance(value, list) else value}")
    holds = not report["degraded"]
    for claim, code, proof in TRIALS:
        result = executor.run(code, timeout_s=1)
        proved = proof(result)
        holds &= proved
        print(f"{'ok  ' if proved else 'FAIL'} {claim}" + ("" if proved else f": {result}"))
    return holds


def main() -> int:
    """Run the self-test.

    0 where everything holds, 1 where something does not, 2 where nothing can run at all.
    """
    parser = argparse.ArgumentParser(
        prog="python -m fctncalling.envs.tools.python_executor", description=__doc__
    )
    parser.add_argument(
        "--self-test", action="store_true", required=True, help="try every layer and every limit"
    )
    parser.parse_args()
    try:
        with PythonExecutor(allow_degraded=True) as executor:
            return 0 if self_test(executor) else 1
    except SandboxUnavailable as error:
        print(error)
        return 2


if __name__ == "__main__":
    sys.exit(main())
