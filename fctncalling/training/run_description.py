"""What a run was started with, for config.json: command, machine, versions, and what open settings
came to.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from fctncalling.algorithms.config import TrainConfig

if TYPE_CHECKING:
    import torch


def run_description(config: TrainConfig, device: torch.device) -> dict[str, Any]:
    """Return what config.json holds beside the settings."""
    return {
        "command": shlex.join(sys.argv),
        "machine": machine(),
        "resolved": resolved(config, device),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of what decides the numbers."""
    import platform
    from importlib.metadata import version

    names = ("torch", "transformers", "tokenizers", "numpy", "gymnasium")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def machine() -> dict[str, Any]:
    """Return what the numbers were computed on."""
    import platform

    import torch

    devices = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    cores = os.cpu_count()
    return {"system": platform.platform(), "cores": cores, "torch_devices": devices}


def resolved(config: TrainConfig, device: torch.device) -> dict[str, Any]:
    """Return what settings left open, "auto" or none, came to."""
    from fctncalling.algorithms.policy.precision import base_dtype, compute_dtype

    names = {
        "base_dtype": base_dtype(config, device),
        "compute_dtype": compute_dtype(config, device),
    }
    types = {name: str(dtype).removeprefix("torch.") for name, dtype in names.items()}
    return {"device": str(device), "gamma": config.discount, **types}
