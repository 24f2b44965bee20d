"""Saving a run such that it goes on exactly, and being interrupted without losing it."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import numpy as np
import torch

STATE_FILE = "training_state.pt"
POINTER_FILE = "last"  # names the newest complete checkpoint beside it


class CheckpointError(RuntimeError):
    """A checkpoint is missing, incomplete or unreadable."""


class Saved(Protocol):
    """What can write itself as a model folder."""

    def save(self, folder: str | Path) -> None:
        """Write the weights."""


def save_checkpoint(
    folder: Path, name: str, *, policy: Saved, tokenizer: Any = None, state: dict[str, Any], keep: int = 2
) -> Path:
    """Write folder/<name>: a model folder (weights, value head, tokenizer) and `state` with all random streams.

    It is written beside and renamed, so a kill at any moment leaves the earlier checkpoint whole. Only the newest
    `keep` stay. `state` holds what torch.load(weights_only=True) reads back: tensors, numbers, strings, dicts, lists.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final, part = folder / name, folder / f".{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    policy.save(part)
    if tokenizer is not None:
        tokenizer.save_pretrained(part)
    torch.save({**state, "random": random_state()}, part / STATE_FILE)
    _sync(part)
    if final.exists():
        shutil.rmtree(final)
    part.rename(final)
    pointer = folder / f".{POINTER_FILE}.part"
    pointer.write_text(name, encoding="utf-8")
    pointer.replace(folder / POINTER_FILE)
    for old in _complete(folder)[:-keep]:
        if old != final:
            shutil.rmtree(old)
    return final


def find_checkpoint(folder: Path, wanted: str | None = None) -> Path:
    """Return the checkpoint to go on from: `wanted` where it names one, else the newest below `folder`."""
    if wanted not in (None, "", "auto", "last"):
        path = Path(str(wanted))
        if not (path / STATE_FILE).is_file():
            raise CheckpointError(
                f"--resume {path}: no checkpoint there ({STATE_FILE} is missing). Give a folder such as "
                f"{folder}/update_000010, or --resume alone for the newest."
            )
        return path
    pointer = folder / POINTER_FILE
    if pointer.is_file() and (folder / pointer.read_text(encoding="utf-8") / STATE_FILE).is_file():
        return folder / pointer.read_text(encoding="utf-8")
    complete = _complete(folder) if folder.is_dir() else []
    if complete:
        return complete[-1]
    raise CheckpointError(
        f"--resume: no checkpoint below {folder}. Start the run without --resume; "
        "--save_interval sets how often it saves."
    )


def load_state(checkpoint: Path) -> dict[str, Any]:
    """Return the state saved with a checkpoint and set every random stream to where it was."""
    path = checkpoint / STATE_FILE
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        set_random_state(state.pop("random"))
    except (OSError, RuntimeError, EOFError, KeyError, ValueError, pickle.UnpicklingError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({type(error).__name__}: {error}). "
            f"Remove {checkpoint} and --resume from an earlier one."
        ) from error
    return state


def random_state() -> dict[str, Any]:
    """Return where python's, numpy's and torch's random streams are."""
    version, internal, gauss = random.getstate()
    numpy_state: Any = np.random.get_state(legacy=True)  # noqa: NPY002 - saved for users' own code
    name, keys, pos, has_gauss, cached = numpy_state
    state = {
        "python": [version, list(internal), gauss],
        "numpy": [str(name), torch.from_numpy(keys.astype(np.int64)), int(pos), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
    }
    return state | ({"cuda": torch.cuda.get_rng_state_all()} if torch.cuda.is_available() else {})


def set_random_state(state: dict[str, Any]) -> None:
    """Set python's, numpy's and torch's random streams to a saved place."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, pos, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), pos, has_gauss, cached))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


class Interruption:
    """Turns Ctrl-C (SIGINT) and a polite kill (SIGTERM) into KeyboardInterrupt at a moment that can be saved.

    Inside `deferred()` the weights are between two states, so the interrupt waits for its end; a second one does not.
    """

    def __init__(self) -> None:
        self._waiting = self._deferring = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):  # only the main thread may set handlers
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Let an interrupt wait until this block is left."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
        if self._waiting:
            self._waiting = False
            raise KeyboardInterrupt

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._deferring and not self._waiting:
            self._waiting = True
            return
        self._waiting = False
        raise KeyboardInterrupt


def _complete(folder: Path) -> list[Path]:
    """Return the complete checkpoints below a folder, oldest first by name."""
    return sorted(path.parent for path in folder.glob(f"*/{STATE_FILE}") if not path.parent.name.startswith("."))


def _sync(folder: Path) -> None:
    """Make the files of a folder survive a power cut before the rename makes them count."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
