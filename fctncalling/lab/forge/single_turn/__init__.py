"""Single-turn tasks: function docs of our own making, questions in words that fit."""

from fctncalling.lab.forge.single_turn.entries import CATEGORIES, single_turn_entry

__all__ = ["CATEGORIES", "single_turn_entry"]
