"""Line that ends a command's output: the next useful command, ready to be copied."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path


def next_command(name: str, *words: str | Path, tools: argparse.Namespace | None = None) -> str:
    """Return "next: fctncalling NAME WORDS", with the flags of `add_tool_arguments` in `tools`."""
    flags: list[str | Path] = []
    if tools is not None:
        flags += ["--tools", *tools.tools] if tools.tools else []
        flags += ["--tools_seed", tools.tools_seed] if tools.tools_seed else []
        flags += ["--allow_task_tools"] if tools.allow_task_tools else []
    return f"next: fctncalling {shlex.join(map(str, [name, *words, *flags]))}"
