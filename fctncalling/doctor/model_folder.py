"""What a folder must hold to be a transformers model."""

from __future__ import annotations

from pathlib import Path

TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt"),
    *("spiece.model", "sentencepiece.bpe.model", "tekken.json"),
)  # one of them is in every folder that transformers reads a tokenizer from
WEIGHTS_PATTERNS = ("*.safetensors", "*.bin", "*.safetensors.index.json", "*.bin.index.json")


def is_folder_name(name: str) -> bool:
    """Return whether a model's name means a local folder, not owner/name on the hub."""
    return Path(name).is_dir() or name.startswith(("/", ".", "~")) or name.count("/") > 1


def missing_part(folder: Path, *, weights: bool = True) -> str:
    """Return what a folder lacks of a model, in one line; "" where it has all."""
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
