"""Checks before anything is loaded or written: missing packages, files and folders."""

from __future__ import annotations

import os
from pathlib import Path

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.run.trackers import check_wandb
from fctncalling.training.load_policy import ModelError, critic_kind
from fctncalling.training.run_config import RunConfig

TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt"),
    *("spiece.model", "sentencepiece.bpe.model", "tekken.json"),
)  # one of them is in every folder that transformers reads a tokenizer from
WEIGHTS_PATTERNS = ("*.safetensors", "*.bin", "*.safetensors.index.json", "*.bin.index.json")


def check_start(config: TrainConfig, run_config: RunConfig) -> None:
    """Raise SettingError or ModelError, naming flag and cure, for what would end the run later."""
    check_wandb(run_config.wandb)
    _check_results_dir(Path(config.results_dir))
    if config.model_name_or_path is not None and is_folder_name(config.model_name_or_path):
        check_model_folder(config.model_name_or_path)
    for flag, path in (
        ("chat_template", run_config.chat_template),
        ("prompt_path", run_config.prompt_path),
        ("tool_config_path", run_config.tool_config_path),
        ("replay_arrivals", config.replay_arrivals),
    ):
        if path is not None and not Path(path).is_file():
            raise SettingError(f"--{flag} {path}: cannot be read (there is no such file)")
    critic = config.init_critic_from
    if critic is not None and critic_kind(Path(critic)) is None:
        raise SettingError(
            f"--init_critic_from: {critic} holds no critic; give a folder such as "
            "RUN/checkpoints/last"
        )


def is_folder_name(name: str) -> bool:
    """Return whether a model's name means a local folder, not owner/name on the hub."""
    return Path(name).is_dir() or name.startswith(("/", ".", "~")) or name.count("/") > 1


def check_model_folder(name: str) -> None:
    """Raise ModelError where a folder lacks what transformers needs of a model."""
    folder, failure = (
        Path(name).expanduser(),
        f"--model_name_or_path {name}: the model cannot be loaded: ",
    )
    if not folder.is_dir():
        raise ModelError(
            f"{failure}there is no such folder. Give that of a transformers model, or a name "
            "on the hub"
        )
    if not (folder / "config.json").is_file():
        adapter = " (an adapter: evaluate_fctncalling.py export makes a model of one)"
        hint = adapter if (folder / "adapter_config.json").is_file() else ""
        raise ModelError(f"{failure}that folder has no config.json{hint}")
    if not any(next(folder.glob(pattern), None) for pattern in WEIGHTS_PATTERNS):
        raise ModelError(f"{failure}that folder has no weights (model.safetensors)")
    if not any((folder / file).is_file() for file in TOKENIZER_FILES):
        raise ModelError(
            f"{failure}that folder has no tokenizer (tokenizer.json). Put the model's own there: "
            f"AutoTokenizer.from_pretrained(NAME).save_pretrained({str(folder)!r})"
        )


def _check_results_dir(folder: Path) -> None:
    """Raise SettingError where nothing can be written below a folder, which need not exist yet."""
    existing = folder.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise SettingError(
            f"--results_dir {folder}: cannot be written to ({existing} is no folder)"
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise SettingError(
            f"--results_dir {folder}: cannot be written to (no permission in {existing})"
        )
