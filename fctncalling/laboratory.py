"""Laboratory: where `fctncalling.lab` lies; the core reaches it by name alone, never by import."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

LABORATORY = "fctncalling.lab"


def laboratory_folders() -> list[Path]:
    """Return the folders of the laboratory; none where it is not installed."""
    spec = find_spec(LABORATORY)
    return [Path(place) for place in spec.submodule_search_locations or ()] if spec else []


def import_laboratory_module(name: str) -> ModuleType:
    """Import a module of the laboratory; ModuleNotFoundError where it is not installed."""
    return import_module(f"{LABORATORY}.{name}")
