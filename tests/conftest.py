"""Fixtures shared by all tests: the shared test data, and the count of official verdicts that were
compared.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PosixPath
from typing import Any

import hypothesis
import pytest

from fctncalling.data import bfcl
from fctncalling.data.paths import official_data_folder

# The same examples on every machine, however busy it is; `make prove` draws new ones, and more.
hypothesis.settings.register_profile(
    "fast", deadline=None, derandomize=True, print_blob=True, max_examples=25
)
hypothesis.settings.register_profile("prove", deadline=None, print_blob=True, max_examples=300)
hypothesis.settings.load_profile("fast")

# Libraries and syntax trees are large and stay: looking through them took a fifth of some tests.
gc.set_threshold(50_000, 20, 20)

# A shell's background job ignores Ctrl-C, and one under nohup a closed terminal: so would every
# process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass
class VerdictCounter:
    """How many of BFCL's recorded verdicts this session has compared with ours."""

    total: int = 0

    def add(self, count: int) -> None:
        """Count `count` more verdicts as compared."""
        self.total += count


_COUNTER = pytest.StashKey[VerdictCounter]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COUNTER] = VerdictCounter()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the count of a worker (`pytest -n`) to the process that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["verdicts"] = session.config.stash[_COUNTER].total


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Add the count of a worker that ended; one that crashed has none."""
    node.config.stash[_COUNTER].add(getattr(node, "workeroutput", {}).get("verdicts", 0))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    reasons = Counter(_skip_reason(report) for report in terminalreporter.stats.get("skipped", []))
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"skipped {number}: {reason}")
    terminalreporter.write_line(f"official verdicts compared: {config.stash[_COUNTER].total}")


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    told = report.longrepr
    text = told[2] if isinstance(told, tuple) else str(told)
    return text.removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def verdict_counter(pytestconfig: pytest.Config) -> VerdictCounter:
    """Return the session's counter; its total is printed at the end, and `.ci/run` fails where it
    is 0.
    """
    return pytestconfig.stash[_COUNTER]


OFFICIAL_TASKS = "needs official tasks: `fctncalling import-bfcl` gets them"
SHARED_TABLES = "needs the shared tables: FCTNCALLING_SHARED names their folder"


class SharedFolder(PosixPath):
    """The folder of shared test data; asking for a part that is not here skips the test, naming
    what it needs.

    Where there is none, `bfcl/data` is a link to the tasks that `import-bfcl` got.
    """

    def __truediv__(self, key: str | os.PathLike[str]) -> Path:  # type: ignore[override]
        path = Path(str(self), key)
        words = path.parts[len(self.parts) :]
        part = Path(str(self), *words[: 2 if words[0] == "bfcl" else 1])
        if words[-1] != "bfcl" and not part.exists():
            pytest.skip(OFFICIAL_TASKS if part.name == "data" else SHARED_TABLES)
        return SharedFolder(path) if path.name == "bfcl" else path


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of shared test data (official tasks and verdicts), or one with the imported
    tasks alone.
    """
    root = Path(os.environ.get("FCTNCALLING_SHARED", Path(__file__).parents[2] / "shared"))
    if (root / "bfcl").is_dir():
        os.environ.setdefault("FCTNCALLING_SHARED", str(root))  # what a test starts reads it, too
        return SharedFolder(root)
    root = tmp_path_factory.mktemp("shared")
    (root / "bfcl").mkdir()
    if official_data_folder().is_dir():
        (root / "bfcl" / "data").symlink_to(official_data_folder())
    return SharedFolder(root)


@pytest.fixture(autouse=True, scope="session")
def _embedded_tasks_read_once() -> Iterator[None]:
    """Read each file of embedded tasks once: the 6,400 for training take a second."""
    read = bfcl._read
    tasks = cache(lambda path, own: list(read(path, None, None, own)))

    def read_once(path: str | Path, answers: Any, docs: Any, own: Collection[str]) -> Iterator[Any]:
        if answers is None and docs is None and Path(path).parent == bfcl.EMBEDDED:
            return iter(tasks(str(path), frozenset(own)))
        return read(path, answers, docs, own)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bfcl, "_read", read_once)
        yield


@pytest.fixture(autouse=True)
def _own_modules_of_one_test() -> Iterator[None]:
    """Forget the modules of a test's own folder: commands put that on Python's path."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("my_tools", "my_reward", "my_rewards"):
        sys.modules.pop(name, None)
