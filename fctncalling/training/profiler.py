"""Profiler: time table and torch trace."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.rollout import thread_pool
from fctncalling.algorithms.rollout.async_pool import AsyncEnvPool
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.tools.box.toolbox import ToolBox
from fctncalling.training.training_run import TrainingRun

TRACED = 2  # the update whose trace is written, where there are as many: the first one warms caches


@contextmanager
def profiling(run: TrainingRun, wanted: bool) -> Iterator[None]:
    """Write profile/trace.json.gz and profile/table.txt of what a run does in here, and print the
    table.

    The functions that are timed are wrapped from outside and only here: a run without a profile
    pays nothing for it.
    """
    if not wanted:
        yield
        return
    folder = run.log.folder / "profile"
    folder.mkdir(exist_ok=True)
    profile = Profiler(run, folder)
    with profile.installed():
        yield
    table = profile.table()
    (folder / "table.txt").write_text(table, encoding="utf-8")
    print(
        f"\n{table}\nTrace of update {profile.traced}, for chrome://tracing or ui.perfetto.dev: "
        f"{folder}"
    )


class Profiler:
    """Seconds by what they went to, while a run collects and learns."""

    def __init__(self, run: TrainingRun, folder: Path) -> None:
        self._run = run
        self._folder = folder
        self.traced = min(run.counters.updates + TRACED, run.config.num_updates)
        self._trace: Any = None
        self._seconds: dict[str, float] = {}
        self._calls: dict[str, int] = {}
        self._total = 0.0
        self._updates = 0
        self._lock = threading.Lock()
        self._counts = False  # whether what is timed now goes into the table

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Time the parts of a run."""
        with ExitStack() as stack:
            for owner, name, part, clock in (
                (GenerationEngine, "_join", "prefill", time.perf_counter),
                (GenerationEngine, "_step", "decode", time.perf_counter),
                (AsyncEnvPool, "answers", "wait", time.perf_counter),
                (thread_pool, "call_env", "environment", time.thread_time),
                (ToolSession, "execute", "tools", time.thread_time),
                (ToolSession, "execute", "tools' time", time.perf_counter),
                (ToolBox, "call", "tools", time.thread_time),
                (ToolBox, "call", "tools' time", time.perf_counter),
            ):
                timed: Any = self._timed(getattr(owner, name), part, clock)
                stack.enter_context(patch.object(owner, name, timed))
            stack.enter_context(
                patch.object(self._run, "collect", self._collecting(self._run.collect))
            )
            stack.enter_context(patch.object(self._run, "learn", self._learning(self._run.learn)))
            yield

    def table(self) -> str:
        """Return one screen: what each part took of the time of collecting and learning."""
        took, wall = self._seconds.get, max(self._total, 1e-9)
        tools = took("tools", 0.0)
        environment = took("environment", 0.0) - tools
        parts = {
            "prefill": (took("prefill", 0.0), "prefill", "reading prompts and answers into caches"),
            "decode": (took("decode", 0.0), "decode", "a token for each running episode, a call"),
            "environment": (
                environment,
                "environment",
                "resets and steps without tools, in all threads",
            ),
            "tools": (tools, "tools", "computing of the tools, in all threads"),
            "update": (took("update", 0.0), "update", "learning and its metrics"),
            "idle": (
                max(0.0, took("wait", 0.0) - environment - tools),
                "wait",
                "nothing of ours was running",
            ),
        }
        parts["rest"] = (
            max(0.0, wall - sum(seconds for seconds, *_ in parts.values())),
            "",
            "everything else",
        )
        lines = [f"Where {wall:.2f} s of collecting and learning went, {self._updates} updates:"]
        lines += [f"{'':12} {'seconds':>9} {'share':>6} {'calls':>8}"]
        for name, (seconds, counted, note) in parts.items():
            calls = self._calls.get(counted, "")
            lines.append(f"{name:12} {seconds:9.3f} {seconds / wall:6.1%} {calls:>8}  {note}")
        waiting = took("tools' time", 0.0)
        return "\n".join(
            [
                *lines,
                f"Tools took {waiting:.3f} s, their own waiting included, beside the rest.",
                "",
            ]
        )

    def _timed(
        self, function: Callable[..., Any], part: str, clock: Callable[[], float]
    ) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **keywords: Any) -> Any:
            started = clock()
            try:
                return function(*args, **keywords)
            finally:
                self._count(part, clock() - started)

        return timed

    def _count(self, part: str, seconds: float) -> None:
        if self._counts:
            with self._lock:
                self._seconds[part] = self._seconds.get(part, 0.0) + seconds
                self._calls[part] = self._calls.get(part, 0) + 1

    def _collecting(self, collect: Callable[..., Any]) -> Callable[..., Any]:
        def collecting(*args: Any) -> Any:
            import torch

            number = self._run.counters.updates + 1
            if number == self.traced:
                self._trace = torch.profiler.profile()
                self._trace.start()
            self._counts = number != self.traced or self._run.config.num_updates < TRACED
            started = time.perf_counter()
            episodes = collect(*args)
            self._total += self._counts * (time.perf_counter() - started)
            return episodes

        return collecting

    def _learning(self, learn: Callable[..., Any]) -> Callable[..., Any]:
        def learning(*args: Any) -> Any:
            started = time.perf_counter()
            metrics = learn(*args)
            seconds = time.perf_counter() - started
            self._count("update", seconds)
            self._total += self._counts * seconds
            self._updates += self._counts
            self._counts = False
            if self._trace is not None:
                self._trace.stop()
                self._trace.export_chrome_trace(str(self._folder / "trace.json.gz"))
                self._trace = None
            return metrics

        return learning
