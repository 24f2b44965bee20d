"""The torch device that --device names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fctncalling.algorithms.config.config_fields import SettingError

if TYPE_CHECKING:
    import torch


def resolve_device(name: str) -> torch.device:
    """Return the device that --device names.

    SettingError where this machine has none of that kind.
    """
    import torch

    present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(kind for kind, there in present.items() if there)
    if not present.get(name, False):
        there = ", ".join(kind for kind, is_there in present.items() if is_there)
        raise SettingError(
            f'--device: got "{name}", but torch {torch.__version__} finds only {there} here; or '
            "use auto"
        )
    return torch.device(name)
