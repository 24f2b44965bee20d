"""User texts of multi-turn plans, from a grammar of frames."""

from fctncalling.forge.words.turn_check import faults_of
from fctncalling.forge.words.user_texts import CannotSay, user_texts

__all__ = ["CannotSay", "faults_of", "user_texts"]
