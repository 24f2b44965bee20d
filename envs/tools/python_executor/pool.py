"""PythonExecutor: runs confined snippets, many at once and from any thread."""

from __future__ import annotations

import errno
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from fctncalling.envs.tools.python_executor.calls import (
    CallInFlight,
    CallLimits,
    CallNotStarted,
    encode_or_deny_snippet,
    wait_any,
)
from fctncalling.envs.tools.python_executor.config import (
    ExecutorConfig,
    check_seed,
    check_timeout,
    load_config,
)
from fctncalling.envs.tools.python_executor.confinement import LAYERS
from fctncalling.envs.tools.python_executor.link import (
    ZYGOTE_DIED,
    Launch,
    SandboxUnavailable,
    ZygoteLink,
)
from fctncalling.envs.tools.python_executor.probe import SelfTestReport, probe_code
from fctncalling.envs.tools.python_executor.result import ToolResult
from fctncalling.envs.tools.python_executor.session import PythonSession, SessionChild

Launched = TypeVar("Launched", CallInFlight, SessionChild)


class CallLauncher:
    """Launcher of calls in children of a zygote."""

    def __init__(self, config: ExecutorConfig, link: ZygoteLink | None) -> None:
        self._config = config
        self.link = link
        self.closed = False  # whether further calls raise

    def limits(self, timeout_s: float) -> CallLimits:
        """Return the limits of a call: configured ones, with this time limit."""
        config = self._config
        return CallLimits(
            timeout_s, config.max_output_length, config.raw_output_bytes, config.memory_mb << 10
        )

    def start_call(
        self,
        code: str,
        timeout_s: float | None,
        seed: int | None,
        queue_s: float,
        *,
        policy: bool = True,
        max_output_length: int | None = None,
    ) -> CallInFlight:
        """Start the call of one snippet; CallNotStarted with the result of one that cannot."""
        data = encode_or_deny_snippet(code, self._config)
        if isinstance(data, ToolResult):
            raise CallNotStarted(replace(data, queue_s=queue_s))
        timeout_s = timeout_s or self._config.timeout_s
        limits = self.limits(timeout_s)
        limits = limits._replace(max_output_length=max_output_length or limits.max_output_length)
        make = partial(CallInFlight, data, limits, queue_s=queue_s)
        try:
            return self._launch(make, cpu_s=math.ceil(timeout_s) + 1, seed=seed, policy=policy)
        except CallNotStarted as why:
            raise CallNotStarted(replace(why.result, queue_s=queue_s)) from why

    def start_session(self, limits: CallLimits) -> SessionChild | ToolResult:
        """Start a session's child, or return the result of a call that cannot have one."""
        try:
            cpu_s = math.ceil(limits.cpu_s)
            return self._launch(SessionChild.start, cpu_s=cpu_s, seed=None, policy=True)
        except CallNotStarted as why:
            return why.result

    def _launch(
        self, make: Callable[[Launch], Launched], *, cpu_s: int, seed: int | None, policy: bool
    ) -> Launched:
        """Return what `make` makes of the means to launch a child.

        Raise CallNotStarted where none can be had.
        """
        link = self.link
        assert link is not None
        memory_bytes = self._config.memory_mb << 20
        launch = partial(
            link.launch, memory_bytes=memory_bytes, cpu_s=cpu_s, seed=seed, policy=policy
        )
        failure: OSError | None = None
        for _ in range(2):  # the zygote may have died between two calls: another is started, once
            if self.closed:
                raise ValueError("this PythonExecutor is closed")
            link.start()
            try:
                return make(launch)
            except OSError as error:
                failure = error
                # Ours to bear, not the zygote's doing.
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    break
                link.kill()
        raise CallNotStarted(ToolResult("setup_error", reason=f"The executor failed: {failure}"))

    def repair_zygote(self, call: CallInFlight) -> None:
        """Repair a zygote that failed a call: kill or reap it, so that another one starts."""
        if self.link is not None and call.gave_up:
            self.link.kill()
        elif self.link is not None and call.child.lost == ZYGOTE_DIED:
            self.link.reap()

    def self_test(self) -> SelfTestReport:
        """Self-test: each layer of confinement in a call; SandboxUnavailable where one fails."""
        assert self.link is not None
        code, length = probe_code(self._config.memory_mb), 10_000  # whatever a snippet may write
        try:
            probe = self.start_call(code, 30.0, None, 0.0, policy=False, max_output_length=length)
        except CallNotStarted as why:
            raise SandboxUnavailable(f"the self-test could not start: {why}") from why
        wait_any({0: probe})
        result = probe.result()
        report = SelfTestReport.from_result(result, self.link.greeting)
        if result.status == "setup_error":  # no call would run, whatever was accepted
            raise SandboxUnavailable(f"Python snippets cannot run here: {report.failure}")
        if report.shortcomings and not self._config.allow_degraded:
            raise SandboxUnavailable(report.refusal_message())
        return report


