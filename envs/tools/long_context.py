"""The long-context tables of BFCL: imported official data, never shipped, found when a task first needs them."""

from __future__ import annotations

import copy
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import fctncalling.data
from fctncalling.data.places import user_data_folder

FILE_NAME = "long_context.json"


class LongContextError(RuntimeError):
    """The long-context tables are absent or incomplete: ours to repair, never a model's mistake."""


def long_context_table(name: str) -> Any:
    """Return a private copy of one table, e.g. "MA_5_EXTENSION"; BFCL's Ellipsis entries are `...`.

    Looked for in the file or folder named by FCTNCALLING_LONG_CONTEXT, then in the package's data/bfcl and the user's
    data folder (where `import-bfcl` writes), then in bfcl/data below FCTNCALLING_SHARED. A variable set to a place
    without the file is an error.
    """
    path = long_context_path()
    tables = _read(path)
    if name not in tables:
        raise LongContextError(
            f'{path}: no long-context table "{name}" (has {", ".join(sorted(tables)) or "none"}). '
            "Import it anew with `python evaluate_fctncalling.py import-bfcl`."
        )
    return copy.deepcopy(tables[name])


def long_context_path() -> Path:
    """Return the JSON file the tables are read from; raises LongContextError, naming the cure, if there is none."""
    named = os.environ.get("FCTNCALLING_LONG_CONTEXT")
    if named:
        path = Path(named) / FILE_NAME if Path(named).is_dir() else Path(named)
        if path.is_file():
            return path
        raise LongContextError(f"FCTNCALLING_LONG_CONTEXT is set to {named}, but there is no file {path}.")
    places = [Path(str(fctncalling.data.__file__)).parent / "bfcl" / FILE_NAME, user_data_folder() / FILE_NAME]
    shared = os.environ.get("FCTNCALLING_SHARED")
    if shared:
        places.append(Path(shared) / "bfcl" / "data" / FILE_NAME)
    for path in places:
        if path.is_file():
            return path
    raise LongContextError(
        f"a long-context task needs BFCL's {FILE_NAME}, which is official data and not part of this project; "
        f"looked in {' and '.join(map(str, places))}. Import it with `python evaluate_fctncalling.py import-bfcl`, "
        "or set FCTNCALLING_LONG_CONTEXT to the file."
    )


@lru_cache(maxsize=4)
def _read(path: Path) -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(path.read_text("utf-8"), object_hook=_revive)
    return tables


def _revive(entry: dict[str, Any]) -> Any:
    """Return `...` for the marker that stands for it in JSON, any other object unchanged."""
    return ... if entry == {"__ellipsis__": True} else entry
