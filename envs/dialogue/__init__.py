"""Episodes as chat messages in OpenAI's form, for agents and trainers of other libraries."""

from fctncalling.envs.dialogue.dialogue import Dialogue, opening, score
from fctncalling.envs.dialogue.info_json import info_to_json

__all__ = ["Dialogue", "info_to_json", "opening", "score"]
