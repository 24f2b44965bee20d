"""Versions of a whole model's weights, loaded into running vLLM servers from a shared folder.

A server holds one version at a time, under one model name. So each load leaves a name of its own on
the server (`/update_weight_version`), which is read again after every completion: a server that was
started again, or loaded by someone else, is noticed, and its answer thrown away.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from fctncalling.algorithms.generation.engine_api import EngineError, RolloutError
from fctncalling.algorithms.vllm.client import Completion, MissingModelError, VllmClient
from fctncalling.algorithms.vllm.servers import VllmServers


class WeightsVersion(NamedTuple):
    """Weights of one update, with log-probabilities of a fixed text for checking a server."""

    number: int
    name: str
    folder: Path
    text: tuple[int, ...]  # token ids
    logprobs: tuple[float, ...]  # of all of them but the first, by training's forward


class PublishedWeights:
    """Writes versions below `folder`, which the servers read too, and has them loaded.

    tolerance: mean absolute difference, in nats, between the server's log-probabilities of the
    fixed text and training's, above which a server is refused.
    """

    def __init__(self, servers: VllmServers, folder: Path, *, tolerance: float) -> None:
        self.servers = servers
        self.folder = folder.resolve()
        self.tolerance = tolerance
        self._run = uuid4().hex[:8]
        self._versions: list[WeightsVersion] = []  # one, the newest
        self._loaded: dict[str, str] = {}  # a server's address -> what it calls its weights
        self._models: dict[str, str] = {}  # a server's address -> the name of its model
        servers.publication = self

    @property
    def versions(self) -> list[WeightsVersion]:
        """Versions served now: none before the first, then the newest."""
        return list(self._versions)

    def new_folder(self, number: int) -> Path:
        """Return the folder to write the weights after `number` updates to, for `publish`."""
        part = self.folder / f".weights-{self._run}-{number}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        return part

    def publish(
        self, written: Path, number: int, text: Sequence[int], logprobs: Sequence[float]
    ) -> str:
        """Load the weights in a folder of `new_folder` into all servers; return their name.

        RolloutError where a server does not take them, or tells other log-probabilities.
        """
        name = f"weights-{self._run}-{number}"
        final = self.folder / name
        written.rename(final)
        old = self._versions
        version = WeightsVersion(number, name, final, tuple(text), tuple(logprobs))
        self.servers.update(lambda: self.adopt([version]))
        for each in old:
            shutil.rmtree(each.folder, ignore_errors=True)
        return name

    def adopt(self, versions: Sequence[WeightsVersion]) -> None:
        """Serve this version, which a process has written."""
        self._versions = list(versions)

    def prepare(self, client: VllmClient) -> None:
        """Load the newest version into a server that lacks it, and compare log-probabilities."""
        version = self._versions[-1]
        self._models[client.url] = client.models()[0]
        found = client.weights_version()
        if not found.startswith(f"{version.name}#"):
            found = f"{version.name}#{uuid4().hex[:8]}"
            client.load_weights(str(version.folder), found)
            self._check_logprobs(client, version)
        self._loaded[client.url] = found

    def complete(
        self, client: VllmClient, version: str, prompt: Sequence[int], **sampling: Any
    ) -> Completion:
        """Sample with a version.

        MissingModelError where the server holds, or held meanwhile, other weights.
        """
        if version != self._versions[-1].name:
            raise EngineError(f"{version} was replaced by {self._versions[-1].name} meanwhile")
        loaded = self._loaded.get(client.url, "")
        if not loaded.startswith(f"{version}#"):
            loaded = self._recognised(client, version)
        completion = client.complete(self._models[client.url], prompt, **sampling)
        if (found := client.weights_version()) != loaded:
            raise MissingModelError(f"{client.url} holds {found}, expected {loaded}")
        return completion._replace(version=version)

    def close(self) -> None:
        """Remove the folders; the servers go on with the weights they hold."""
        for version in self._versions:
            shutil.rmtree(version.folder, ignore_errors=True)

    def model_name(self, client: VllmClient, version: str) -> str:
        """Return what a request names the model by."""
        return self._models[client.url]

    def _recognised(self, client: VllmClient, version: str) -> str:
        """Return what a server calls the version that another process has loaded into it."""
        found = client.weights_version()
        if not found.startswith(f"{version}#"):
            raise MissingModelError(f"{client.url} holds {found}, expected {version}")
        self._models[client.url] = client.models()[0]
        self._loaded[client.url] = found
        return found

    def _check_logprobs(self, client: VllmClient, version: WeightsVersion) -> None:
        """Raise RolloutError if the server's log-probabilities of a fixed text differ from ours."""
        served = client.prompt_logprobs(self._models[client.url], version.text)
        pairs = list(zip(served, version.logprobs, strict=True))
        mean = sum(abs(one - other) for one, other in pairs) / len(pairs)
        if not mean <= self.tolerance:
            raise RolloutError(
                f"{client.url}: with the weights of update {version.number} its log-probabilities "
                f"differ from training's by {mean:.2g} nats a token, expected at most "
                f"{self.tolerance:g}. Does it serve this model, in this precision (--dtype)? "
                "--vllm_logprob_tolerance sets what rounding may differ by; vLLM on a CPU does not "
                "reload an output layer that is tied to the embeddings"
            )
