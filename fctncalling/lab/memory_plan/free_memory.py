"""Memory of this machine, or of its container, and of this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

CGROUP = Path("/sys/fs/cgroup")


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that a process could take here, those this one holds included.

    None where the system does not tell.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    own = resident_memory()
    limits = [it + own for it in (_available(), _left_in_container()) if it is not None]
    if limits:
        return min(limits)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def resident_memory() -> int:
    """Return the bytes that this process holds now."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def _available() -> int | None:
    """Return the bytes that Linux could give without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kilobytes = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return next((1024 * int(each) for each in kilobytes), None)


def _left_in_container() -> int | None:
    """Return the bytes that a control group (version 2) leaves; None where it sets no limit."""
    try:
        limit, used = (
            (CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current")
        )
        return None if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None
