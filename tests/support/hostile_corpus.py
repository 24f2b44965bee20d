"""Runs hostile snippets and says which of them got something they must not: `python
hostile_corpus.py FILE`.

A record names a snippet's `code`, the acceptable statuses and wall time under `expect`, and under
`must_not` what may not come of it. As a program it runs a whole file and prints a JSON object,
snippet name -> complaints; so a test can run it as another user.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fctncalling.envs.tools.python_executor import PythonExecutor, ToolResult

CONTROL = "import math, json\nprint(len([1, 2, 3]), math.sqrt(4), json.dumps({'a': 1}))"
CONTROL_OUTPUT = '3 2.0 {"a": 1}\n'


class Arena:
    """The files, sockets and environment that snippets are to reach for in vain."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o777)
        self.secret = folder / "secret.txt"
        self.listener = socket.socket(socket.AF_UNIX)
        self.port = f"fctncalling-{os.getpid()}-{id(self)}"
        self.listener.bind(f"\0{self.port}")
        self.listener.listen()
        self.listener.setblocking(False)
        os.environ["CANARY_ENV"] = "CANARY_ENV"
        self.restore()

    def restore(self) -> None:
        """Put the secret back for the next snippet."""
        self.secret.write_text("CANARY-SECRET\n")
        self.secret.chmod(0o666)

    def fill(self, code: str) -> str:
        """Return a snippet with this arena's names in place of its marks."""
        marks = {"SECRET": self.secret, "DIR": self.folder, "PPID": os.getpid()}
        for mark, value in marks.items():
            code = code.replace(f"@{mark}@", str(value))
        return code.replace("@UPORT@", self.port).replace("@PORT@", "9")

    def was_contacted(self) -> bool:
        """Return whether anyone has connected to the listener."""
        try:
            self.listener.accept()
        except BlockingIOError:
            return False
        return True


def descendants(root: int) -> set[int]:
    """Return the ids of all processes below one, zombies included."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {root}


def complaints(
    executor: PythonExecutor, arena: Arena, record: Mapping[str, Any], timeout_s: float
) -> Iterator[str]:
    """Run one snippet and yield what was wrong with it, in words."""
    expect, zygote = record["expect"], executor.zygote_pid
    arena.restore()
    result = executor.run(arena.fill(record["code"]), timeout_s=timeout_s)
    if result.status not in expect["status"]:
        yield f"status {result.status}, expected one of {expect['status']}: {result.stderr[-200:]}"
    if result.wall_s > expect["max_wall_s"]:
        yield f"took {result.wall_s:.1f} s"
    for stream in ("stdout", "stderr"):
        wanted = expect.get(f"{stream}_regex")
        if wanted and not re.search(wanted, getattr(result, stream)):
            yield f"{stream} is {getattr(result, stream)!r}"
    for ban in record["must_not"]:
        for what, value in ban.items():
            if _happened(what, value, result, arena):
                yield f"{what} {value}: {result}"
    after = executor.run(CONTROL)
    if after.status != "ok" or after.stdout != CONTROL_OUTPUT:
        yield f"the next call came to {after}"
    if executor.zygote_pid != zygote:
        yield "the zygote died"
    if zygote is not None and descendants(zygote):
        yield f"processes live on below the zygote: {descendants(zygote)}"


def _happened(what: str, value: Any, result: ToolResult, arena: Arena) -> bool:
    if what.startswith(("stdout_", "stderr_")):
        stream, _, kind = what.partition("_")
        text = getattr(result, stream)
        return bool(re.search(value, text)) if kind == "regex" else len(text) > value
    if what == "result_contains":
        return value in repr(result)
    if what == "rss_over_mb":
        return bool(result.max_rss_mb > value)
    if what == "status_forged":
        return result.status == "setup_error" or "FORGED" in result.reason
    if what in ("file_exists", "file_missing"):
        return Path(arena.fill(value)).exists() == (what == "file_exists")
    if what == "unix_hit":
        return arena.was_contacted()
    return (
        False  # orphans, a dead executor, a poisoned next call are looked for after every snippet
    )


def run_corpus(path: Path, timeout_s: float) -> dict[str, list[str]]:
    """Return the complaints of every snippet of a file that has any."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    with (
        tempfile.TemporaryDirectory() as folder,
        PythonExecutor() as executor,
    ):
        arena = Arena(Path(folder))
        found = {
            record["name"]: list(complaints(executor, arena, record, timeout_s))
            for record in records
        }
    return {name: told for name, told in found.items() if told}


if __name__ == "__main__":
    print(json.dumps({"uid": os.getuid(), "complaints": run_corpus(Path(sys.argv[1]), 2.0)}))
