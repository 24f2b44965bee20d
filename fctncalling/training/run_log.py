"""Open the log of a run, with config.json: settings, command, machine, library versions."""

from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fctncalling
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.run.logs import NoLog, RunExistsError, RunLog
from fctncalling.training.run_config import RunConfig

if TYPE_CHECKING:
    import torch


def open_log(
    config: TrainConfig, run_config: RunConfig, folder: Path, processes: ProcessGroup
) -> RunLog:
    """Open the log of a run; of several processes only the first writes it."""
    if not processes.is_first:
        return NoLog(folder)
    described = {**dataclasses.asdict(config), **dataclasses.asdict(run_config)}
    described |= run_description(config, processes)
    resume = config.resume is not None
    try:
        return RunLog(
            folder,
            described,
            resume=resume,
            tensorboard=run_config.tensorboard,
            wandb=run_config.wandb,
        )
    except RunExistsError:
        raise
    except OSError as error:
        raise SettingError(
            f"--results_dir {config.results_dir}: cannot be written to ({error})"
        ) from error


def run_description(config: TrainConfig, processes: ProcessGroup) -> dict[str, Any]:
    """Return the description of a run in config.json, besides the settings.

    --config FILE passes over it.
    """
    return {
        "command": shlex.join(sys.argv),
        "machine": machine_info(),
        "num_processes": processes.count,
        "resolved": resolved_settings(config, processes.device),
        "versions": library_versions(),
    }


def library_versions() -> dict[str, str]:
    """Return the library versions: of this package, Python and what is used."""
    import platform
    from importlib.metadata import version

    names = ("torch", "transformers", "tokenizers", "numpy", "gymnasium")
    found = {"fctncalling": fctncalling.__version__, "commit": _commit()}
    found |= {"python": platform.python_version(), **{name: version(name) for name in names}}
    return {name: value for name, value in found.items() if value}


def _commit() -> str:
    """Return the git commit of a clone, "-dirty" behind it where files were changed.

    "" where this package is no clone, or there is no git.
    """
    root = Path(fctncalling.__file__).resolve().parents[1]
    if not (root / ".git").exists():  # else a repository that the package is installed in answers
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(
            [*command, "--exclude=*"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def machine_info() -> dict[str, Any]:
    """Return information on the machine: operating system, cores and GPUs."""
    import platform

    import torch

    devices = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    cores = os.cpu_count()
    return {"system": platform.platform(), "cores": cores, "torch_devices": devices}


def resolved_settings(config: TrainConfig, device: torch.device) -> dict[str, Any]:
    """Return the resolved settings: what "auto" and none became."""
    from fctncalling.algorithms.policy.precision import compute_dtype, weights_dtype

    names = {
        "base_dtype": weights_dtype(config, device),
        "compute_dtype": compute_dtype(config, device),
    }
    types = {name: str(dtype).removeprefix("torch.") for name, dtype in names.items()}
    return {"device": str(device), "gamma": config.discount, **types}
