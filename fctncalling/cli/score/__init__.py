"""The score subcommand."""

from fctncalling.cli.score.command import add_arguments, run

__all__ = ["add_arguments", "run"]
