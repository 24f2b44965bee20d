"""Paths of embedded and official data."""

from __future__ import annotations

import os
from pathlib import Path

import fctncalling.data


def is_source_checkout() -> bool:
    """Whether the package runs from its source tree, where data may be written beside the code."""
    return (_room().parent / "setup.py").is_file()


def official_data_folder() -> Path:
    """Return the folder `import-bfcl` writes to unless told otherwise.

    Never one of installed packages.
    """
    return _room() / "bfcl" if is_source_checkout() else user_data_folder()


def user_data_folder() -> Path:
    """Return the user's folder for official data (XDG_DATA_HOME, or ~/.local/share).

    It need not exist.
    """
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "fctncalling" / "bfcl"


def user_cache_folder() -> Path:
    """Return the user's cache folder (XDG_CACHE_HOME, or ~/.cache), existing or not."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fctncalling"


def _room() -> Path:
    return Path(str(fctncalling.data.__file__)).resolve().parent
