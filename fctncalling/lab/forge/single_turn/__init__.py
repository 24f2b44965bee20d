"""Single-turn tasks: BFCL's categories, drawn from a library of functions."""

from fctncalling.lab.forge.single_turn.tasks import CATEGORIES, single_turn_entry

__all__ = ["CATEGORIES", "single_turn_entry"]
