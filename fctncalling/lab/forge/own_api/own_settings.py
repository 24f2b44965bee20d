"""What decides the bytes of a file forged from an own API."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fctncalling.lab.forge.own_api.own_entries import OWN_CATEGORIES
from fctncalling.lab.own_api.api import OwnApi

OWN_VERSION = 2
"""Raised where the same seed gives other tasks than before."""


@dataclass(frozen=True)
class OwnForgeSettings:
    """The flags of a run, and hashes of what it reads."""

    num_tasks: int
    seed: int
    categories: tuple[str, ...]
    api: OwnApi
    files: tuple[tuple[str, Path | None], ...] = ()  # flag -> file
    held_out: bool = False
    layout: str = "file"

    def counts(self) -> dict[str, int]:
        """Return how many tasks each category gets."""
        total = sum(OWN_CATEGORIES[name] for name in self.categories)
        shares = {name: self.num_tasks * OWN_CATEGORIES[name] / total for name in self.categories}
        counts = {name: int(share) for name, share in shares.items()}
        by_rest = sorted(counts, key=lambda name: counts[name] - shares[name])
        for name in by_rest[: self.num_tasks - sum(counts.values())]:
            counts[name] += 1
        return counts

    def record(self) -> dict[str, Any]:
        """Return the settings as the ledger holds them."""
        docs = [[doc.name, doc.description, doc.parameters] for doc in self.api.functions]
        read = [docs, list(self.api.scenarios)]
        text = json.dumps(read, sort_keys=True, default=str)
        return {
            "own_version": OWN_VERSION,
            "api": self.api.source,
            "api_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "num_tasks": self.num_tasks,
            "seed": self.seed,
            "categories": list(self.categories),
            "held_out": self.held_out,
            **{flag: None if path is None else _hash(path) for flag, path in self.files},
        }


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
