"""A GGUF file written as a transformers folder: float32 weights, tokenizer, chat template.

transformers dequantises the weights and builds the tokenizer; it refuses to save what it has read,
so a model of the same configuration takes the weights over. Its table of pre-tokenizers has no
SmolLM: without the rule that each digit is a piece of its own, blanks before a number would become
other tokens than the model was trained on.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fctncalling.model_folder import ImportFailure

_UNREADABLE = (OSError, ValueError, LookupError, ArithmeticError, TypeError, RuntimeError)
_HIDDEN_KEYS = ("quantization_config", "_name_or_path", "_model_name_or_path")
INSTALL_GGUF = "pip install 'fctncalling[gguf]'"
_DIGIT_SPLITTING = ("smollm",)  # tokenizer.ggml.pre of pre-tokenizers that part all digits


def write_model_folder(
    gguf: Path,
    output: Path,
    *,
    source: Mapping[str, Any],
    license_text: bytes | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> None:
    """Write the model of a GGUF file to a new folder, which appears only when all of it is written.

    source: where the file came from, written as SOURCE.json. Raises ImportFailure where the folder
    exists, the file is none or damaged, or transformers does not know its architecture.
    """
    if output.exists():
        raise ImportFailure(f"{output} exists already; name a new folder")
    output.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{output.name}.", suffix=".part", dir=output.parent))
    try:
        model, tokenizer = read_gguf(gguf, on_stage)
        on_stage(f"writing {output}")
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        (part / "SOURCE.json").write_text(json.dumps(dict(source), indent=1) + "\n", "utf-8")
        if license_text is not None:
            (part / "LICENSE").write_bytes(license_text)
        part.chmod(0o755)  # mkdtemp's folders are their owner's alone
        _publish(part, output)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _publish(part: Path, output: Path) -> None:
    try:
        part.rename(output)
    except OSError as error:
        if not output.exists():
            raise
        raise ImportFailure(
            f"{output} was written by another process meanwhile: use it, or name a new folder"
        ) from error


def read_gguf(gguf: Path, on_stage: Callable[[str], None] = lambda _: None) -> tuple[Any, Any]:
    """Return the model of a GGUF file in float32, and its tokenizer; ImportFailure if unfit."""
    architecture, pre_tokenizer = _header(gguf)
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder, name = str(gguf.parent), gguf.name
    on_stage(f"reading the tokenizer of {name}")
    try:
        AutoConfig.from_pretrained(folder, gguf_file=name, trust_remote_code=False)
    except _UNREADABLE as error:
        raise ImportFailure(
            f"{gguf}: transformers cannot read models of architecture {architecture!r} from a GGUF "
            f"file ({_first_line(error)}); give one of an architecture it reads, such as llama, "
            "qwen2, qwen3 or gemma3, or a transformers folder"
        ) from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name, trust_remote_code=False)
        on_stage(f"reading the weights of {name}")
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            gguf_file=name,
            dtype=torch.float32,
            output_loading_info=True,
            trust_remote_code=False,
        )
    except _UNREADABLE as error:
        raise ImportFailure(f"{gguf}: cannot be read: {_first_line(error)}") from None
    if missing := sorted(loaded[1]["missing_keys"]):
        raise ImportFailure(
            f"{gguf}: {len(missing)} weights are missing, {missing[0]} the first; is it whole?"
        )
    if pre_tokenizer in _DIGIT_SPLITTING:
        _split_digits(tokenizer)
    for key in ("is_local", "local_files_only", "name_or_path"):  # how it was loaded
        tokenizer.init_kwargs.pop(key, None)
    return _serialisable(loaded[0]), tokenizer


def _header(gguf: Path) -> tuple[str, str | None]:
    """Return architecture and pre-tokenizer of a GGUF file; ImportFailure if it is none."""
    if not gguf.is_file():
        raise ImportFailure(f"{gguf}: there is no such file")
    if find_spec("gguf") is None:
        raise ImportFailure(f"{gguf}: reading it needs the gguf library: {INSTALL_GGUF}")
    with gguf.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ImportFailure(f"{gguf}: expected a GGUF file, which begins with the word GGUF")
    try:
        fields = import_module("gguf").GGUFReader(gguf).fields
        architecture = _text(fields["general.architecture"])
    except _UNREADABLE as error:
        raise ImportFailure(
            f"{gguf}: the GGUF file cannot be read ({_first_line(error)}); is it whole?"
        ) from None
    pre_tokenizer = fields.get("tokenizer.ggml.pre")
    return architecture, None if pre_tokenizer is None else _text(pre_tokenizer)


def _text(field: Any) -> str:
    return bytes(field.parts[field.data[0]]).decode("utf-8")


def _serialisable(read: Any) -> Any:
    """Return a model with the weights of one that transformers read from a GGUF file."""
    import torch

    described = read.config.to_dict()
    kept = {key: value for key, value in described.items() if key not in _HIDDEN_KEYS}
    with torch.device("meta"):  # no weights are drawn only to be replaced
        model = type(read)(type(read.config).from_dict(kept))
    model.load_state_dict(read.state_dict(), assign=True)
    model.generation_config = read.generation_config
    return model


def _split_digits(tokenizer: Any) -> None:
    """Let each digit be a piece of its own before bytes are merged."""
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(". ") or type(error).__name__
