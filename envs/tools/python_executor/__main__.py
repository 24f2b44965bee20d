"""`python -m fctncalling.envs.tools.python_executor --self-test`.

Print what holds here, exit 1 if not all does.
"""

from __future__ import annotations

import argparse
import sys

from fctncalling.envs.tools.python_executor import PythonExecutor, SandboxUnavailable


def main() -> int:
    """Run the executor's self-test.

    0 where everything holds, 1 where something does not, 2 where nothing can run at all.
    """
    parser = argparse.ArgumentParser(
        prog="python -m fctncalling.envs.tools.python_executor", description=__doc__
    )
    parser.add_argument("--self-test", action="store_true", required=True, help="try every layer")
    parser.parse_args()
    try:
        with PythonExecutor(allow_degraded=True) as executor:  # its start tries every layer
            report = executor.report()
    except SandboxUnavailable as error:
        print(error)
        return 2
    for key, value in report.items():
        print(f"{key:14} {', '.join(map(str, value)) or '-' if isinstance(value, list) else value}")
    return 1 if report["degraded"] else 0


if __name__ == "__main__":
    sys.exit(main())
