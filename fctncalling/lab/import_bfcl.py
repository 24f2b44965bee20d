"""Import BFCL's official data: task files, possible answers, function docs and long-context tables.

They come out of the pinned official wheel, which pip downloads without its dependencies, or out of
a copy of it given as --source. Nothing of it is installed, imported or run: files are checked by
their hashes and copied, the tables are literals read from the text of one module. They are written
to data/bfcl of a source checkout, else to the user's data folder (~/.local/share/fctncalling/bfcl),
where the environment and the other subcommands find them.

example:
  fctncalling import-bfcl --data_dir data/bfcl
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fctncalling.cli.shared.jsonl_records import with_progress_bar
from fctncalling.cli.shared.output import next_command
from fctncalling.cli.shared.parser import add_flag, add_json_switch, add_switch, print_error
from fctncalling.data.paths import official_data_folder
from fctncalling.model_folder import ImportFailure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    add("--data_dir", Path, "FOLDER", f"folder to write to; default: {official_data_folder()}")
    add("--source", Path, "PATH", "official wheel or folder, in place of the download")
    add_switch(parser, "--accept_changed", "take files whose hashes are not the recorded ones")
    add_json_switch(parser)


def run(args: argparse.Namespace) -> int:
    """Import everything.

    Return 0, or 2 with one message where something cannot be got, read or written.
    """
    target = args.data_dir or official_data_folder()
    try:
        with open_package(args.source) as read:
            files = write_files(read, target, accept_changed=args.accept_changed)
            written = list(with_progress_bar(files, "writing", "file", len(manifest()["files"])))
    except (ImportFailure, OSError) as error:
        return print_error(error)
    if args.json:
        print(json.dumps(_report(target, written, args.source), indent=2))
    else:
        _print_summary(target, written)
    return 0


def _report(target: Path, written: list[WrittenFile], source: Path | None) -> dict[str, object]:
    return {
        "package": f"{manifest()['package']} {manifest()['version']}",
        "source": "download" if source is None else str(source),
        "data_dir": str(target),
        "files": {str(each.path.relative_to(target)): each.size for each in written},
        "changed": [str(each.path.relative_to(target)) for each in written if each.changed],
    }


def _print_summary(target: Path, written: list[WrittenFile]) -> None:
    for folder in dict.fromkeys(each.path.parent for each in written):
        inside = [each for each in written if each.path.parent == folder]
        print(f"{folder}: {len(inside)} files, {sum(each.size for each in inside):,} bytes")
    for each in written:
        if each.changed:
            print(f"not the recorded file, taken as it is: {each.path}", file=sys.stderr)
    pinned = manifest()
    print(
        f"{pinned['package']} {pinned['version']} ({pinned['license']}; {pinned['authors']}) is "
        f"imported to {target}"
    )
    print(next_command("doctor", "--model", "MODEL", "--dataset_path", EXAMPLE_FILE))


EXAMPLE_FILE = "BFCL_v4_simple_python.json"
TABLES = "long_context.json"
"""The one file that is made, not copied: the literals of a module, as JSON."""

_MANIFEST = Path(__file__).with_suffix(".json")
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


def download_wheel(
    package: str, version: str, folder: Path, *, show_progress: bool = False
) -> Path:
    """Download the wheel of a pinned package, without its dependencies, and return its path.

    show_progress: whether pip's own progress is shown, on stderr. Raises ImportFailure where pip
    cannot be run or gets no wheel.
    """
    requirement = f"{package}=={version}"
    # without --only-binary a source archive's setup.py would be run
    command = [sys.executable, *"-m pip download --no-deps --only-binary=:all:".split()]
    command += ["--disable-pip-version-check", *([] if show_progress else ["--quiet"])]
    command += ["--dest", str(folder), requirement]
    shown = sys.stderr if show_progress else subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise ImportFailure(f"pip cannot be run: {error}") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        message = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise ImportFailure(
            f"`pip download --no-deps --only-binary=:all: {requirement}` failed: {message}. "
            "Without network, pass --source with the wheel or an unpacked copy of it."
        )
    return wheels[0]


def write_files(read: Read, target: Path, *, accept_changed: bool) -> Iterator[WrittenFile]:
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
        content = module_constants_json(raw, entry["source"]) if name == TABLES else raw
        contents.append((target / name, content, changed))
    for path, content, changed in contents:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.part")
        partial.write_bytes(content)
        partial.replace(path)
        yield WrittenFile(path, len(content), changed)
    origin = {key: value for key, value in manifest().items() if key != "files"}
    (target / "SOURCE.json").write_text(json.dumps(origin, indent=1) + "\n", "utf-8")


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
    if any(folder.glob("BFCL_v*.json")):
        raise ImportFailure(
            f"{folder}: holds task files already: nothing is to be imported. Every command takes "
            f"them by --dataset_path {folder}"
        )
    raise ImportFailure(f"{folder}: there is no bfcl_eval/data in it. {_expected()}")


def _require_own_folder(target: Path) -> None:
    resolved = target.resolve()
    names = ("purelib", "platlib", "stdlib")
    installed = [Path(sysconfig.get_path(name)).resolve() for name in names]
    is_among = any(resolved.is_relative_to(place) for place in installed)
    if is_among or "site-packages" in resolved.parts:
        raise ImportFailure(
            f"{target} lies among installed packages: pass a --data_dir of your own"
        )
    if target.exists() and not target.is_dir():
        raise ImportFailure(f"{target} is a file: pass a folder as --data_dir")


def _expected() -> str:
    return f"Expected {manifest()['package']} {manifest()['version']}, as a wheel or unpacked."
