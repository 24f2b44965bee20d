"""Arguments of calls, drafted from what is known, what there is and what users say."""

from fctncalling.lab.forge.multi_turn.arguments.argument_drafts import ARGUMENT_DRAFTS
from fctncalling.lab.forge.multi_turn.arguments.car_couplings import newest_shown_numbers
from fctncalling.lab.forge.multi_turn.arguments.drafter import (
    Drafter,
    inferred_value,
    verbatim_value,
)

__all__ = ["ARGUMENT_DRAFTS", "Drafter", "inferred_value", "newest_shown_numbers", "verbatim_value"]
