"""Export a checkpoint as a transformers model.

Adapters are merged into the base model; tokenizer and critic go along. A checkpoint with an adapter
for each role of a team gives a model for each, in a folder of its name. Several checkpoints of one
start give the mean of their weights.

example:
  fctncalling export --output my_model \\
      --checkpoint results/check/embedded/embedded/TPPO/checkpoints/update_000040
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError
from fctncalling.call_form import SERVER_PARSERS
from fctncalling.cli.shared.output import next_command
from fctncalling.cli.shared.parser import add_flag, add_json_switch, add_switch, print_error
from fctncalling.data.bfcl import embedded_path
from fctncalling.envs.handlers.registry import AUTO
from fctncalling.model_folder import TOKENIZER_FILES, ImportFailure, resolve_model_folder
from fctncalling.training.load_policy import critic_kind
from fctncalling.training.resume import run_settings
from fctncalling.training.run_config import ENV_MODELS

PICKLED_ADAPTER = "adapter_model.bin"
FEW_TASKS = ("--category", "multiple", "--limit", "40")
"""Of the next command: tasks that a small model plays on a laptop."""
ARGUMENTS_CARD = """\
Trained with these arguments of its chat template, which each request has to give again:

```
"chat_template_kwargs": {}
```
"""
FORM_CARD = """\
Writes calls as {}, which vLLM reads with

