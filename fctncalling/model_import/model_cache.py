"""GGUF files given as models: each is converted once, to a folder in the user's cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from fctncalling.data.paths import user_cache_folder
from fctncalling.model_import.gguf_file import is_gguf, write_model_folder


def folder_of_model(name: str, on_stage: Callable[[str], None] = lambda _: None) -> str:
    """Return the folder or hub name of a model.

    The name itself, or of a GGUF file the folder that it was converted to.

    The cache knows a file by path, size and time of change. Raises ImportFailure as
    `write_model_folder` does.
    """
    if not is_gguf(name) or Path(name).is_dir():
        return name
    gguf = Path(name).expanduser().resolve()
    folder = user_cache_folder() / "models" / f"{gguf.stem}-{_fingerprint(gguf)}"
    if not folder.is_dir():
        on_stage(f"Converting {gguf.name} once, to {folder}")
        try:
            write_model_folder(gguf, folder, source={"gguf_file": str(gguf)})
        except OSError:
            if not folder.is_dir():  # else another process was quicker
                raise
    return str(folder)


def _fingerprint(gguf: Path) -> str:
    changed = (gguf.stat().st_size, gguf.stat().st_mtime_ns) if gguf.is_file() else ()
    return hashlib.sha256(repr((str(gguf), changed)).encode()).hexdigest()[:12]
