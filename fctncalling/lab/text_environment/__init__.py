"""TextEnvironment: the interface that TRL dropped."""

from fctncalling.lab.text_environment.attributes import load_tool
from fctncalling.lab.text_environment.text_environment import TextEnvironment
from fctncalling.lab.text_environment.text_history import TextHistory
from fctncalling.lab.text_environment.text_trainer import TextTrainer

__all__ = ["TextEnvironment", "TextHistory", "TextTrainer", "load_tool"]
