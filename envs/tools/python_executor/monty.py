"""An executor on pydantic-monty: a small Python of its own in its own virtual machine, for where no
kernel layer is.

Works on macOS and Windows too, at a fraction of a millisecond a call. It is a subset of Python: no
NumPy, nothing third-party; what it lacks fails as a missing module or name does. Needs the extra
`fctncalling[monty]`.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from fctncalling.envs.python_source.parse import parse_module
from fctncalling.envs.tools.python_executor.config import ExecutorConfig, check_timeout
from fctncalling.envs.tools.python_executor.link import SandboxUnavailable
from fctncalling.envs.tools.python_executor.result import BoundedOutput, Status, ToolResult
from fctncalling.envs.tools.python_executor.snippet import is_allowed


class MontyExecutor:
    """PythonExecutor's `run`, `map`, `report` and `close` on a pool of monty workers; same results,
    same limits.

    Of the configuration the allowed modules are enforced before the run; the restricted functions
    that would matter (open, eval, exec, compile, __import__) do not exist there or find nothing.
    """

    def __init__(self, config: ExecutorConfig | None = None, **keywords: Any) -> None:
        try:
            import pydantic_monty  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise SandboxUnavailable(
                "this backend needs pydantic-monty: pip install 'fctncalling[monty]'"
            ) from error
        self.config = (config or ExecutorConfig()).with_keywords(**keywords)
        self._monty = pydantic_monty
        self._pool = pydantic_monty.Monty(max_processes=self.config.max_running)
        self._pool.__enter__()

    def run(
        self, code: str, *, timeout_s: float | None = None, seed: int | None = None
    ) -> ToolResult:
        """Run one snippet and return how it went."""
        if timeout_s is not None:
            check_timeout(timeout_s, "run")
        limit_s = timeout_s or self.config.timeout_s
        refusal = self._refusal(code)
        if refusal:
            return ToolResult("error", stderr=refusal, exit_code=1)
        limits = {
            "max_feed_duration_secs": limit_s,
            "max_total_sleep_secs": limit_s,
            "max_memory": self.config.memory_mb << 20,
        }
        policy: dict[str, Any] = {
            "sleep_system_max": float("inf")
        }  # the total is limited; a cap a sleep would shorten it silently
        if seed is not None:
            policy["random_start"] = {"seed": seed}
        streams = self._monty.CollectStreams(self.config.raw_output_bytes)
        error: Exception | None = None
        start = time.perf_counter()
        try:
            with self._pool.checkout(
                limits=limits, os_policy=policy, script_name="<tool>"
            ) as session:
                start = time.perf_counter()
                session.feed_run(code, print_callback=streams)
        except Exception as raised:
            error = raised
        return self._result(streams.output, error, time.perf_counter() - start, limit_s)

    def map(
        self,
        codes: Sequence[str],
        *,
        timeout_s: float | None = None,
        seeds: Sequence[int | None] | None = None,
    ) -> list[ToolResult]:
        """Run many snippets at once and return their results in order."""
        with ThreadPoolExecutor(self.config.max_running) as threads:
            given = seeds if seeds is not None else [None] * len(codes)
            return list(
                threads.map(
                    lambda code, seed: self.run(code, timeout_s=timeout_s, seed=seed), codes, given
                )
            )

    def report(self) -> dict[str, Any]:
        """Return what holds: everything by the virtual machine's construction,
        nothing of it tried.
        """
        areas = dict.fromkeys(
            ("files", "network", "processes", "signals", "memory"), "monty virtual machine"
        )
        return {
            "backend": f"monty {self._monty.__version__}",
            **areas,
            "degraded": False,
            "shortcomings": [],
        }

    def close(self) -> None:
        """End the workers."""
        self._pool.__exit__(None, None, None)

    def __enter__(self) -> MontyExecutor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _refusal(self, code: str) -> str:
        try:
            tree = parse_module(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ""  # monty's own parser says what is wrong
        allowed = frozenset(self.config.allowed_modules)
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                if not is_allowed(name, allowed):
                    listed = ", ".join(sorted(allowed))
                    return f"ImportError: module {name!r} is not allowed here; allowed: {listed}"
        return ""

    def _result(
        self, output: list[tuple[str, str]], error: Any, wall_s: float, limit_s: float
    ) -> ToolResult:
        kept = {
            "stdout": BoundedOutput(self.config.max_output_length, keep_end=False),
            "stderr": BoundedOutput(self.config.max_output_length, keep_end=True),
        }
        for stream, text in output:
            kept[stream].add(text.encode("utf-8", "replace"))
        status, reason = self._status(error, limit_s)
        if isinstance(error, self._monty.MontyError) and status == "error":
            told = error.display() if hasattr(error, "display") else str(error)
            kept["stderr"].add(told.encode("utf-8", "replace"))
        return ToolResult(
            status=status,
            stdout=kept["stdout"].text(),
            stderr=kept["stderr"].text(),
            exit_code={"ok": 0, "error": 1}.get(status),
            wall_s=wall_s,
            truncated=any(stream.truncated for stream in kept.values()),
            reason=reason,
        )

    def _status(self, error: Any, limit_s: float) -> tuple[Status, str]:
        if error is None:
            return "ok", ""
        if isinstance(error, self._monty.MontyCrashedError):
            return (
                ("timeout", f"Timed out after {limit_s:g} s")
                if error.timed_out
                else ("killed", "It crashed")
            )
        if not isinstance(error, self._monty.MontyError):
            return "setup_error", f"The executor failed: {type(error).__name__}: {error}"
        cause = error.exception()
        if isinstance(cause, TimeoutError) and "limit exceeded" in str(cause):
            return "timeout", f"Timed out after {limit_s:g} s"
        if isinstance(cause, MemoryError):
            if str(cause).endswith(
                f"> {self.config.raw_output_bytes} bytes"
            ):  # of the collector, not of the heap
                return (
                    "output_limit",
                    f"Stopped: it wrote more than {self.config.raw_output_bytes} bytes",
                )
            return "error", "It ran out of memory"
        return "error", ""
