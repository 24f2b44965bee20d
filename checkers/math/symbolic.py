"""Symbolic equality by SymPy, in a bounded subprocess.

SymPy may take for ever or all memory on a model's answer, so it works in an interpreter of its own
with a bound on both. It gets trees, never text: its own parser evaluates what it reads.
"""

from __future__ import annotations

import contextlib
import json
import resource
import select
import subprocess
import sys
from typing import Any

from fctncalling.checkers.math.expression import Tree

MEMORY_BYTES = 2 << 30
BOOT_TIMEOUT_S = 60.0
MAX_EXPONENT_BITS = 4096
BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from "
    "fctncalling.checkers.math.symbolic import serve_comparisons; serve_comparisons()"
)


class SymbolicComparer:
    """Symbolic comparer of expressions: SymPy in a subprocess; needs `fctncalling[math]`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def equal(self, left: Tree, right: Tree, *, time_limit_s: float = 5.0) -> bool | None:
        """Whether two expression trees are equal; None if undecided within the limit (seconds)."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps([left, right]).encode() + b"\n")
            process.stdin.flush()
            answer = self._line(process, time_limit_s)
        except OSError:
            answer = None
        if answer is None:
            self.close()
        return {"equal": True, "different": False}.get(answer or "")

    def close(self) -> None:
        """Close the subprocess; the next comparison starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the running child process."""
        return {"_process": None}

    def __enter__(self) -> SymbolicComparer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            greeting = self._line(self._process, BOOT_TIMEOUT_S)
            if greeting != "ready":
                self.close()
                raise ImportError(
                    f"symbolic answers need SymPy ({greeting}): pip install 'fctncalling[math]'"
                )
        return self._process

    @staticmethod
    def _line(process: subprocess.Popen[bytes], time_limit_s: float) -> str | None:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], time_limit_s)
        return process.stdout.readline().decode().strip() or None if readable else None


def serve_comparisons() -> None:
    """Serve comparisons in the subprocess: pairs of trees in, a JSON line each.

    Answers `equal`, `different` or `unknown`, a line each.
    """
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        import sympy  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        print(error, flush=True)
        return
    print("ready", flush=True)
    for line in sys.stdin:
        left, right = json.loads(line)
        try:
            verdict = trees_equal(left, right)
        except (
            ArithmeticError,
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
            NotImplementedError,
        ):
            verdict = None
        print({True: "equal", False: "different", None: "unknown"}[verdict], flush=True)


def trees_equal(left: Tree, right: Tree) -> bool | None:
    """Whether two trees are equal: tuples and intervals part by part, sets in any order."""
    if left[0] in ("tuple", "set", "interval") or right[0] in ("tuple", "set", "interval"):
        if left[0] != right[0] or len(left) != len(right):
            return False
        if left[0] == "set":
            return _same_set(left[1:], right[1:])
        if left[0] == "interval" and left[1] != right[1]:
            return False
        first = 2 if left[0] == "interval" else 1
        return _all(map(trees_equal, left[first:], right[first:]))
    import sympy

    a, b = to_sympy(left), to_sympy(right)
    if a == b:
        return True
    verdict = (a - b).equals(0)
    if verdict is None:
        verdict = sympy.simplify(a - b) == 0
    return bool(verdict)


def _same_set(left: list[Tree], right: list[Tree]) -> bool:
    rest = list(right)
    for item in left:
        match = next((other for other in rest if trees_equal(item, other)), None)
        if match is None:
            return False
        rest.remove(match)
    return True


def _all(verdicts: Any) -> bool | None:
    outcomes = list(verdicts)
    return False if False in outcomes else None if None in outcomes else True


def to_sympy(tree: Tree) -> Any:
    """Convert an expression tree to a SymPy expression, node by node."""
    import sympy

    kind = tree[0]
    if kind == "number":
        return sympy.Rational(tree[1])
    if kind == "name":
        constants = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "oo": sympy.oo}
        return constants.get(tree[1]) or sympy.Symbol(tree[1])
    if kind == "call":
        return _call(tree[1], [to_sympy(argument) for argument in tree[2:]])
    arguments = [to_sympy(argument) for argument in tree[1:]]
    if kind == "negative":
        return -arguments[0]
    left, right = arguments
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
        "^": lambda: _power(left, right),
    }[kind]()


def _power(base: Any, exponent: Any) -> Any:
    if base.is_Rational and exponent.is_Integer:
        bits = max(int(base.p).bit_length(), int(base.q).bit_length())
        if bits * abs(int(exponent)) > MAX_EXPONENT_BITS:
            raise ValueError("a power too large to be an answer")
    return base**exponent


def _call(name: str, arguments: list[Any]) -> Any:
    import sympy

    special = {
        "ln": sympy.log,
        "abs": sympy.Abs,
        "arcsin": sympy.asin,
        "arccos": sympy.acos,
        "arctan": sympy.atan,
        "binom": sympy.binomial,
        "log": lambda value: sympy.log(value, 10) if value.is_number else sympy.log(value),
    }
    if name == "factorial" and not (arguments[0].is_Integer and arguments[0] <= 200):
        raise ValueError("a factorial too large to be an answer")
    return (special.get(name) or getattr(sympy, name))(*arguments)
