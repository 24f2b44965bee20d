"""Line that ends a command's output: the next useful command, ready to be copied."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path


def next_command(name: str, *words: str | Path, like: argparse.Namespace | None = None) -> str:
    """Return "next: fctncalling NAME WORDS", with the tasks, tools and reading of `like`."""
    flags: list[str | Path] = []
    if like is not None:
        for path in like.dataset_path or []:
            flags += ["--dataset_path", path]
        if hasattr(like, "dots"):  # a command that reads recorded answers
            reading = {"form": None, "handler": None, "dots": "auto"}
            for flag, default in reading.items():
                value = getattr(like, flag, default)
                flags += [] if value == default else [f"--{flag}", str(value)]
        flags += ["--tools", *like.tools] if like.tools else []
        flags += ["--tools_seed", like.tools_seed] if like.tools_seed else []
        flags += ["--allow_task_tools"] if like.allow_task_tools else []
    return f"next: fctncalling {shlex.join(map(str, [name, *words, *flags]))}"
