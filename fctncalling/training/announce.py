"""Notes to the user, printed by the first of several processes, and commands in them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

CONSOLE = "fctncalling"
SCRIPTS = ("train_fctncalling.py", "evaluate_fctncalling.py")


def is_first_process() -> bool:
    """Whether this is the first process that torchrun started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def announce(*lines: str) -> None:
    """Print lines at once in the first process only."""
    if is_first_process() and lines:
        print(*lines, sep="\n", flush=True)


def shell_command(subcommand: str, launcher: str = "") -> str:
    """Format `fctncalling SUBCOMMAND` as a shell command for the user to copy.

    By the script that is running, where it is one of ours and has that subcommand; else by the
    console script. launcher: such as torchrun, which stands in Python's place.
    """
    running = Path(sys.argv[0])
    console = running if running.stem == CONSOLE else Path(sys.executable).with_name(CONSOLE)
    if running.name in SCRIPTS and (subcommand == "train" or not console.is_file()):
        script = shlex.quote(_short(running.with_name(SCRIPTS[subcommand != "train"])))
        words = [launcher or shell_python(), script, *([subcommand] * (subcommand != "train"))]
    else:
        program = shlex.quote(_short(console) if console.is_file() else CONSOLE)
        words = [launcher, program, subcommand] if launcher else [program, subcommand]
    return " ".join(words)


def shell_python() -> str:
    """Format a call of this Python as a shell command for the user to copy."""
    return shlex.quote(_short(Path(sys.executable)))


def _short(program: Path) -> str:
    """Return a program's name if the shell finds it by that, else its path.

    From here where it lies below; links are not followed, for an environment's Python is one.
    """
    path = os.path.abspath(program)
    for name in {program.name, program.name.rstrip("0123456789.")}:
        command = shutil.which(name)
        if command and os.path.abspath(command) == path:
            return name
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path
