"""Single-turn tasks: BFCL's categories, drawn from a library of functions."""

from fctncalling.lab.forge.single_turn.entries import CATEGORIES, single_turn_entry

__all__ = ["CATEGORIES", "single_turn_entry"]
