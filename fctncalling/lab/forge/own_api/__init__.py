"""Tasks of a user's own API: drawn, put into words, proven, written with a ledger."""

from fctncalling.lab.forge.own_api.own_forge import add_own_arguments, run_own

__all__ = ["add_own_arguments", "run_own"]
