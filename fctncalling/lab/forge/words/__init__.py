"""User texts of multi-turn plans, from a grammar of frames."""

from fctncalling.lab.forge.words.task_texts import CannotSay, user_texts
from fctncalling.lab.forge.words.turn_check import faults_of

__all__ = ["CannotSay", "faults_of", "user_texts"]
