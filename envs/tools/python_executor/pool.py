"""Executor that runs confined Python snippets, many at once and from any thread."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fctncalling.envs.tools.python_executor.calls import (
    CallInFlight,
    CallLauncher,
    CallNotStarted,
    wait_any,
)
from fctncalling.envs.tools.python_executor.config import (
    ExecutorConfig,
    check_seed,
    check_timeout,
    load_config,
)
from fctncalling.envs.tools.python_executor.confinement import LAYERS
from fctncalling.envs.tools.python_executor.link import SandboxUnavailable, ZygoteLink
from fctncalling.envs.tools.python_executor.probe import SelfTestReport, probe_code
from fctncalling.envs.tools.python_executor.result import ToolResult
from fctncalling.envs.tools.python_executor.session import PythonSession

MAX_SESSIONS = 64


class PythonExecutor:
    """Executor of untrusted Python snippets, each in a confined process.

    Starting tries every layer of the confinement and raises SandboxUnavailable where one does not
    hold, unless `allow_degraded`. Keywords that are given win over `config` (a dict or a file in
    OpenRLHF's JSON form); without either: 10 s, 512 MiB, 1000 characters, as many calls at once as
    there are cores. Peak memory is the number of calls at once times `memory_mb`. Safe to call from
    threads and from forks of the process, and to pickle.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | str | os.PathLike[str] | ExecutorConfig | None = None,
        *,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        max_output_length: int | None = None,
        num_executors: int | None = None,
        allowed_modules: Sequence[str] | None = None,
        restricted_functions: Sequence[str] | None = None,
        allow_degraded: bool | None = None,
        layers: Sequence[str] = LAYERS,
    ) -> None:
        if config is None or isinstance(config, ExecutorConfig):
            base = config or ExecutorConfig()
        else:
            base = load_config(config)
        self.config = base.with_overrides(
            timeout_s=timeout_s,
            memory_mb=memory_mb,
            max_output_length=max_output_length,
            num_executors=num_executors,
            allowed_modules=allowed_modules,
            restricted_functions=restricted_functions,
            allow_degraded=allow_degraded,
        )
        if sys.platform != "linux":
            raise SandboxUnavailable(
                f"Python snippets run confined on Linux, not on {sys.platform}"
            )
        self._layers = tuple(layers)
        self._sessions: weakref.WeakSet[PythonSession] = weakref.WeakSet()
        _EXECUTORS.add(self)
        self._report: SelfTestReport | None = None
        self._link = ZygoteLink(self.config, self._layers) if self.config.enabled else None
        self._launcher = CallLauncher(self.config, self._link)
        if self._link is not None:
            self._finalizer = weakref.finalize(self, self._link.close)
            try:
                self._link.start()
                self._report = self._self_test(self._link)
            except BaseException:
                self._link.close()
                raise

    def _self_test(self, link: ZygoteLink) -> SelfTestReport:
        """Run a call that tries each layer of confinement; return the report.

        SandboxUnavailable where one fails.
        """
        launcher, code = self._launcher, probe_code(self.config.memory_mb)
        # whatever a snippet may write
        limits = launcher.limits(30.0)._replace(max_output_length=10_000)
        try:
            child = launcher.launch(limits, policy=False)
            probe = CallInFlight(launcher.encode(code), limits, child)
        except CallNotStarted as why:
            raise SandboxUnavailable(f"the self-test could not start: {why}") from why
        wait_any({0: probe})
        result = probe.result()
        report = SelfTestReport.from_result(result, link.greeting)
        if result.status == "setup_error":  # no call would run, whatever was accepted
            raise SandboxUnavailable(f"Python snippets cannot run here: {report.failure}")
        if report.shortcomings and not self.config.allow_degraded:
            raise SandboxUnavailable(report.refusal_message())
        return report

    @property
    def places(self) -> threading.BoundedSemaphore:
        """Semaphore of running calls, held by each call."""
        return self._launcher.places

    def run(
        self, code: str, *, timeout_s: float | None = None, seed: int | None = None
    ) -> ToolResult:
        """Run one snippet and return its result.

        Waiting for a free place does not count towards its time.

        `seed` makes `random` and NumPy's unseeded streams repeatable; time and threads stay what
        they are.
        """
        return self._run_all([code], timeout_s, [seed])[0]

    def map(
        self,
        codes: Sequence[str],
        *,
        timeout_s: float | None = None,
        seeds: Sequence[int | None] | None = None,
    ) -> list[ToolResult]:
        """Run code snippets concurrently; return their results in order."""
        return self._run_all(
            list(codes), timeout_s, list(seeds) if seeds is not None else [None] * len(codes)
        )

    def session(
        self, *, timeout_s: float | None = None, max_cpu_s: float | None = None
    ) -> PythonSession:
        """Open a session of snippets that share names: `with executor.session() as session`.

        `timeout_s` limits each of its calls, `max_cpu_s` the CPU time of all together (ten times as
        much unless given). A place is held during calls only, but each session keeps up to
        `memory_mb` while it is open.
        """
        if len(self._sessions) >= MAX_SESSIONS:
            raise ValueError(f"{MAX_SESSIONS} sessions are open: close some first")
        timeout_s = self.config.timeout_s if timeout_s is None else timeout_s
        check_timeout(timeout_s, "session")
        max_cpu_s = 10 * timeout_s if max_cpu_s is None else max_cpu_s
        check_timeout(max_cpu_s / 10, "session(max_cpu_s / 10)")
        limits = self._launcher.limits(timeout_s)._replace(cpu_s=max_cpu_s)
        session = PythonSession(self._launcher, limits)
        self._sessions.add(session)
        return session

    def report(self) -> dict[str, Any]:
        """Return the report of the self-test: what the confinement holds, area by area."""
        if self._report is None:
            return {"enabled": False}
        return {**self._report.as_dict(), "notes": list(self.config.notes)}

    @property
    def zygote_pid(self) -> int | None:
        """Process id of the zygote.

        None where there is none, or it has died and no call has come since.
        """
        return self._link.pid if self._link else None

    def close(self) -> None:
        """End the zygote and all calls in flight."""
        self._launcher.closed = True
        for session in list(self._sessions):
            session.close()
        if self._link is not None:
            self._finalizer()

    def __enter__(self) -> PythonExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., PythonExecutor], tuple[Any, ...]]:
        return partial(PythonExecutor, layers=self._layers), (self.config,)

    def after_fork(self) -> None:
        """Reset what the process inherited by a fork: the parent's calls and locks."""
        self._launcher.after_fork()
        for session in list(self._sessions):
            session.after_fork()

    def _run_all(
        self, codes: list[str], timeout_s: float | None, seeds: list[int | None]
    ) -> list[ToolResult]:
        if self._launcher.closed:
            raise ValueError("this PythonExecutor is closed")
        if timeout_s is not None:
            check_timeout(timeout_s, "run")
        for seed in seeds:
            check_seed(seed)
        if len(codes) != len(seeds):
            raise ValueError(f"{len(codes)} snippets but {len(seeds)} seeds")
        launcher, results = self._launcher, dict[int, ToolResult]()
        calls: dict[int, CallInFlight] = {}
        waiting = list(reversed(range(len(codes))))
        limits = launcher.limits(timeout_s or self.config.timeout_s)
        submitted = time.perf_counter()
        try:
            while waiting or calls:
                # Wait for a place only with no call of our own to look after.
                while waiting and self.places.acquire(blocking=not calls):
                    index = waiting.pop()
                    queue_s = time.perf_counter() - submitted
                    try:
                        data, child = launcher.encode(codes[index]), launcher.launch(limits)
                        calls[index] = CallInFlight(
                            data, limits, child, seed=seeds[index], queue_s=queue_s
                        )
                    except CallNotStarted as why:
                        self.places.release()
                        results[index] = replace(why.result, queue_s=queue_s)
                    except BaseException:
                        self.places.release()
                        raise
                for index in wait_any(calls) if calls else ():
                    call = calls.pop(index)
                    results[index] = call.result()
                    self.places.release()
                    launcher.repair_zygote(call)
        finally:
            for call in calls.values():  # only where something raised
                call.close()
                self.places.release()
        return [results[index] for index in range(len(codes))]


_EXECUTORS: weakref.WeakSet[PythonExecutor] = weakref.WeakSet()


def _after_fork() -> None:
    for executor in list(_EXECUTORS):
        executor.after_fork()


os.register_at_fork(after_in_child=_after_fork)
