"""The monty backend gives the same answers as the confined interpreter wherever its Python
reaches.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_monty", reason="the extra fctncalling[monty] is not installed")

from fctncalling.envs.tools.python_executor.monty import MontyExecutor


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        ("print(14 + 34)", "ok", "48"),
        ("import re, json\nprint(json.dumps(re.findall('a', 'banana')))", "ok", '["a", "a", "a"]'),
        ("print('half', end='')\nwhile True: pass", "timeout", "half"),
        ("import time\nprint('half')\ntime.sleep(9)", "timeout", "half"),
        ("x = [0] * 10 ** 9", "error", "MemoryError"),
        ("while True: print('x' * 1000)", "output_limit", "more than"),
        ("1 / 0", "error", "ZeroDivisionError"),
        ("print(", "error", "SyntaxError"),
        ("import os", "error", "module 'os' is not allowed here"),
        ("import numpy", "error", "ModuleNotFoundError"),
        ("open('/etc/passwd').read()", "error", "Error"),
        ("def f(n): return f(n + 1)\nf(0)", "error", "RecursionError"),
    ],
)
def test_statuses_are_the_executors(code: str, status: str, text: str) -> None:
    with MontyExecutor(timeout_s=0.5, memory_mb=64) as executor:
        result = executor.run(code)
    assert result.status == status, result
    assert text in result.text


def test_seeds_repeat_and_map_keeps_order() -> None:
    with MontyExecutor(num_executors=2) as executor:
        draws = [
            executor.run("import random\nprint(random.random())", seed=5).stdout for _ in range(2)
        ]
        assert draws[0] == draws[1]
        assert [result.stdout for result in executor.map([f"print({n})" for n in range(6)])] == [
            f"{n}\n" for n in range(6)
        ]
