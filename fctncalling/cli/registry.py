"""Registry of commands: the core's own, and those that the laboratory adds.

The core never imports `fctncalling.lab`. A module of the laboratory with `add_arguments`, or the
`command.py` of a folder, is found by its place and becomes a subcommand of the module's or folder's
name, or of its constant `COMMAND`.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

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
            if name := _command_name(file, module.removesuffix(".command")):
                found[name] = f"{LABORATORY}.{module}"
    return dict(sorted(found.items()))


def command_summary(subcommand: str) -> str:
    """Return the summary of a subcommand: the first paragraph of its module's docstring."""
    spec = find_spec(subcommands()[subcommand])
    assert spec is not None
    source = Path(str(spec.origin)).read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    first_paragraph = docstring.partition("\n\n")[0]
    return f"  {subcommand:12} {' '.join(first_paragraph.split())}"


def _command_name(file: Path, place: str) -> str:
    """Return the constant COMMAND of a command's module, else its place's name; "" for others."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMAND":
            return str(ast.literal_eval(node.value))
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return place.replace("_", "-") if "add_arguments" in functions else ""
