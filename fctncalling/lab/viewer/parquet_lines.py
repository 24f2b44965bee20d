"""Parquet file as JSON lines, read by a process of limited memory.

    python -m fctncalling.lab.viewer.parquet_lines FILE

A hostile file says that a page holds gigabytes, or crashes its reader: neither reaches the caller.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TextIO, cast

MAX_MEMORY = 2 << 30
"""Bytes of address space."""
MAX_CHARACTERS = 1 << 28
"""Length of all rows."""
_NO_READER, _TOO_LONG = 3, 4
_WORDS = {
    _NO_READER: "parquet is read by pyarrow: pip install pyarrow",
    _TOO_LONG: f"its rows have more than {MAX_CHARACTERS:,} characters",
}
_DAMAGED = "it is damaged, or a row of it needs too much memory"


@contextmanager
def parquet_lines(path: Path) -> Iterator[TextIO]:
    """Yield the rows of a file as JSON lines; raises OSError if the last was not the end."""
    command = [sys.executable, "-m", "fctncalling.lab.viewer.parquet_lines", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        try:
            yield cast(TextIO, process.stdout)
            code = process.wait(10)
        finally:
            process.kill()
    if code:
        raise OSError(_WORDS.get(code, _DAMAGED))


def main() -> int:
    """Write a file's rows; return 0, 3 without a reader, 4 if they are too many."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        return _NO_READER
    written = 0
    for batch in parquet.ParquetFile(sys.argv[1]).iter_batches(1, use_threads=False):
        line = json.dumps(batch.to_pylist()[0], default=str)
        written += len(line)
        if written > MAX_CHARACTERS:
            return _TOO_LONG
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
