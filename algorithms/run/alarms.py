"""Alarms: signs in the metrics that a run is going wrong. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import gt, lt
from statistics import fmean, median

History = Sequence[Mapping[str, float | None]]
"""Metrics of each update so far, in order, with the signals of `termination_metrics`."""

WINDOW = 5  # updates whose mean is judged
START = 3  # first updates that are compared with
LONG = 10  # updates whose median is judged, for what is common early in a run
QUIET = 10  # updates without an alarm before it is raised again
MIN_SIGNAL_SHARE = 0.1  # of the episodes, in groups whose returns differ
MIN_UPDATES_WITH_SIGNAL = 0.5  # of the updates
DIVERGENCE = 0.05  # change of return and of success, in opposite directions
ENTROPY_COLLAPSE = 0.1  # of the entropy at the start
ENTROPY_EXPLOSION = 3.0  # times the entropy at the start, and MIN_EXPLOSION nats more
MIN_EXPLOSION = 0.3
SOLVED = 0.9  # success rate from which a low entropy is fine
MAX_MISMATCH = 0.1  # share of tokens whose probability differs by more than 10 %
END_OF_TURN_DROP = 0.5  # of the end token's probability at the start
MAX_CUT = 0.3  # share of actions without an end
PARSE_ERROR_RISE = 0.2  # of the share of steps whose calls cannot be read
MIN_EXPLAINED = -0.02  # explained variance; a critic that says one number for all has 0
MOSTLY_MATCHED = 0.5  # share of actions valued by matched states, which need the critic little
MAX_LIMIT = 0.3  # share of episodes that a limit ended


@dataclass(frozen=True)
class Alarm:
    """Alarm about a run: what was seen, what it means and what to do."""

    update: int
    name: str
    message: str  # one sentence
    value: float
    threshold: float
    episodes: tuple[str, ...] = ()  # "train_000012:5": file and line of the episode log


Finding = tuple[str, float, float]  # (message, value, threshold)
Rule = Callable[[History], Finding | None]


def find_alarms(history: History) -> dict[str, Finding]:
    """Find the alarms after the last update of the history: name -> what is wrong."""
    found = {name: rule(history) for name, rule in RULES.items()}
    return {name: finding for name, finding in found.items() if finding is not None}


def new_alarms(history: History) -> list[Alarm]:
    """Return the alarms that are new after the last update of the history."""
    update = int(history[-1].get("update") or len(history)) if history else 0
    earlier = [history[: len(history) - back] for back in range(1, QUIET + 1)]
    return [
        Alarm(update, name, *finding)
        for name, finding in find_alarms(history).items()
        if not any(RULES[name](before) for before in earlier if before)
    ]


def _recent(history: History, name: str, window: int = WINDOW) -> list[float]:
    """Return a metric's values in the last `window` updates; [] if one of them has none."""
    known = list(_values(history[-window:], name))
    return known if len(known) == window else []


def _start(history: History, name: str) -> float | None:
    """Return a metric's mean over its first START values; None until WINDOW updates came after."""
    if len(history) < START + WINDOW:
        return None
    first = list(islice(_values(history, name), START))
    return fmean(first) if len(first) == START else None


def _values(history: History, name: str) -> Iterator[float]:
    for line in history:
        value = line.get(name)
        if value is not None and math.isfinite(value):
            yield value


def _no_signal(history: History) -> Finding | None:
    informative = _recent(history, "env/informative_share")
    if informative and fmean(informative) < MIN_SIGNAL_SHARE:
        share = fmean(informative)
        return (
            f"Only {share:.0%} of the episodes are in a group whose returns differ, so next to "
            "nothing is learned: take tasks that succeed sometimes (--task_sampling success), or "
            "a larger --group_size",
            share,
            MIN_SIGNAL_SHARE,
        )
    skipped = _recent(history, "update/policy_skipped")
    if skipped and 1.0 - fmean(skipped) < MIN_UPDATES_WITH_SIGNAL:
        return (
            f"In {sum(skipped):.0f} of the last {WINDOW} updates all episodes earned the same and "
            "the policy was not moved: take easier tasks, a reward for parts of one, or a model "
            "that solves some of them",
            1.0 - fmean(skipped),
            MIN_UPDATES_WITH_SIGNAL,
        )
    return None


def _reward_against_success(history: History) -> Finding | None:
    names = ("charts/episodic_return", "env/success_rate")
    earned, solved = (_recent(history, name, 4 * WINDOW) for name in names)
    if not earned or not solved:
        return None
    half = 2 * WINDOW
    more, better = (fmean(each[half:]) - fmean(each[:half]) for each in (earned, solved))
    if more > DIVERGENCE * max(1.0, abs(fmean(earned))) and better < -DIVERGENCE:
        return (
            f"The return rose by {more:.2f} while success fell by {-better:.2f}: the policy found "
            "something that pays without solving the task, so read the best-paid failures and mend "
            "the reward",
            better,
            -DIVERGENCE,
        )
    return None


