"""fctncalling: train, evaluate and look at language models that call functions over many turns."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fctncalling
from fctncalling.cli.evaluate import main as evaluate
from fctncalling.cli.registry import subcommands, summary
from fctncalling.cli.shared.parser import OneLineParser

SHELLS = ("bash", "zsh", "tcsh")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    `train`, `evaluate` and each of its subcommands, `completion`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return 0
    chosen, rest = arguments[0], arguments[1:]
    if chosen == "--version":
        print(f"fctncalling {fctncalling.__version__}")
        return 0
    commands = ("train", "evaluate", "completion", *subcommands())
    if chosen not in commands:
        OneLineParser("fctncalling").error(
            f"invalid choice: '{chosen}' (choose from {', '.join(map(repr, commands))})"
        )
    if chosen == "train":
        from fctncalling.cli.train import main as train

        return train(rest)
    if chosen == "completion":
        return _print_completion(rest)
    if chosen == "evaluate":
        return evaluate(rest, prog="fctncalling evaluate")
    return evaluate(arguments, prog="fctncalling")


def overview() -> str:
    """Return the list of commands."""
    train = "Train a policy to call functions over several turns, or continue a run."
    lines = [
        f"fctncalling {fctncalling.__version__}: {(__doc__ or '').partition(': ')[2]}",
        "",
        "usage: fctncalling COMMAND [--FLAG VALUE ...]; fctncalling COMMAND --help explains each",
        "",
        f"  {'train':12} {train}",
        *map(summary, subcommands()),
        f"  {'completion':12} Print completions for a shell: fctncalling completion bash",
    ]
    return "\n".join(lines)


def _print_completion(arguments: Sequence[str]) -> int:
    """Print the completion script of a shell; its flags are those of today."""
    parser = OneLineParser("fctncalling completion", description="Print completions for a shell.")
    parser.add_argument("shell", choices=SHELLS)
    shell = parser.parse_args(arguments).shell
    try:
        import shtab
    except ImportError:
        print(
            "error: completion needs shtab: pip install 'fctncalling[completion]'", file=sys.stderr
        )
        return 2
    print(shtab.complete(command_parser(), shell))
    return 0


def command_parser() -> OneLineParser:
    """Return one parser with every command and flag, as completion scripts are made from."""
    from importlib import import_module

    from fctncalling.algorithms.config import TrainConfig, config_fields
    from fctncalling.training.run_config import RunConfig

    parser = OneLineParser("fctncalling")
    commands = parser.add_subparsers(dest="command")
    train = commands.add_parser("train", help="train a policy")
    config_fields.add_arguments(train, TrainConfig)
    config_fields.add_arguments(train, RunConfig)
    for name, module in subcommands().items():
        import_module(module).add_arguments(commands.add_parser(name))
    return parser
