"""fctncalling: train, evaluate and look at language models that call functions over many turns."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fctncalling
from fctncalling.cli.registry import command_summary, subcommands
from fctncalling.cli.shared.output import ignore_broken_pipe
from fctncalling.cli.shared.parser import OneLineParser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the main command `fctncalling`; return its exit code.

    `train`, `evaluate` and each of its subcommands.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        with ignore_broken_pipe(goes_on=False):
            print(commands_overview())
        return 0
    chosen, rest = arguments[0], arguments[1:]
    if chosen == "--version":
        print(f"fctncalling {fctncalling.__version__}")
        return 0
    commands = ("train", "evaluate", *subcommands())
    if chosen not in commands:
        OneLineParser("fctncalling").error(
            f"invalid choice: '{chosen}' (choose from {', '.join(map(repr, commands))})"
        )
    if chosen == "train":
        from fctncalling.cli.train import main as train

        return train(rest)
    from fctncalling.cli.evaluate import main as evaluate

    if chosen == "evaluate":
        return evaluate(rest, prog="fctncalling evaluate")
    return evaluate(arguments, prog="fctncalling")


def commands_overview() -> str:
    """Return the overview of all commands, for the help."""
    train = "Train a policy to call functions over several turns, or continue a run."
    evaluate = "The commands below by their longer name: fctncalling evaluate run ..."
    lines = [
        f"fctncalling {fctncalling.__version__}: {(__doc__ or '').partition(': ')[2]}",
        "",
        "usage: fctncalling COMMAND [--FLAG VALUE ...]; fctncalling COMMAND --help explains each",
        "",
        f"  {'train':12} {train}",
        f"  {'evaluate':12} {evaluate}",
        *map(command_summary, subcommands()),
    ]
    return "\n".join(lines)
