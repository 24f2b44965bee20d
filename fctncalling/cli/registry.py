"""Registry of commands: the core's, and the laboratory's.

The core never imports `fctncalling.lab`. A module of the laboratory with `add_arguments`, or the
`command.py` of a folder, is found by its place and becomes a subcommand of the module's or folder's
name, or of its constant `COMMAND`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import fctncalling
from fctncalling.laboratory import LABORATORY, laboratory_folders

CORE_COMMANDS = {
    "verdicts": "fctncalling.cli.verdicts",
    "execute": "fctncalling.cli.execute",
    "run": "fctncalling.cli.run.command",
    "score": "fctncalling.cli.score.command",
}


@cache
def subcommands() -> dict[str, str]:
    """Return all subcommands: name -> module with add_arguments(parser) and run(args).

    Modules are imported only when their command is called.
    """
    found = dict(CORE_COMMANDS)
    for folder in laboratory_folders():
        for file in (*folder.glob("*.py"), *folder.glob("*/command.py")):
            module = ".".join(file.relative_to(folder).with_suffix("").parts)
            text, name = file.read_text(encoding="utf-8"), module.removesuffix(".command")
            if named := re.search(r'^COMMAND = "(.+)"', text, re.MULTILINE):
                found[named[1]] = f"{LABORATORY}.{module}"
            elif "\ndef add_arguments(" in text:
                found[name.replace("_", "-")] = f"{LABORATORY}.{module}"
    return dict(sorted(found.items()))


def command_summary(subcommand: str) -> str:
    """Return the summary of a subcommand: the first paragraph of its module's docstring.

    The file is found by its name and read as text: to ask where a module lies would import the
    packages above it.
    """
    names = subcommands()[subcommand].split(".")[1:]
    file = Path(str(fctncalling.__file__)).parent.joinpath(*names).with_suffix(".py")
    found = re.match(r'"""(.+?)(?:\n\n|""")', file.read_text(encoding="utf-8"), re.DOTALL)
    return f"  {subcommand:12} {' '.join(found[1].split()) if found else ''}".rstrip()
