"""LoRA versions published to a vLLM server.

Every version gets a new name and a new folder: the server caches by name, so a reused one would be
served from caches of other weights, unnoticed.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from fctncalling.algorithms.policy.lora import ACTOR, Adapters
from fctncalling.algorithms.vllm.client import VllmClient

NUM_SERVED = 2  # requests with the previous version may still be under way


class Version(NamedTuple):
    """Published adapter of one update."""

    number: int
    name: str
    folder: Path


class PublishedAdapters:
    """Writes versions below `folder`, which the server reads too, and has them served; `KEPT` of
    them stay.
    """

    def __init__(self, server: VllmClient, folder: Path) -> None:
        self.server = server
        self.folder = folder.resolve()
        self._run = uuid4().hex[
            :8
        ]  # of this process: a resumed run goes over the same numbers with other weights
        self._versions: list[Version] = []
        self._lock = threading.Lock()
        server.on_missing_model = self.republish

    def publish(self, adapters: Adapters, number: int) -> str:
        """Publish the current adapter unless it is already; return its name on the server.

        number: updates so far.
        """
        if self._versions and self._versions[-1].number == number:
            return self._versions[-1].name
        name = f"policy-{self._run}-{number}"
        version = Version(number, name, self.folder / name)
        version.folder.mkdir(parents=True)
        adapters.peft.save_pretrained(
            str(version.folder), selected_adapters=[ACTOR], save_embedding_layers=False
        )
        self.server.load_adapter(name, str(version.folder))
        self._versions.append(version)
        for old in self._versions[:-NUM_SERVED]:
            self._drop(old)
        self._versions = self._versions[-NUM_SERVED:]
        return name

    def republish(self, name: str) -> None:
        """Load a version again, for a server that was restarted."""
        # One thread at a time: for all but the first, the server has it already.
        with self._lock:
            for version in self._versions:
                if version.name == name:
                    self.server.load_adapter(name, str(version.folder))

    def close(self) -> None:
        """Unload all versions from the server and remove their folders."""
        for version in self._versions:
            self._drop(version)
        self._versions = []

    def _drop(self, version: Version) -> None:
        self.server.unload_adapter(version.name)
        shutil.rmtree(version.folder, ignore_errors=True)
