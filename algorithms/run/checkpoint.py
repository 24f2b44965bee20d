"""Crash-safe checkpoints that resume bit for bit."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

STATE_FILE = "training_state.pt"
DIGEST_FILE = "SHA256.json"
LAST, BEST = "last", "best"  # links to the newest checkpoint, and to the best on held-out tasks
# Suffixes of hidden folders: being written, being replaced, being removed.
PART, OLD = ".part", ".old"
GONE = ".gone"


class CheckpointError(RuntimeError):
    """Error of a checkpoint that is missing, incomplete or unreadable."""


def save_checkpoint(
    folder: Path,
    name: str,
    *,
    policy: Any,
    tokenizer: Any = None,
    state: dict[str, Any],
    keep: int = 1,
    best: bool = False,
) -> Path:
    """Save a checkpoint as folder/<name>.

    A model folder (weights, value head, tokenizer) and `state` with all random streams; policy:
    what has `save(folder)`.

    It is written under a hidden name and renamed, so a kill leaves the earlier checkpoint whole.
    `last` links to it, with `best` that link too. Only the newest `keep` and the best stay.
    `state` holds what torch.load(weights_only=True) reads back: tensors, numbers, text, containers.
    """
    final, part = folder / name, folder / f".{name}{PART}"
    shutil.rmtree(part, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        part.mkdir()
        policy.save(part)
        if tokenizer is not None:
            tokenizer.save_pretrained(part)
        torch.save({**state, "random": random_state()}, part / STATE_FILE)
        files = sorted(path for path in part.rglob("*") if path.is_file())
        digests = {path.relative_to(part).as_posix(): _digest(path) for path in files}
        text = json.dumps({"sha256": digests}, indent=2) + "\n"
        (part / DIGEST_FILE).write_text(text, encoding="utf-8")
        _sync(*part.rglob("*"), part)
    except (OSError, RuntimeError, SafetensorError) as error:  # a full disk is any of them
        shutil.rmtree(part, ignore_errors=True)  # which makes room again
        raise CheckpointError(
            f"{final}: the checkpoint cannot be saved ({type(error).__name__}: {error}). The ones "
            "before it are whole: make room, then go on with --resume"
        ) from error
    _put_in_place(part, final)
    for link in (LAST, BEST) if best else (LAST,):  # each atomically
        new = folder / f".{link}{PART}"
        new.unlink(missing_ok=True)
        new.symlink_to(name, target_is_directory=True)
        new.replace(folder / link)
    _sync(folder)
    kept = {path.resolve() for path in (final, folder / BEST)}
    for old in _complete(folder)[:-keep]:
        if old.resolve() not in kept:  # a kill leaves no partial one under its name
            gone = old.with_name(f".{old.name}{GONE}")
            shutil.rmtree(gone, ignore_errors=True)
            old.rename(gone)
            shutil.rmtree(gone)
    return final


def find_checkpoint(folder: Path, name: str | None = None) -> Path:
    """Find the checkpoint to resume from.

    `name` is a path, "best", or "last", "auto" or None for the newest below `folder`.
    """
    if name not in (None, "", "auto", LAST, BEST):
        path = Path(str(name))
        if not (path / STATE_FILE).is_file():
            raise CheckpointError(
                f"--resume {path}: no checkpoint there ({STATE_FILE} is missing). Give a folder "
                f"such as {folder}/update_000010, best, last, or --resume alone for the newest."
            )
        return path
    for old in folder.glob(f".*{OLD}"):  # set aside by a save that was killed
        final = folder / old.name[1 : -len(OLD)]
        if not final.exists():
            with contextlib.suppress(OSError):  # another process was faster
                old.rename(final)
    link = folder / (BEST if name == BEST else LAST)
    if (link / STATE_FILE).is_file():
        return link.resolve()
    complete = _complete(folder) if name != BEST and folder.is_dir() else []
    if complete:
        return complete[-1]
    raise CheckpointError(
        f"--resume {name or 'auto'}: no checkpoint below {folder}. Start the run without --resume; "
        "--save_interval sets how often it saves, --eval_interval how often the best may change."
    )


def check_digests(checkpoint: Path) -> None:
    """Check the digests (SHA-256) of a checkpoint's files; CheckpointError where one differs.

    Without digests nothing is checked.
    """
    path = checkpoint / DIGEST_FILE
    if not path.is_file():
        return
    try:
        digests = dict(json.loads(path.read_text(encoding="utf-8"))["sha256"])
        changed = [name for name, digest in digests.items() if _digest(checkpoint / name) != digest]
    except (OSError, ValueError, KeyError, TypeError) as error:
        changed = [str(getattr(error, "filename", None) or DIGEST_FILE)]
    if changed:
        raise CheckpointError(
            f"--resume {checkpoint}: the checkpoint cannot be loaded: {changed[0]} is not as it "
            f"was saved ({DIGEST_FILE}). Move that folder away and --resume again: the checkpoint "
            "before it is taken, where there is one."
        )


def load_state(checkpoint: Path) -> dict[str, Any]:
    """Load the state of a checkpoint, and restore all global random streams."""
    path = checkpoint / STATE_FILE
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict):
            raise TypeError(f"it holds a {type(state).__name__}, expected a dict")
        set_random_state(state.pop("random"))
    except Exception as error:  # bytes of a stranger can end in any
        first_line = next(iter(str(error).splitlines()), "")
        raise CheckpointError(
            f"{path} cannot be read ({type(error).__name__}: {first_line}). "
            f"Remove {checkpoint} and --resume from an earlier one."
        ) from error
    return state


def seed_streams(seed: int) -> None:
    """Seed the streams of random numbers, global ones: Python's, NumPy's and torch's."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the global stream is what users draw from
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """Return the state of the global random streams of Python, NumPy and torch."""
    version, internal, gauss = random.getstate()
    numpy_state: Any = np.random.get_state(legacy=True)  # noqa: NPY002 - saved for users' own code
    name, keys, pos, has_gauss, cached = numpy_state
    words = torch.from_numpy(keys.astype(np.int64))
    state = {
        "python": [version, list(internal), gauss],
        "numpy": [str(name), words, int(pos), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
    }
    return state | ({"cuda": torch.cuda.get_rng_state_all()} if torch.cuda.is_available() else {})


def set_random_state(state: dict[str, Any]) -> None:
    """Set the state of the global random streams of Python, NumPy and torch."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, pos, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), pos, has_gauss, cached))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def checkpoints_text(folder: Path) -> str:
    """Return how much disk the checkpoints below a folder take, and how to keep fewer."""
    sizes = [
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        for path in _complete(folder)
    ]
    total, count = sum(sizes), len(sizes)
    text = f"{total / 1e9:.1f} GB" if total >= 1e9 else f"{total / 1e6:.0f} MB"
    if count < 2:
        return f"1 checkpoint of {text}"
    fewer = "--keep_checkpoints 1 leaves the newest and the best, --save_interval 0 the last alone"
    return f"{count} checkpoints of {text} together; {fewer}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _complete(folder: Path) -> list[Path]:
    """Return the complete checkpoints below a folder, oldest first by name."""
    found = (path.parent for path in folder.glob(f"*/{STATE_FILE}"))
    return sorted(path for path in found if not path.name.startswith(".") and not path.is_symlink())


def _put_in_place(part: Path, final: Path) -> None:
    """Rename a folder to its final name; an existing one is set aside until that has succeeded."""
    old = final.with_name(f".{final.name}{OLD}")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    part.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def _sync(*paths: Path) -> None:
    """fsync files and folders: they survive a power cut before a rename does."""
    for path in paths:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
