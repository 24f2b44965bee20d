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
import json
import sys
from functools import partial
from pathlib import Path

from fctncalling.cli.shared.jsonl_records import with_progress_bar
from fctncalling.cli.shared.parser import add_flag, add_json_switch, add_switch
from fctncalling.data.paths import official_data_folder
from fctncalling.lab.import_bfcl.official_import import (
    WrittenFile,
    manifest,
    open_package,
    write_files,
)
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
        print(f"error: {error}", file=sys.stderr)
        return 2
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
