"""Commands run one after another in a process of their own, with what each of them took and read.

Standard input: a JSON list of commands, each a list of words. Standard output: a line of JSON each.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import time

from fctncalling.cli.command import main

opened: set[str] = set()
WATCHED = ("open", "socket.connect", "socket.getaddrinfo")


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        if not isinstance(arguments[0], int):  # the path of a descriptor was seen before
            opened.add(str(arguments[0]))
    elif event in WATCHED:
        opened.add(f"network: {event}")


def measured(words: list[str]) -> dict[str, object]:
    """Return what a command said, which files it opened, and what it took."""
    opened.clear()
    begun = time.process_time()
    with (
        contextlib.redirect_stderr(io.StringIO()) as error,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as fault:  # what a user would see as a traceback
            code = -1
            error.write(f"Traceback: {type(fault).__name__}: {fault}"[:400])
    return {
        "code": code,
        "error": error.getvalue(),
        "cpu_s": time.process_time() - begun,
        "opened": sorted(os.path.realpath(each) for each in opened),
        "peak_mb": _peak_mb(),  # opens a file itself
    }


def _peak_mb() -> float:
    """Return the most memory that this program had; getrusage tells its parent's too, on Linux."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            lines = dict(line.split(":", 1) for line in status)
        return int(lines["VmHWM"].split()[0]) / 1024
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.addaudithook(_watch)
    for command in json.load(sys.stdin):
        print(json.dumps(measured(command)), flush=True)
