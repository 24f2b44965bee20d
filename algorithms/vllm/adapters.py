"""LoRA versions published to vLLM servers.

Every version gets a new name and a new folder: a server caches by name, so a reused one would be
served from caches of other weights, unnoticed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from fctncalling.algorithms.policy.lora import ACTOR, Adapters
from fctncalling.algorithms.vllm.client import Completion, VllmClient
from fctncalling.algorithms.vllm.servers import VllmServers

NUM_SERVED = 2  # requests with the previous version may still be under way


class Version(NamedTuple):
    """Published adapter of one update."""

    number: int
    name: str
    folder: Path


class PublishedAdapters:
    """Writes versions below `folder`, which the servers read too, and has them served.

    The last `NUM_SERVED` of them stay.
    """

    def __init__(self, servers: VllmServers, folder: Path) -> None:
        self.servers = servers
        self.folder = folder.resolve()
        self._run = uuid4().hex[
            :8
        ]  # of this process: a resumed run goes over the same numbers with other weights
        self._versions: list[Version] = []
        servers.publication = self

    @property
    def versions(self) -> list[Version]:
        """Versions served now, oldest first."""
        return list(self._versions)

    def publish(self, adapters: Adapters, number: int) -> str:
        """Publish the current adapter unless it is already; return its name on the servers.

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
        dropped = self._versions[: 1 - NUM_SERVED]
        self.servers.update(lambda: self.adopt([*self._versions, version][-NUM_SERVED:]))
        for old in dropped:
            self._drop(old)
        return name

    def adopt(self, versions: Sequence[Version]) -> None:
        """Serve these versions, which a process has written."""
        self._versions = list(versions)

    def prepare(self, client: VllmClient) -> None:
        """Load the versions into a server; those that it has already stay."""
        for version in self._versions:
            client.load_adapter(version.name, str(version.folder))

    def complete(
        self, client: VllmClient, version: str, prompt: Sequence[int], **sampling: Any
    ) -> Completion:
        """Sample with a version of the adapter, by its name."""
        return client.complete(version, prompt, **sampling)

    def model_name(self, client: VllmClient, version: str) -> str:
        """Return what a request names the model by."""
        return version

    def close(self) -> None:
        """Unload all versions from the servers and remove their folders."""
        for version in self._versions:
            self._drop(version)
        self._versions = []

    def _drop(self, version: Version) -> None:
        for client in self.servers.ready_clients():
            client.unload_adapter(version.name)
        shutil.rmtree(version.folder, ignore_errors=True)
