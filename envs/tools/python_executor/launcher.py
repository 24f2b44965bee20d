"""CallLauncher: starts the children of one backend, and restarts a dead zygote."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from fctncalling.envs.tools.python_executor.calls import (
    CallInFlight,
    Limits,
    NotStarted,
    encoded,
    wait_any,
)
from fctncalling.envs.tools.python_executor.children import ZYGOTE_DIED, Launch
from fctncalling.envs.tools.python_executor.config import ExecutorConfig
from fctncalling.envs.tools.python_executor.fresh import FreshLink
from fctncalling.envs.tools.python_executor.link import SandboxUnavailable, ZygoteLink
from fctncalling.envs.tools.python_executor.probe import Report, probe_code
from fctncalling.envs.tools.python_executor.result import ToolResult
from fctncalling.envs.tools.python_executor.session import SessionChild

Launched = TypeVar("Launched", CallInFlight, SessionChild)


class CallLauncher:
    """Launches children over a link; what cannot be launched has a result too."""

    def __init__(self, config: ExecutorConfig, link: ZygoteLink | FreshLink | None) -> None:
        self._config = config
        self.link = link
        self.closed = False  # whether further calls raise

    def limits(self, timeout_s: float) -> Limits:
        """Return the limits of one call."""
        config = self._config
        return Limits(
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
        """Launch one snippet; raises NotStarted with the result of one that cannot be."""
        data = encoded(code, self._config)
        if isinstance(data, ToolResult):
            raise NotStarted(replace(data, queue_s=queue_s))
        timeout_s = timeout_s or self._config.timeout_s
        limits = self.limits(timeout_s)
        limits = limits._replace(max_output_length=max_output_length or limits.max_output_length)
        make = partial(CallInFlight, data, limits, queue_s=queue_s)
        try:
            return self._launch(make, cpu_s=math.ceil(timeout_s) + 1, seed=seed, policy=policy)
        except NotStarted as why:
            raise NotStarted(replace(why.result, queue_s=queue_s)) from why

    def start_session(self, limits: Limits) -> SessionChild | ToolResult:
        """Launch the child of a session, or return the result of a call that cannot have one."""
        try:
            cpu_s = math.ceil(limits.cpu_s)
            return self._launch(SessionChild.start, cpu_s=cpu_s, seed=None, policy=True)
        except NotStarted as why:
            return why.result

    def _launch(
        self, make: Callable[[Launch], Launched], *, cpu_s: int, seed: int | None, policy: bool
    ) -> Launched:
        """Return what `make` makes of the means to launch a child.

        Raise NotStarted where none can be had.
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
        raise NotStarted(ToolResult("setup_error", reason=f"The executor failed: {failure}"))

    def mend(self, call: CallInFlight) -> None:
        """Kill or bury a zygote that failed a call; the next call boots another."""
        if self.link is not None and call.gave_up:
            self.link.kill()
        elif isinstance(self.link, ZygoteLink) and call.child.lost == ZYGOTE_DIED:
            self.link.bury()

    def self_test(self) -> Report:
        """Try every layer in a call; raises SandboxUnavailable where one does not hold."""
        assert self.link is not None
        code, length = probe_code(self._config.memory_mb), 10_000  # whatever a snippet may write
        try:
            probe = self.start_call(code, 30.0, None, 0.0, policy=False, max_output_length=length)
        except NotStarted as why:
            raise SandboxUnavailable(f"the self-test could not start: {why}") from why
        wait_any({0: probe})
        result = probe.result()
        report = Report.of(result, self.link.greeting)
        if result.status == "setup_error":  # no call would run, whatever was accepted
            raise SandboxUnavailable(f"Python snippets cannot run here: {report.failure}")
        if report.shortcomings and not self._config.allow_degraded:
            raise SandboxUnavailable(report.refusal())
        return report
