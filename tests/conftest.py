"""Fixtures shared by all tests: the shared test data, and the count of official verdicts that were compared."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

# The same examples on every machine, however busy it is.
hypothesis.settings.register_profile("house", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("house")

# A shell's background job ignores Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    terminalreporter.write_line(f"official verdicts compared: {config.stash[_COUNTER].total}")


@pytest.fixture(scope="session")
def verdict_counter(pytestconfig: pytest.Config) -> VerdictCounter:
    """Return the session's counter; its total is printed at the end, and `.ci/run` fails where it is 0."""
    return pytestconfig.stash[_COUNTER]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of shared test data (official tasks and verdicts); skip, saying so, where it is absent."""
    root = Path(os.environ.get("FCTNCALLING_SHARED", Path(__file__).parents[2] / "shared"))
    if not (root / "bfcl").is_dir():
        pytest.skip(f"shared test data not found at {root}: set FCTNCALLING_SHARED")
    return root
