"""Profiler: time table and torch trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.data.timing import listen_to_timings

if TYPE_CHECKING:
    from fctncalling.training.training_run import TrainingRun


TRACED = 2  # the update whose trace is written, where there are as many: the first one warms caches


@contextmanager
def run_profiler(run: TrainingRun) -> Iterator[Profiler]:
    """Yield the profiler for the loop of a run.

    At the end write profile/trace.json.gz and profile/table.txt, and print the table.

    The parts are measured by the hooks of `data/timing.py` and only here: a run without a profile
    pays one comparison a call.
    """
    folder = run.log.folder / "profile"
    folder.mkdir(exist_ok=True)
    profiler = Profiler(run, folder)
    with listen_to_timings(profiler.add_time):
        yield profiler
    table = profiler.table()
    (folder / "table.txt").write_text(table, encoding="utf-8")
    print(
        f"\n{table}\nTrace of update {profiler.traced}, for chrome://tracing or ui.perfetto.dev: "
        f"{folder}"
    )


class Profiler:
    """Wall time per phase of collecting and learning."""

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

    def add_time(self, part: str, wall_s: float, cpu_s: float) -> None:
        """Count one call of a part.

        Environments and tools, which run in threads, by the time they compute.

        What tools took with their own waiting is a line beside the table.
        """
        self._count(part, cpu_s if part in ("environment", "tools") else wall_s)
        if part == "tools":
            self._count("tools' time", wall_s)

    @contextmanager
    def time_collection(self) -> Iterator[None]:
        """Time the collection of one update; begins the trace if this is the traced one."""
        import torch

        number = self._run.counters.updates + 1
        if number == self.traced:
            self._trace = torch.profiler.profile()
            self._trace.start()
        self._counts = number != self.traced or self._run.config.num_updates < TRACED
        started = time.perf_counter()
        yield
        self._total += self._counts * (time.perf_counter() - started)

    @contextmanager
    def time_learning(self) -> Iterator[None]:
        """Time the learning of one update; ends the trace."""
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self._count("update", seconds)
        self._total += self._counts * seconds
        self._updates += self._counts
        self._counts = False
        if self._trace is not None:
            self._trace.stop()
            self._trace.export_chrome_trace(str(self._folder / "trace.json.gz"))
            self._trace = None

    def table(self) -> str:
        """Return a table of the time shares of each part of collecting and learning."""
        took, wall = self._seconds.get, max(self._total, 1e-9)
        tools, token_files = took("tools", 0.0), took("token files", 0.0)
        environment = took("environment", 0.0) - tools
        idle = max(0.0, took("wait", 0.0) - environment - tools)
        without_tools = "resets and steps without tools, in all threads"
        parts = {
            "prefill": (took("prefill", 0.0), "prefill", "reading prompts and answers into caches"),
            "decode": (took("decode", 0.0), "decode", "a token for each running episode, a call"),
            "environment": (environment, "environment", without_tools),
            "tools": (tools, "tools", "computing of the tools, in all threads"),
            "update": (took("update", 0.0) - token_files, "update", "learning and its metrics"),
            "tokens": (token_files, "token files", "writing token files"),
            "idle": (idle, "wait", "nothing of ours was running"),
        }
        rest = max(0.0, wall - sum(seconds for seconds, *_ in parts.values()))
        parts["rest"] = (rest, "", "everything else")
        lines = [f"Where {wall:.2f} s of collecting and learning went, {self._updates} updates:"]
        lines += [f"{'':12} {'seconds':>9} {'share':>6} {'calls':>8}"]
        for name, (seconds, counted, note) in parts.items():
            calls = self._calls.get(counted, "")
            lines.append(f"{name:12} {seconds:9.3f} {seconds / wall:6.1%} {calls:>8}  {note}")
        waiting = took("tools' time", 0.0)
        beside = f"Tools took {waiting:.3f} s, their own waiting included, beside the rest."
        return "\n".join([*lines, beside, ""])

    def _count(self, part: str, seconds: float) -> None:
        if self._counts:
            with self._lock:
                self._seconds[part] = self._seconds.get(part, 0.0) + seconds
                self._calls[part] = self._calls.get(part, 0) + 1
