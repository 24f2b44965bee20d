"""Reading Python source text: apart from other threads' reading, from forks, and from how warnings
are set.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.python_source.call_source import parse_expression


def interrupted(times: int) -> Callable[..., Any]:
    """Return `ast.parse` as it is where so many others come between."""
    left, parse = [times], ast.parse

    def failing(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise SystemError("AST constructor recursion depth mismatch (before=26, after=29)")
        return parse(*arguments, **named)

    return failing


def test_a_reading_that_another_thread_disturbed_is_no_failed_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for read, expected in (
        (
            lambda: get_handler("python_calls").decode_ast("[f(a=g(b=1))]"),
            [{"f": {"a": {"g": {"b": 1}}}}],
        ),
        (lambda: ToolSession(["MathAPI"], {}).execute("add(a=1 + 1, b=2)"), '{"result": 4}'),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(ast, "parse", interrupted(20))
            assert read() == expected


def test_a_reading_that_never_succeeds_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ast, "parse", interrupted(10**6))
    with pytest.raises(SystemError):
        parse_expression("f(1)")


@pytest.mark.parametrize(
    "source", ["f(a='\\d')", "1if x else 2", "f(a=1or 2)", "1.if x else 2", "0x1for x"]
)
def test_what_python_only_warns_of_is_read_alike_where_warnings_are_errors(source: str) -> None:
    def read() -> str:
        try:
            return ast.dump(parse_expression(source))
        except SyntaxError as error:
            return str(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = read()
        warnings.simplefilter("error")
        assert read() == expected


FORKED = """
import os, threading
from fctncalling.envs.python_source import call_source

held, done = threading.Event(), threading.Event()

def hold():
    with call_source._PARSING:
        held.set()
        done.wait(0.2)

threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    os._exit(0 if call_source._PARSING.acquire(timeout=60) else 1)
done.set()
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_forked_while_a_thread_reads_can_read() -> None:
    assert subprocess.run([sys.executable, "-c", FORKED], check=False, timeout=300).returncode == 0
