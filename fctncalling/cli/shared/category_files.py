"""A category's task file, and its folder in BFCL's trees of results and scores."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.data.agentic_tasks import MEMORY, WEB_SEARCH, variant_of
from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.errors import TaskError
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY
from fctncalling.data.format_sensitivity import load_format_sensitivity
from fctncalling.data.types import Task


def tasks_of(path: Path, category: str, self_documented: Collection[str] = ()) -> Iterator[Task]:
    """Yield a category's tasks of a folder or file, in constant memory; raises InputError.

    Those of format sensitivity are read at once.

    Of the `self_documented` classes, which a user brings, function docs may be missing.
    """
    try:
        if not path.is_dir() and path.exists():
            tasks = iter_tasks(path, self_documented=self_documented)
            yield from (task for task in tasks if task.category == category)
            return
        file = category_file(path, category)
        if file is None:
            raise InputError(
                f"{path / f'BFCL_v4_{category}.json'}: there is no task file of category "
                f"{category}. {_instead(path)}"
            )
        if category == FORMAT_SENSITIVITY:
            yield from load_format_sensitivity(path)
        else:
            yield from iter_tasks(file, self_documented=self_documented)
    except TaskError as error:
        raise InputError(str(error)) from None


def category_file(folder: Path, category: str) -> Path | None:
    """Return the file (or the variant of one) with a category's tasks; None if there is none."""
    path = folder / f"BFCL_v4_{category}.json"
    if path.is_file() or variant_of(path) is not None:
        return path
    name = re.compile(rf"(BFCL_v\d+_)?{re.escape(category)}\.jsonl?")
    others = sorted(file for file in folder.glob("*.json*") if name.fullmatch(file.name))
    return others[-1] if others else None


def _instead(folder: Path) -> str:
    """Return the cure for a missing category file: the available categories or the import."""
    stems = [re.sub(r"BFCL_v\d+_", "", path.stem) for path in sorted(folder.glob("BFCL_v*.json"))]
    if not stems:
        return (
            "Import the official data with `fctncalling import-bfcl`, or name your tasks by "
            "--dataset_path."
        )
    variants = {"memory": MEMORY, "web_search": WEB_SEARCH}
    return (
        "Expected one of "
        f"{', '.join(name for stem in stems for name in variants.get(stem, (stem,)))}."
    )


def folder_name(model: str) -> str:
    """Return BFCL's folder name for a model; never a path of several parts."""
    name = model.replace("/", "_").replace("\\", "_")
    return "_" if name in ("", ".", "..") else name


def folder_of(category: str) -> Path:
    """Return BFCL's folder for a category's files, relative to the model's folder."""
    if category == FORMAT_SENSITIVITY:
        return Path(FORMAT_SENSITIVITY)
    if category.startswith("memory"):
        return Path("agentic", "memory", category.removeprefix("memory_"))
    groups = {"live": "live", "multi_turn": "multi_turn", "web_search": "agentic"}
    return Path(next((groups[name] for name in groups if category.startswith(name)), "non_live"))
