"""Entry of a multi-turn task: a proven plan and words that say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fctncalling.lab.forge.forged_entry import ForgedEntry
from fctncalling.lab.forge.measures import occurs
from fctncalling.lab.forge.multi_turn import HISTORY_DIALS, Dials, multi_turn_plan
from fctncalling.lab.forge.multi_turn.dials import CRITICAL_DIALS
from fctncalling.lab.forge.multi_turn.proof import criticality
from fctncalling.lab.forge.plan import Plan, plan_provenance, task_entry
from fctncalling.lab.forge.words import CannotSay, user_texts

PLANS = 50  # plans tried for a task


def multi_turn_entry(
    category: str,
    seed: int,
    index: int,
    attempt: int = 0,
    dials: Dials | None = None,
    apis: Sequence[str] = (),
) -> ForgedEntry:
    """Return task `index` of a category; another `attempt` gives another task in its place.

    Nothing but these arguments decides; apis: classes that a plan may involve. Raises
    LongContextError where BFCL's tables are needed and missing, CannotSay where no plan could be
    worded.
    """
    for number in range(PLANS):
        plan = multi_turn_plan(category, seed, index, attempt * PLANS + number, dials, apis)
        if adds_mentions_to_tweet_without_any(plan):
            continue
        measured = criticality(plan) if dials == CRITICAL_DIALS else None
        if dials == CRITICAL_DIALS and measured is None:
            continue
        try:
            texts = user_texts(plan)
        except CannotSay:
            continue
        if dials == HISTORY_DIALS and not _needs_history(plan, texts):
            continue
        entry = task_entry(plan, texts, f"{category}_{index}")
        told: dict[str, Any] = {"plan": plan.seed, "plans_without_words": number}
        told |= plan_provenance(plan) | ({"criticality": measured} if measured else {})
        return ForgedEntry(entry, plan.difficulty, told)
    raise CannotSay(f"{category}: none of {PLANS} plans of number {index} could be worded")


def adds_mentions_to_tweet_without_any(plan: Plan) -> bool:
    """Whether a plan adds mentions to a tweet posted without any.

    The official package then extends a list that all its instances share, in one process, so that
    it refuses the very truth of such a task (the default argument of `post_tweet`).
    """
    config = plan.initial_config.get("TwitterAPI", {})
    number = config.get("tweet_counter", 0)
    bare = set[Any]()
    for call in plan.calls:
        if call.function == "post_tweet":
            if "mentions" not in call.arguments:
                bare.add(number)
            number += 1
        elif call.function == "mention" and call.arguments["tweet_id"].value in bare:
            return True
    return False


def _needs_history(plan: Plan, texts: Sequence[str]) -> bool:
    """Whether a value has to be remembered.

    From earlier words, a result or the initial state, and not to be read in the newest words.
    """
    newest = {turn: text for (turn, _), text in zip(plan.messages, texts, strict=True)}
    return any(
        value.provenance in ("said_before", "result", "state")
        and value.kind != "door"  # the four doors of every car
        and not occurs(value.value, newest[turn])
        for (turn, _), call in plan.placed_calls.items()
        for value in call.arguments.values()
    )
