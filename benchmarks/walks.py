"""Files that a reader of an iteration, an environment step and a command line passes through.

`python benchmarks/walks.py [--files]`. The reader follows a run call by call, reads a function
where it is called first, and knows it from then on; what is defined inside a function is read with
it. A file is entered where the next function to read lies in another file than its caller. Returns
are the entries beyond a file's first. Each walk is the second of its kind, so that imports and
caches have no part in it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import fctncalling
from fctncalling.cli.train import parse_command_line
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.training.prepare_run import prepare_run

ROOT = Path(fctncalling.__file__).resolve().parents[1]


class Walk:
    """Walk through the package: for each file, the calls by which a reader enters it."""

    def __init__(self) -> None:
        self.entries = defaultdict[str, list[str]](list)
        self._read = set[CodeType]()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the calls inside a with-block."""
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._read or "<locals>" in code.co_qualname:
            return
        self._read.add(code)
        if file := package_file(code.co_filename):
            caller = frame.f_back
            while caller is not None and not package_file(caller.f_code.co_filename):
                caller = caller.f_back  # torch, gymnasium or another library stands between
            if caller is None or package_file(caller.f_code.co_filename) != file:
                by = "" if caller is None else caller.f_code.co_qualname
                self.entries[file].append(f"{code.co_qualname} (by {by})")


@cache
def package_file(name: str) -> str:
    """Return the path of a source file of the package below ROOT; "" for others."""
    path = Path(name).resolve()
    inside = path.is_relative_to(ROOT) and path != Path(__file__).resolve()
    return str(path.relative_to(ROOT)) if inside and not name.startswith("<") else ""


def walks(folder: Path) -> Iterator[tuple[str, Walk]]:
    """Yield the walks, each by its name; `folder` takes the run's files."""
    words = ["--results_dir", str(folder), "--num_updates", "2"]
    config, run_config = parse_command_line(words).configs()
    with (command_line := Walk()).recorded():
        parse_command_line(words).configs()
    yield "command line of train", command_line

    env = FunctionCallingEnv()
    task = next(task for task in env.tasks if task.category == "multi_turn_base")
    step = Walk()
    for recording in (nullcontext(), step.recorded()):
        env.reset(options={"task_id": task.id})
        action = f"[{', '.join(env.ground_truth[0])}]"
        with recording:
            env.step(action)
    yield "env.step", step

    run = prepare_run(config, run_config)
    try:
        run.learn(run.collect())
        with (collect := Walk()).recorded():
            episodes = run.collect()
        with (learn := Walk()).recorded():
            run.learn(episodes)
    finally:
        run.close()
    yield "collect", collect
    yield "learn", learn
    iteration = Walk()
    for file in (*collect.entries, *learn.entries):
        iteration.entries[file] = [*collect.entries[file], *learn.entries[file]]
    yield "iteration of the default job", iteration


def main() -> None:
    """Print a line for each walk, and with --files the entries of each file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="print each file's entries too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, walk in walks(Path(folder)):
            by_count = sorted(walk.entries.items(), key=lambda item: -len(item[1]))
            files, entries = len(by_count), sum(len(calls) for _, calls in by_count)
            most, calls = by_count[0]
            print(f"{name}: {files} files, {entries - files} returns; {most} {len(calls)} times")
            for file, calls in by_count if options.files else ():
                print(f"  {len(calls)} {file}: {', '.join(calls)}")


if __name__ == "__main__":
    main()
