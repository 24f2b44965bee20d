"""Notes to the user on standard output, printed by the first of several processes alone."""

from __future__ import annotations

import os


def is_first_process() -> bool:
    """Whether this is the only process, or the first that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def announce(*lines: str) -> None:
    """Print lines at once in the first process; nothing in the others."""
    if is_first_process() and lines:
        print(*lines, sep="\n", flush=True)
