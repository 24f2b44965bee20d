"""The run subcommand."""

from fctncalling.cli.run.command import add_arguments, run

__all__ = ["add_arguments", "run"]
