"""Plans of multi-turn tasks: worlds, moves, walks, proofs, variants."""

from fctncalling.lab.forge.multi_turn.dials import HISTORY_DIALS, Dials
from fctncalling.lab.forge.multi_turn.planner import CATEGORIES, multi_turn_plan

__all__ = ["CATEGORIES", "HISTORY_DIALS", "Dials", "multi_turn_plan"]
