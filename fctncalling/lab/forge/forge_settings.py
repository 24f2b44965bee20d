"""What decides the bytes of a forged file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fctncalling.lab.forge.forge_categories import FORGED_CATEGORIES

VERSION = 3
"""Raised where the same seed gives other tasks than before."""


@dataclass(frozen=True)
class ForgeSettings:
    """The flags of a forge run, and the official files it guards against."""

    num_tasks: int
    seed: int
    categories: tuple[str, ...]
    dials: str = "official"  # or one of DIALS
    layout: str = "file"  # file, or bfcl: a folder as BFCL ships it
    official_files: Mapping[str, str] | None = None  # name -> SHA-256; None: none were there

    def counts(self) -> dict[str, int]:
        """Return how many tasks each category gets: by its share, to the number asked for."""
        return shared_out(self.num_tasks, self.categories)

    def record(self) -> dict[str, Any]:
        """Return the settings as the ledger holds them."""
        return {
            "forge_version": VERSION,
            "num_tasks": self.num_tasks,
            "seed": self.seed,
            "categories": list(self.categories),
            "dials": self.dials,
            "layout": self.layout,
            "official_files": None if self.official_files is None else dict(self.official_files),
        }


def shared_out(num_tasks: int, categories: Sequence[str]) -> dict[str, int]:
    """Return a number for each category, by the weights of FORGED_CATEGORIES."""
    weights = {name: FORGED_CATEGORIES[name].weight for name in categories}
    total = sum(weights.values())
    exact = {name: num_tasks * weight / total for name, weight in weights.items()}
    counts = {name: int(number) for name, number in exact.items()}
    by_rest = sorted(categories, key=lambda name: counts[name] - exact[name])
    for name in by_rest[: num_tasks - sum(counts.values())]:
        counts[name] += 1
    return counts
