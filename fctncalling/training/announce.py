"""Notes to the user, printed by the first of several processes, and the commands they name."""

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
    """Announce lines: print them at once in the first process; nothing in the others."""
    if is_first_process() and lines:
        print(*lines, sep="\n", flush=True)


def shell_command(subcommand: str, launcher: str = "") -> str:
    """Return the shell command of `fctncalling SUBCOMMAND` for the user, ready to be copied.

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
    """Return the shell command of this Python for the user, ready to be copied."""
    return shlex.quote(_short(Path(sys.executable)))


def _short(program: Path) -> str:
    """Return a program by its name where the shell finds it so, else by its path.

    From here where it lies below; links are not followed, for an environment's Python is one.
    """
    path = os.path.abspath(program)
    for name in {program.name, program.name.rstrip("0123456789.")}:
        found = shutil.which(name)
        if found and os.path.abspath(found) == path:
            return name
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path
