"""Safetensors folder of a language model's weights, sharded ones never gathered whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fctncalling.algorithms.distributed.fsdp import full_tensor

FILE_BYTES = 2**29  # of one file: what the writing process holds at once, besides one weight
INDEX_FILE = "model.safetensors.index.json"


def write_model(model: Any, folder: Path | None) -> None:
    """Write a model's weights and configuration into a folder, as transformers lays them out.

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
