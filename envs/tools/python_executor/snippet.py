"""Run of a snippet in its child: confinement, policy on names, execution, traceback.

The policy (allowed modules, restricted functions) gives a model clear messages; it is no boundary,
`random._os` is os. The boundary is the kernel's, put on before the first byte of the snippet is
read. Nothing after the snippet's end is trusted by anyone: the child writes bytes and exits, the
the kernel reports the rest.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import io
import linecache
import os
import random
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any, NoReturn

from fctncalling.envs.tools.python_executor.confinement import Confinement
from fctncalling.envs.tools.python_executor.protocol import (
    CALL,
    CODE,
    CONFINED,
    DEV_NULL,
    DONE,
    STATUS,
)

FILE_NAME = "<tool>"
IMPORT_STATEMENT = dis.opmap["IMPORT_NAME"]
# Set aside untouched, given back where a snippet used up its memory and its traceback needs some.
SPARE_BYTES = 8 << 20


def is_allowed(module: str, allowed: frozenset[str]) -> bool:
    """Whether a module is allowed: by name, as part of an allowed one, or as its package."""
    parts = module.split(".")
    inside = any(".".join(parts[:n]) in allowed for n in range(1, len(parts) + 1))
    return inside or any(name.startswith(f"{module}.") for name in allowed)


def _policy_import(allowed: frozenset[str], explicit_call_allowed: bool) -> Callable[..., Any]:
    real_import = builtins.__import__
    listed = ", ".join(sorted(allowed)) or "none"

    def policy_import(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> types.ModuleType:
        # C code, such as datetime.strptime, imports in the name of the snippet's frame but with a
        # list for fromlist.
        from_c = isinstance(fromlist, list) and name in sys.modules
        frame = sys._getframe(1)
        statement = frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == IMPORT_STATEMENT
        if not statement and not from_c and not explicit_call_allowed:
            raise PermissionError("__import__() is disabled by the tool configuration")
        if not from_c and not level and not is_allowed(name, allowed):
            raise ImportError(f"module {name!r} is not allowed here; allowed: {listed}", name=name)
        try:
            return real_import(name, globals, locals, fromlist, level)
        except ModuleNotFoundError as error:
            if error.name and is_allowed(error.name, allowed):
                error.msg += (
                    " (no file can be read here: a submodule must be in the tool's "
                    "allowed_modules by name)"
                )
            raise

    policy_import.__name__ = "__import__"
    return policy_import


def _disabled(name: str) -> Callable[..., NoReturn]:
    def disabled(*_: Any, **__: Any) -> NoReturn:
        raise PermissionError(f"{name}() is disabled by the tool configuration")

    disabled.__name__ = name
    return disabled


def snippet_builtins(allowed: frozenset[str], restricted: tuple[str, ...]) -> dict[str, Any]:
    """Return the builtins for snippets under the policy.

    Library code keeps the real ones, so `namedtuple`, which uses eval, works.
    """
    namespace = dict(vars(builtins))
    namespace |= {name: _disabled(name) for name in restricted if name != "__import__"}
    namespace["__import__"] = _policy_import(allowed, "__import__" not in restricted)
    return namespace


class MainModule:
    """Main module of a snippet and its streams, built once before the fork."""

    def __init__(self, allowed: frozenset[str], restricted: tuple[str, ...]) -> None:
        self.main = types.ModuleType("__main__")
        self.main.__dict__["__builtins__"] = snippet_builtins(allowed, restricted)
        self.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)), "utf-8")
        self.stdout = _writer(1)
        self.stderr = _writer(2)
        self.numpy_random = sys.modules.get("numpy.random")

    def seed(self, seed: int) -> None:
        """Seed every random stream that a snippet may use without seeding it."""
        random.seed(seed)
        numpy_random: Any = self.numpy_random
        if numpy_random is None:
            return
        numpy_random.seed(seed % 2**32)
        sequence, default_rng = numpy_random.SeedSequence(seed), numpy_random.default_rng

        def seeded_rng(seed: Any = None) -> Any:
            return default_rng(sequence.spawn(1)[0] if seed is None else seed)

        numpy_random.default_rng = seeded_rng

    def run(self, source: str, *, policy: bool = True, number: int = 1) -> int:
        """Run a snippet as `__main__` and return its exit code.

        A failure's traceback goes to standard error.

        `number` counts the snippets of a session: each has a file name, and its lines in
        tracebacks, of its own.
        """
        file_name = FILE_NAME if number == 1 else f"{FILE_NAME[:-1]} {number}>"
        sys.modules["__main__"] = self.main
        sys.stdin = self.stdin
        sys.stdout = self.stdout
        sys.stderr = self.stderr
        linecache.cache[file_name] = (lambda: source,)  # split into lines only if asked
        if not policy:
            self.main.__dict__["__builtins__"] = builtins
        # Calloc: address space, no page touched (a bytearray would touch all)
        spare = bytes(SPARE_BYTES)
        code = 0
        try:
            exec(compile(source, file_name, "exec", dont_inherit=True), self.main.__dict__)
        except SystemExit as end:
            code = self._exit_code(end)
        except BaseException as error:
            del spare
            code = 1
            self._tell(error)
        for stream in (self.stdout, self.stderr):
            with contextlib.suppress(BaseException):  # the snippet may have closed it
                stream.flush()
        return code

    def _exit_code(self, end: SystemExit) -> int:
        """Return a plain int from 0 to 255, without the operators of the snippet's object."""
        try:
            code = end.code
            if code is None:
                return 0
            if isinstance(code, int):
                return int.__and__(code, 255)  # the number itself: an overridden & is not asked
            print(code, file=self.stderr)
        except BaseException as error:
            self._tell(error)
        return 1

    def _tell(self, error: BaseException) -> None:
        try:
            text = snippet_traceback(error)
        except BaseException:  # no memory left, or a __str__ that raises
            text = type.__dict__["__name__"].__get__(type(error)) + "\n"
        with contextlib.suppress(OSError):  # the snippet may have closed it
            os.write(2, text.encode("utf-8", "backslashreplace"))


