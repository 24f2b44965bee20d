"""Versions of a whole model's weights, loaded into running vLLM servers from a shared folder.

A server holds one version at a time, under one model name. So each load leaves a name of its own on
the server (`/update_weight_version`), which is read again after every completion: a server that was
started again, or loaded by someone else, is noticed, and its answer thrown away.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import torch
from torch import Tensor

from fctncalling.algorithms.distributed.fsdp import full_tensor
from fctncalling.algorithms.generation.engine_api import EngineError, RolloutError
from fctncalling.algorithms.policy.lora import ACTOR, Adapters
from fctncalling.algorithms.vllm.client import Completion, MissingModelError, VllmClient
from fctncalling.algorithms.vllm.servers import VllmServers


class WeightVersion(NamedTuple):
    """Version of the weights, published after one update."""

    number: int
    name: str
    folder: Path
    # of whole weights: a fixed text, for checking a server
    text: tuple[int, ...] = ()  # token ids
    logprobs: tuple[float, ...] = ()  # of all of them but the first, by training's forward


class PublishedVersions:
    """Published versions of the weights, in folders that the servers read too.

    They lie below `folder`, and servers are told to load them.
    """

    def __init__(self, servers: VllmServers, folder: Path) -> None:
        self.servers = servers
        self.folder = folder.resolve()
        # of this process: a resumed run goes over the same numbers with other weights
        self._run = uuid4().hex[:8]
        self._versions: list[WeightVersion] = []

    @property
    def versions(self) -> list[WeightVersion]:
        """Versions that are served now, oldest first."""
        return list(self._versions)

    def serve_versions(self, versions: Sequence[WeightVersion]) -> None:
        """Serve versions that another process has written."""
        self._versions = list(versions)


class PublishedWeights(PublishedVersions):
    """Published weights, whole ones: the newest version is loaded into the servers.

    tolerance: mean absolute difference, in nats, between the server's log-probabilities of the
    fixed text and training's, above which a server is refused.
    """

    def __init__(self, servers: VllmServers, folder: Path, *, tolerance: float) -> None:
        super().__init__(servers, folder)
        self.tolerance = tolerance
        self._loaded: dict[str, str] = {}  # a server's address -> what it calls its weights
        self._models: dict[str, str] = {}  # a server's address -> the name of its model
        servers.publication = self

    def new_folder(self, number: int) -> Path:
        """Return a new folder to write the weights of an update to, for `publish`.

        number: updates so far.
        """
        part = self.folder / f".weights-{self._run}-{number}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        return part

    def publish(
        self, written: Path, number: int, text: Sequence[int], logprobs: Sequence[float]
    ) -> str:
        """Publish the weights in a folder: load them into all servers; return their version.

        RolloutError where a server does not take them, or tells other log-probabilities.
        """
        name = f"weights-{self._run}-{number}"
        final = self.folder / name
        written.rename(final)
        old = self._versions
        version = WeightVersion(number, name, final, tuple(text), tuple(logprobs))
        self.servers.update_weights(lambda: self.serve_versions([version]))
        for each in old:
            shutil.rmtree(each.folder, ignore_errors=True)
        return name

    def update_server(self, client: VllmClient) -> None:
        """Update a server to the newest version, and compare log-probabilities."""
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
        """Complete a prompt with a version of the weights.

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
        """Close: remove the folders; the servers go on with the weights they hold."""
        for version in self._versions:
            shutil.rmtree(version.folder, ignore_errors=True)

    def model_name(self, client: VllmClient, version: str) -> str:
        """Return the model's name in requests for a version."""
        return self._models[client.url]

    def _recognised(self, client: VllmClient, version: str) -> str:
        """Return what a server calls the version that another process has loaded into it."""
        found = client.weights_version()
        if not found.startswith(f"{version}#"):
            raise MissingModelError(f"{client.url} holds {found}, expected {version}")
        self._models[client.url] = client.models()[0]
        self._loaded[client.url] = found
        return found

    def _check_logprobs(self, client: VllmClient, version: WeightVersion) -> None:
        """Raise RolloutError if the server's log-probabilities of a fixed text differ from ours."""
        served = client.prompt_logprobs(self._models[client.url], version.text)
        pairs = list(zip(served, version.logprobs, strict=True))
        mean = sum(abs(one - other) for one, other in pairs) / len(pairs)
        if not mean <= self.tolerance:
            raise RolloutError(
                f"{client.url}: with the weights of update {version.number} its log-probabilities "
                f"differ from training's by {mean:.2g} nats a token, expected at most "
                f"{self.tolerance:g}. Does it serve this model, in this precision (--dtype)? "
                "vllm_logprob_tolerance sets what rounding may differ by; vLLM on a CPU does not "
                "reload an output layer that is tied to the embeddings"
            )