def _solved(history: History) -> bool:
    solved = _recent(history, "env/success_rate")
    return bool(solved) and fmean(solved) >= SOLVED


def _needs_no_critic(history: History) -> bool:
    if history[-1].get("critic/weight") is not None:
        return True  # a critic that knows nothing has no part in the advantages
    matched = _recent(history, "critic/state_matched_share", LONG)
    return bool(matched) and median(matched) > MOSTLY_MATCHED


@dataclass(frozen=True)
class AlarmRule:
    """Rule of an alarm: a metric's recent values against a threshold."""

    metric: str
    is_wrong: Callable[[float, float], bool]  # of (recent, threshold), such as operator.gt
    threshold: Callable[[float], float] | float  # of the value at the start, where it is a function
    message: str  # with {start} and {recent}
    window: int = WINDOW
    average: Callable[[Sequence[float]], float] = fmean
    is_fine: Callable[[History], bool] | None = None  # where that is no fault

    def __call__(self, history: History) -> Finding | None:
        """Return what is wrong after the last update of the history."""
        start, threshold = 0.0, self.threshold
        values = _recent(history, self.metric, self.window)
        if callable(threshold):
            first = _start(history, self.metric)
            if first is None:
                return None
            start, threshold = first, threshold(first)
        recent = self.average(values) if values else threshold
        if not self.is_wrong(recent, threshold) or (self.is_fine and self.is_fine(history)):
            return None
        return self.message.format(start=start, recent=recent), recent, threshold


RULES: dict[str, Rule] = {
    "no_signal": _no_signal,
    "reward_against_success": _reward_against_success,
    "entropy_collapse": AlarmRule(
        "losses/entropy",
        lt,
        lambda start: ENTROPY_COLLAPSE * start,
        "The entropy fell from {start:.3g} to {recent:.3g} nats before the tasks were solved, so "
        "nothing new is tried any more: raise --entropy_coef or --clip_high, or lower --lr",
        is_fine=_solved,
    ),
    "entropy_explosion": AlarmRule(
        "losses/entropy",
        gt,
        lambda start: max(ENTROPY_EXPLOSION * start, start + MIN_EXPLOSION),
        "The entropy rose from {start:.3g} to {recent:.3g} nats, the policy writes at random: "
        "lower --lr or --entropy_coef, or hold it to its start with --kl_coef",
    ),
    "mismatch": AlarmRule(
        "mismatch/ratio_outside_10pct",
        gt,
        MAX_MISMATCH,
        "For {recent:.0%} of the tokens sampling and training differ by more than 10 % in "
        "probability: check the engine with `doctor`, let it sample from newer weights, or correct "
        "with --importance_cap",
    ),
    "end_of_turn": AlarmRule(
        "signals/end_of_turn_probability",
        lt,
        lambda start: END_OF_TURN_DROP * start,
        "The end of turn had a probability of {start:.2f} and has {recent:.2f}, so answers stop by "
        "chance: see that it is trained (`doctor`), and lower --lr or raise --kl_coef",
    ),
    "cut_actions": AlarmRule(
        "tokens/action_truncated_rate",
        gt,
        MAX_CUT,
        "{recent:.0%} of the actions are cut before their end, so their calls are never made: "
        "raise --max_new_tokens, or punish length with --overlong penalty",
    ),
    "call_syntax": AlarmRule(
        "env/parse_error_rate",
        gt,
        lambda start: start + PARSE_ERROR_RISE,
        "Calls that cannot be read rose from {start:.0%} to {recent:.0%} of the steps, the policy "
        "forgets the call syntax: lower --lr or raise --kl_coef",
    ),
    "explained_variance": AlarmRule(
        "losses/explained_variance",
        lt,
        MIN_EXPLAINED,
        f"In most of {LONG} updates the critic was worse than a constant (explained variance "
        "{recent:.2f}), so it adds noise to every advantage: lower --critic_lr, raise "
        "--critic_warmup_episodes, or use GRPO",
        window=LONG,
        average=median,
        is_fine=_needs_no_critic,
    ),
    "step_limit": AlarmRule(
        "signals/limit_share",
        gt,
        MAX_LIMIT,
        "{recent:.0%} of the episodes are ended by a limit of steps or tokens, not by the policy: "
        "look for repeated calls, or raise --max_steps_per_turn or --max_episode_tokens",
    ),
}
