"""Evaluation from the command line: `evaluate_fctncalling.py SUBCOMMAND --help` shows what each part takes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

SUBCOMMANDS = {
    "verdicts": "fctncalling.cli.verdicts",
    "execute": "fctncalling.cli.execute",
    "canaries": "fctncalling.cli.canaries",
    "run": "fctncalling.cli.run",
    "replay": "fctncalling.cli.replay",
    "score": "fctncalling.cli.score",
    "lint": "fctncalling.cli.lint",
    "export": "fctncalling.cli.export",
    "import-bfcl": "fctncalling.cli.import_bfcl",
}
"""Subcommand -> module with add_arguments(parser) and run(args) -> exit code; imported only when it is asked for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code: 0, or 2 where what it was given cannot be read."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="evaluate_fctncalling.py",
        description=__doc__,
        epilog="example: evaluate_fctncalling.py verdicts --help",
    )
    parser.add_argument("subcommand", choices=sorted(SUBCOMMANDS))
    chosen: str = parser.parse_args(arguments[:1]).subcommand
    module = import_module(SUBCOMMANDS[chosen])
    subparser = argparse.ArgumentParser(
        prog=f"{parser.prog} {chosen}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(subparser)
    exit_code: int = module.run(subparser.parse_args(arguments[1:]))
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