```
vllm serve FOLDER --enable-auto-tool-choice --tool-call-parser {}
```
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's flags."""
    add = partial(add_flag, parser)
    of_run = "checkpoint of a run, or the run's folder, for its last one; it is only read"
    also = "others from the same start, as of other seeds: the mean of all weights, no value head"
    new = "folder of the new model; it must not exist yet"
    base = "base model of the adapters (default: what the run's config.json names)"
    width = "width of attention heads, filled up with zeros to the same function (Llama alone): "
    add("--checkpoint", Path, "FOLDER", of_run, required=True)
    add("--output", Path, "FOLDER", new, required=True)
    add("--average_with", Path, "FOLDER", also, nargs="+", default=[])
    add("--base", str, "MODEL", base)
    add("--head_size", int, "N", width + "for servers that know few widths (default: as it is)")
    apart = "give the output layer weights of its own, for servers that do not reload tied ones"
    add_switch(parser, "--untie", apart)
    add_json_switch(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the model; return 0, or 2 if it cannot be made."""
    from safetensors import SafetensorError

    checkpoint, output = arguments.checkpoint, arguments.output
    if output.exists():
        return print_error(f"--output {output} exists already; name a new folder")
    others = list[Path]()
    for folder in arguments.average_with:
        try:
            others.append(checkpoint_in(folder))
        except ValueError as error:
            return print_error(f"--average_with {folder}: {error}")
    try:
        checkpoint = checkpoint_in(checkpoint)
        folders = _export([checkpoint, *others], output, arguments)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        torn = isinstance(error, SafetensorError) and unreadable_weights([checkpoint, *others])
        return print_error(f"--checkpoint {torn or checkpoint}: {error}")
    if arguments.json:
        print(json.dumps({"checkpoint": str(checkpoint), "output": str(output)}))
        return 0
    for folder in folders:
        print(
            f"An ordinary model lies in {folder}: --model_name_or_path {folder}, or transformers' "
            "from_pretrained."
        )
    if not others and critic_kind(checkpoint) in ("lora", "full"):
        print(
            "Its critic reads with weights of its own and stays where it is: --init_critic_from "
            f"{checkpoint}"
        )
    words = ["--agent", f"hf:{folders[0]}", *FEW_TASKS, "--output", "answers.jsonl"]
    if (style := run_settings(checkpoint).get("prompt_style", "bfcl")) != "bfcl":
        words += ["--prompt_style", str(style)]
    print(next_command("run", *words))
    return 0


def unreadable_weights(folders: Iterable[Path]) -> Path | None:
    """Return the first file of weights in folders that safetensors cannot read; None without."""
    from safetensors import SafetensorError, safe_open

    for path in (path for folder in folders for path in sorted(folder.glob("*.safetensors"))):
        try:
            with safe_open(path, "pt"):
                pass
        except SafetensorError:
            return path
    return None


def checkpoint_in(folder: Path) -> Path:
    """Return a checkpoint: the given folder, or the last one of a run's folder.

    ValueError where there is none.
    """
    from fctncalling.algorithms.run.checkpoint import STATE_FILE, CheckpointError, find_checkpoint

    if not folder.is_dir():
        raise ValueError("no such folder: expected a run's folder, or its checkpoints/update_...")
    marks = (STATE_FILE, "config.json", "adapter_config.json")
    if folder.name != "checkpoints":
        # a run's config.json is not a model's
        is_run = any((folder / name).exists() for name in ("checkpoints", "metrics.jsonl"))
        if not is_run and any((folder / name).is_file() for name in marks):
            return folder
        folder = folder / "checkpoints"
    try:
        return find_checkpoint(folder)
    except CheckpointError:
        raise ValueError(
            f"no checkpoint is there or in {folder}: expected a run's folder, or its "
            "checkpoints/update_..., as --save_interval writes them"
        ) from None


def _export(checkpoints: list[Path], output: Path, arguments: argparse.Namespace) -> list[Path]:
    """Write the model, or that of each role, and return the folders.

    The output folder appears only when all of it is written.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{output.name}.", suffix=".part", dir=output.parent))
    try:
        written = _write_models(checkpoints, part, arguments)
        part.chmod(0o755)  # mkdtemp's folders are their owner's alone
        part.rename(output)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return [output / folder.relative_to(part) for folder in written]


def _write_models(
    checkpoints: list[Path], output: Path, arguments: argparse.Namespace
) -> list[Path]:
    from fctncalling.lab.head_padding import pad_heads, untie

    checkpoint, *others = checkpoints
    roles = saved_adapter_folders(checkpoint)
    if others and any(map(saved_adapter_folders, checkpoints)):
        raise ValueError("--average_with takes no checkpoint with an adapter for each role")
    # A value head fits the hidden states of its own model, not those of a mean.
    with_critic = not (roles or others) and critic_kind(checkpoint) not in ("lora", "full")
    base = arguments.base or (base_of(checkpoint) if roles else None)
    sources = {output / role: path for role, path in roles.items()} or {output: checkpoint}
    for folder, source in sources.items():
        model = load_merged_model(source, base)
        for number, other in enumerate(others, start=2):
            try:
                _move_to_mean(model, load_merged_model(other, base), number)
            except (OSError, ValueError) as error:
                raise ValueError(f"--average_with {other}: {error}") from error
        if arguments.head_size is not None:
            model = pad_heads(model, arguments.head_size)
        if arguments.untie:
            model = untie(model)
        folder.mkdir(exist_ok=True)
        _copy_tokenizer_and_critic(checkpoint, folder, base, with_critic=with_critic)
        _write_template(model, folder, run_settings(checkpoint))
        model.save_pretrained(folder)
    return list(sources)


def _write_template(model: Any, folder: Path, settings: dict[str, Any]) -> None:
    """Put a folder's template's ends into the model's, and its arguments into a model card."""
    from transformers import AutoTokenizer

    from fctncalling.algorithms.policy.answer_ends import add_ends
    from fctncalling.algorithms.policy.template_file import load_template

    if any((folder / name).is_file() for name in TOKENIZER_FILES):
        tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
        try:
            add_ends(model, load_template(tokenizer, model=model).ends.taught)
        except SettingError as error:
            print(f"note: generation_config.json is the base's: {error}", file=sys.stderr)
    if card := _model_card(settings):
        (folder / "README.md").write_text(card, encoding="utf-8")


def _model_card(settings: dict[str, Any]) -> str:
    """Return the model card of a run: arguments of its chat template and the form of its calls."""
    parts = []
    if kwargs := settings.get("chat_template_kwargs"):
        parts.append(ARGUMENTS_CARD.format(json.dumps(kwargs)))
    form = str(settings.get("handler", "")).removeprefix(AUTO)
    if form in SERVER_PARSERS:
        parts.append(FORM_CARD.format(form, SERVER_PARSERS[form]))
    return "\n".join(["---\ntags: [function-calling]\n---\n", *parts]) if parts else ""


def _move_to_mean(model: Any, other: Any, number: int) -> None:
    """Move the mean of `number` - 1 models' weights to that of `number` models.

    Model soups (Wortsman et al. 2022); of reinforced policies: WARP (Rame et al. 2024).
    """
    weights, theirs = dict(model.named_parameters()), dict(other.named_parameters())  # tied: once
    if {name: weight.shape for name, weight in weights.items()} != {
        name: weight.shape for name, weight in theirs.items()
    }:
        raise ValueError("its weights have other names or shapes: expected the same model")
    for name, weight in weights.items():
        weight.data.lerp_(theirs[name].data.to(weight.dtype), 1 / number)


def _copy_tokenizer_and_critic(
    checkpoint: Path, output: Path, base: str | None, *, with_critic: bool
) -> None:
    """Copy tokenizer files, the base's for an adapter without any, and the value head on request.

    A critic with a model of its own reads other weights than the exported ones, so it is not
    copied.
    """
    from fctncalling.algorithms.policy.value_head import EXPORTED_VALUE_HEAD, find_value_head_file

    for pattern in ("tokenizer*", "special_tokens*", "chat_template*"):
        for path in checkpoint.glob(pattern):
            shutil.copy2(path, output / path.name)
    if base is not None and not any(output.glob("tokenizer*")):
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(base, trust_remote_code=False).save_pretrained(output)
    if with_critic and (head := find_value_head_file(checkpoint)) is not None:
        (output / EXPORTED_VALUE_HEAD).parent.mkdir()
        shutil.copy2(head, output / EXPORTED_VALUE_HEAD)


def load_merged_model(checkpoint: Path, base: str | None) -> Any:
    """Return the checkpoint's language model with its adapter, if it has one, merged in."""
    from fctncalling.algorithms.policy.pretrained_model import load_pretrained_model

    if (checkpoint / "adapter_config.json").is_file():
        return merge_lora(checkpoint, base or base_of(checkpoint))
    return load_pretrained_model(checkpoint)


def saved_adapter_folders(folder: Path) -> dict[str, Path]:
    """Return the folders of the roles' adapters saved in a checkpoint, by role."""
    from fctncalling.algorithms.policy.lora import ADAPTER_FILE, ROLE_PREFIX

    found = sorted(path.parent for path in folder.glob(f"{ROLE_PREFIX}*/{ADAPTER_FILE}"))
    return {path.name.removeprefix(ROLE_PREFIX): path for path in found}


def require_plain_adapter(folder: Path) -> None:
    """Require weights of an adapter that are no pickle, which is code; else ValueError."""
    from fctncalling.algorithms.policy.lora import ADAPTER_FILE

    if not (folder / ADAPTER_FILE).is_file() and (folder / PICKLED_ADAPTER).is_file():
        raise ValueError(
            f"{folder / PICKLED_ADAPTER} is a pickle, which can run code: expected {ADAPTER_FILE}: "
            "ask its author for that"
        )


def merge_lora(folder: str | Path, base: str | Path) -> Any:
    """Merge a folder's LoRA adapter into the base model; return that."""
    import torch
    from peft import PeftModel

    from fctncalling.algorithms.policy.pretrained_model import load_pretrained_model

    require_plain_adapter(Path(folder))
    model = load_pretrained_model(base, dtype=torch.float32)
    adapted: Any = PeftModel.from_pretrained(model, str(folder))
    return adapted.merge_and_unload()


def base_of(checkpoint: Path) -> str:
    """Return the base model of a checkpoint, from the config.json of its run.

    ValueError if that file is missing.
    """
    described = checkpoint.resolve().parent.parent / "config.json"
    if not described.is_file():
        raise ValueError(f"{described} is missing, so the base model is not known: give --base")
    settings = json.loads(described.read_text(encoding="utf-8"))
    model = settings.get("model_name_or_path")
    if model is None:
        return str(embedded_path(ENV_MODELS.get(settings.get("env_name"), "model")))
    try:
        return resolve_model_folder(model)
    except ImportFailure as error:
        raise ValueError(str(error)) from error