def exit_process(code: int, exit_now: Callable[[int], object] = os._exit) -> NoReturn:
    """Exit the process at once, without cleanup.

    Signal handlers and profilers that the snippet left behind may raise here, once each.
    """
    while True:
        with contextlib.suppress(BaseException):
            exit_now(code)


def snippet_traceback(error: BaseException) -> str:
    """Format the traceback with the snippet's frames only."""
    summary = traceback.TracebackException.from_exception(error, compact=True)
    pending, seen = [summary], set()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        part.stack = traceback.StackSummary.from_list(
            [frame for frame in part.stack if frame.filename.startswith(FILE_NAME[:-1])]
        )
        pending += [cause for cause in (part.__cause__, part.__context__) if cause is not None]
    return "".join(summary.format())


def _writer(descriptor: int) -> io.TextIOWrapper:
    """Return an unbuffered text stream, like `python -u`.

    So output before a kill is not lost.
    """
    raw: Any = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)


def serve_snippets(
    main_module: MainModule, layers: Confinement, memory_bytes: int, cpu_s: int, *, policy: bool
) -> int:
    """Confine this process, then read and run snippets up to the last; return that one's code.

    After each other snippet its exit code is written to DONE, one byte. A snippet can write there
    too, but only lie about its own end.
    """
    layers.apply(
        memory_bytes=memory_bytes, cpu_s=cpu_s, close=lambda: os.closerange(DONE + 1, 1 << 16)
    )
    os.write(STATUS, CONFINED)
    os.dup2(0, CODE)
    os.dup2(DEV_NULL, 0)
    os.close(DEV_NULL)
    number = 0
    while True:
        seed, seeded, is_last, size = CALL.unpack(read_exactly(CALL.size))
        # Lone surrogates pass here: the compiler refuses them.
        source = read_exactly(size).decode("utf-8", "surrogatepass")
        if seeded:
            main_module.seed(seed)
        if is_last:
            os.close(CODE)
            os.close(DONE)
        number += 1
        code = main_module.run(source, policy=policy, number=number)
        if is_last:
            return code
        os.write(DONE, bytes([code]))


def read_exactly(size: int) -> bytes:
    """Read exactly `size` bytes from the code's pipe.

    By size, not to the end of file: another fork may hold the other end open for ever.
    """
    parts = []
    while size:
        part = os.read(CODE, min(size, 1 << 20))
        if not part:
            raise EOFError("the code ended early")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
