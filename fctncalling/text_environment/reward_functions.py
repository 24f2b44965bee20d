"""Call user reward functions, batched or one response at a time."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

logger = logging.getLogger(__name__)

RewardFunction = Callable[..., Any]


def call_reward_fn(
    function: RewardFunction, responses: Sequence[str], keywords: Mapping[str, Any]
) -> list[Any]:
    """Return one reward a response.

    A function is given all responses and the keywords as they are, and returns a sequence; a single
    number stands for every response. One that names its parameters in the singular (`answer`, where
    `answers` is given) is asked response by response; where it raises for one, that response's
    reward is NaN, which learning leaves out.
    """
    single = _singular_arguments(function, keywords)
    if single is not None:
        return [
            _call_one(function, index, response, single) for index, response in enumerate(responses)
        ]
    rewards = function(list(responses), **keywords)
    if not hasattr(rewards, "__len__"):
        return [rewards] * len(responses)
    if len(rewards) != len(responses):
        raise ValueError(
            f"reward_fn returned {len(rewards)} rewards for {len(responses)} responses: expected "
            "one each"
        )
    return list(rewards)


def _singular_arguments(
    function: RewardFunction, keywords: Mapping[str, Any]
) -> dict[str, Sequence[Any]] | None:
    """Return keyword -> its values, one a response, under the names of a function that takes one.

    None for others.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()) or set(keywords) & set(
        parameters
    ):
        return None
    found = {name: keywords[f"{name}s"] for name in parameters if f"{name}s" in keywords}
    return found if found and len(found) == len(keywords) else None


def _call_one(
    function: RewardFunction, index: int, response: str, keywords: Mapping[str, Sequence[Any]]
) -> Any:
    arguments = {name: values[index] for name, values in keywords.items()}
    try:
        return function(response, **arguments)
    except Exception as error:
        logger.warning(
            "reward_fn raised %s for response %d (%r): it gets none",
            repr(error),
            index,
            response[:80],
        )
        return math.nan
