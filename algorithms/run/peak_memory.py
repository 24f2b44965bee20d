"""Peak memory of a run, for its timings."""

from __future__ import annotations

import sys


def peak_memory() -> dict[str, float | None]:
    """Return the peak memory in GB of this process, and of tensors on its CUDA device."""
    import torch

    on_device = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else None
    return {"perf/peak_mem_gb": peak_memory_gb()} | (
        {"perf/peak_cuda_mem_gb": on_device} if on_device else {}
    )


def peak_memory_gb() -> float | None:
    """Return the peak resident size of this process in GB; None on systems without `resource`."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)
