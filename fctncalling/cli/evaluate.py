"""Evaluation from the command line.

`evaluate_fctncalling.py SUBCOMMAND --help` shows what each part takes.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from importlib import import_module

from fctncalling.cli.registry import command_summary, subcommands
from fctncalling.cli.shared.output import ignore_broken_pipe
from fctncalling.cli.shared.parser import (
    OneLineParser,
    missing_library_message,
    plain_warnings,
    print_error,
)
from fctncalling.envs.named_tools import add_working_folder_to_path


def main(argv: Sequence[str] | None = None, *, prog: str = "evaluate_fctncalling.py") -> int:
    """Run the main command evaluate_fctncalling.py, a subcommand; return its exit code.

    0, 2 where what it was given cannot be read, 130 after Ctrl-C; SystemExit where nobody reads its
    output any more.
    """
    add_working_folder_to_path()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # models' texts may hold half characters
    with ignore_broken_pipe(goes_on=False):
        return _run(argv, prog)


def _run(argv: Sequence[str] | None, prog: str) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = OneLineParser(
        prog=prog,
        description=__doc__,
        epilog=f"example: {prog} verdicts --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listed = arguments[:1] in (["-h"], ["--help"])
    summaries = "one of:\n" + "\n".join(map(command_summary, subcommands())) if listed else None
    parser.add_argument_group(description=summaries).add_argument(
        "subcommand", choices=list(subcommands())
    )
    if not listed and (not arguments or arguments[0].startswith("-")):
        example = "run --agent hf:MODEL --dataset_path FILE, which plays tasks with a model"
        parser.error(f"expected a subcommand first, such as {example}")
    chosen: str = parser.parse_args(arguments[:1]).subcommand
    module = import_module(subcommands()[chosen])
    subparser = OneLineParser(
        prog=f"{parser.prog} {chosen}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(subparser)
    args = subparser.parse_args(arguments[1:])
    try:
        with plain_warnings():
            exit_code: int = module.run(args)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        if reason := missing_library_message(error):
            return print_error(reason)
        raise
    except Exception as error:
        from fctncalling.cli.shared.tool_flags import USER_ERRORS

        if isinstance(error, USER_ERRORS):  # no bug of ours
            return print_error(error)
        raise
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
