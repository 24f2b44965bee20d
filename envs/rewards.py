"""Rewards of a step, computed from its outcome; no reward changes a verdict."""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fctncalling.checkers.clarify import calls_are_right, is_question
from fctncalling.data.errors import MAX_REWARD, RewardError
from fctncalling.data.types import StepRecord, Task, Verdict
from fctncalling.envs.errors import InfrastructureError


class StepOutcome(NamedTuple):
    """Outcome of a step, the input of a reward: the episode's state after the step."""

    step: StepRecord
    verdict: Verdict | None  # None until the episode's last step
    # asks the checker whether this step ended a scored turn, and it passed
    turn_passed: Callable[[], bool]
    turn_is_strict: Callable[[], bool]  # whether nothing had to be forgiven in this step's turn
    strict_verdict: Verdict | None  # None until the episode's last step, as the official one is
    shares: int  # scored turns of the task, at least 1: each is worth 1 / shares
    paid: float  # rewards of this episode so far, added up in order


QUESTION_COST = 0.2  # a fifth of a success
Reward = Callable[[StepOutcome], float]
UserReward = Callable[[StepRecord, Verdict | None], float]


def success(outcome: StepOutcome) -> float:
    """Pay 1 at the end of an episode with a valid official verdict, else 0."""
    return 1.0 if outcome.verdict is not None and outcome.verdict.valid else 0.0


def progress(outcome: StepOutcome) -> float:
    """Pay a turn's share when the turn ends and passes; a valid episode returns 1.

    The n scored turns of a task are worth 1/n each. A turn with an empty ground truth is worth
    nothing: BFCL checks nothing there, so a share for it would be a gift (in `multi_turn_miss_*` a
    fifth of all turns). The last share is paid only with a valid verdict, hence an episode returns
    1 if and only if it is valid; the final reward of a valid episode is what is missing to 1, so
    that rounding cannot spoil it. A turn passes or fails by itself, as BFCL's state and response
    checks see it: an earlier failure does not forfeit later shares. Single-turn tasks have one
    share: progress and success are the same there.
    """
    share = 1.0 / outcome.shares
    if outcome.verdict is not None and outcome.verdict.valid:
        return 1.0 - outcome.paid
    is_last_share = outcome.paid + share > 1.0 - share / 2
    return share if not is_last_share and outcome.turn_passed() else 0.0


def strict_success(outcome: StepOutcome) -> float:
    """Pay 1 at the end of an episode with a valid strict verdict, else 0."""
    return 1.0 if outcome.strict_verdict is not None and outcome.strict_verdict.valid else 0.0


def strict_progress(outcome: StepOutcome) -> float:
    """Pay a turn's share when the turn passes without any leniency.

    The last share is paid only with a valid strict verdict, hence an episode returns 1 if and only
    if that is valid.
    """
    strict_outcome = outcome._replace(
        verdict=outcome.strict_verdict,
        turn_passed=lambda: outcome.turn_passed() and outcome.turn_is_strict(),
    )
    return progress(strict_outcome)


class ClarifyReward:
    """Reward of clarify tasks, in which the agent may ask the user.

    1 for right calls at the end, minus `question_cost` for each question, which is a message
    without calls that the user answered.Right calls pay whatever was asked, so that the price alone
    decides how much a question is worth: above 1, asking never pays. Raises ValueError for a price
    that is negative or not finite.
    """

    def __init__(self, question_cost: float = QUESTION_COST) -> None:
        if not (math.isfinite(question_cost) and question_cost >= 0):
            raise ValueError(f"question_cost={question_cost}: expected a number of at least 0")
        self.question_cost = question_cost

    def __call__(self, step: StepRecord, verdict: Verdict | None) -> float:
        """Return the reward of a step; `verdict` is None before the last one."""
        is_asked = verdict is None and is_question(step)
        right = verdict is not None and calls_are_right(verdict)
        return float(right) - self.question_cost * is_asked


REWARDS: dict[str, Reward] = {
    "success": success,
    "progress": progress,
    "strict": strict_success,
    "strict_progress": strict_progress,
}
STRICT_REWARDS = ("strict", "strict_progress")  # they need the strict verdict


def get_reward(reward: str | UserReward) -> Reward:
    """Get a reward by name, or wrap a user's callable.

    A callable gets the `StepRecord` of the step just made (its `reward` field still 0) and the
    official `Verdict`, None before the last step; it returns a finite number. Its exceptions
    become a RewardError, and it is not called for a step whose infrastructure failed. Raises
    ValueError for an unknown name, TypeError for anything else.
    """
    if isinstance(reward, str):
        if reward not in REWARDS:
            names = ", ".join(f'"{name}"' for name in REWARDS)
            raise ValueError(
                f'unknown reward "{reward}": expected {names}, or a callable (StepRecord, Verdict '
                "| None) -> float."
            )
        return REWARDS[reward]
    if not callable(reward):
        raise TypeError(
            f"reward={reward!r} is neither a name nor callable: pass one of {sorted(REWARDS)}, "
            "or a callable (StepRecord, Verdict | None) -> float."
        )
    return lambda outcome: paid_by_user(
        reward, outcome.step, outcome.verdict, hint=_HINT if outcome.verdict is None else ""
    )


def is_strict_reward(reward: Reward) -> bool:
    """Whether a reward pays for strict verdicts, which depend on earlier messages."""
    return any(reward is REWARDS[name] for name in STRICT_REWARDS)


def is_user_reward(reward: str | UserReward) -> bool:
    """Whether a reward is a user's code, which may take long."""
    return callable(reward) and not isinstance(reward, ClarifyReward)


_HINT = "; before the last step verdict is None"


def paid_by_user(reward: Callable[..., Any], *arguments: Any, hint: str = "") -> float:
    """Call a user's reward; raises RewardError, with file and line, if it fails.

    hint: added to an error about None.
    """
    try:
        value = reward(*arguments)
    except (InfrastructureError, RewardError):
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        fault = f"{type(error).__name__}: {text}" + (hint if "None" in text else "")
        raise RewardError(f"reward {_place(reward, error)}: {fault}") from error
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not abs(number) <= MAX_REWARD:  # NaN is not either
        raise RewardError(
            f"reward {_place(reward)} returned {value!r:.80}: expected a finite number, from "
            f"-{MAX_REWARD:g} to {MAX_REWARD:g}, for every step"
        )
    return number


def _place(reward: Callable[..., Any], error: Exception | None = None) -> str:
    """Return a reward's name, and the last line of its file in an error's traceback."""
    named: Any = reward if hasattr(reward, "__qualname__") else type(reward)
    name = f"{named.__module__}:{named.__qualname__}"
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    file = getattr(sys.modules.get(named.__module__), "__file__", None)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f"{name}, line {lines[-1]}" if lines else name


def scored_turns(task: Task) -> Sequence[bool]:
    """Return for each turn whether BFCL checks it."""
    if not task.is_multi_turn:
        return (True,)
    return tuple(bool(turn) for turn in task.ground_truth or ())


def progress_share(task: Task, verdict: Verdict) -> float:
    """Return the share of a task's scored turns that pass, 0..1.

    It is 1 for every valid answer.
    """
    if verdict.valid:
        return 1.0
    scored = [
        passed
        for passed, counts in zip(verdict.per_turn, scored_turns(task), strict=False)
        if counts
    ]
    return sum(scored) / len(scored) if scored and task.is_multi_turn else 0.0
