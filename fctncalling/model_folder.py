"""Check that a folder holds a transformers model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from fctncalling.data.paths import user_cache_folder
from fctncalling.laboratory import import_laboratory_module

# One of them is in every folder that transformers reads a tokenizer from.
TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt"),
    *("spiece.model", "sentencepiece.bpe.model", "tekken.json"),
)
WEIGHTS_PATTERNS = ("*.safetensors", "*.bin", "*.safetensors.index.json", "*.bin.index.json")


HUB_TIMEOUT_S = 10


class ImportFailure(Exception):
    """Failure to import data or a model; the message names what, and the cure."""


def is_gguf(name: str | Path) -> bool:
    """Whether a model's name is that of a GGUF file."""
    return str(name).lower().endswith(".gguf")


def missing_model_message(name: str, *, weights: bool = True) -> str:
    """Return the message of a missing model, in one line.

    "" where it can: a folder with all that belongs to a model, or a name on the hub, which is asked
    once.
    """
    folder = Path(name).expanduser()
    if folder.is_dir() or name.startswith(("/", ".", "~")) or name.count("/") > 1:
        return missing_file_message(folder, weights=weights)
    if name.count("/") == 1 and folder.parent.is_dir():
        return missing_file_message(folder)
    return _missing_on_hub(name)


def _missing_on_hub(name: str) -> str:
    """Return why the hub does not give a model that its cache lacks; "" where it would."""
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return ""
        HfApi().model_info(name, timeout=HUB_TIMEOUT_S)
    except HFValidationError:
        return "there is no such folder, and no model on the hub can be called so"
    except Exception as error:  # of whatever library speaks to the hub
        reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(". ")
        return f"there is no such folder, and as a name on the hub it cannot be had ({reason})"
    return ""


def missing_file_message(folder: Path, *, weights: bool = True) -> str:
    """Return the message of a file missing in a model's folder; "" where it has all."""
    if not folder.is_dir():
        return "there is no such folder. Give that of a transformers model, or a name on the hub"
    if not (folder / "config.json").is_file():
        adapter = " (an adapter: fctncalling export makes a model of one)"
        hint = adapter if (folder / "adapter_config.json").is_file() else ""
        return f"that folder has no config.json{hint}"
    if weights and not any(next(folder.glob(pattern), None) for pattern in WEIGHTS_PATTERNS):
        return "that folder has no weights (model.safetensors)"
    if not any((folder / file).is_file() for file in TOKENIZER_FILES):
        return (
            "that folder has no tokenizer (tokenizer.json). Put the model's own there: "
            f"AutoTokenizer.from_pretrained(NAME).save_pretrained({str(folder)!r})"
        )
    return ""


def resolve_model_folder(name: str, on_stage: Callable[[str], None] = lambda _: None) -> str:
    """Resolve a model's name to its folder or hub name.

    The name itself, or of a GGUF file the folder that it was converted to.

    The cache knows a file by path, size and time of change. Raises ImportFailure as
    `write_model_folder` does.
    """
    if not is_gguf(name) or Path(name).is_dir():
        return name
    gguf = Path(name).expanduser().resolve()
    folder = user_cache_folder() / "models" / f"{gguf.stem}-{_fingerprint(gguf)}"
    if not folder.is_dir():
        on_stage(f"Converting {gguf.name} once, to {folder}")
        try:
            write = import_laboratory_module("import_model").write_model_folder
            write(gguf, folder, source={"gguf_file": str(gguf)})
        except OSError:
            if not folder.is_dir():  # else another process was quicker
                raise
    return str(folder)


def _fingerprint(gguf: Path) -> str:
    changed = (gguf.stat().st_size, gguf.stat().st_mtime_ns) if gguf.is_file() else ()
    return hashlib.sha256(repr((str(gguf), changed)).encode()).hexdigest()[:12]
