"""Episodes as chat messages in OpenAI's form, for agents and trainers of other libraries."""

from fctncalling.lab.dialogue.dialogue import Dialogue, info_to_json, opening, score

__all__ = ["Dialogue", "info_to_json", "opening", "score"]
