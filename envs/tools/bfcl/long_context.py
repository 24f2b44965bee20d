"""BFCL's long-context tables.

Imported official data, never shipped, found when a task first needs them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import fctncalling.data
from fctncalling.data.paths import user_data_folder

FILE_NAME = "long_context.json"


class LongContextError(RuntimeError):
    """Error of missing or incomplete long-context tables, never the model's fault."""


def long_context_table(name: str) -> Any:
    """Return one long-context table, e.g. "MA_5_EXTENSION", as a private copy.

    BFCL's Ellipsis entries are `...`.

    Looked for in the file or folder named by FCTNCALLING_LONG_CONTEXT, then in the package's
    data/bfcl and the user's data folder (where `import-bfcl` writes), then in bfcl/data below
    FCTNCALLING_SHARED. A variable set to a place without the file is an error.
    """
    location = os.environ.get("FCTNCALLING_LONG_CONTEXT")
    tables = _tables_at(location) if location else _read(str(long_context_path()))
    return tables.copy_of(name)


def long_context_path() -> Path:
    """Return the path of the JSON file of the long-context tables.

    Raises LongContextError, naming the cure, if there is none.
    """
    location = os.environ.get("FCTNCALLING_LONG_CONTEXT")
    if location:
        path = Path(location) / FILE_NAME if Path(location).is_dir() else Path(location)
        if path.is_file():
            return path
        raise LongContextError(
            f"FCTNCALLING_LONG_CONTEXT is set to {location}, but there is no file {path}."
        )
    places = [
        Path(str(fctncalling.data.__file__)).parent / "bfcl" / FILE_NAME,
        user_data_folder() / FILE_NAME,
    ]
    shared = os.environ.get("FCTNCALLING_SHARED")
    if shared:
        places.append(Path(shared) / "bfcl" / "data" / FILE_NAME)
    for path in places:
        if path.is_file():
            return path
    raise LongContextError(
        f"a long-context task needs BFCL's {FILE_NAME}, which is official data and not part of "
        f"this project; looked in {' and '.join(map(str, places))}. Import it with `fctncalling "
        "import-bfcl`, or set FCTNCALLING_LONG_CONTEXT to the file."
    )


class JsonCachedList(list[Any]):
    """List that caches its JSON text; a private copy of a table.

    A thousand figures take longer to write than the rest of an episode.
    """

    __slots__ = ("_table",)

    def __init__(self, table: _Table) -> None:
        super().__init__(table.items)
        self._table = table

    def json_text(self) -> str:
        """Return the list's JSON text, cached unless something was changed."""
        return self._table.json_text if self == self._table.items else json.dumps(list(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        copied: list[Any] = memo.setdefault(id(self), list(self))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


class _Table:
    """List of atoms that caches its JSON text."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    @cached_property
    def json_text(self) -> str:
        return json.dumps(self.items)


class _Tables:
    """Tables of one file.

    They are copied for every answer, so what holds atoms only is copied in one piece.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._tables: dict[str, Any] = json.loads(
            Path(path).read_text("utf-8"),
            object_hook=lambda entry: ... if entry == {"__ellipsis__": True} else entry,
        )
        self._flat = frozenset(_flat_containers(self._tables.values()))
        lists = {name: table for name, table in self._tables.items() if isinstance(table, list)}
        self._listings = {
            name: _Table(table) for name, table in lists.items() if id(table) in self._flat
        }

    def copy_of(self, name: str) -> Any:
        if name not in self._tables:
            raise LongContextError(
                f'{self._path}: no long-context table "{name}" (has '
                f"{', '.join(sorted(self._tables)) or 'none'}). "
                "Import it anew with `fctncalling import-bfcl`."
            )
        if name in self._listings:
            return JsonCachedList(self._listings[name])
        return self._copied(self._tables[name])

    def _copied(self, value: Any) -> Any:
        if id(value) in self._flat:
            return value.copy()
        if isinstance(value, list):
            return [self._copied(item) for item in value]
        if isinstance(value, dict):
            return {key: self._copied(item) for key, item in value.items()}
        return value


def _flat_containers(values: Iterable[Any]) -> Iterable[int]:
    """Yield the ids of lists and objects that contain no other."""
    for value in values:
        if isinstance(value, list | dict):
            inside = list(value.values()) if isinstance(value, dict) else value
            if any(isinstance(item, list | dict) for item in inside):
                yield from _flat_containers(inside)
            else:
                yield id(value)


@lru_cache(maxsize=4)
def _read(path: str) -> _Tables:
    return _Tables(path)


@lru_cache(maxsize=4)
def _tables_at(place: str) -> _Tables:
    """Load the tables at the path in an environment variable, once."""
    return _read(str(long_context_path()))