FILE_BYTES = 2**29  # of one file: what the writing process holds at once, besides one weight
INDEX_FILE = "model.safetensors.index.json"


def write_model(model: Any, folder: Path | None) -> None:
    """Write a model's weights and configuration in a folder, as transformers lays them out.

    With FSDP a collective operation.

    folder: None in the processes that do not write, which take part weight by weight. Weights keep
    the dtype they are trained in.
    """
    if any(hasattr(weight, "full_tensor") for weight in model.parameters()):
        _write_sharded(model, folder)
    elif folder is not None:
        model.save_pretrained(folder, max_shard_size=FILE_BYTES)


def _write_sharded(model: Any, folder: Path | None) -> None:
    from safetensors.torch import save_file

    files: dict[str, str] = {}  # name of a weight -> its file
    total = 0
    for number, weights in enumerate(_chunks(model, holds=folder is not None)):
        if folder is None:
            continue
        name = f"model-{number:05d}.safetensors"
        save_file(weights, folder / name, metadata={"format": "pt"})
        files |= dict.fromkeys(weights, name)
        total += sum(weight.nbytes for weight in weights.values())
    if folder is not None:
        index = {"metadata": {"total_size": total}, "weight_map": files}
        (folder / INDEX_FILE).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
        model.config.save_pretrained(folder)


@torch.no_grad()
def _chunks(model: Any, *, holds: bool) -> Iterator[dict[str, Tensor]]:
    """Yield the weights of whole layers, about FILE_BYTES at a time, as checkpoints name them.

    Processes that hold nothing gather and drop each weight.
    """
    from transformers.core_model_loading import revert_weight_conversion

    chunk: dict[str, Tensor] = {}
    layer, size = "", 0
    for name, weight in _named_weights(model):
        this_layer = _layer_of(name)
        if size >= FILE_BYTES and this_layer != layer:
            yield revert_weight_conversion(model, chunk)
            chunk, size = {}, 0
        layer = this_layer
        size += weight.numel() * weight.element_size()
        whole = full_tensor(weight.detach())
        if holds:
            chunk[name] = whole.cpu().contiguous()
    yield revert_weight_conversion(model, chunk) if holds else chunk


def _named_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters, tied ones once, and the buffers that checkpoints hold."""
    names = model.state_dict().keys()
    yield from model.named_parameters()
    yield from ((name, buffer) for name, buffer in model.named_buffers() if name in names)


def _layer_of(name: str) -> str:
    """Return a weight's name up to the number of its layer, whose weights are written together."""
    return re.split(r"(?<=\.\d)\.|(?<=\.\d\d)\.|(?<=\.\d\d\d)\.", name, maxsplit=1)[0]


NUM_SERVED = 2  # requests with the previous version may still be under way


class PublishedAdapters(PublishedVersions):
    """Published adapters (LoRA): the last `NUM_SERVED` versions are served.

    Every version gets a new name and a new folder: a server caches by name, so a reused one would
    be served from caches of other weights, unnoticed.
    """

    def __init__(self, servers: VllmServers, folder: Path) -> None:
        super().__init__(servers, folder)
        servers.publication = self

    def publish(self, adapters: Adapters, number: int) -> str:
        """Publish the current adapter, unless it is already; return its name on the servers.

        number: updates so far.
        """
        if self._versions and self._versions[-1].number == number:
            return self._versions[-1].name
        name = f"policy-{self._run}-{number}"
        version = WeightVersion(number, name, self.folder / name)
        version.folder.mkdir(parents=True)
        adapters.peft.save_pretrained(
            str(version.folder), selected_adapters=[ACTOR], save_embedding_layers=False
        )
        dropped = self._versions[: 1 - NUM_SERVED]
        self.servers.update_weights(
            lambda: self.serve_versions([*self._versions, version][-NUM_SERVED:])
        )
        for old in dropped:
            self._drop(old)
        return name

    def update_server(self, client: VllmClient) -> None:
        """Update a server: load the versions that it does not have yet."""
        for version in self._versions:
            client.load_adapter(version.name, str(version.folder))

    def complete(
        self, client: VllmClient, version: str, prompt: Sequence[int], **sampling: Any
    ) -> Completion:
        """Complete a prompt with a version of the adapter."""
        return client.complete(version, prompt, **sampling)

    def model_name(self, client: VllmClient, version: str) -> str:
        """Return the model's name in requests for a version: that of its adapter."""
        return version

    def close(self) -> None:
        """Close: unload all versions from the servers and remove their folders."""
        for version in self._versions:
            self._drop(version)
        self._versions = []

    def _drop(self, version: WeightVersion) -> None:
        for client in self.servers.ready_clients():
            client.unload_adapter(version.name)
        shutil.rmtree(version.folder, ignore_errors=True)