MAX_SESSIONS = 64


class PythonExecutor:
    """Executor of untrusted Python snippets, each in a confined process of its own.

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
        self.places = threading.BoundedSemaphore(self.config.max_running)
        self._sessions: weakref.WeakSet[PythonSession] = weakref.WeakSet()
        _EXECUTORS.add(self)
        self._report: SelfTestReport | None = None
        self._link = ZygoteLink(self.config, self._layers) if self.config.enabled else None
        self._launcher = CallLauncher(self.config, self._link)
        if self._link is not None:
            self._start(self._link)

    def _start(self, link: ZygoteLink) -> None:
        self._finalizer = weakref.finalize(self, link.close)
        try:
            link.start()
            self._report = self._launcher.self_test()
        except BaseException:
            link.close()
            raise

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
        """Map code snippets to results, as many at once as there are places, in order."""
        return self._run_all(
            list(codes), timeout_s, list(seeds) if seeds is not None else [None] * len(codes)
        )

    def session(
        self, *, timeout_s: float | None = None, max_cpu_s: float | None = None
    ) -> PythonSession:
        """Session, opened: snippets that share names; `with executor.session() as session`.

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
        itself: Any = self  # pyright knows this file by its folder and by its link
        session = PythonSession(itself, self._launcher.limits(timeout_s)._replace(cpu_s=max_cpu_s))
        self._sessions.add(session)
        return session

    def start_session(self, limits: CallLimits) -> SessionChild | ToolResult:
        """Start a session's child, or return the result of a call that cannot have one."""
        return self._launcher.start_session(limits)

    def report(self) -> dict[str, Any]:
        """Return the report of the self-test on what the confinement holds, area by area."""
        if self._report is None:
            return {"enabled": False}
        return {**self._report.as_dict(), "notes": list(self.config.notes)}

    @property
    def zygote_pid(self) -> int | None:
        """Zygote's pid, its process id.

        None where there is none, or it has died and no call has come since.
        """
        return self._link.pid if self._link else None

    def close(self) -> None:
        """Close the executor: end the zygote and all calls in flight."""
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
        return _rebuild, (self.config, self._layers)

    def after_fork(self) -> None:
        """Make the executor usable after a fork: forget the parent's calls and locks."""
        self.places = threading.BoundedSemaphore(self.config.max_running)
        for session in list(self._sessions):
            session.after_fork()
        if self._link is not None:
            self._link.after_fork()

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
        results: list[ToolResult | None] = [None] * len(codes)
        calls: dict[int, CallInFlight] = {}
        waiting = list(reversed(range(len(codes))))
        submitted = time.perf_counter()
        try:
            while waiting or calls:
                # Wait for a place only with no call of our own to look after.
                while waiting and self.places.acquire(blocking=not calls):
                    index = waiting.pop()
                    queue_s = time.perf_counter() - submitted
                    try:
                        calls[index] = self._launcher.start_call(
                            codes[index], timeout_s, seeds[index], queue_s
                        )
                    except CallNotStarted as why:
                        self.places.release()
                        results[index] = why.result
                    except BaseException:
                        self.places.release()
                        raise
                for index in wait_any(calls) if calls else ():
                    results[index] = self._finish(calls.pop(index))
        finally:
            for call in calls.values():  # only where something raised
                call.close()
                self.places.release()
        return [result for result in results if result is not None]

    def _finish(self, call: CallInFlight) -> ToolResult:
        result = call.result()
        self.places.release()
        self._launcher.repair_zygote(call)
        return result


_EXECUTORS: weakref.WeakSet[PythonExecutor] = weakref.WeakSet()


def _after_fork() -> None:
    for executor in list(_EXECUTORS):
        executor.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _rebuild(config: ExecutorConfig, layers: tuple[str, ...]) -> PythonExecutor:
    return PythonExecutor(config, layers=layers)
