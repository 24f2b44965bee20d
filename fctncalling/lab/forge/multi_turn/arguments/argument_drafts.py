"""Registry of functions whose arguments are drafted together."""

from __future__ import annotations

from fctncalling.lab.forge.multi_turn.arguments import (
    car_couplings,
    desk_couplings,
    file_couplings,
    trade_couplings,
)
from fctncalling.lab.forge.multi_turn.arguments.drafter import Draft

ARGUMENT_DRAFTS: dict[str, Draft] = {
    **desk_couplings.DRAFTS,
    **file_couplings.DRAFTS,
    **trade_couplings.DRAFTS,
    **car_couplings.DRAFTS,
}
"""Function -> draft of all its arguments; of any other function each is drafted by its kind."""
