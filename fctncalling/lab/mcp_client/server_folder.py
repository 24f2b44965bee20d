"""Fresh folder for each process of a server with {tmp} in its command."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fctncalling.envs.tools.box.callables import ToolDefinitionError

_PLACE = re.compile(r"\{tmp(?::([^{}]*))?\}")


def seeds_of(texts: Iterable[str], place: str) -> list[Path]:
    """Return the folders that {tmp:FOLDER} names; ToolDefinitionError for a missing one."""
    named = {unquote(name) for text in texts for name in _PLACE.findall(text) if name}
    for folder in map(Path, named):
        if not folder.is_dir():
            raise ToolDefinitionError(f"{place}: {folder}: expected a folder to copy into {{tmp}}")
    return [Path(name) for name in sorted(named)]


class ServerFolder:
    """Private folder of one server process, which is removed after it.

    Where `texts`, the command and the values of its environment, say {tmp} or {tmp:SEED}, it is
    made, SEED's files are copied in, and its path stands for {tmp} in them and in arguments.
    Results say {tmp} for its path, so that two processes answer alike.
    """

    def __init__(self, texts: Iterable[str], place: str) -> None:
        texts = list(texts)
        self._path = ""
        if not any(map(_PLACE.search, texts)):
            return
        seeds = seeds_of(texts, place)
        self._path = os.path.realpath(tempfile.mkdtemp(prefix="fctncalling_"))
        for seed in seeds:
            shutil.copytree(seed, self._path, symlinks=True, dirs_exist_ok=True)

    def filled(self, value: Any) -> Any:
        """Replace {tmp} in a text, list or object by the folder's path."""
        if not self._path:
            return value
        if isinstance(value, str):
            return _PLACE.sub(lambda _: self._path, value)
        if isinstance(value, Mapping):
            return {self.filled(key): self.filled(item) for key, item in value.items()}
        return [self.filled(item) for item in value] if isinstance(value, list | tuple) else value

    def masked(self, text: str) -> str:
        """Replace the folder's path in a server's text by {tmp}."""
        return text.replace(self._path, "{tmp}") if self._path else text

    def remove(self) -> None:
        """Remove the folder after its process has ended."""
        if self._path:
            shutil.rmtree(self._path, ignore_errors=True)
