"""Examine a model before training: its chat template, tokenizer, context, weights and engines.

One line a check: ok, note (worth knowing, spoils nothing), FAULT (spoils training) or ? (could not
be checked); below them an episode of the ground truth with the tokens that are trained. Exit code 0
where the model is sound, 1 for a fault, 2 if something could not be checked. --quick loads no
weights.

example:
  fctncalling doctor my-model --dataset_path data/bfcl/BFCL_v4_multiple.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.output import next_command
from fctncalling.cli.shared.parser import (
    add_flag,
    add_input,
    add_json_switch,
    add_switch,
    missing_training_message,
)
from fctncalling.cli.shared.tool_flags import add_tool_arguments
from fctncalling.lab.doctor.finding import (
    BROKEN,
    FAULT,
    IMPOSSIBLE,
    NOTE,
    SOUND,
    SUSPICIOUS,
    UNCHECKED,
    HealthCheck,
    exit_code,
)
from fctncalling.training.user_code import parse_tool_classes

if TYPE_CHECKING:  # both need torch
    from fctncalling.lab.doctor.episode_findings import Span
    from fctncalling.lab.doctor.examine import ExaminationResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    tasks = "task file to train on; default: the embedded held-out tasks"
    budget = "budget of an episode; default: the model's context"
    add_input(parser, "--model", "MODEL", "folder of a model, or a name on the hub", kind=str)
    add("--dataset_path", Path, "FILE", tasks)
    add_tool_arguments(parser)
    add("--chat_template", Path, "FILE", "in place of its own")
    add("--adapter", Path, "FOLDER", "saved LoRA adapter of the model")
    add("--vllm_url", str, "URL", "server to compare with")
    add("--max_episode_tokens", int, "N", budget)
    add_switch(parser, "--quick", "load no weights")
    shape = parser.add_mutually_exclusive_group()
    add_json_switch(shape)
    add_switch(shape, "--markdown", "print a block for an issue")


def run(args: argparse.Namespace) -> int:
    """Examine and print; return 0, 1 for a fault, 2 if something could not be checked."""
    found = examined_model(args)
    if args.json:
        print(json.dumps(as_json(args.model, found), indent=2))
    elif args.markdown:
        print(issue_markdown(args.model, found))
    else:
        coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(terminal_text(args.model, found, coloured=coloured))
        if not exit_code(found.findings):
            print(next_command("train", *words_to_train(args, found)))
    return exit_code(found.findings)


def words_to_train(args: argparse.Namespace, found: ExaminationResult) -> Iterator[str | Path]:
    """Yield the words of the next training command: a short one without a GPU."""
    from fctncalling.algorithms.config import resolve_device

    is_short = resolve_device("auto").type == "cpu"
    tasks = args.dataset_path or (SHORT_TASKS if is_short else None)
    yield from ("--plan", "--model_name_or_path", args.model)
    yield from ("--dataset_path", tasks) if tasks else ()
    yield from ("--preset", "0.1B-cpu") if is_short else ()
    yield from ("--prompt_style", found.prompt_style) if found.prompt_style != "bfcl" else ()


def examined_model(args: argparse.Namespace) -> ExaminationResult:
    """Examine the model of the arguments; raises InputError for unreadable files."""
    try:
        from fctncalling.lab.doctor.examine import ExaminationSettings, examine

        tools = parse_tool_classes(args.tools, args.tools_seed)
        template = args.chat_template and args.chat_template.read_text(encoding="utf-8")
    except ImportError as error:
        raise InputError(missing_training_message("doctor", error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--chat_template {args.chat_template}: {error}") from None
    names = "dataset_path adapter vllm_url max_episode_tokens quick allow_task_tools".split()
    given = {name: getattr(args, name) for name in names}
    settings = ExaminationSettings(
        args.model, chat_template=template, tools=tools, on_stage=_show_stage, **given
    )
    found = examine(settings)
    _show_stage("")
    return found


def _show_stage(stage: str) -> None:
    """Show the current stage: on a terminal on one line, which the next stage overwrites."""
    shown = f"examining: {stage} ..." if stage else ""
    if sys.stderr.isatty():
        print(f"\r\033[K{shown}", end="", file=sys.stderr, flush=True)
    elif stage:
        print(shown, file=sys.stderr, flush=True)


SHORT_TASKS = "BFCL_v4_simple_python.json"  # official tasks, which import-bfcl downloads


LABELS = {SOUND: "ok", UNCHECKED: "?", FAULT: "FAULT", IMPOSSIBLE: "FAULT", BROKEN: "FAULT"}
LABELS |= dict.fromkeys((NOTE, SUSPICIOUS), "note")
_LABEL_COLOURS = {"ok": "32", "note": "33", "FAULT": "1;31", "?": "1;35"}
_AUTHORS = {"context": "2", "action": "30;46", "end": "30;43"}
_PACKAGES = ("fctncalling", "torch", "transformers", "tokenizers", "peft", "vllm")
MAX_CONTEXT_CHARS = 320
"""Of one context in the rendering of an episode: the middle of a longer one is left out."""


def terminal_text(model: str, found: ExaminationResult, *, coloured: bool) -> str:
    """Return one screen: a line a check, then an episode with the trained tokens marked."""
    lines = table_lines(model, found.findings, coloured=coloured)
    if found.spans:
        lines += ["", *_rendering(found, coloured=coloured)]
    return "\n".join(lines)


def table_lines(
    title: str, findings: Sequence[HealthCheck], *, coloured: bool = False
) -> list[str]:
    """Return the table of findings: a head with their outcome, then a line for each."""
    lines = [f"{title}: {outcome_summary(findings)}"]
    for each in findings:
        label = LABELS[each.level]
        label = _paint(f"{label:5}", _LABEL_COLOURS[label], coloured=coloured)
        lines.append(f"  {label} {each.check:17} {each.line}")
    return lines


def issue_markdown(model: str, found: ExaminationResult) -> str:
    """Return a block to paste into an issue, versions included."""
    lines = [f"**doctor** of `{model}`: {outcome_summary(found.findings)}", ""]
    lines += ["| | check | |", "|---|---|---|"]
    lines += [
        f"| {LABELS[each.level]} | {each.check} | {_cell(each.line)} |" for each in found.findings
    ]
    lines += ["", ", ".join(f"{name} {version}" for name, version in versions().items())]
    if found.spans:
        episode = "\n".join(_rendering(found, coloured=False))
        lines += ["", "<details><summary>An episode</summary>", "", f"````\n{episode}\n````", ""]
        lines.append("</details>")
    return "\n".join(lines)


def as_json(model: str, found: ExaminationResult) -> dict[str, Any]:
    """Return everything that was found and measured."""
    return {
        "model": model,
        "exit_code": exit_code(found.findings),
        "findings": [each.as_json() for each in found.findings],
        "episode": {"task": found.task_id, "spans": [each._asdict() for each in found.spans]},
        "versions": versions(),
    }


def outcome_summary(findings: Sequence[HealthCheck]) -> str:
    """Return the outcome in a few words."""
    counts = Counter(LABELS[each.level] for each in findings)
    notes = f"{counts['note']} note{'s' * (counts['note'] != 1)}"
    if counts["FAULT"]:
        count = counts["FAULT"]
        faults = "1 fault that spoils" if count == 1 else f"{count} faults that spoil"
        return f"{faults} training, {notes}"
    if counts["?"]:
        return f"{counts['?']} of {len(findings)} checks could not be made, {notes}"
    return f"sound, {notes}"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that matter."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _rendering(found: ExaminationResult, *, coloured: bool) -> Iterator[str]:
    trained = sum(each.num_tokens for each in found.spans if each.author != "context")
    total = sum(each.num_tokens for each in found.spans)
    key = "the coloured ones" if coloured else "those between « and »"
    share = f"{trained} of {total} tokens are trained ({100 * trained / total:.1f} %), {key}"
    played = f"as the model would have to answer with --prompt_style {found.prompt_style}"
    yield f"The right solution of task {found.task_id}, {played}; {share}:"
    yield "".join(_painted(each, coloured=coloured) for each in found.spans)


def _painted(span: Span, *, coloured: bool) -> str:
    text = span.text
    if span.author == "context" and len(text) > MAX_CONTEXT_CHARS:
        half = MAX_CONTEXT_CHARS // 2
        text = f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"
    text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    if coloured:
        return _paint(text, _AUTHORS[span.author], coloured=True)
    marks = {"context": ("", ""), "action": ("«", ""), "end": ("", "»")}[span.author]
    return f"{marks[0]}{text}{marks[1]}"


def _paint(text: str, code: str, *, coloured: bool) -> str:
    return f"\033[{code}m{text}\033[0m" if coloured else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
