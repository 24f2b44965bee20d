"""Examine a model before training: its chat template, tokenizer, context, weights and engines.

One line a check: ok, note (worth knowing, spoils nothing), FAULT (spoils training) or ? (could not
be checked); below them an episode of the ground truth with the tokens that are trained. Exit code 0
where the model is sound, 1 for a fault, 2 if something could not be checked. --quick loads no
weights.

example:
  fctncalling doctor --model my-model --dataset_path data/bfcl/BFCL_v4_multiple.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from fctncalling.training.model_checks.finding import exit_code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.add_argument(
        "--model", required=True, metavar="PATH", help="folder of a model, or a name on the hub"
    )
    parser.add_argument(
        "--dataset_path",
        type=Path,
        metavar="FILE",
        help="task file to train on; default: the embedded held-out tasks",
    )
    parser.add_argument("--chat_template", type=Path, metavar="FILE", help="in place of its own")
    parser.add_argument(
        "--adapter", type=Path, metavar="FOLDER", help="saved LoRA adapter of the model"
    )
    parser.add_argument("--vllm_url", metavar="URL", help="server to compare with")
    parser.add_argument(
        "--max_episode_tokens",
        type=int,
        metavar="N",
        help="budget of an episode; default: the model's context",
    )
    parser.add_argument("--quick", action="store_true", help="load no weights")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON instead of text")
    shape.add_argument("--markdown", action="store_true", help="print a block for an issue")


def run(args: argparse.Namespace) -> int:
    """Examine and print; return 0, 1 for a fault, 2 if something could not be checked."""
    try:
        from fctncalling.lab.doctor.examine import Examination, examine
        from fctncalling.lab.doctor.report_text import as_json, markdown, terminal_text

        template = args.chat_template and args.chat_template.read_text(encoding="utf-8")
    except ImportError as error:
        print(
            f"error: doctor needs the training libraries ({error}): pip install "
            "'fctncalling[train]'",
            file=sys.stderr,
        )
        return 2
    except (OSError, UnicodeDecodeError) as error:
        print(f"error: --chat_template {args.chat_template}: {error}", file=sys.stderr)
        return 2
    found = examine(
        Examination(
            args.model,
            args.dataset_path,
            template,
            args.adapter,
            args.vllm_url,
            args.max_episode_tokens,
            args.quick,
            _show_stage,
        )
    )
    _show_stage("")
    if args.json:
        print(json.dumps(as_json(args.model, found), indent=2))
    elif args.markdown:
        print(markdown(args.model, found))
    else:
        coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(terminal_text(args.model, found, coloured=coloured))
    return exit_code(found.findings)


def _show_stage(stage: str) -> None:
    """Show the current stage on one terminal line, which the next stage overwrites."""
    if sys.stderr.isatty():
        shown = f"examining: {stage} ..." if stage else ""
        print(f"\r\033[K{shown}", end="", file=sys.stderr, flush=True)
