"""Libraries of the extra `train` that a command met and that are not installed."""

from __future__ import annotations

TRAIN = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "accelerate",
    "peft",
    "tensorboard",
    "matplotlib",
    "rich",
    "tqdm",
    "yaml",
)
"""Import names of the extra's libraries; the package alone installs none of them."""


def missing_library(error: ModuleNotFoundError) -> str | None:
    """Return what is missing and how to install it; None where it is no library of the extra."""
    library = (error.name or "").partition(".")[0]
    if library not in TRAIN:
        return None
    return f"this command needs the library {library}: pip install 'fctncalling[train]'"
