"""User texts of multi-turn plans, worded as requests of any API."""

from fctncalling.lab.forge.words.turn_check import faults_of
from fctncalling.lab.forge.words.turn_texts import CannotSay, user_texts

__all__ = ["CannotSay", "faults_of", "user_texts"]
