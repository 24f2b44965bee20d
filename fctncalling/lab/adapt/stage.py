"""Stages of an adaptation: one process each, finished once its folder has its final name.

A stage works in `.NAME.part`; what it ends with is renamed to NAME. A killed command leaves the
part, and the stage's own command goes on from it. The process ends with this one.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fctncalling.lab.adapt.adapt_settings import AdaptError

COST_FILE = "cost.json"
INTERRUPTED = 130
KILLED = -signal.SIGKILL
CUT_SHORT = "out of minutes"  # how notes on stages that were ended early begin
GRACE_S = 300.0  # at most, for a stage that is told to end: an update under way is finished
_PR_SET_PDEATHSIG = 1
Work = Callable[[Path], int]
"""What a stage does in its folder; returns an exit code."""


@dataclass(frozen=True)
class StageCost:
    """Time and memory that a stage took."""

    cpu_seconds: float
    wall_seconds: float
    peak_memory_gb: float
    cut_short: bool = False
    killed: bool = False  # with a deadline, before it: from outside, as where memory runs out


class Stages:
    """Stages of one output folder, in order."""

    def __init__(self, folder: Path, begun: float | None = None, grace_s: float = GRACE_S) -> None:
        self.folder = folder
        self._grace_s = min(grace_s, GRACE_S)
        self.costs: dict[str, StageCost] = {}
        self._begun = time.monotonic() if begun is None else begun
        self._earlier_s = 0.0  # of stages that a former command finished

    def path(self, name: str) -> Path:
        """Return a finished stage's folder."""
        return self.folder / name

    def run(
        self,
        name: str,
        work: Work,
        *,
        deadline: float | None = None,
        grace_s: float | None = None,
    ) -> Path:
        """Run a stage unless it is finished; return its folder.

        At `deadline` (of time.monotonic) it is told to end with what it has, and killed `grace_s`
        later; what a killed one had counts too. AdaptError where it fails, KeyboardInterrupt where
        the user ends it.
        """
        final, part = self.path(name), self.folder / f".{name}.part"
        is_new = not final.is_dir()
        if is_new:
            print(f"== {name}", file=sys.stderr, flush=True)
            part.mkdir(parents=True, exist_ok=True)
            grace_s = self._grace_s if grace_s is None else grace_s
            cost, code = _in_process(work, part, deadline, grace_s)
            if code == KILLED and deadline is not None and not cost.cut_short:
                cost = replace(cost, cut_short=True, killed=True)
            if code and not (cost.cut_short and code in (INTERRUPTED, KILLED)):
                raise AdaptError(f"stage {name} ended with exit code {code}; its lines are above")
            (part / COST_FILE).write_text(json.dumps(asdict(cost)), encoding="utf-8")
            part.rename(final)
        known = name in self.costs
        self.costs[name] = StageCost(**json.loads((final / COST_FILE).read_text(encoding="utf-8")))
        if not is_new and not known:
            self._earlier_s += self.costs[name].wall_seconds
        return final

    def reopen(self, name: str) -> None:
        """Mark a finished stage as unfinished, so that the next command goes on with it."""
        self.path(name).rename(self.folder / f".{name}.part")
        del self.costs[name]

    @property
    def wall_seconds(self) -> float:
        """The time since the start, and that of the stages that a former command finished."""
        return self._earlier_s + time.monotonic() - self._begun


def _in_process(
    work: Work, part: Path, deadline: float | None, grace_s: float
) -> tuple[StageCost, int]:
    """Run a stage's work in a forked process; return its cost and exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    started, parent = time.monotonic(), os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _end_with(parent)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it
            code = work(part)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except AdaptError as error:
            print(f"error: {error}", file=sys.stderr)
            code = 2
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 2
        except BaseException as error:
            import traceback

            traceback.print_exception(error)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    status, usage, cut_short = _awaited(child, deadline, grace_s)
    cpu = usage.ru_utime + usage.ru_stime
    unit = 1e9 if sys.platform == "darwin" else 1e6
    cost = StageCost(
        round(cpu, 3), round(time.monotonic() - started, 3), usage.ru_maxrss / unit, cut_short
    )
    return cost, os.waitstatus_to_exitcode(status)


def _awaited(child: int, deadline: float | None, grace_s: float) -> tuple[int, Any, bool]:
    told = False
    while True:
        try:
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if ended:
                return status, usage, told
            late = deadline is not None and time.monotonic() > deadline
            if late and not told:
                told = True
                os.kill(child, signal.SIGINT)
            elif late and deadline is not None and time.monotonic() > deadline + grace_s:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.05)
        except KeyboardInterrupt:  # the terminal told the child too
            _, status, usage = os.wait4(child, 0)
            raise


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay a stage's termination signal until the end of the block."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with(parent: int) -> None:
    """Kill this process when its parent dies, so that a resumed command never meets it (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
