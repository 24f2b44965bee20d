"""Print completions for a shell: fctncalling completion bash.

example:
  fctncalling completion bash > ~/.local/share/bash-completion/completions/fctncalling
"""

from __future__ import annotations

import argparse
from importlib import import_module

from fctncalling.algorithms.config import TrainConfig, config_fields
from fctncalling.cli.registry import subcommands
from fctncalling.cli.shared.parser import print_error
from fctncalling.training.run_config import RunConfig

SHELLS = ("bash", "zsh", "tcsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's argument."""
    parser.add_argument("shell", choices=SHELLS)


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script of a shell, with the current flags."""
    try:
        import shtab
    except ImportError:
        return print_error("completion needs shtab: pip install 'fctncalling[completion]'")
    print(shtab.complete(command_parser(), arguments.shell))
    return 0


def command_parser() -> argparse.ArgumentParser:
    """Return one parser with every command and flag, as completion scripts are made from."""
    parser = argparse.ArgumentParser("fctncalling")
    commands = parser.add_subparsers(dest="command")
    train = commands.add_parser("train", help="train a policy")
    config_fields.add_arguments(train, TrainConfig, RunConfig)
    for name, module in subcommands().items():
        import_module(module).add_arguments(commands.add_parser(name))
    return parser
